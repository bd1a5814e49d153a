"""Outages, and comparable jobs: daily values of strata of user, name and size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.cohorts.ends import END_CLASS, with_end_class, without_numbers
from traceana.cohorts.overlap import BEGIN, HELD, UNTIL, Window
from traceana.questions.trends.by_period import (
    ENDED,
    Periods,
    divide_window,
    local_time,
    open_jobs,
    span,
    used_by,
)
from traceana.questions.trends.tables import Outages
from traceana.stats.segments import long_gaps
from traceana.stats.time_blocks import DAY_S
from traceana.store.frames import Names, as_names, collect
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

_MEASURES: Final = ("runtime", "failure rate", "wait", "demand")
_MOST_DAYS: Final = 400
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

    Nothing where the log is shorter than 12 days. `outcomes` are the statuses of successes and of
    failures, `lost` the log's outages.
    """
    frame = open_jobs(jobs, window)
    first, last = window or span(frame)
    if last - first < FEWEST_DAYS * DAY_S:
        return
    every = _with_parts(frame)
    length = "day" if (last - first) <= _MOST_DAYS * DAY_S else "week"
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
                one.filter(~pl.col("day").is_in(out)) if one.width else one for one in (cells, rows)
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
    hours = np.diff(np.array(periods.edges_s)) / 3600
    sizes = (used_by(frame, periods, {"": name})[""] for name in ("gpus", "cpus"))
    size = next((one for one in sizes if one.sum()), None)
    if size is None or not len(hours) > 2:
        return pl.DataFrame()
    level = size.to_numpy() / np.maximum(hours, 1e-9)
    days = pl.DataFrame({"day": np.arange(len(hours)), "level": level})[1:-1]
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
    """Return the rows with the parts of their stratum: user, name and size."""
    reason = nw.col("end_reason").cast(nw.String)
    with_class: nw.LazyFrame[Any] = nw.from_native(with_end_class(frame.to_native()))
    by_limit = nw.col(END_CLASS).is_in(["user limit"]).fill_null(value=False)
    names = {name: nw.col(name).cast(nw.String) for name in ("queue", "job_name", "status")}
    names["user"] = nw.coalesce(*(nw.col(name).cast(nw.String) for name in ("user", "account")))
    return collect(
        with_class.select(
            *("submit_s", "start_s", "gpus", BEGIN, HELD, ENDED),
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
    """Return [user, name, size, time, value, ran_s, gpu_hours, is_limit] of the jobs that count."""
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
        user, name = pl.lit(None, pl.String), pl.col("queue")
    return rows.filter(chosen, time.is_not_null()).select(
        "size",
        owner=pl.col("user"),
        user=user,
        name=name,
        time=time,
        value=value,
        ran_s=runtime,
        is_limit=limit,
        gpu_hours=(pl.col("gpus") * pl.col(HELD) / 3600).fill_null(0),
    )


def _keyed(rows: pl.DataFrame, edges: NDArray[Any]) -> pl.DataFrame:
    """Add stratum and day."""
    # a name of its own for every job compares nothing: numbers are left out, then the name
    for fewer in (*without_numbers(pl.col("name")), pl.lit(None, pl.String)):
        few = rows.select(few=pl.len().over("user", "name", "size") < _FEWEST_JOBS)["few"]
        if not few.any():
            break
        rows = rows.with_columns(name=pl.when(few).then(fewer).otherwise("name"))
    day = np.clip(
        np.searchsorted(edges, rows["time"].to_numpy(), side="right") - 1, 0, len(edges) - 2
    )
    return rows.with_columns(
        stratum=pl.struct("user", "name", "size").hash().rank("dense").cast(pl.Int64) - 1,
        day=pl.Series(day, dtype=pl.Int64),
    )


_ALPHA: Final = 0.01
_SHORTEST_S: Final = 3600.0
_WEEK_H: Final = 168
_FEWEST_WEEKS: Final = 3
_FLOOR: Final = 0.02


@returns(Outages)
def outages(
    jobs: IntoFrame, /, *, timezone: str | None = None, window: Window | None = None
) -> pl.DataFrame:
    """Find times without a running job that chance does not explain.

    Gaps between starts are measured in busy hours: each hour counts with the fraction of weeks (of
    days, in less than three weeks) in which a job started in it, so that a quiet night or weekend
    is short. A gap is an outage if no job ran for an hour or more within it, and it stands out
    from the tail of the others (see :func:`traceana.stats.segments.long_gaps`) with p below 0.01:
    of 100 logs without an outage, about one has a false one.

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
    frame = open_jobs(jobs, window)
    rows = collect(frame.select(BEGIN, UNTIL, HELD, "gpus")).drop_nulls([BEGIN, UNTIL])
    first, last = window or span(frame)
    rows = rows.sort(BEGIN)
    begin, until = rows[BEGIN].to_numpy(), rows[UNTIL].to_numpy()
    if len(begin) < 2:
        return declared(pl.DataFrame(schema=schema_of(Outages)), Outages)
    gaps = np.diff(begin)
    outlying = long_gaps(busy_hours(begin, first, last))
    gpu_rate = rows.select((pl.col("gpus") * pl.col(HELD)).sum()).item() / max(last - first, 1.0)
    with_gpus = bool(rows["gpus"].count())
    latest = np.maximum.accumulate(until)
    rows_out = []
    for place, p in outlying:
        start, end = float(latest[place]), float(begin[place] + gaps[place])
        duration = end - start
        if p >= _ALPHA or duration < _SHORTEST_S:
            continue
        busy = max(last - first - duration, 1.0)
        rows_out.append(
            {
                "begin": local_time(start, timezone),
                "start_s": start,
                "end_s": end,
                "duration_s": duration,
                "gpu_hours_lost": gpu_rate * (last - first) / busy * duration / 3600
                if with_gpus
                else None,
                "jobs_lost": len(begin) / busy * duration,
                "pvalue": p,
            }
        )
    return declared(pl.DataFrame(rows_out, schema=schema_of(Outages)).sort("start_s"), Outages)


def busy_hours(begin: NDArray[Any], first: float, last: float, /) -> NDArray[np.float64]:
    """Return the gaps between times in hours, each weighted by how often that hour is busy."""
    weeks = (last - first) / (7 * DAY_S)
    cycle = _WEEK_H if weeks >= _FEWEST_WEEKS else 24
    hour = ((begin - first) // 3600).astype(np.int64)
    total = int((last - first) // 3600) + 1
    started = np.zeros(total)
    started[np.clip(hour, 0, total - 1)] = 1
    slot = np.arange(total) % cycle
    rate = np.bincount(slot, started, cycle) / np.maximum(np.bincount(slot, minlength=cycle), 1)
    weight = np.maximum(rate, _FLOOR)[slot]
    sums = np.concatenate([[0.0], np.cumsum(weight)])
    at = (begin - first) / 3600
    whole = np.clip(np.floor(at).astype(np.int64), 0, total - 1)
    clock = sums[whole] + (at - whole) * weight[whole]
    return np.diff(clock)
