"""Training plans joined with their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.frames import collect, open_frame
from traceana.errors import DataError
from traceana.stats.multiplicity import adjust_pvalues

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from narwhals.stable.v2.typing import IntoFrame

KEY = ("cluster", "job_id")
CELL = ("model", "batch_size", "gpus")
"""Key of a throughput."""


def join_plans(
    training_plans: IntoFrame,
    jobs: IntoFrame,
    /,
    *,
    columns: Mapping[str, str],
    by: Sequence[str] = (),
) -> pl.DataFrame:
    """Return the plans whose job is known, with the job's *by, submit_s, runtime_s and gpus.

    Parameters
    ----------
    training_plans, jobs
        Plans and jobs; both have cluster and job_id of any type. A null cluster becomes ``all``.
    columns
        Columns of the jobs by parameter: submit, runtime, gpus.
    by
        Further columns, of either.
    """
    measures = ("batch_size", "iterations", "deadline_s")
    plans = _with_key(collect(open_frame(training_plans, keys=(*KEY, "model"), measures=measures)))
    names = {
        columns["submit"]: "submit_s",
        columns["runtime"]: "runtime_s",
        columns["gpus"]: "gpus",
    }
    of_jobs = tuple(name for name in by if name not in (*plans.columns, *names.values()))
    read = collect(open_frame(jobs, keys=(*KEY, *of_jobs), measures=columns))
    known = _with_key(read.rename(names))
    if known.select(KEY).is_duplicated().any():
        raise DataError("a job occurs twice in the jobs table: (cluster, job_id) must be unique")
    joined = plans.join(known, on=KEY, maintain_order="left")
    if joined.is_empty():
        raise DataError("no training plan has its job: cluster and job_id of the two tables differ")
    return joined.with_columns(pl.col("batch_size", "iterations").cast(pl.Int64))


def _with_key(rows: pl.DataFrame) -> pl.DataFrame:
    text = rows.with_columns(pl.col(*KEY).cast(pl.String))
    return text.with_columns(pl.col("cluster").fill_null("all"))


def with_holm(tests: pl.DataFrame, /) -> pl.DataFrame:
    """Add the p-values adjusted by Holm; a null is no part of the family."""
    pvalues = tests["pvalue"].fill_null(float("nan")).to_numpy()
    adjusted = pl.Series(adjust_pvalues(pvalues, method="holm"), dtype=pl.Float64)
    return tests.with_columns(pvalue_adjusted=adjusted.fill_nan(None))
