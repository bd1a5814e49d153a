"""``traceana simulate operations``: training steps replayed with ideal durations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from traceana.cli.options import JsonOption, StoreOption, argument, option
from traceana.cli.output import Shown, print_json, print_result
from traceana.cli.simulate.choose import open_simulated, qualifying_trace
from traceana.errors import DataError

if TYPE_CHECKING:
    from traceana.questions.operations.analyze import JobReplay


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
    from traceana.questions.operations.analyze import NEEDS, job_names, replay_job
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
    replays: list[JobReplay] = []
    for name in jobs:
        try:
            replays.append(replay_job(chosen, name, policy=policy))
        except DataError as error:
            if name == jobs[-1] and not replays:
                raise
            sys.stderr.write(f"traceana: note: job {name} is left out: {error}\n")
            continue
        if timeline is not None:
            write_timeline(timeline_of(replays[-1].model, policy=policy), timeline)
    about = {"trace": chosen.id, "synthetic": chosen.synthetic, "ideal": str(policy)}
    if json:
        print_json({**about, "results": [_as_json(replay) for replay in replays]})
    else:
        _print(about, replays)


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


def _as_json(replay: JobReplay) -> dict[str, Any]:
    from traceana.questions.operations.analyze import describe_job
    from traceana.simulate.operations.replay import decompose

    row = describe_job(replay)
    groupings = {"kind": replay.by_kind, "stage": replay.by_stage}
    groupings["dp_rank"] = decompose(replay.model, ("dp_rank",))
    return {
        "job": row["job_id"],
        **{name: row[name] for name in ("steps", "workers", "slowdown", "m_s", "m_w")},
        "t_measured": row["t_measured_s"],
        "t_ori": row["t_original_s"],
        "t_ideal": row["t_ideal_s"],
        "launch_slowdown": replay.replay.launch_slowdown,
        "slowest_workers": replay.workers.workers.filter("is_slowest")["worker"].to_list(),
        "replay_error": row["replay_error"],
        **{f"slowdown_by_{by}": frame.to_dicts() for by, frame in groupings.items()},
        "step": replay.replay.steps.to_dicts(),
    }


def _print(about: dict[str, Any], replays: list[JobReplay]) -> None:
    import polars as pl

    from traceana.questions.operations.analyze import describe_job
    from traceana.simulate.operations.tables import OperationJobs, SlowdownBy
    from traceana.tables.declare import schema_of

    jobs = pl.DataFrame(
        [describe_job(replay) for replay in replays], schema=schema_of(OperationJobs)
    )
    groupings = [replays[0].by_kind, replays[0].by_stage] if len(replays) == 1 else []
    print_result(
        f"{about['trace']}: {about['ideal']}\n",
        about,
        Shown(name="results", frame=jobs.drop("note"), table=OperationJobs),
        *(
            Shown(
                name="by",
                frame=frame.sort("slowdown", descending=True),
                table=SlowdownBy,
                title="Slowdown by operations",
            )
            for frame in groupings
        ),
        as_json=False,
    )
