"""Submissions: times between them, counts in windows, and by hour and weekday."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.workload.tables import ArrivalRhythm, InterarrivalCurve, Interarrivals
from traceana.stats.arguments import check_count, is_number
from traceana.store.frames import (
    LARGEST,
    Names,
    as_names,
    count_values,
    open_frame,
    reduce_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_MOST_POINTS: Final = 1_000_000
_CURVE: Final = ("n", "gap_s", "fraction_longer", "fraction_longer_poisson")


@returns(Interarrivals)
def interarrivals(
    jobs: IntoFrame, /, by: Names = (), *, window_s: float = 3600, submit: str = "submit_s"
) -> pl.DataFrame:
    """Compute the burstiness of submissions: interarrival times and counts in windows.

    - cv, the coefficient of variation of the interarrival times (ddof 1): 0 for periodic
      arrivals, 1 for a Poisson process, above 1 for bursts.
    - burstiness = (cv - 1) / (cv + 1), from -1 (periodic) over 0 (Poisson) to 1; and memory, the
      Pearson correlation of successive interarrival times (Goh and Barabasi, EPL 81, 2008).
    - dispersion, the variance (ddof 1) over the mean of the submissions in each window (index of
      dispersion): 1 for a Poisson process. Windows are [k, k + 1) * window_s on the clock of the
      trace, within the first and last submission of the group, empty ones included.

    Daily and weekly cycles alone make all of them differ from the values of a Poisson process.

    Parameters
    ----------
    jobs
        One row per job; eager or lazy, of any supported engine. The engine counts the jobs of each
        distinct submission, so that a large trace needs little memory.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    window_s
        Length of a window in s.
    submit
        Column of the submission: seconds or datetimes.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last. memory is null for fewer than 4 submissions or equal
        interarrival times, dispersion for fewer than 2 windows or empty ones. The columns are
        `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400]})
    >>> found = traceana.interarrivals(jobs, window_s=60)
    >>> found.select("n", "mean_s", "median_s", pl.col("cv").round(2)).rows()
    [(4, 100.0, 45.0, 1.36)]
    """
    if not (is_number(window_s) and 0 < window_s <= LARGEST):
        raise DataError(f"window_s must be a positive number of seconds; it is {window_s!r}")
    keys = as_names(by)
    refuse_clash(keys, (*Interarrivals.columns(), "submit_s", "gap_s"))
    rows = _submissions(jobs, keys, submit)
    time, jobs_at = pl.col("submit_s"), pl.col(".n")
    if rows.select(time.max().fill_null(0)).item() / window_s > 2**53:
        raise DataError(
            f"window_s {window_s:g} is too short for this clock, which allows 2^53 windows"
        )
    window = (time / window_s).floor()
    first, end = (time.min() / window_s).ceil(), (time.max() / window_s).floor()
    whole = (window >= first) & (window < end)
    counts = {
        "jobs": jobs_at.sum(),
        "n_missing": jobs_at.filter(time.is_null()).sum(),
        "windows": (end - first).clip(0).fill_null(0).cast(pl.Int64, strict=False),
        "in_windows": jobs_at.filter(whole).sum(),
        "squares": (jobs_at * pl.col(".in_window")).filter(whole).sum().cast(pl.Float64),
    }
    gap, before, times = pl.col("gap_s"), pl.col(".before"), pl.col(".times")
    total = times.filter(gap.is_not_null()).sum()
    mean = _mean(gap, times)
    statistics = {
        "n": total,
        "mean_s": mean,
        "median_s": _quantile(gap, total, 0.5),
        "p99_s": _quantile(gap, total, 0.99),
        "max_s": gap.max(),
        "fraction_zero": _mean((gap == 0).cast(pl.Float64), times),
        "cv": pl.when(total > 1, mean > 0).then(
            (((gap - mean) ** 2 * times).sum() / (total - 1)).sqrt() / mean
        ),
        "memory": _correlation(gap, before, times),
    }
    each = rows.with_columns(jobs_at.sum().over(window, *keys).alias(".in_window"))

    of_gaps = reduce_frame(_gaps(rows, keys), keys, **statistics).drop(keys)
    parts = (reduce_frame(each, keys, **counts), of_gaps)
    gaps = pl.concat(parts, how="horizontal")
    windows, arrivals = pl.col("windows"), pl.col("in_windows")
    variance = (pl.col("squares") - arrivals**2 / windows) / (windows - 1)
    cv = pl.col("cv")
    note = (
        pl.when(pl.col("n") < 2)
        .then(pl.lit("fewer than 3 submissions"))
        .when(cv.is_null())
        .then(pl.lit("all at one time"))
    )
    table = gaps.with_columns(
        burstiness=(cv - 1) / (cv + 1),
        dispersion=pl.when(windows > 1, arrivals > 0).then(variance / (arrivals / windows)),
        note=note,
    )
    return declared(table, Interarrivals, by=keys)


@returns(InterarrivalCurve)
def interarrival_curve(
    jobs: IntoFrame, /, by: Names = (), *, points: int = 201, submit: str = "submit_s"
) -> pl.DataFrame:
    """Compute the survival function of the interarrival times.

    It is listed beside that of a Poisson process of the same rate, exp(-gap / mean gap).

    Parameters
    ----------
    jobs, by, submit
        As in :func:`interarrivals`.
    points
        Times per group, evenly spaced on a logarithmic axis from the smallest above 0 to the
        largest; from 2 to a million. A time of 0 comes before them if there is one.

    Returns
    -------
    DataFrame
        Sorted by `by` and gap_s, nulls last. A group in which no time is above 0 has no row. The
        columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400]})
    >>> traceana.interarrival_curve(jobs, points=3).select("gap_s", "fraction_longer").rows()
    [(10.0, 0.75), (54.77225575051662, 0.5), (300.0, 0.0)]
    """
    check_count("points", points, least=2, most=_MOST_POINTS)
    keys = as_names(by)
    refuse_clash(keys, (*_CURVE, "submit_s"))
    gaps = _gaps(_submissions(jobs, keys, submit), keys).drop_nulls("gap_s")
    schema = {key: gaps.schema[key] for key in keys} | dict.fromkeys(_CURVE, pl.Float64)
    curves = [pl.DataFrame(schema=schema | {"n": pl.Int64})]
    # without keys there is one group of all
    for group, of_group in gaps.group_by(keys or pl.lit(0), maintain_order=True):
        gap_s, upto = of_group["gap_s"].to_numpy(), of_group[".upto"].to_numpy()
        above = gap_s[gap_s > 0]
        if not above.size:
            continue
        at = np.geomspace(above[0], above[-1], points)
        at[0], at[-1] = above[0], above[-1]  # to the last digit
        at = np.unique(at if above.size == gap_s.size else np.append(0.0, at))
        mean = (gap_s * of_group[".times"].to_numpy()).sum() / upto[-1]
        shorter = upto[np.searchsorted(gap_s, at, side="right") - 1]  # the first is at a gap
        curve = pl.DataFrame(
            {
                "gap_s": at,
                "fraction_longer": 1 - shorter / upto[-1],
                "fraction_longer_poisson": np.exp(-at / mean),
            }
        )
        named = dict(zip(keys, group, strict=False))
        curves.append(
            curve.select(
                *(pl.lit(named[key], dtype=schema[key]).alias(key) for key in keys),
                pl.lit(upto[-1], dtype=pl.Int64).alias("n"),
                *_CURVE[1:],
            )
        )
    return declared(pl.concat(curves), InterarrivalCurve, by=keys)


def _submissions(jobs: IntoFrame, keys: tuple[str, ...], submit: str) -> pl.DataFrame:
    """Return [*keys, submit_s, .n], one row per distinct submission, in their order."""
    times = open_frame(jobs, keys=keys, measures={"submit": submit})
    return count_values(times, (*keys, submit)).rename({submit: "submit_s"})


def _gaps(rows: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Return [*keys, gap_s, .before, .times, .upto] sorted: pairs of successive gaps, counted.

    Jobs of one submission follow each other after gaps of 0. A gap or a pair that does not exist
    is null.
    """
    time, jobs, gap = pl.col("submit_s"), pl.col(".n"), pl.col("gap_s")

    def previous(column: pl.Expr) -> pl.Expr:
        return column.shift(1).over(pl.lit(0), *keys)

    rows = rows.with_columns(gap_s=time - previous(time), **{".one": pl.lit(1, pl.Int64)})
    again = rows.drop_nulls("submit_s").filter(jobs > 1)
    zero = pl.lit(0.0)
    before = pl.when(previous(jobs) > 1).then(zero).otherwise(previous(gap))
    parts = (
        (rows, gap, before, pl.col(".one")),
        (again, zero, gap, pl.col(".one")),
        (again.filter(jobs > 2), zero, zero, jobs - 2),
    )
    gaps = pl.concat(
        part.select(*keys, gap_s=of_part, **{".before": last, ".times": times})
        for part, of_part, last, times in parts
    ).sort(*keys, "gap_s", nulls_last=True)
    return gaps.with_columns(pl.col(".times").cum_sum().over(pl.lit(0), *keys).alias(".upto"))


def _mean(x: pl.Expr, times: pl.Expr) -> pl.Expr:
    n = times.filter(x.is_not_null()).sum()
    return pl.when(n > 0).then((x * times).sum() / n)


def _quantile(x: pl.Expr, n: pl.Expr, q: float) -> pl.Expr:
    """Return the quantile of sorted values, interpolated between order statistics (type 7)."""
    place = (n - 1) * q
    low, high = (x.filter(pl.col(".upto") > rank).first() for rank in (place.floor(), place.ceil()))
    return low + (high - low) * (place - place.floor())


def _correlation(x: pl.Expr, y: pl.Expr, times: pl.Expr) -> pl.Expr:
    """Return Pearson's correlation of the pairs without null; null if x or y is constant."""
    both_known = x.is_not_null() & y.is_not_null()
    x, y, times = x.filter(both_known), y.filter(both_known), times.filter(both_known)
    of_x, of_y = x - _mean(x, times), y - _mean(y, times)
    squares = (of_x**2 * times).sum() * (of_y**2 * times).sum()
    varies = (x.min() < x.max()) & (y.min() < y.max())
    return pl.when(varies).then((of_x * of_y * times).sum() / squares.sqrt())


_HOUR_S: Final = 3600
_DAY_S: Final = 24 * _HOUR_S
_WEEK_S: Final = 7 * _DAY_S
# per -> a slot's length, its cycle's, the first slot's number, and how far into the cycle second 0
# of the Unix clock is (it was a Thursday, the fourth day)
_SLOTS: Final = {"hour": (_HOUR_S, _DAY_S, 0, 0), "weekday": (_DAY_S, _WEEK_S, 1, 3 * _DAY_S)}


@returns(ArrivalRhythm)
def arrival_rhythm(
    jobs: IntoFrame,
    /,
    *,
    per: Literal["hour", "weekday"],
    utc_offset_h: float = 0,
    by: Names = (),
    submit: str = "submit_s",
) -> pl.DataFrame:
    """Count submissions by hour of the day or weekday, with their rates.

    The rate of a slot is its jobs over the time for which the slot was observed, from the first
    to the last submission of the group. Counts alone would depend on how often a slot occurs.

    Seconds are read as seconds since 1970-01-01 00:00 UTC. If second 0 is the beginning of the
    data collection, hour 0 is the first hour of a day that begins when the collection did.

    Parameters
    ----------
    jobs
        One row per job; eager or lazy, of any supported engine.
    per
        "hour" for hours 0 to 23, "weekday" for 1 (Monday) to 7, as in ISO 8601.
    utc_offset_h
        Hours to add to the clock for local time, -24 to 24.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    submit
        Column of the submission: seconds or datetimes.

    Returns
    -------
    DataFrame
        Every slot of every group with a submission, sorted by group and slot, nulls last. Jobs
        without a submission are not counted. The columns are `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 60, 3600, 90000]})
    >>> rhythm = traceana.arrival_rhythm(jobs, per="hour").head(3)
    >>> rhythm.select("hour", "jobs", "fraction_of_all").rows()
    [(0, 2, 0.5), (1, 2, 0.5), (2, 0, 0.0)]
    """
    if not isinstance(per, str) or per not in _SLOTS:
        raise DataError(f"per must be one of {', '.join(_SLOTS)}; it is {per!r}")
    if not (is_number(utc_offset_h) and -24 <= utc_offset_h <= 24):
        raise DataError(f"utc_offset_h must lie from -24 to 24 hours; it is {utc_offset_h!r}")
    slot_s, cycle_s, first_slot, ahead_s = _SLOTS[per]
    keys = as_names(by)
    refuse_clash(keys, (per, "fraction_of_all", "observed_h", "jobs_per_h", "in_group", "one"))
    # whole weeks change neither hour nor weekday, and keep what is floored from being negative
    shift = (ahead_s + utc_offset_h * _HOUR_S) % _WEEK_S
    local = nw.col(submit) + shift
    slot = ((local % cycle_s) / slot_s).floor() + first_slot
    counts = reduce_frame(
        open_frame(jobs, keys=keys, measures={"submit": submit})
        .filter(~nw.col(submit).is_null())
        .with_columns(slot.alias(per)),
        (*keys, per),
        jobs=nw.len(),
        first=local.min(),
        last=local.max(),
    )
    if (counts["last"] > 2**53).any():
        raise DataError(f"{submit} is above 2^53 s; such seconds are not exact")
    counts = counts.with_columns(pl.col(per).cast(pl.Int64))
    group = [pl.lit(0).alias("one"), *map(pl.col, keys)]
    spans = (
        counts.group_by(group)
        .agg(pl.col("first").min(), pl.col("last").max(), in_group=pl.col("jobs").sum())
        .filter(pl.col("in_group") > 0)  # a frame without rows is still one group of no keys
    )
    slots = pl.DataFrame({per: range(first_slot, first_slot + cycle_s // slot_s)})
    begins = (pl.col(per) - first_slot) * slot_s

    def seconds_before(time: str) -> pl.Expr:
        """Return how long the slot was, from the clock's beginning to a time."""
        past = pl.col(time)
        return (past / cycle_s).floor() * slot_s + (past % cycle_s - begins).clip(0, slot_s)

    observed_h = (seconds_before("last") - seconds_before("first")) / _HOUR_S
    table = (
        spans.join(slots, how="cross")
        .join(counts.select(*keys, per, "jobs"), on=[*keys, per], how="left", nulls_equal=True)
        .with_columns(pl.col("jobs").fill_null(0), observed_h=observed_h)
        .with_columns(
            fraction_of_all=pl.col("jobs") / pl.col("in_group"),
            jobs_per_h=pl.when(pl.col("observed_h") > 0).then(
                pl.col("jobs") / pl.col("observed_h")
            ),
        )
        .sort(*keys, per, nulls_last=True)
    )
    return declared(table, ArrivalRhythm, by=keys)
