"""The coefficient of variation as a series, and its rows in a published table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.stragglers.iterations import QUANTILES, iteration_cov, summarize_cov
from traceana.questions.stragglers.tables import CovMatch, CovPooled, CovSeries
from traceana.stats.alignment import best_alignment
from traceana.stats.arguments import check_confidence, is_number
from traceana.stats.dependence import autocorrelation, effective_sample_size
from traceana.stats.quantiles import MIN_EFFECTIVE, woodruff_interval
from traceana.stats.survival import censored_quantiles
from traceana.store.clock import check_clock, with_seconds
from traceana.store.frames import Names, as_names, collect, open_frame, refuse_clash
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
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
_LENGTHS: Final = {"length_p25": 0.25, "length_median": 0.5, "length_p75": 0.75}
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
    table = pl.concat([summary, pl.DataFrame(described, schema=_SERIES)], how="horizontal")
    return declared(table, CovSeries, by=names)


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
    row: dict[str, Any] = {"n_jobs": jobs.height}
    if of.n_unique() > 1:
        bounds = [
            woodruff_interval(present[value], of, quantile=quantile, confidence=confidence)
            for quantile in QUANTILES.values()
        ]
        row |= _name_bounds(bounds)
        if np.isnan(bounds).any():
            row["note"] = "too few jobs for the interval of every quantile"
    else:
        row["note"] = "fewer than two jobs have a value: no interval"
    if cut_at is not None:
        cut = (jobs[".last"] >= _reaches(cut_at)).to_numpy()
        row["n_right_truncated"] = int(cut.sum())
        if jobs.height:
            lengths = censored_quantiles(jobs[".ticks"], cut, list(_LENGTHS.values()))
            row |= zip(_LENGTHS, lengths.tolist(), strict=True)
    pooled = pl.DataFrame([row], schema=_POOLED).with_columns(pl.selectors.float().fill_nan(None))
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


_LEAST_OVERLAP: Final = 30
_MOST_SAMPLES: Final = 10_000_000


@returns(CovMatch)
def match_cov_rows(
    samples: IntoFrame,
    cov_samples: IntoFrame,
    /,
    *,
    time: str = "time_s",
    worker: str = "worker_id",
    value: str = "batch_time",
) -> pl.DataFrame:
    """Match jobs with worker samples to rows of a CoV table.

    A job's CoV is computed at each time step with all of its workers. It is compared with every row
    of the table at every shift at which both share at least half of the shorter one (and 30
    samples). The best shift has the least mean square difference. Time steps are compared in order,
    whatever their length.

    A match is distinguished from chance by rounding. Worker times are published as integers, so
    each may be off by 1/2. To first order, this changes the CoV c = s / m by at most sum_i abs((x_i
    - m) / ((n - ddof) s m) - s / (n m^2)) / 2. If the row is the job under the right ddof, nearly
    all differences are within that bound.

    Parameters
    ----------
    samples
        `worker_samples`: [job_id, worker, time, value].
    cov_samples
        `cov_samples`: [job_id, sample, cov], each (job_id, sample) once.
    time, worker, value
        As in :func:`iteration_cov`.

    Returns
    -------
    DataFrame
        One row per job and ddof, sorted by them:
        {columns}

        All but job_id and ddof are null if no row is long enough.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> times = np.random.default_rng(1).normal(1, 0.1, size=100)
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": np.repeat(range(50), 2),
    ...                         "worker_id": [0, 1] * 50, "batch_time": times})
    >>> cov = traceana.iteration_cov(samples, ddof=1)["cov"]
    >>> published = pl.DataFrame({"job_id": "job_1", "sample": range(50), "cov": cov})
    >>> found = traceana.match_cov_rows(samples, published)
    >>> found.select("job_id", "ddof", "cov_job_id", "overlap").rows()
    [('a', 0, 'job_1', 50), ('a', 1, 'job_1', 50)]
    """
    published = _read_table(cov_samples)
    rows = {
        _text(name): _fill_gaps(row["sample"].to_numpy(), row["cov"].to_numpy())
        for (name,), row in published.group_by("job_id", maintain_order=True)
    }
    roles = {"time": time, "worker": worker}
    frame = open_frame(
        samples, keys=("job_id", worker, time), measures={"value": value}, roles=roles
    )
    times = collect(with_seconds(frame, time)).select(
        "job_id", worker_id=worker, time_s=pl.col(time).cast(pl.Float64), batch_time=value
    )
    matches = [
        _best_row(_text(job), ddof, ticks, rows)
        for ddof in (0, 1)
        for (job,), ticks in _cov_and_bound(times, ddof).group_by("job_id", maintain_order=True)
    ]
    table = pl.DataFrame(matches, schema=schema_of(CovMatch), orient="row")
    return declared(table.sort("job_id", "ddof"), CovMatch)


def _read_table(cov_samples: IntoFrame) -> pl.DataFrame:
    frame = open_frame(cov_samples, keys=("job_id",), measures=("sample", "cov"))
    table, sample = collect(frame), pl.col("sample")
    odd = table.filter(sample.is_null() | (sample != sample.floor()) | (sample > _MOST_SAMPLES))
    if not odd.is_empty():
        raise DataError(
            f"sample must be an integer up to {_MOST_SAMPLES:,}; {odd.height} row(s) differ, "
            f"such as {odd['sample'][0]!r}"
        )
    repeated = table.select("job_id", "sample").is_duplicated().sum()
    if repeated:
        raise DataError(f"{repeated} row(s) share their (job_id, sample); keep one row of each")
    return table.with_columns(sample.cast(pl.Int64)).sort("job_id", "sample")


def _text(name: object) -> str | None:
    return None if name is None else str(name)


def _fill_gaps(samples: NDArray[np.int64], cov: NDArray[np.float64]) -> NDArray[np.float64]:
    row = np.full(int(samples.max()) + 1, np.nan)
    row[samples] = cov
    return row


def _cov_and_bound(times: pl.DataFrame, ddof: int) -> pl.DataFrame:
    """Return the CoV, null where a worker is missing, and by how much rounding may change it."""
    ticks = iteration_cov(times, ddof=ddof)
    x, m, s, n = (pl.col(name) for name in ("batch_time", "mean", "std", "n_workers"))
    slope = (x - m) / ((n - ddof) * s * m) - s / (n * m**2)
    whole = (x == x.floor()).all()
    bound = (
        times.join(ticks, on=["job_id", "time_s"], nulls_equal=True)
        .filter(s > 0)
        .group_by("job_id", "time_s")
        .agg(bound=pl.when(whole).then(slope.abs().sum() / 2))
    )
    complete = n == n.max().over("job_id")
    return (
        ticks.join(bound, on=["job_id", "time_s"], how="left", nulls_equal=True)
        .with_columns(cov=pl.when(complete).then("cov"))
        .sort("job_id", "time_s")
    )


def _best_row(
    job: str | None, ddof: int, ticks: pl.DataFrame, rows: dict[str | None, NDArray[np.float64]]
) -> tuple[object, ...]:
    cov = ticks["cov"].to_numpy()
    best = None
    for name, row in rows.items():
        least = max(_LEAST_OVERLAP, min(len(cov), len(row)) // 2)
        found = best_alignment(cov, row, min_overlap=least)
        if found and (best is None or found.mean_square < best[1].mean_square):
            best = name, found
    if best is None:
        return (job, ddof, *[None] * 7)
    name, found = best
    row = rows[name]
    first = max(0, found.shift)
    last = min(len(row), found.shift + len(cov))
    mine = slice(first - found.shift, last - found.shift)
    difference = np.abs(cov[mine] - row[first:last])
    present = np.isfinite(difference)
    bound = ticks["bound"].to_numpy()[mine]
    judged = present & np.isfinite(bound)
    within = float(np.mean(difference[judged] <= bound[judged])) if judged.any() else None
    start = int(np.flatnonzero(present)[0])
    return (
        job,
        ddof,
        name,
        first + start,
        int(present.sum()),
        float(difference[present].max()),
        float(np.median(difference[present])),
        float(ticks["time_s"][mine.start + start]),
        within,
    )
