"""Faults of machines as the jobs of a scheduler show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.cohorts.ends import END_CLASS, with_end_class
from traceana.questions.reliability.tables import JobFaults
from traceana.store.frames import collect, open_frame
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


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
    found = (
        rows.filter(pl.col(END_CLASS) == "machine")
        .group_by(
            pl.col(machine).cast(pl.String).alias("machine_id"),
            pl.col(end).alias("start_s"),
            pl.col("end_reason").cast(pl.String).alias("class"),
        )
        .agg(jobs=pl.len().cast(pl.Int64))
        .sort("start_s", "machine_id", "class")
    )
    return declared(found, JobFaults)
