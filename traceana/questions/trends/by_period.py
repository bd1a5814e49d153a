"""Jobs by period: use, waits, runtimes and failures; outages, and days of comparable jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.cohorts.ends import END_CLASS, OUTCOMES, with_end_class, without_numbers
from traceana.cohorts.overlap import (
    BEGIN,
    HELD,
    JOBS,
    UNTIL,
    Window,
    find_period,
    open_overlap,
    sum_edges,
)
from traceana.errors import DataError
from traceana.questions.trends.gaps import gap_pvalues
from traceana.questions.trends.tables import Outages, Trends
from traceana.stats.arguments import check_choice, is_number
from traceana.stats.time_blocks import DAY_S, LONGEST_S
from traceana.store.frames import (
    Names,
    as_names,
    collect,
    column_names,
    read_once,
    reduce_frame,
)
from traceana.tables.declare import declared, returns, schema_of
from traceana.tables.formatting import LAST_DATE_S, plain

_DATE: Final = "%Y-%m-%d"
_PERIODS: Final = {
    "hour": (3600.0, "1h", f"{_DATE} %H:%M"),
    "6 hours": (21_600.0, "6h", f"{_DATE} %H:%M"),
    "day": (DAY_S, "1d", _DATE),
    "week": (7 * DAY_S, "1w", _DATE),
    "month": (30 * DAY_S, "1mo", "%Y-%m"),
    "quarter": (91 * DAY_S, "1q", "%Y-%m"),
    "year": (365 * DAY_S, "1y", "%Y"),
}
"""By name, the length in s (of a month, quarter and year about), Polars' name, and the label."""
_MOST: Final = 60
_MOST_ALLOWED: Final = 5000


class Periods(NamedTuple):
    """Periods of a window: their length by name, the edges, and what each is called."""

    name: str
    edges_s: list[float]
    labels: list[str]


def divide_window(
    window: Window, /, *, period: str | None = None, timezone: str | None = None
) -> Periods:
    """Divide a window into whole periods, the first and last clipped to it."""
    first, last = window
    if period is None and last - first > LONGEST_S:  # a time is wrong
        return Periods("period", [first, last], ["period 1"])
    if period is None:
        period = next((p for p, s in _PERIODS.items() if last - first <= _MOST * s[0]), "year")
    check_choice("period", period, _PERIODS)
    length = _PERIODS[period][0]
    if (last - first) / length > _MOST_ALLOWED:
        raise DataError(f"period {period!r} is too short: more than {_MOST_ALLOWED:,} periods")
    if timezone is None:
        low = int(first // length)
        numbers = range(low, max(int(-(-last // length)), low + 1))
        begins, labels = [n * length for n in numbers], [f"{period} {n + 1}" for n in numbers]
    else:
        begins, labels = _on_calendar(first, last, period, timezone)
    edges = [first, *(begin for begin in begins[1:] if begin < last), max(last, first)]
    return Periods(period, edges, labels[: len(edges) - 1])


def local_time(time_s: float, timezone: str | None, /, *, clock: bool = True) -> str:
    """Return a time in a sentence: a date (with the time of day), or that on the trace's clock."""
    if timezone is None or time_s >= LAST_DATE_S:
        day = time_s / DAY_S
        return f"day {plain(round(day, 1 if day >= 100 else 2))}"
    moment = datetime.fromtimestamp(time_s, UTC).astimezone(ZoneInfo(timezone))
    return moment.strftime("%Y-%m-%d %H:%M" if clock else "%Y-%m-%d")


def _on_calendar(
    first: float, last: float, period: str, timezone: str
) -> tuple[list[float], list[str]]:
    zone, (_, every, label) = ZoneInfo(timezone), _PERIODS[period]
    try:
        ends = [datetime.fromtimestamp(time, UTC).astimezone(zone) for time in (first, last)]
        floor = pl.Series([ends[0]]).dt.convert_time_zone(timezone).dt.truncate(every)
        until = ends[1] + timedelta(seconds=1)
        begins = pl.datetime_range(floor.item(), until, every, eager=True, time_zone=timezone)
    except (OverflowError, ValueError, OSError) as error:
        raise DataError(f"the times {first:g} to {last:g} s are not Unix times") from error
    seconds = begins.dt.timestamp("ms").cast(pl.Float64) / 1000
    return seconds.to_list(), begins.dt.strftime(label).to_list()


_INDEX: Final = {"index": pl.Int64}
_USED: Final = {"gpu_hours": "gpus", "cpu_hours": "cpus", "node_hours": "nodes"}
ENDED: Final = "time of the end"
"""Column: when a job ended, also outside of the window."""
_TIMES: Final = ("submit_s", "start_s", "end_s")
_OVERLAP: Final = (BEGIN, UNTIL, HELD)
_NAMES: Final = ("user", "account", "queue", "gpu_type", "job_name", "end_reason")


@returns(Trends)
def trends(
    jobs: IntoFrame,
    /,
    *,
    period: str | None = None,
    timezone: str | None = None,
    window: Window | None = None,
    gpus: float | None = None,
    success: Names = OUTCOMES["success"],
    failure: Names = OUTCOMES["failure"],
) -> pl.DataFrame:
    """Compute jobs, use, waits, runtimes and failures of each period.

    GPU-, CPU- and node-hours are by use: GPUs times the hours of a job within the period, jobs that
    still run included, as for :func:`workload_summary`; over all periods they add up to those of
    the window. A job counts as submitted, its wait where it started, its runtime and status where
    it ended.

    Parameters
    ----------
    jobs
        One row per job: submit_s or start_s (seconds or datetimes), and where the frame has them
        start_s, end_s, runtime_s, gpus, cpus, nodes, user and status; eager or lazy, of any
        supported engine. Null and NaN are missing.
    period
        ``hour``, ``6 hours``, ``day``, ``week``, ``month``, ``quarter`` or ``year``; None: the
        shortest with at most about 60 periods.
    timezone
        Time zone of the calendar, for Unix times; None: days begin at multiples of 86,400 s.
    window
        As in :func:`workload_summary`.
    gpus
        GPUs of the cluster, for the utilization; None: unknown.
    success, failure
        Status values that count as a success and as a failure; others are not in the failure rate.

    Returns
    -------
    DataFrame
        One row per period, in order; the first and the last are clipped to the window:
        {columns}

    Raises
    ------
    DataError
        If no job has a time, or a parameter is wrong.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 43200], "end_s": [3600, 129600], "gpus": [4, 1]})
    >>> traceana.trends(jobs, period="day").select("period", "jobs", "gpu_hours").rows()
    [('day 1', 2, 16.0), ('day 2', 0, 12.0)]
    """
    if gpus is not None and not (is_number(gpus) and gpus > 0):
        raise DataError(f"gpus must be a number above 0; it is {gpus!r}")
    names = ("user", "status", "runtime_s", *_TIMES, *_USED.values(), *_OVERLAP, ENDED)
    frame = read_once(open_jobs(jobs, window), names)
    window = window or span(frame)
    periods = divide_window(window, period=period, timezone=timezone)
    edges = {"start_s": periods.edges_s[:-1], "end_s": periods.edges_s[1:]}
    table = pl.DataFrame({"index": range(len(periods.labels)), "period": periods.labels, **edges})
    wait = (nw.col("start_s") - nw.col("submit_s")).median()
    for part in (
        _arrived(frame, periods),
        reduce_frame(_in(frame, nw.col("start_s"), periods), ("index",), wait_s_median=wait),
        _ended(frame, periods, as_names(success), as_names(failure)),
        used_by(frame, periods, _USED),
    ):
        table = table.join(part, on="index", how="left", maintain_order="left")
    hours = (pl.col("end_s") - pl.col("start_s")) / 3600
    fraction = pl.col("gpu_hours") / (pl.lit(gpus, pl.Float64) * hours)
    table = table.with_columns(
        pl.col("jobs", "n_ended").fill_null(0), utilization=pl.when(hours > 0).then(fraction)
    )
    if table["users"].count():
        table = table.with_columns(pl.col("users").fill_null(0))
    return declared(table, Trends)


def open_jobs(jobs: IntoFrame, window: Window | None, /) -> nw.LazyFrame[Any]:
    """Return the columns of jobs that trends are of, with what of each lies in the window."""
    present = column_names(jobs)
    keys = tuple(name for name in _NAMES if name in present)
    used: dict[str, str] = {name: name for name in ("gpus", "cpus", "nodes") if name in present}
    times: dict[str, str] = {name.removesuffix("_s"): name for name in _TIMES if name in present}
    if not times:
        raise DataError("jobs have none of the columns submit_s, start_s and end_s")
    frame = open_overlap(jobs, keys, used or times, window=window)
    names = frame.collect_schema().names()
    none: dict[str, Any] = dict.fromkeys(
        ("gpus", "cpus", "nodes", *_TIMES, "runtime_s"), nw.Float64
    )
    none |= dict.fromkeys((*_NAMES, "status"), nw.String)
    missing = [nw.lit(None, kind).alias(name) for name, kind in none.items() if name not in names]
    frame = frame.with_columns(*missing) if missing else frame
    lasted = nw.col("runtime_s")
    ended = nw.coalesce(nw.col("end_s"), nw.col("start_s") + lasted, nw.col("submit_s") + lasted)
    return frame.with_columns(ended.alias(ENDED))


def span(frame: nw.LazyFrame[Any], /) -> Window:
    """Return the first and last time of jobs of :func:`open_jobs`."""
    lows = {f"low {name}": nw.col(name).min() for name in (*_TIMES, BEGIN)}
    highs = {f"high {name}": nw.col(name).max() for name in (*_TIMES, UNTIL)}
    ends = reduce_frame(frame, (), **lows, **highs)
    low, high = ends.select(low=pl.min_horizontal(*lows), high=pl.max_horizontal(*highs)).row(0)
    if low is None:
        raise DataError("no job has a time: submit_s, start_s and end_s are null")
    return low, high


def _in(frame: nw.LazyFrame[Any], time: nw.Expr, periods: Periods) -> nw.LazyFrame[Any]:
    """Return the rows with a time in the periods, with its index."""
    edges = periods.edges_s
    rows = frame.filter((time >= edges[0]) & (time <= edges[-1]))
    return rows.with_columns(find_period(time, edges)[0].cast(nw.Int64).alias("index"))


def _arrived(frame: nw.LazyFrame[Any], periods: Periods) -> pl.DataFrame:
    user = nw.col("user")
    rows = _in(frame, nw.coalesce(nw.col("submit_s"), nw.col("start_s")), periods)
    table = reduce_frame(rows, ("index",), jobs=nw.len(), named=user.count(), users=user.n_unique())
    users = pl.col("users") - (pl.col("named") < pl.col("jobs")).cast(pl.Int64)  # null is none
    has_users = bool(table["named"].sum())
    return table.select("index", "jobs", users=users if has_users else pl.lit(None, pl.Int64))


def _ended(
    frame: nw.LazyFrame[Any], periods: Periods, success: Names, failure: Names
) -> pl.DataFrame:
    status = nw.col("status").cast(nw.String)
    with_outcome = status.is_in([*success, *failure]).fill_null(value=False)
    runtime = nw.coalesce(nw.col("runtime_s"), nw.col("end_s") - nw.col("start_s"))
    over = with_outcome | status.is_null() | (status == "cancelled").fill_null(value=False)
    rows = frame.with_columns(
        nw.when(over).then(runtime).alias("ran_s"),
        with_outcome.cast(nw.Int64).alias("known"),
        status.is_in([*failure]).fill_null(value=False).cast(nw.Int64).alias("failed"),
    )
    table = reduce_frame(
        _in(rows.filter(over), nw.col(ENDED), periods),
        ("index",),
        runtime_s_median=nw.col("ran_s").median(),
        n_ended=nw.col("known").sum(),
        failed=nw.col("failed").sum(),
    )
    rate = pl.when(pl.col("n_ended") > 0).then(pl.col("failed") / pl.col("n_ended"))
    return table.select("index", "runtime_s_median", "n_ended", failure_rate=rate)


def used_by(frame: nw.LazyFrame[Any], periods: Periods, of: dict[str, str], /) -> pl.DataFrame:
    """Return [index, *of, jobs_mean]: hours of resources within each period, and running jobs."""
    edges, weights = periods.edges_s, {**of, "job_hours": JOBS}

    def place(time: nw.Expr) -> tuple[nw.Expr, nw.Expr]:
        index, end = find_period(time, edges)
        return index, end - time

    rows = frame.filter(~nw.col(BEGIN).is_null(), ~nw.col(HELD).is_null())
    counts = {weight: nw.col(weight).count() for weight in of.values()}
    counted = reduce_frame(rows, (), **counts).row(0, named=True) | {JOBS: 1}
    changes = sum_edges(rows, (), tuple(of.values()), place)
    lengths = [end - begin for begin, end in pairwise(edges)]
    grid = pl.DataFrame(
        {"index": range(len(lengths)), "length_s": lengths}, schema_overrides=_INDEX
    )
    table = grid.join(changes, on="index", how="left", maintain_order="left").fill_null(0)
    length, totals = pl.col("length_s"), {}
    for name, weight in weights.items():
        change, left = pl.col(f"{weight} change"), pl.col(f"{weight} left")
        hours = (((change.cum_sum() - change) * length + left) / 3600).clip(0).round(6)
        totals[name] = hours if counted[weight] else pl.lit(None, pl.Float64)
    mean = pl.when(length > 0).then(pl.col("job_hours") / length * 3600)
    return table.with_columns(**totals).select("index", *of, jobs_mean=mean)


_MEASURES: Final = ("runtime", "failure rate", "wait", "demand")
_MOST_DAYS: Final = 400
_LENGTHS: Final = ("day", "week", "month", "quarter", "year")
FEWEST_DAYS: Final = 12
MINUTE_S: Final = 60.0
_FEWEST_JOBS: Final = 5


def comparable_days(
    jobs: IntoFrame,
    timezone: str | None,
    window: Window | None,
    outcomes: tuple[Names, Names],
    lost: pl.DataFrame,
    /,
) -> Iterator[tuple[str, pl.DataFrame, pl.DataFrame, NDArray[Any]]]:
    """Yield each measure, its [stratum, day, value, n, gpu_hours], the jobs, and the days' edges.

    Instead of days the shortest periods of which the log has 400 at most. Nothing where it is
    shorter than 12 days, or longer than 400 years. `outcomes` are the statuses of successes and of
    failures, `lost` the log's outages.
    """
    frame = open_jobs(jobs, window)
    first, last = window or span(frame)
    if last - first < FEWEST_DAYS * DAY_S:
        return
    every = _with_parts(frame)
    # the work grows with the square of the periods: one wrong time must not make them many
    fit = (name for name in _LENGTHS if last - first <= _MOST_DAYS * _PERIODS[name][0])
    if (length := next(fit, None)) is None:
        return
    periods = divide_window((first, last), period=length, timezone=timezone)
    edges = np.array(periods.edges_s)
    for measure in _MEASURES:
        if measure == "demand":
            rows, cells = pl.DataFrame(), _demand(frame, periods)
        else:
            rows = _outcomes(every, measure, *map(as_names, outcomes))
            if measure == "runtime" and rows.height:
                # long jobs that began late have not ended: the last days would seem short
                margin = min(float(rows["ran_s"].quantile(0.95) or 0), (last - first) / 4)
                rows = rows.filter(pl.col("time") < last - margin)
            rows = _keyed(rows if measure != "wait" else _outside(rows, lost), edges)
            value = (
                pl.col("value").mean() if measure == "failure rate" else pl.col("value").median()
            )
            sums = {"value": value, "n": pl.len(), "gpu_hours": pl.col("gpu_hours").sum()}
            of_days = rows.filter(~pl.col("is_limit")).group_by("stratum", "day")
            cells = of_days.agg(**sums).sort("stratum", "day")
        if measure in ("wait", "demand"):
            out = _days_of(lost, edges)
            cells, rows = (
                each.filter(~pl.col("day").is_in(out)) if each.width else each
                for each in (cells, rows)
            )
        if cells.height:
            yield measure, cells, rows, edges


def _outside(rows: pl.DataFrame, lost: pl.DataFrame) -> pl.DataFrame:
    """Leave out the jobs that waited during an outage."""
    wait = pl.col("value").exp() - MINUTE_S
    for start, end in lost.select("start_s", "end_s").iter_rows():
        rows = rows.filter(~((pl.col("time") < end) & (pl.col("time") + wait > start)))
    return rows


def _days_of(lost: pl.DataFrame, edges: NDArray[Any]) -> list[int]:
    """Return the days of outages, and the day after each."""
    days: set[int] = set()
    for start, end in lost.select("start_s", "end_s").iter_rows():
        ends = np.searchsorted(edges, [start, end], side="right") - 1
        days.update(range(int(ends[0]), int(ends[1]) + 2))
    return sorted(days)


def _demand(frame: nw.LazyFrame[Any], periods: Periods) -> pl.DataFrame:
    """Return the mean GPUs in use of each whole day over their mean, or CPUs; as one stratum."""
    frame = read_once(frame, ("gpus", "cpus", *_OVERLAP))
    hours = np.diff(np.array(periods.edges_s)) / 3600
    sizes = (used_by(frame, periods, {"": name})[""] for name in ("gpus", "cpus"))
    size = next((used for used in sizes if used.sum()), None)
    if size is None or not len(hours) > 2:
        return pl.DataFrame()
    level = size.to_numpy() / np.maximum(hours, 1e-9)
    # after the last start a log may go on with long jobs alone
    begun = reduce_frame(frame, (), last=nw.col(BEGIN).max()).item() or 0.0
    until = min(int(np.searchsorted(periods.edges_s, begun)), len(hours) - 1)
    days = pl.DataFrame({"day": np.arange(len(hours)), "level": level})[1:until]
    return days.select(
        "day",
        "level",
        stratum=pl.lit(0),
        value=pl.col("level") / pl.col("level").mean(),
        n=pl.lit(1),
        gpu_hours=pl.lit(0.0),
        user=pl.lit(None, pl.String),
    )


def _with_parts(frame: nw.LazyFrame[Any]) -> pl.DataFrame:
    """Return the rows with the parts of their stratum: user, name, queue and size."""
    reason = nw.col("end_reason").cast(nw.String)
    with_class: nw.LazyFrame[Any] = nw.from_native(with_end_class(frame.to_native()))
    by_limit = nw.col(END_CLASS).is_in(["user limit"]).fill_null(value=False)
    names = {name: nw.col(name).cast(nw.String) for name in ("queue", "job_name", "status")}
    names["user"] = nw.coalesce(*(nw.col(name).cast(nw.String) for name in ("user", "account")))
    return collect(
        with_class.select(
            "submit_s",
            "start_s",
            "gpus",
            BEGIN,
            HELD,
            ENDED,
            size=nw.coalesce(nw.col("gpus"), nw.col("cpus")),
            ran_s=nw.coalesce(nw.col("runtime_s"), nw.col("end_s") - nw.col("start_s")),
            late=reason.str.contains("(?i)^(time|deadline)").fill_null(value=False),
            of_user=by_limit,
            **names,
        )
    ).rename({"job_name": "name"})


def _outcomes(
    rows: pl.DataFrame, measure: str, success: tuple[str, ...], failure: tuple[str, ...]
) -> pl.DataFrame:
    """Return the parts of the stratum, time, value, ran_s, gpu_hours, is_limit of what counts."""
    status, runtime, late = pl.col("status"), pl.col("ran_s"), pl.col("late")
    wait = pl.col("start_s") - pl.col("submit_s")
    user, name, limit = pl.col("user"), pl.col("name"), pl.lit(value=False)
    if measure == "runtime":
        value, time, limit = runtime.log(), pl.col(BEGIN), late & status.is_in(failure)
        chosen = (status.is_in(success) | status.is_null() | limit) & (runtime > 0)
    elif measure == "failure rate":
        value, time = (status.is_in(failure) & ~pl.col("of_user")).cast(pl.Float64), pl.col(ENDED)
        chosen = status.is_in([*success, *failure]) & pl.col(BEGIN).is_not_null()
    else:
        value, time, chosen = (wait + MINUTE_S).log(), pl.col("submit_s"), wait >= 0
        user = name = pl.lit(None, pl.String)
    return rows.filter(chosen, time.is_not_null()).select(
        "size",
        owner=pl.col("user"),
        user=user,
        name=name,
        queue=pl.col("queue"),
        time=time,
        value=value,
        ran_s=runtime,
        is_limit=limit,
        gpu_hours=(pl.col("gpus") * pl.col(HELD) / 3600).fill_null(0),
    )


def _keyed(rows: pl.DataFrame, edges: NDArray[Any]) -> pl.DataFrame:
    """Add stratum and day."""
    stratum = pl.struct("user", "name", "queue", "size").hash()
    # a name of its own for every job compares nothing: numbers are left out, then the name
    for fewer in (*without_numbers(pl.col("name")), pl.lit(None, pl.String)):
        few = rows.select(few=pl.len().over(stratum) < _FEWEST_JOBS)["few"]
        if not few.any():
            break
        rows = rows.with_columns(name=pl.when(few).then(fewer).otherwise("name"))
    day = np.clip(
        np.searchsorted(edges, rows["time"].to_numpy(), side="right") - 1, 0, len(edges) - 2
    )
    return rows.with_columns(
        stratum=stratum.rank("dense").cast(pl.Int64) - 1,
        day=pl.Series(day, dtype=pl.Int64),
    )


ALPHA: Final = 0.01


@returns(Outages)
def outages(
    jobs: IntoFrame, /, *, timezone: str | None = None, window: Window | None = None
) -> pl.DataFrame:
    """Find times without a running job that chance does not explain.

    A gap of an hour or more without a running job is an outage if it stands out from the tail of
    the others (see :func:`traceana.stats.segments.long_gaps`) by one of two measures: the bursts of
    starts that are usual at its hours, so that a quiet night or weekend is short; or how long jobs
    that were submitted within it waited, while nothing ran. So it is if five users or more waited
    till its end, each longer than chance explains. p is twice the smallest one, below 0.01. How
    many are found, and how many are false: :doc:`/explanation/error-rates`.

    Parameters
    ----------
    jobs, timezone, window
        As for :func:`trends`.

    Returns
    -------
    DataFrame
        The outages in order of time, without rows if there is none:
        {columns}

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> rng = np.random.default_rng(1)
    >>> start = np.sort(rng.uniform(0, 60 * 86400, 5000))
    >>> start = start[(start < 20 * 86400) | (start > 22 * 86400)]
    >>> jobs = pl.DataFrame({"start_s": start, "runtime_s": 600.0, "gpus": 1})
    >>> found = traceana.outages(jobs)
    >>> found.height, found["duration_s"].item() > 47 * 3600
    (1, True)
    """
    gaps = idle_gaps(jobs, timezone=timezone, window=window)
    return declared(gaps.filter(pl.col("pvalue") < ALPHA), Outages)


def idle_gaps(
    jobs: IntoFrame, /, *, timezone: str | None = None, window: Window | None = None
) -> pl.DataFrame:
    """Return all gaps of an hour or more without a running job, as :func:`outages` does."""
    frame = open_jobs(jobs, window)
    rows = collect(frame.select(BEGIN, UNTIL, HELD, "gpus", "submit_s", "user"))
    rows = rows.drop_nulls([BEGIN, UNTIL]).sort(BEGIN)
    if rows.height < 2:
        return pl.DataFrame(schema=schema_of(Outages))
    first, last = window or span(frame)
    begin, latest = rows[BEGIN].to_numpy(), np.maximum.accumulate(rows[UNTIL].to_numpy())
    gpu_rate = rows.select((pl.col("gpus") * pl.col(HELD)).sum()).item() / max(last - first, 1.0)
    gpu_rate = gpu_rate if rows["gpus"].count() else None
    waits = rows.filter(pl.col("submit_s") <= pl.col(BEGIN))
    waits = waits.select("submit_s", "user", start_s=BEGIN)
    pvalues = gap_pvalues(begin, latest, waits, (first, last))
    tested = []
    for place, p in sorted(pvalues.items()):
        low, high = float(latest[place]), float(begin[place + 1])
        duration = high - low
        busy = max(last - first - duration, 1.0)
        row = {"begin": local_time(low, timezone), "start_s": low, "end_s": high}
        row |= {"duration_s": duration, "pvalue": p, "jobs_lost": len(begin) / busy * duration}
        lost = None if gpu_rate is None else gpu_rate * (last - first) / busy * duration / 3600
        tested.append(row | {"gpu_hours_lost": lost})
    return pl.DataFrame(tested, schema=schema_of(Outages)).sort("start_s")
