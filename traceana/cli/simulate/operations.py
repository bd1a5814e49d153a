"""``traceana simulate operations``: training steps replayed with ideal durations."""

from __future__ import annotations

import sys
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from traceana.cli.options import JsonOption, StoreOption, argument, option
from traceana.cli.output import Shown, print_json, print_result
from traceana.cli.simulate.choose import open_simulated, qualifying_trace
from traceana.errors import DataError

if TYPE_CHECKING:
    from traceana.simulate.operations.model import Model
    from traceana.simulate.operations.policies import Policy


def operations(
    *,
    trace: Annotated[
        str | None, argument("Trace with operations.  [default: the first of the store]", "TRACE")
    ] = None,
    job: Annotated[str | None, option("Job to replay.  [default: all]", "ID")] = None,
    ideal: Annotated[
        str | None,
        option(
            "Operations with ideal durations, by kind, stage, dp_rank, worker or step, such "
            "as stage=3.  [default: everything]",
            "NAME=VALUE,...",
        ),
    ] = None,
    timeline: Annotated[
        Path | None,
        option(
            "Write the first steps of the job, measured and ideal, as .json.gz for Perfetto.",
            "FILE",
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Replay training steps with ideal durations of some operations.

    Prints mean step times as measured, replayed and with ideal durations, the slowdown, and the
    fractions of it that the last stage (M_S) and the slowest workers (M_W) explain.
    """
    from traceana.questions.operations.analyze import NEEDS, job_names, operations_of
    from traceana.simulate.operations.model import prepare
    from traceana.simulate.operations.policies import as_policy
    from traceana.simulate.operations.timeline import timeline_of, write_timeline

    policy = as_policy(_read_group(ideal))
    chosen = qualifying_trace(open_simulated(store), trace, NEEDS)
    jobs = job_names(chosen)
    if job is not None:
        if job not in jobs:
            raise DataError(
                f"--job {job}: {chosen.id} has no such job; its jobs are {', '.join(jobs)}"
            )
        jobs = [job]
    if timeline is not None and len(jobs) > 1:
        raise DataError(f"--timeline: pass --job, one of {', '.join(jobs)}")
    rows = []
    for name in jobs:
        try:
            model = prepare(operations_of(chosen, name))
            rows.append(_replay(model, policy))
        except DataError as error:
            if name == jobs[-1] and not rows:
                raise
            sys.stderr.write(f"traceana: note: job {name} is left out: {error}\n")
            continue
        if timeline is not None:
            write_timeline(timeline_of(model, policy=policy), timeline)
    about = {"trace": chosen.id, "synthetic": chosen.synthetic, "ideal": str(policy)}
    if json:
        print_json({**about, "results": rows})
    else:
        _print(about, rows)


def _read_group(text: str | None) -> dict[str, str] | None:

    if text is None:
        return None
    group = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise DataError(f"--ideal {text}: expected name=value, such as stage=3")
        group[name] = value
    return group


def _replay(model: Model, policy: Policy) -> dict[str, Any]:
    from traceana.simulate.operations.decompose import decompose, slowest_workers
    from traceana.simulate.operations.replay import replay_model

    replayed, workers = replay_model(model, policy), slowest_workers(model)
    row: dict[str, Any] = {
        "job": replayed.job,
        "steps": replayed.steps.height,
        "workers": workers.workers.height,
        "slowdown": replayed.slowdown,
        "t_measured": float(replayed.step_s_measured.mean()),
        "t_ori": float(replayed.step_s_original.mean()),
        "t_ideal": float(replayed.step_s_ideal.mean()),
        "launch_slowdown": replayed.launch_slowdown,
        "m_s": None if isnan(workers.m_s) else workers.m_s,
        "m_w": None if isnan(workers.m_w) else workers.m_w,
        "slowest_workers": workers.workers.filter("is_slowest")["worker"].to_list(),
        "replay_error": replayed.replay_error,
    }
    for by in ("kind", "stage", "dp_rank"):
        row[f"slowdown_by_{by}"] = decompose(model, (by,)).to_dicts()
    row["step"] = replayed.steps.to_dicts()
    return row


def _print(about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    import polars as pl

    from traceana.questions.operations.analyze import name_workers
    from traceana.questions.operations.tables import OperationJobs
    from traceana.simulate.operations.tables import SlowdownBy
    from traceana.tables.declare import schema_of

    names = {"job": "job_id", "t_measured": "t_measured_s", "t_ori": "t_original_s"}
    names |= {"t_ideal": "t_ideal_s"}
    schema = schema_of(OperationJobs)
    shown = [
        {names.get(name, name): value for name, value in row.items()}
        | {"slowest_workers": name_workers(row["slowest_workers"])}
        for row in rows
    ]
    jobs = pl.DataFrame([{name: row.get(name) for name in schema} for row in shown], schema=schema)
    slowdowns = [
        pl.DataFrame(rows[0][f"slowdown_by_{by}"]).sort("slowdown", descending=True)
        for by in ("kind", "stage")
        if len(rows) == 1
    ]
    print_result(
        f"{about['trace']}: {about['ideal']}\n",
        about,
        Shown(name="results", frame=jobs.drop("note"), table=OperationJobs),
        *(
            Shown(name="by", frame=each, table=SlowdownBy, title="Slowdown by operations")
            for each in slowdowns
        ),
        as_json=False,
    )
