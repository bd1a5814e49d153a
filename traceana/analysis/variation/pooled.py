"""The coefficient of variation of all jobs together; the independent unit is the job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.analysis.frames import Names, as_names
from traceana.analysis.variation.iterations import QUANTILES, summarize_cov
from traceana.analysis.variation.series import BOUNDS, name_bounds, reaches, read_series
from traceana.errors import DataError
from traceana.results.tables import declared, returns
from traceana.results.variation import CovPooled
from traceana.stats.arguments import as_generator, check_confidence
from traceana.stats.bootstrap import cluster_quantile_intervals
from traceana.stats.survival import censored_quantiles

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame

_LENGTHS: Final = {"length_q25": 0.25, "length_median": 0.5, "length_q75": 0.75}
_POOLED: Final = {
    **dict.fromkeys(BOUNDS, pl.Float64),
    "n_jobs": pl.Int64,
    "n_right_truncated": pl.Int64,
    **dict.fromkeys(_LENGTHS, pl.Float64),
    "note": pl.String,
}


@returns(CovPooled)
def summarize_cov_pooled(
    cov: IntoFrame,
    /,
    *,
    by: Names = ("job_id",),
    time: str = "time_s",
    value: str = "cov",
    cut_at: float | datetime | None = None,
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> pl.DataFrame:
    """Summarize the coefficient of variation of all jobs, with a cluster bootstrap over jobs.

    The intervals are percentile intervals of the bootstrap that resamples jobs, with 1000
    resamples (:func:`traceana.stats.bootstrap.cluster_quantile_intervals`). Every time step counts
    once, so that a long job has more weight.

    Parameters
    ----------
    cov, by, time, value, cut_at, confidence, rng
        As for :func:`summarize_cov_series`; `by` names the jobs, all of which are pooled.

    Returns
    -------
    DataFrame
        One row with the columns

        {columns}

        The length of a job is its number of time steps, including those without a value. Its
        quantiles are Kaplan-Meier estimates in which truncated jobs are censored; they are null
        beyond the last observed length, and without `cut_at`. With fewer than two jobs that have
        a value the intervals are null, and `note` states it.

    Raises
    ------
    DataError
        As :func:`summarize_cov_series`; or if `by` names no column.
    """
    names = as_names(by)
    if not names:
        raise DataError("by must name the jobs, which are resampled; it names no column")
    check_confidence(confidence)
    random = as_generator(rng)
    ticks = read_series(cov, names, time, value, cut_at)
    jobs = ticks.group_by(names).agg(pl.len().alias(".ticks"), pl.col(time).max().alias(".last"))
    present = ticks.drop_nulls(value)
    of = present.select(pl.struct(names).rank("dense") - 1).to_series()
    found: dict[str, Any] = {"n_jobs": jobs.height}
    if of.n_unique() > 1:
        bounds = cluster_quantile_intervals(
            present[value], of, list(QUANTILES.values()), confidence=confidence, rng=random
        )
        found |= name_bounds(bounds)
    else:
        found["note"] = "fewer than two jobs have a value: no interval"
    if cut_at is not None:
        cut = (jobs[".last"] >= reaches(cut_at)).to_numpy()
        found["n_right_truncated"] = int(cut.sum())
        if jobs.height:
            lengths = censored_quantiles(jobs[".ticks"], cut, list(_LENGTHS.values()))
            found |= zip(_LENGTHS, lengths.tolist(), strict=True)
    pooled = pl.DataFrame([found], schema=_POOLED).with_columns(pl.selectors.float().fill_nan(None))
    summary = summarize_cov(ticks, by=(), value=value)
    return declared(pl.concat([summary, pooled], how="horizontal"), CovPooled)
