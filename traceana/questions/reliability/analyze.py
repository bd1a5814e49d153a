"""Reliability of the machines of a stored trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.ends import END_CLASS, with_end_class
from traceana.cohorts.observation import node_column, nodes_seen
from traceana.questions.reliability.jobs import job_failure_interval
from traceana.questions.reliability.machines import Window, machine_reliability
from traceana.questions.reliability.tables import JobFailureResult, JobFaults, ReliabilityResult
from traceana.store.frames import collect, open_frame
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.store import Trace


@returns(JobFaults)
def faults_of_jobs(
    jobs: IntoFrame,
    /,
    *,
    machine: str = "NodeList",
    end_reason: str = "end_reason",
    end: str = "end_s",
) -> pl.DataFrame:
    """Return the faults of machines that ended jobs.

    A fault is an end of one or more jobs on the same machines at the same time, with an end reason
    of class machine (see :func:`with_end_class`). Repair times are not known: pass ``end=None`` to
    :func:`machine_reliability`. A fault of a job on several machines is that of one of them; the
    scheduler does not state which, so the whole list of machines is its name.

    Parameters
    ----------
    jobs
        One row per job: `machine`, `end_reason`, `end` and status; eager or lazy, of any supported
        engine. Rows without one of them are excluded.
    machine, end_reason, end
        Columns of the machines, the end reason and the end (seconds or datetimes).

    Returns
    -------
    DataFrame
        One row per fault, in order of time:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({
    ...     "NodeList": ["n1", "n1", "n2"], "end_s": [50.0, 50.0, 90.0],
    ...     "end_reason": ["NODE_FAIL", "NODE_FAIL", "COMPLETED"],
    ...     "status": ["failed", "failed", "completed"],
    ... })
    >>> traceana.faults_of_jobs(jobs).rows()
    [('n1', 50.0, 'NODE_FAIL', 2)]
    """
    opened = open_frame(jobs, keys=(machine, end_reason, "status"), measures={"end": end})
    rows = with_end_class(collect(opened).drop_nulls().rename({end_reason: "end_reason"}))
    table = (
        rows.filter(pl.col(END_CLASS) == "machine")
        .group_by(
            pl.col(machine).cast(pl.String).alias("machine_id"),
            pl.col(end).alias("start_s"),
            pl.col("end_reason").cast(pl.String).alias("class"),
        )
        .agg(jobs=pl.len().cast(pl.Int64))
        .sort("start_s", "machine_id", "class")
    )
    return declared(table, JobFaults)


NEEDS: Final = ({"faults": ("machine_id", "start_s")}, {"jobs": ("end_reason", "end_s", "status")})
_FEWEST: Final = 3
"""Faults of a scheduler's log below which nothing is reported."""


def faults_of(trace: Trace, /) -> pl.LazyFrame:
    """Return the faults of a trace: its table, else the failures of nodes that its jobs show.

    A row of the table that lists several machines is a fault of each of them.
    """
    if trace.has("faults", ("machine_id", "start_s")):
        names = pl.col("machine_id").cast(pl.String).str.split(",")
        one_each = trace.scan("faults").with_columns(names).explode("machine_id")
        return one_each.with_columns(pl.col("machine_id").str.strip_chars())
    jobs = trace.scan("jobs")
    name = node_column(jobs.collect_schema().names())
    if name is None:
        return pl.LazyFrame(schema={"machine_id": pl.String, "start_s": pl.Float64})
    faults = faults_of_jobs(jobs, machine=name)
    return faults.drop("jobs").with_columns(end_s=pl.lit(None, pl.Float64)).lazy()


def is_known(trace: Trace, /) -> bool:
    """Return whether a trace has faults that can be reported on."""
    if trace.has("faults", ("machine_id", "start_s")):
        return True
    return bool(trace.once(_count_faults) >= _FEWEST)


def _count_faults(trace: Trace) -> int:
    return int(faults_of(trace).select(pl.len()).collect().item())


def count_machines(trace: Trace, /) -> int | None:
    """Return the machines of a trace, from its table or as stated; None: unknown.

    Machines with a fault that are in neither count too.
    """
    failed = faults_of(trace).select("machine_id").unique()
    if trace.has("machines"):
        listed = trace.scan("machines").select("machine_id")
        return int(pl.concat([listed, failed]).unique().select(pl.len()).collect().item())
    stated = sum(group.nodes for group in trace.manifest.capacity.values())
    stated = stated if stated > 1 else 0  # a number of GPUs is stated as that of one node
    if not stated and not trace.has("faults"):
        stated = trace.once(nodes_seen).height
    return max(stated, failed.select(pl.len()).collect().item()) if stated else None


def window_of(trace: Trace, /) -> Window | None:
    """Return the observation window of a trace."""
    manifest = trace.manifest
    if manifest.window_start_s is None or manifest.window_end_s is None:
        return None
    return manifest.window_start_s, manifest.window_end_s


def reliability_of(
    trace: Trace, by: str = "", total_machines: int | None = None, /
) -> ReliabilityResult:
    """Return :func:`machine_reliability` of a trace."""
    return machine_reliability(
        faults_of(trace),
        end="end_s" if trace.has("faults", ("machine_id", "start_s")) else None,
        by=by or (),
        total_machines=total_machines or count_machines(trace),
        window=trace.once(window_of),
    )


def job_failures_of(
    trace: Trace, machines: Iterable[int], total_machines: int | None = None, /
) -> JobFailureResult:
    """Return :func:`job_failure_interval` of a trace."""
    return job_failure_interval(
        faults_of(trace),
        end="end_s" if trace.has("faults", ("machine_id", "start_s")) else None,
        machines=machines,
        total_machines=total_machines or count_machines(trace),
        window=trace.once(window_of),
    )


def group_column(trace: Trace, /) -> str:
    """Return the column by which faults are grouped: class, else level; empty: neither."""
    manifest = trace.manifest
    names = (name for name in ("class", "level") if manifest.has("faults", (name,)))
    return next(names, "" if manifest.has("faults") else "class")
