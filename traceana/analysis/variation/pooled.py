"""The CoV of all jobs together: what is independent is the job, and some jobs are cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.analysis.frames import Names, as_names
from traceana.analysis.variation.iterations import QUANTILES, summarize_cov
from traceana.analysis.variation.series import BOUNDS, name_bounds, read_series
from traceana.errors import DataError
from traceana.stats.arguments import as_generator, check_confidence
from traceana.stats.bootstrap import cluster_quantile_intervals
from traceana.stats.survival import censored_quantiles

if TYPE_CHECKING:
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


def summarize_cov_pooled(
    cov: IntoFrame,
    /,
    *,
    by: Names = ("job_id",),
    at: str = "time_s",
    value: str = "cov",
    cut_at: float | None = None,
    confidence: float = 0.95,
    rng: int | np.random.Generator,
) -> pl.DataFrame:
    """Summary of the CoV of all jobs together, with intervals that draw whole jobs.

    What is independent is the job, not the tick: the intervals are percentile intervals of the
    bootstrap over jobs, with 1000 resamples (:func:`traceana.stats.cluster_quantile_intervals`).
    Every tick counts once, so that a long job weighs more than a short one.

    Parameters
    ----------
    cov, by, at, value, cut_at, confidence, rng
        As for :func:`summarize_cov_series`; `by` names the jobs, all of which are pooled.

    Returns
    -------
    DataFrame
        One row: the columns of :func:`summarize_cov`, then [q05_low, q05_high, ..., q95_low,
        q95_high, n_jobs, n_right_truncated, length_q25, length_median, length_q75, note]. A
        length is a job's number of ticks, those without a value included; its quantiles are
        Kaplan and Meier's, with the truncated jobs' lengths as lower bounds, and null beyond what
        was observed. Without `cut_at` all of them are null: what is cut is not known. With fewer
        than two jobs that have a value the intervals are null, and `note` says so.

    Raises
    ------
    DataError
        As :func:`summarize_cov_series`; or if `by` names no column.
    """
    names = as_names(by)
    if not names:
        raise DataError("by must name the jobs, which are drawn whole; it names no column")
    check_confidence(confidence)
    random = as_generator(rng)
    ticks = read_series(cov, names, at, value, cut_at)
    jobs = ticks.group_by(names).agg(pl.len().alias(".ticks"), pl.col(at).max().alias(".last"))
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
        cut = (jobs[".last"] >= float(cut_at)).to_numpy()
        found["n_right_truncated"] = int(cut.sum())
        if jobs.height:
            lengths = censored_quantiles(jobs[".ticks"], cut, list(_LENGTHS.values()))
            found |= zip(_LENGTHS, lengths.tolist(), strict=True)
    pooled = pl.DataFrame([found], schema=_POOLED).with_columns(pl.selectors.float().fill_nan(None))
    return pl.concat([summarize_cov(ticks, by=(), value=value), pooled], how="horizontal")
