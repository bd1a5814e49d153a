"""``traceana simulate deadlines``: jobs that miss their deadlines on shared GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from traceana.cli.options import JsonOption, OutOption, StoreOption, argument, option
from traceana.cli.output import Shown, print_result, write_frame
from traceana.cli.simulate.choose import load_objects, open_simulated, qualifying_trace
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_SUFFIXES: Final = (".csv", ".parquet")
_JOBS_NEEDED: Final = ({"jobs": ("submit_s", "runtime_s", "gpus")},)


def deadlines(
    *,
    jobs: Annotated[
        str | None,
        argument(
            "Trace of the store, or jobs in a .csv or .parquet file.  "
            "[default: the first trace with plans, else with jobs]",
            "TRACE|FILE",
        ),
    ] = None,
    policies: Annotated[
        str,
        option(
            "Policies to compare: fifo, sjf, edf, least_slack, or package.module:function.",
            "NAME,...",
        ),
    ] = "fifo,sjf,edf,least_slack",
    capacity: Annotated[
        float | None, option("GPUs of each cluster.  [default: those that a load of 0.8 needs]")
    ] = None,
    deadline: Annotated[
        str | None,
        option("Column of the deadlines.  [default: SYNTHETIC deadlines are drawn]", "COLUMN"),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Schedule jobs with deadlines under simple policies.

    Without --deadline, deadlines are drawn: uniform from 0.5 to 1.5 runtimes after submission.
    """
    from traceana.simulate import simulate_deadlines, synthesize_deadlines
    from traceana.simulate.deadlines.tables import DeadlinePolicies

    path = Path(jobs or "")
    is_file = path.suffix in _SUFFIXES or len(path.parts) > 1 or path.is_file()
    name, rows, synthetic = _read_file(path) if is_file else _read_store(store, jobs)
    drawn = None if deadline else synthesize_deadlines(rows)
    results = simulate_deadlines(
        rows,
        plans=drawn,
        policies=[*load_objects(policies, "--policies").values()],
        capacity=capacity,
        deadline=deadline or "deadline_s",
    )
    write_frame(results, out, DeadlinePolicies)
    made = "" if deadline else ", SYNTHETIC deadlines"
    about: dict[str, Any] = {"jobs_of": name, "jobs": rows.height, "deadline": deadline}
    print_result(
        f"{name}: {rows.height:,} jobs{made}",
        about | {"synthetic": synthetic},
        Shown(name="policies", frame=results, table=DeadlinePolicies),
        as_json=json,
    )


def _read_file(file: Path) -> tuple[str, pl.DataFrame, bool]:
    import polars as pl
    from polars.exceptions import PanicException, PolarsError

    if file.suffix not in _SUFFIXES:
        raise DataError(f"{file}: the ending must be one of {', '.join(_SUFFIXES)}")
    try:
        if file.suffix == ".csv":
            return str(file), pl.read_csv(file, glob=False), False
        return str(file), pl.read_parquet(file, use_pyarrow=True), False
    except (OSError, ValueError, PanicException, PolarsError) as error:
        raise DataError(f"{file}: cannot be read ({str(error).splitlines()[0]})") from None


def _read_store(store: Path | None, trace: str | None) -> tuple[str, pl.DataFrame, bool]:
    from traceana.questions.deadlines.plans import PLANS_NEEDS

    opened = open_simulated(store)
    with_plans = opened.traces(table="training_plans") if trace is None else []
    needs = PLANS_NEEDS if with_plans else _JOBS_NEEDED
    chosen = qualifying_trace(opened, trace, needs)
    return chosen.id, chosen.jobs, chosen.synthetic
