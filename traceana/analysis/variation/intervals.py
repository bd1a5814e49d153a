"""How sure the quantiles of a CoV are: values of a job are alike, and some jobs are cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.analysis.frames import Names, as_names, collect, open_frame, refuse_clash
from traceana.analysis.variation.iterations import QUANTILES, summarize_cov
from traceana.errors import DataError
from traceana.stats.bootstrap import (
    autoregressive_block,
    block_quantile_intervals,
    cluster_quantile_intervals,
)
from traceana.stats.dependence import autocorrelation, effective_sample_size
from traceana.stats.survival import censored_quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

_LENGTHS = {"length_q25": 0.25, "length_median": 0.5, "length_q75": 0.75}
_BOUNDS = [f"{name}_{end}" for name in QUANTILES for end in ("low", "high")]
_SERIES: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "right_truncated": pl.Boolean,
    "autocorrelation": pl.List(pl.Float64),
    "effective_n": pl.Float64,
    "block": pl.Int64,
    **dict.fromkeys(_BOUNDS, pl.Float64),
    "note": pl.String,
}
_POOLED: Final = {
    **dict.fromkeys(_BOUNDS, pl.Float64),
    "n_jobs": pl.Int64,
    "n_right_truncated": pl.Int64,
    **dict.fromkeys(_LENGTHS, pl.Float64),
    "note": pl.String,
}


def summarize_cov_series(
    cov: IntoFrame,
    /,
    *,
    by: Names = ("job_id",),
    at: str = "time_s",
    value: str = "cov",
    cut_at: float | None = None,
    lags: int = 10,
    confidence: float = 0.95,
    rng: int | np.random.Generator,
) -> pl.DataFrame:
    """Summary of each job's CoV as a series, with intervals that know of its autocorrelation.

    Workers' times are held between their reports, so that a tick's CoV is much like the one
    before. The intervals are percentile intervals of the moving-block bootstrap with 1000
    resamples, the block as long as suits an AR(1) series of the same effective sample size: see
    :func:`traceana.stats.block_quantile_intervals`, :func:`~traceana.stats.autoregressive_block`
    and :func:`~traceana.stats.effective_sample_size` (Geyer's initial positive sequence). They
    take the job to behave alike throughout; where it drifts or steps they are too narrow.

    Parameters
    ----------
    cov
        One row a tick: [*by, at, value], as from :func:`iteration_cov` or the published CoV
        table. Ticks without a value are left out of the series, which closes up.
    by, at, value
        Columns of the job, of the tick, and of the CoV.
    cut_at
        The tick at which the table ends for every job, in the unit of `at` (19990 for the
        published table's `time_s`, 1999 for its `sample`): a job that reaches it was cut there.
    lags
        How many autocorrelations to give.
    confidence
        Coverage of the intervals.
    rng
        Seed or generator; the same seed gives the same intervals.

    Returns
    -------
    DataFrame
        The columns of :func:`summarize_cov`, then [right_truncated, autocorrelation (a list, lags
        1 to `lags`), effective_n, block, q05_low, q05_high, ..., q95_low, q95_high, note], sorted
        by `by`, nulls last. `right_truncated` is null without `cut_at`; n + n_null of a truncated
        job is a lower bound of its length. `block` is in ticks. Where a series has fewer than
        four values or all are equal, what cannot be told is null and `note` says why.

    Raises
    ------
    DataError
        If a column is missing, `at` is null, a (by, at) has two rows, a value is negative or
        infinite, or an option is out of range.
    """
    names = as_names(by)
    refuse_clash((*names, at), _SERIES)
    ticks = _in_order(cov, names, at, value)
    summary = summarize_cov(ticks, by=names, value=value)
    groups = ticks.partition_by(names, maintain_order=True) if names else [ticks]
    streams = np.random.default_rng(rng).spawn(len(groups))
    described = [
        {"right_truncated": _is_cut(group[at], cut_at)}
        | _describe(group[value].drop_nulls().to_numpy(), lags, confidence, stream)
        for group, stream in zip(groups, streams, strict=True)
    ]
    return pl.concat([summary, pl.DataFrame(described, schema=_SERIES)], how="horizontal")


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
    ticks = _in_order(cov, names, at, value)
    jobs = ticks.group_by(names).agg(pl.len(), last=pl.col(at).max())
    present = ticks.drop_nulls(value)
    of = present.select(pl.struct(names).rank("dense") - 1).to_series()
    found: dict[str, Any] = {"n_jobs": jobs.height}
    if of.n_unique() > 1:
        bounds = cluster_quantile_intervals(
            present[value], of, list(QUANTILES.values()), confidence=confidence, rng=rng
        )
        found |= _named_bounds(bounds)
    else:
        found["note"] = "fewer than two jobs have a value: no interval"
    if cut_at is not None:
        cut = (jobs["last"] >= cut_at).to_numpy()
        found["n_right_truncated"] = int(cut.sum())
        if jobs.height:
            lengths = censored_quantiles(jobs["len"], cut, list(_LENGTHS.values()))
            found |= zip(_LENGTHS, lengths.tolist(), strict=True)
    pooled = pl.DataFrame([found], schema=_POOLED).with_columns(pl.selectors.float().fill_nan(None))
    return pl.concat([summarize_cov(ticks, by=(), value=value), pooled], how="horizontal")


def _in_order(cov: IntoFrame, by: Sequence[str], at: str, value: str) -> pl.DataFrame:
    ticks = collect(open_frame(cov, keys=(*by, at), measures=(value,)))
    n_null = ticks[at].null_count()
    if n_null:
        raise DataError(f"{at} is null in {n_null} row(s): when that was is unknown")
    ticks = ticks.sort(*by, at, nulls_last=True)
    repeated = ticks.select(pl.struct(*by, at).is_duplicated().sum()).item()
    if repeated:
        raise DataError(
            f"{repeated} row(s) share their ({', '.join((*by, at))}): a series has one value a tick"
        )
    return ticks


def _is_cut(times: pl.Series, cut_at: float | None) -> bool | None:
    return None if cut_at is None or not len(times) else bool((times >= cut_at).any())


def _describe(
    values: NDArray[np.float64], lags: int, confidence: float, rng: np.random.Generator
) -> dict[str, Any]:
    correlations = autocorrelation(values, lags=lags)
    effective_n = effective_sample_size(values)
    if np.isnan(effective_n):
        few = len(values) < 4
        return {"note": "fewer than four values" if few else "all values are equal"}
    block = autoregressive_block(len(values), effective_n)
    bounds = block_quantile_intervals(
        values, list(QUANTILES.values()), block=block, confidence=confidence, rng=rng
    )
    return {
        "autocorrelation": [None if np.isnan(r) else float(r) for r in correlations],
        "effective_n": effective_n,
        "block": block,
    } | _named_bounds(bounds)


def _named_bounds(bounds: tuple[NDArray[np.float64], NDArray[np.float64]]) -> dict[str, float]:
    return dict(zip(_BOUNDS, np.stack(bounds, axis=1).ravel().tolist(), strict=True))
