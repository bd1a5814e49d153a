"""Training plans beside the jobs that they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.frames import collect, open_frame
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame

KEY = ("cluster", "job_id")
CELL = ("model", "batch_size", "gpus")
"""What a throughput belongs to."""


def join_plans(
    training_plans: IntoFrame, jobs: IntoFrame, /, *, by: Sequence[str] = ()
) -> pl.DataFrame:
    """Return the plans whose job is known, with the job's *by, submit_s, runtime_s and gpus.

    Raises
    ------
    DataError
        If a column is missing or not numeric, a value is negative, a (cluster, job_id) of the
        jobs is not unique, or no plan has its job.
    """
    measures = ("batch_size", "iterations", "deadline_s")
    plans = collect(open_frame(training_plans, keys=(*KEY, "model"), measures=measures))
    measured = ("submit_s", "runtime_s", "gpus")
    of_jobs = tuple(name for name in by if name not in (*plans.columns, *measured))
    known = collect(open_frame(jobs, keys=(*KEY, *of_jobs), measures=measured))
    if known.select(KEY).is_duplicated().any():
        raise DataError("a job stands twice in the jobs table: (cluster, job_id) must name one row")
    joined = plans.join(known, on=KEY, maintain_order="left")
    if joined.is_empty():
        raise DataError("no training plan has its job: cluster and job_id of the two tables differ")
    return joined.with_columns(pl.col("batch_size", "iterations").cast(pl.Int64))
