"""Coefficient of variation across the workers of a job, as a series, and in a published table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.questions.stragglers.blocks import repeated_rows
from traceana.questions.stragglers.tables import (
    CovMatch,
    CovPooled,
    CovSeries,
    CovSummary,
    IterationCov,
)
from traceana.stats.arguments import check_confidence, check_count, is_number
from traceana.stats.arrays import Floats
from traceana.stats.quantiles import MIN_EFFECTIVE, woodruff_interval
from traceana.stats.segments import best_alignment
from traceana.stats.survival import censored_quantiles
from traceana.stats.time_blocks import autocorrelation, effective_sample_size
from traceana.store.frames import (
    Names,
    admit_columns,
    as_names,
    check_clock,
    check_range,
    clean_columns,
    collect,
    open_frame,
    reduce_frame,
    refuse_clash,
    with_seconds,
)
from traceana.tables.declare import declared, returns, schema_of

_BITS: Final = " bits of the worker"


def tick_moments(
    frame: nw.LazyFrame[Any], by: Sequence[str], time: str, worker: str, value: str, /, *, ddof: int
) -> pl.DataFrame:
    """Return [*by, time, n_workers, mean, std], sorted by (by, time), nulls last."""
    frame = clean_columns(frame, (value,))
    check_range(frame, (value,))
    x, who = nw.col(value), nw.col(worker)
    present = frame.filter(~x.is_null())
    moments = {"n_workers": x.count(), "mean": x.mean(), "std": x.std(ddof=ddof)}
    on_polars = present.implementation is nw.Implementation.POLARS
    if on_polars:
        # 40 bits of each name are added up, in an eighth of the time of distinct text
        bits = (pl.col(worker).hash(1) // 2**24).cast(pl.Int64).alias(_BITS)
        present = nw.from_native(present.to_native().with_columns(bits))
    distinct = nw.col(_BITS).sum() if on_polars else who.n_unique()
    ticks = reduce_frame(present, (*by, time), **moments, n_named=who.count(), known=distinct)
    if ticks[time].null_count() or (ticks["n_named"] < ticks["n_workers"]).any():
        raise DataError(f"{time} or {worker} is null in a row with a {value}; drop such rows")
    if on_polars:  # time steps of a job with one number of workers and one sum have the same ones
        key = [*by, time]
        steps = ticks.lazy().unique([*by, "n_workers", "known"]).select(key)
        of_steps = present.to_native().join(steps, on=key, how="semi", nulls_equal=True)
        is_repeated = not _repeats(nw.from_native(of_steps), by, time, worker).is_empty()
    else:
        is_repeated = (ticks["n_workers"] > ticks["known"]).any()
    if is_repeated:
        repeats = _repeats(present, by, time, worker)
        surplus = int((repeats["rows"] - 1).sum())
        raise repeated_rows(repeats.row(0, named=True), surplus, (*by, time, worker))
    return ticks.drop("known", "n_named")


def _repeats(rows: nw.LazyFrame[Any], by: Sequence[str], time: str, worker: str) -> pl.DataFrame:
    """Return the (by, time, worker) of several rows, and their number."""
    key = (*by, time, worker)
    counted = collect(rows.group_by(*key).agg(nw.len().alias("rows")))
    return counted.filter(pl.col("rows") > 1).sort(key, nulls_last=True)


def _refuse_infinite(ticks: pl.DataFrame, time: str) -> None:
    if ticks.schema[time].is_float() and ticks[time].is_infinite().any():
        raise DataError(f"column {time} has an infinite value; time= needs finite numbers")


QUANTILES: Final = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
"""Quantiles of a summary by column."""
_THRESHOLDS = {"fraction_above_0_1": 0.1, "fraction_above_0_5": 0.5, "fraction_above_1": 1.0}


@returns(IterationCov)
def iteration_cov(
    samples: IntoFrame,
    /,
    by: Names = ("job_id",),
    *,
    ddof: int,
    time: str = "time_s",
    worker: str = "worker_id",
    value: str = "batch_time",
    min_workers: int = 2,
) -> pl.DataFrame:
    """Compute the coefficient of variation across workers at each time step.

    CoV = s / m with m the mean over the n workers of a time step and s^2 = sum (x - m)^2 /
    (n - ddof). For values of 0 or more it is at most sqrt(n - 1) with ddof 0 and sqrt(n) with 1.

    Parameters
    ----------
    samples
        One row per worker and time step: `by`, `time`, `worker` and `value`; eager or lazy, of any
        supported engine.
    by
        Columns of the job; null is a job of its own.
    ddof
        0 for the population standard deviation (the definition in AntMan, OSDI'20), 1 for the
        sample standard deviation. It has no default, because every CoV depends on it.
    time
        Column of the time step within the job: numbers, such as a step, or datetimes. It is not
        null where there is a value.
    worker
        Column of the worker, not null where there is a value and once in a time step.
    value
        Column on a ratio scale. A worker whose value is null or NaN is not counted.
    min_workers
        Time steps with fewer workers are excluded; at least 2.

    Returns
    -------
    DataFrame
        Sorted by (by, time), nulls last, with the columns `by`, `time` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30],
    ...                         "worker_id": [0, 1, 0, 1], "batch_time": [1.0, 1.0, 1.0, 3.0]})
    >>> traceana.iteration_cov(samples, ddof=0).select("time_s", "n_workers", "cov").rows()
    [(0, 2, 0.0), (30, 2, 0.5)]
    """
    if not is_number(ddof, whole=True) or ddof not in (0, 1):
        raise DataError(f"ddof must be 0 (population) or 1 (sample); it is {ddof!r}")
    check_count("min_workers", min_workers, least=2, most=10**12)
    names = as_names(by)
    refuse_clash((*names, time), IterationCov.columns())
    roles = {"time": time, "worker": worker, "value": value}
    frame = admit_columns(samples, (*names, time, worker, value), roles=roles)
    check_clock(frame, time)
    ticks = tick_moments(frame, names, time, worker, value, ddof=ddof)
    _refuse_infinite(ticks, time)
    cov = pl.col("std") / pl.col("mean")
    table = ticks.filter(pl.col("n_workers") >= min_workers).with_columns(
        cov=pl.when(pl.col("mean") > 0).then(cov.fill_nan(0.0))  # 0 over the least number
    )
    return declared(table, IterationCov, by=(*names, time))


@returns(CovSummary)
def summarize_cov(
    cov: IntoFrame, /, by: Names = ("job_id",), *, value: str = "cov"
) -> pl.DataFrame:
    """Summarize the distribution of a coefficient of variation, by job or overall.

    Every time step counts once, so that with ``by=()`` a long job has more weight.

    Parameters
    ----------
    cov
        One row per time step: `by` and `value` (the CoV), as :func:`iteration_cov` returns it or
        from a published table.
    by
        Columns to group by; null is a group of its own, and ``()`` takes all rows as one group.
    value
        Column of the CoV.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns `by` and
        {columns}

        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996).
        Everything is null where n is 0.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> cov = pl.DataFrame({"job_id": ["a"] * 3 + ["b"], "cov": [0.1, 0.2, 0.6, 0.4]})
    >>> found = traceana.summarize_cov(cov)
    >>> found.select("job_id", "n", "median", pl.col("fraction_above_0_5").round(2)).rows()
    [('a', 3, 0.2, 0.33), ('b', 1, 0.4, 0.0)]
    """
    keys = as_names(by)
    frame = open_frame(cov, keys=keys, measures={"value": value})
    x = nw.col(value)
    table = reduce_frame(
        frame,
        keys,
        n=x.count(),
        n_missing=nw.len() - x.count(),
        mean=x.mean(),
        **{name: x.quantile(q, interpolation="linear") for name, q in QUANTILES.items()},
        max=x.max(),
        **{name: (x > limit).cast(nw.Float64).mean() for name, limit in _THRESHOLDS.items()},
    )
    return declared(table, CovSummary, by=keys)


_BOUNDS: Final = [f"{name}_ci_{end}" for name in QUANTILES for end in ("low", "high")]
_FEW: Final = 50  # effective time steps
_LENGTHS: Final = {"length_p25": 0.25, "length_median": 0.5, "length_p75": 0.75}


def _added_columns(table: type[CovSummary]) -> dict[str, Any]:
    """Return the types of the columns that a table has beyond those of the summary."""
    types: dict[str, Any] = schema_of(table)
    lists = {"autocorrelation": pl.List(pl.Float64)} if "autocorrelation" in types else {}
    return {name: types[name] for name in types if name not in CovSummary.columns()} | lists


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

    Values are autocorrelated, so the intervals are Woodruff's with an effective sample size
    (:func:`~traceana.stats.quantiles.woodruff_interval`,
    :func:`~traceana.stats.time_blocks.effective_sample_size`). They assume a stationary series and
    are too narrow for a job that drifts.

    Parameters
    ----------
    cov
        One row per time step, as :func:`iteration_cov` returns it or from a published table. Time
        steps without a value are dropped from the series.
    by, value
        Columns of the job and the CoV.
    time
        Column of the time step: numbers or datetimes, each once in a job.
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
    described = []
    for group in groups:
        row = _describe(group[value].drop_nulls().to_numpy(), lags, confidence)
        described.append(row | {"right_truncated": group["is cut"].max()})
    of_series = pl.DataFrame(described, schema=_added_columns(CovSeries)).fill_nan(None)
    return declared(summary.hstack(of_series), CovSeries, by=names)


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
    jobs = ticks.group_by(names).agg(pl.col("is cut").max(), pl.len().alias("ticks of a job"))
    present = ticks.drop_nulls(value)
    of = present.select(pl.struct(names).rank("dense") - 1).to_series()
    row: dict[str, Any] = {"n_jobs": jobs.height}
    if of.n_unique() > 1:
        bounds = _intervals(present[value], of, confidence=confidence)
        row |= bounds
        if np.isnan([*bounds.values()]).any():
            row["note"] = "too few jobs for the interval of every quantile"
    else:
        row["note"] = "fewer than two jobs have a value: no interval"
    if cut_at is not None:
        row["n_right_truncated"] = jobs["is cut"].sum()
        if jobs.height:
            n, is_cut = jobs["ticks of a job", "is cut"]
            lengths = censored_quantiles(n, is_cut, list(_LENGTHS.values()))
            row |= zip(_LENGTHS, lengths.tolist(), strict=True)
    pooled = pl.DataFrame([row], schema=_added_columns(CovPooled)).fill_nan(None)
    return declared(summarize_cov(ticks, by=(), value=value).hstack(pooled), CovPooled)


def _read_series(
    cov: IntoFrame, by: Sequence[str], time: str, value: str, cut_at: float | datetime | None
) -> pl.DataFrame:
    """Return [*by, time, value, is cut] sorted: one row per time step; null without `cut_at`."""
    if not (cut_at is None or is_number(cut_at) or isinstance(cut_at, datetime)):
        raise DataError(f"cut_at must be a number or a datetime, as {time} is; it is {cut_at!r}")
    frame = open_frame(cov, keys=(*by, time), measures={"value": value}, roles={"time": time})
    check_clock(frame, time)
    ticks = collect(frame)
    if n_null := ticks[time].null_count():
        raise DataError(f"{time} is null in {n_null} row(s); drop such rows")
    clock = ticks.schema[time]
    if clock == pl.Null:  # no row
        ticks = ticks.cast({time: pl.Float64})
    elif cut_at is not None and clock.is_temporal() != isinstance(cut_at, datetime):
        raise DataError(f"cut_at is {cut_at!r} and column {time} has type {clock}; they must agree")
    _refuse_infinite(ticks, time)
    ticks = ticks.sort(*by, time, nulls_last=True)
    if repeated := ticks.select(pl.struct(*by, time).is_duplicated().sum()).item():
        key = ", ".join((*by, time))
        raise DataError(f"{repeated} row(s) share their ({key}); keep one row of each")
    at, end = pl.col(time), cut_at
    if isinstance(cut_at, datetime):  # UTC if it has no time zone
        at = at.dt.timestamp("us") / 10**6
        end = (cut_at if cut_at.tzinfo else cut_at.replace(tzinfo=UTC)).timestamp()
    elif cut_at is not None:  # integers may exceed those of Polars
        end = float(cut_at)
    return ticks.with_columns((at >= pl.lit(end)).alias("is cut"))


def _describe(values: Floats, lags: int, confidence: float) -> dict[str, Any]:
    effective_n = effective_sample_size(values)
    if np.isnan(effective_n):
        return {"note": "fewer than four values" if len(values) < 4 else "all values are equal"}
    correlations = [None if np.isnan(r) else float(r) for r in autocorrelation(values, lags=lags)]
    row = {"autocorrelation": correlations, "effective_n": effective_n}
    if effective_n < MIN_EFFECTIVE:
        return row | {"note": f"fewer than {MIN_EFFECTIVE} effective time steps: no interval"}
    if effective_n < _FEW:
        row["note"] = f"fewer than {_FEW} effective time steps: intervals may be too narrow"
    return row | _intervals(values, serial=True, confidence=confidence)


def _intervals(*values: Floats | pl.Series, **options: Any) -> dict[str, float]:  # noqa: ANN401
    """Return the ends of the interval of each quantile; NaN where there is none."""
    bounds = [woodruff_interval(*values, quantile=q, **options) for q in QUANTILES.values()]
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

    A job's CoV at time steps with all of its workers is compared with every row of the table at
    every shift at which both share at least half of the shorter one (and 30 samples), in order. The
    best shift has the least mean square difference.

    Worker times are published as integers, so each may be off by 1/2, which changes the CoV c =
    s / m by at most sum_i abs((x_i - m) / ((n - ddof) s m) - s / (n m^2)) / 2, to first order. If
    the row is the job under the right ddof, nearly all differences are within that bound.

    Parameters
    ----------
    samples, time, worker, value
        As in :func:`iteration_cov`, of table `worker_samples`.
    cov_samples
        `cov_samples`: [job_id, sample, cov], each (job_id, sample) once.

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
    rows = {}
    for (job,), row in _read_table(cov_samples).group_by("job_id", maintain_order=True):
        name, samples_of_row = _text(job), row["sample"].to_numpy()
        rows[name] = np.full(samples_of_row.max() + 1, np.nan)
        rows[name][samples_of_row] = row["cov"].to_numpy()
    roles = {"time": time, "worker": worker}
    keys = ("job_id", worker, time)
    frame = open_frame(samples, keys=keys, measures={"value": value}, roles=roles)
    times = collect(with_seconds(frame, time)).select(
        "job_id", worker_id=worker, time_s=pl.col(time).cast(pl.Float64), batch_time=value
    )
    matches = [
        {"job_id": _text(job), "ddof": ddof} | _best_row(ticks, rows)
        for ddof in (0, 1)
        for (job,), ticks in _cov_and_bound(times, ddof).group_by("job_id", maintain_order=True)
    ]
    table = pl.DataFrame(matches, schema=schema_of(CovMatch))
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
    if repeated := table.select("job_id", "sample").is_duplicated().sum():
        raise DataError(f"{repeated} row(s) share their (job_id, sample); keep one row of each")
    return table.with_columns(sample.cast(pl.Int64)).sort("job_id", "sample")


def _text(job: object) -> str | None:
    """Return a job of any type as text; Polars casts no durations."""
    return None if job is None else str(job)


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


def _best_row(ticks: pl.DataFrame, rows: dict[Any, Floats]) -> dict[str, Any]:
    """Return the row of the table that matches the CoV of a job best; {} of none."""
    cov, matches = ticks["cov"].to_numpy(), {}
    for name, row in rows.items():
        least = max(_LEAST_OVERLAP, min(len(cov), len(row)) // 2)
        if alignment := best_alignment(cov, row, min_overlap=least):
            matches[name] = alignment
    if not matches:
        return {}
    name, alignment = min(matches.items(), key=lambda match: match[1].mean_square)
    row = rows[name]
    first = max(0, alignment.shift)
    last = min(len(row), alignment.shift + len(cov))
    mine = slice(first - alignment.shift, last - alignment.shift)
    difference, bound = np.abs(cov[mine] - row[first:last]), ticks["bound"].to_numpy()[mine]
    present = np.isfinite(difference)
    judged = present & np.isfinite(bound)
    within, start = difference[judged] <= bound[judged], int(np.flatnonzero(present)[0])
    return {
        "cov_job_id": name,
        "first_sample": first + start,
        "overlap": int(present.sum()),
        "max_abs_difference": float(difference[present].max()),
        "median_abs_difference": float(np.median(difference[present])),
        "first_time_s": float(ticks["time_s"][mine.start + start]),
        "fraction_within_rounding": float(within.mean()) if len(within) else None,
    }
