"""The coefficient of variation as an autocorrelated, possibly truncated series: by job, pooled."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.stragglers.iterations import QUANTILES, summarize_cov
from traceana.questions.stragglers.tables_variation import CovPooled, CovSeries
from traceana.stats.arguments import check_confidence, is_number
from traceana.stats.dependence import autocorrelation, effective_sample_size
from traceana.stats.quantiles import MIN_EFFECTIVE, woodruff_interval
from traceana.stats.survival import censored_quantiles
from traceana.store.clock import check_clock
from traceana.store.frames import Names, as_names, collect, open_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

_BOUNDS: Final = [f"{name}_ci_{end}" for name in QUANTILES for end in ("low", "high")]
_SERIES: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    **dict.fromkeys(_BOUNDS, pl.Float64),
    "right_truncated": pl.Boolean,
    "autocorrelation": pl.List(pl.Float64),
    "effective_n": pl.Float64,
    "note": pl.String,
}

_FEW: Final = 50  # effective time steps
_LENGTHS: Final = {"length_q25": 0.25, "length_median": 0.5, "length_q75": 0.75}
_POOLED: Final = {
    **dict.fromkeys(_BOUNDS, pl.Float64),
    "n_jobs": pl.Int64,
    "n_right_truncated": pl.Int64,
    **dict.fromkeys(_LENGTHS, pl.Float64),
    "note": pl.String,
}


@returns(CovSeries)
def summarize_cov_series(
    cov: IntoFrame,
    /,
    by: Names = ("job_id",),
    *,
    time: str = "time_s",
    value: str = "cov",
    cut_at: float | datetime | None = None,
    lags: int = 10,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Summarize each job's coefficient of variation, with intervals for a time series.

    Reported worker times are repeated until the next report, so neighboring values are similar.
    The intervals are Woodruff's with an effective sample size
    (:func:`~traceana.stats.quantiles.woodruff_interval`,
    :func:`~traceana.stats.dependence.effective_sample_size`: Geyer's initial positive sequence).
    They assume a stationary series and are too narrow for a job that drifts.

    Parameters
    ----------
    cov
        One row per time step: `by`, `time` and `value`, as :func:`iteration_cov` returns it or from
        a published table. Time steps without a value are dropped from the series.
    by
        Columns of the job; null is a job of its own.
    time
        Column of the time step: numbers or datetimes.
    value
        Column of the CoV.
    cut_at
        Time at which the table ends for every job, in the unit of `time`: a job that reaches it
        is right-truncated.
    lags
        Number of autocorrelations.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns `by` and
        {columns}

        n + n_missing of a truncated job is a lower bound of its length. A series of fewer than
        20 effective time steps or of equal values has no intervals, and `note` states why; below
        50, that they may be too short. A quantile near 0 or 1 needs more.

    Raises
    ------
    DataError
        If `time` is null, or a (by, time) has two rows.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> noise = np.random.default_rng(1).normal(0.3, 0.05, size=200)
    >>> cov = pl.DataFrame({"job_id": "a", "time_s": range(200), "cov": noise})
    >>> found = traceana.summarize_cov_series(cov)
    >>> found.select("n", pl.col("median", "median_ci_low", "median_ci_high").round(2)).rows()
    [(200, 0.3, 0.29, 0.31)]
    """
    names = as_names(by)
    refuse_clash((*names, time), CovSeries.columns())
    check_confidence(confidence)
    ticks = _read_series(cov, names, time, value, cut_at)
    summary = summarize_cov(ticks, by=names, value=value)
    groups = ticks.partition_by(names, maintain_order=True) if names else [ticks]
    described = [
        {"right_truncated": _is_cut(group[time], cut_at)}
        | _describe(group[value].drop_nulls().to_numpy(), lags, confidence)
        for group in groups
    ]
    found = pl.concat([summary, pl.DataFrame(described, schema=_SERIES)], how="horizontal")
    return declared(found, CovSeries, by=names)


@returns(CovPooled)
def summarize_cov_pooled(
    cov: IntoFrame,
    /,
    by: Names = ("job_id",),
    *,
    time: str = "time_s",
    value: str = "cov",
    cut_at: float | datetime | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Summarize the coefficient of variation of all jobs.

    The intervals are Woodruff's with jobs as clusters
    (:func:`traceana.stats.quantiles.woodruff_interval`). Every time step counts once, so that a
    long job has more weight.

    Parameters
    ----------
    cov, by, time, value, cut_at, confidence
        As in :func:`summarize_cov_series`.

    Returns
    -------
    DataFrame
        One row with the columns
        {columns}

        The length of a job is its number of time steps, including those without a value. Its
        quantiles are Kaplan-Meier estimates in which truncated jobs are censored; they are null
        beyond the last observed length, and without `cut_at`. With fewer than two jobs that have
        a value the intervals are null, and `note` states it.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> cov = pl.DataFrame(
    ...     {"job_id": ["a", "b", "c"] * 20, "time_s": range(60), "cov": [0.1, 0.2, 0.3] * 20}
    ... )
    >>> traceana.summarize_cov_pooled(cov).select("n_jobs", "n", "median", "median_ci_low").rows()
    [(3, 60, 0.2, None)]
    """
    names = as_names(by)
    if not names:
        raise DataError("by must name the jobs, which are the clusters; it names no column")
    check_confidence(confidence)
    ticks = _read_series(cov, names, time, value, cut_at)
    jobs = ticks.group_by(names).agg(pl.len().alias(".ticks"), pl.col(time).max().alias(".last"))
    present = ticks.drop_nulls(value)
    of = present.select(pl.struct(names).rank("dense") - 1).to_series()
    found: dict[str, Any] = {"n_jobs": jobs.height}
    if of.n_unique() > 1:
        bounds = [
            woodruff_interval(present[value], of, quantile=quantile, confidence=confidence)
            for quantile in QUANTILES.values()
        ]
        found |= _name_bounds(bounds)
        if np.isnan(bounds).any():
            found["note"] = "too few jobs for the interval of every quantile"
    else:
        found["note"] = "fewer than two jobs have a value: no interval"
    if cut_at is not None:
        cut = (jobs[".last"] >= _reaches(cut_at)).to_numpy()
        found["n_right_truncated"] = int(cut.sum())
        if jobs.height:
            lengths = censored_quantiles(jobs[".ticks"], cut, list(_LENGTHS.values()))
            found |= zip(_LENGTHS, lengths.tolist(), strict=True)
    pooled = pl.DataFrame([found], schema=_POOLED).with_columns(pl.selectors.float().fill_nan(None))
    summary = summarize_cov(ticks, by=(), value=value)
    return declared(pl.concat([summary, pooled], how="horizontal"), CovPooled)


def _read_series(
    cov: IntoFrame, by: Sequence[str], time: str, value: str, cut_at: float | datetime | None
) -> pl.DataFrame:
    """Return [*by, time, value] sorted: one row per time step."""
    if not (cut_at is None or is_number(cut_at) or isinstance(cut_at, datetime)):
        raise DataError(f"cut_at must be a number or a datetime, as {time} is; it is {cut_at!r}")
    frame = open_frame(cov, keys=(*by, time), measures={"value": value}, roles={"time": time})
    check_clock(frame, time)
    ticks = collect(frame)
    n_null = ticks[time].null_count()
    if n_null:
        raise DataError(f"{time} is null in {n_null} row(s); drop such rows")
    clock = ticks.schema[time]
    if clock == pl.Null:  # no row
        ticks = ticks.cast({time: pl.Float64})
    elif cut_at is not None and clock.is_temporal() != isinstance(cut_at, datetime):
        raise DataError(f"cut_at is {cut_at!r} and column {time} has type {clock}; they must agree")
    if clock.is_float() and ticks[time].is_infinite().any():
        raise DataError(f"column {time} has an infinite value; time= needs finite numbers")
    ticks = ticks.sort(*by, time, nulls_last=True)
    repeated = ticks.select(pl.struct(*by, time).is_duplicated().sum()).item()
    if repeated:
        key = ", ".join((*by, time))
        raise DataError(f"{repeated} row(s) share their ({key}); keep one row of each")
    return ticks


def _reaches(cut_at: float | datetime) -> datetime | float:
    """Return a truncation time to compare with; integers may exceed those of Polars."""
    return cut_at if isinstance(cut_at, datetime) else float(cut_at)


def _is_cut(times: pl.Series, cut_at: float | datetime | None) -> bool | None:
    return None if cut_at is None or not len(times) else bool((times >= _reaches(cut_at)).any())


def _describe(values: NDArray[np.float64], lags: int, confidence: float) -> dict[str, Any]:
    correlations = autocorrelation(values, lags=lags)
    effective_n = effective_sample_size(values)
    if np.isnan(effective_n):
        few = len(values) < 4
        return {"note": "fewer than four values" if few else "all values are equal"}
    bounds = [
        woodruff_interval(values, quantile=quantile, serial=True, confidence=confidence)
        for quantile in QUANTILES.values()
    ]
    note = None
    if effective_n < MIN_EFFECTIVE:
        bounds = [(np.nan, np.nan)] * len(bounds)
        note = f"fewer than {MIN_EFFECTIVE} effective time steps: no interval"
    elif effective_n < _FEW:
        note = f"fewer than {_FEW} effective time steps: intervals may be too short"
    ends = _name_bounds(bounds)
    return {
        "autocorrelation": [None if np.isnan(r) else float(r) for r in correlations],
        "effective_n": effective_n,
        "note": note,
    } | {name: None if np.isnan(end) else end for name, end in ends.items()}


def _name_bounds(bounds: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Return confidence limits by their columns."""
    return dict(zip(_BOUNDS, np.ravel(bounds).tolist(), strict=True))
