"""Each job's CoV as a series: neighbouring values are alike, and some jobs are cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.analysis.frames import Names, as_names, collect, open_frame, refuse_clash
from traceana.analysis.variation.iterations import QUANTILES, summarize_cov
from traceana.errors import DataError
from traceana.stats.arguments import as_generator, check_confidence, is_number
from traceana.stats.bootstrap import autoregressive_block, block_quantile_intervals
from traceana.stats.dependence import autocorrelation, effective_sample_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

BOUNDS: Final = [f"{name}_{end}" for name in QUANTILES for end in ("low", "high")]
"""Columns of the quantiles' intervals."""

_SERIES: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "right_truncated": pl.Boolean,
    "autocorrelation": pl.List(pl.Float64),
    "effective_n": pl.Float64,
    "block": pl.Int64,
    **dict.fromkeys(BOUNDS, pl.Float64),
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
        If a column is missing; `at` is null, infinite or neither a number nor a time; a (by, at)
        has two rows; a value is negative or infinite; or an option is out of range.
    """
    names = as_names(by)
    refuse_clash((*names, at), _SERIES)
    check_confidence(confidence)
    ticks = read_series(cov, names, at, value, cut_at)
    summary = summarize_cov(ticks, by=names, value=value)
    groups = ticks.partition_by(names, maintain_order=True) if names else [ticks]
    streams = as_generator(rng).spawn(len(groups))
    described = [
        {"right_truncated": _is_cut(group[at], cut_at)}
        | _describe(group[value].drop_nulls().to_numpy(), lags, confidence, stream)
        for group, stream in zip(groups, streams, strict=True)
    ]
    return pl.concat([summary, pl.DataFrame(described, schema=_SERIES)], how="horizontal")


def read_series(
    cov: IntoFrame, by: Sequence[str], at: str, value: str, cut_at: float | None
) -> pl.DataFrame:
    """Return [*by, at, value] in order: one row a tick, its time known and of one kind.

    Raises
    ------
    DataError
        As :func:`summarize_cov_series`.
    """
    if not (cut_at is None or is_number(cut_at)):
        raise DataError(f"cut_at must be a number, in the unit of {at}; it is {cut_at!r}")
    ticks = collect(open_frame(cov, keys=(*by, at), measures=(value,)))
    n_null = ticks[at].null_count()
    if n_null:
        raise DataError(f"{at} is null in {n_null} row(s): when that was is unknown")
    clock = ticks.schema[at]
    if clock == pl.Null:  # no row
        ticks = ticks.cast({at: pl.Float64})
    elif not (clock.is_numeric() or (clock.is_temporal() and cut_at is None)):
        needed = "numbers or times" if cut_at is None else "numbers, as cut_at is one,"
        raise DataError(f"column {at} holds {clock}; {needed} are needed")
    if clock.is_float() and ticks[at].is_infinite().any():
        raise DataError(f"column {at} holds inf; a tick has a finite time")
    ticks = ticks.sort(*by, at, nulls_last=True)
    repeated = ticks.select(pl.struct(*by, at).is_duplicated().sum()).item()
    if repeated:
        raise DataError(
            f"{repeated} row(s) share their ({', '.join((*by, at))}): a series has one value a tick"
        )
    return ticks


def _is_cut(times: pl.Series, cut_at: float | None) -> bool | None:
    return None if cut_at is None or not len(times) else bool((times >= float(cut_at)).any())


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
    } | name_bounds(bounds)


def name_bounds(bounds: tuple[NDArray[np.float64], NDArray[np.float64]]) -> dict[str, float]:
    """Return the ends of the quantiles' intervals by :data:`BOUNDS`."""
    return dict(zip(BOUNDS, np.stack(bounds, axis=1).ravel().tolist(), strict=True))
