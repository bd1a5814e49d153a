"""What of each row lies in the observation window, and the local time of Unix times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.stats.arguments import is_number
from traceana.store.frames import column_names, open_frame, reduce_frame, sort_stably

Window: TypeAlias = tuple[float, float]
"""First and last second of an observation window, on the clock of the trace."""
BEGIN, UNTIL, HELD = "begin in window", "end in window", "seconds in window"
"""Columns: when a row's time within the window begins and ends, and its length in seconds."""
JOBS: Final = "one job"
"""Weight of a row in :func:`sum_edges`."""
LENGTH: Final = "seconds of the window"
"""Column of the window's own length; null without times."""
COUNTED: Final = {
    "open rows": "without an end {} to the window's end",
    "rows from submission": "without a start {} from submission",
    "rows from window": "without a start or submission {} from the window's beginning",
}
"""Columns of 1 for rows whose time is not recorded in full, and the words of their counts."""
_CLOCKS: Final = {"submit": "submit_s", "start": "start_s", "end": "end_s"}
_TIMES: Final = {**_CLOCKS, "runtime": "runtime_s"}
_STATUS: Final = "status"
ENDED_STATUSES: Final = ("completed", "failed", "cancelled")


def open_overlap(
    jobs: IntoFrame,
    keys: tuple[str, ...],
    required: Mapping[str, str],
    /,
    *,
    unused: tuple[str, ...] = (),
    window: Window | None = None,
) -> nw.LazyFrame[Any]:
    """Return a frame with what of each row lies in the window: BEGIN, UNTIL, HELD, LENGTH, COUNTED.

    When a row runs :func:`workload_summary` states. The columns are null for a row that never ran
    or is outside of the window, and for an ended one without end and runtime. Without any time,
    HELD is the runtime.
    """
    _check_window(window)
    free = {*column_names(jobs)} - {*keys, *required.values()}
    optional = {
        role: name
        for role, name in _TIMES.items()
        if name in free and role not in {*required, *unused}
    }
    columns = {**required, **optional}
    kept = (*keys, _STATUS) if _STATUS in free else keys
    frame = open_frame(jobs, keys=kept, measures=columns)
    none = nw.lit(None, nw.Float64)
    submitted, begun, ended, lasted = (
        nw.col(columns[role]) if role in columns else none for role in _TIMES
    )
    if columns.keys().isdisjoint(_CLOCKS):
        return frame.with_columns(
            none.alias(BEGIN),
            none.alias(UNTIL),
            lasted.alias(HELD),
            none.alias(LENGTH),
            *(nw.lit(0).alias(name) for name in COUNTED),
        )
    has_status = _STATUS in kept
    status = nw.col(_STATUS).cast(nw.String) if has_status else nw.lit(None, nw.String)
    times = (submitted, begun, ended, lasted, status)
    extent, started = _extent(frame, columns)
    can_run = has_status or "end" in columns
    return _with_overlap(frame, times, window or extent, started=started, can_run=can_run)


def _extent(frame: nw.LazyFrame[Any], columns: Mapping[str, str]) -> tuple[Window | None, bool]:
    """Return the first and the last second of the rows, and whether any has a start."""
    ends: dict[str, nw.Expr] = {}
    for role in _CLOCKS:
        if role in columns:
            time = nw.col(columns[role])
            ends |= {f"first {role}": time.min(), f"last {role}": time.max()}
            if role != "end" and "runtime" in columns:
                ends[f"{role} and runtime"] = (time + nw.col(columns["runtime"])).max()
    row = reduce_frame(frame, (), **ends).row(0, named=True)
    seconds = {name: value for name, value in row.items() if value is not None}
    started = "first start" in seconds
    if started:
        seconds.pop("submit and runtime", None)
    return (min(seconds.values()), max(seconds.values())) if seconds else None, started


def _with_overlap(
    frame: nw.LazyFrame[Any],
    times: tuple[nw.Expr, nw.Expr, nw.Expr, nw.Expr, nw.Expr],
    window: Window | None,
    *,
    started: bool,
    can_run: bool,
) -> nw.LazyFrame[Any]:
    first, last = (nw.lit(end, nw.Float64) for end in window or (None, None))
    no, (submitted, begun, ended, lasted, status) = nw.lit(value=False), times

    def is_one(*values: str) -> nw.Expr:
        return status.is_in(list(values)).fill_null(value=False)

    unstarted = begun.is_null()
    ran = (lasted > 0).fill_null(value=False)
    waits = is_one("pending", "cancelled") if started else is_one("pending")
    never = unstarted & waits & ~ran
    timeless = lasted.is_null() & ended.is_null()
    running = timeless & ~never & ~is_one(*ENDED_STATUSES, "pending") if can_run else no
    since = nw.coalesce(begun, ended - lasted, submitted)
    placed = ~ended.is_null() | running
    begin = nw.when(~since.is_null()).then(since).otherwise(nw.when(placed).then(first))
    until = nw.coalesce(begin + lasted, ended, nw.when(running).then(last))
    frame = frame.with_columns(begin.alias(BEGIN), until.alias(UNTIL))
    begin, until = nw.col(BEGIN), nw.col(UNTIL)
    inside = (begin <= last) & (until >= first) & ~never
    whole = (begin >= first) & (until <= last) & ~lasted.is_null()
    some = inside.fill_null(value=False)
    held = (
        nw.when(some & whole)
        .then(lasted)
        .otherwise(
            nw.when(some)
            .then(_least(until, last) - _most(begin, first))
            .otherwise(nw.when(begin.is_null() & ~never).then(lasted))
        )
    )
    reckoned = (ended - lasted).is_null() & unstarted & some
    flags = (
        some & running,
        reckoned & ~submitted.is_null(),
        reckoned & submitted.is_null(),
    )
    return frame.with_columns(
        nw.when(some).then(_most(begin, first)).alias(BEGIN),
        nw.when(some).then(_least(until, last)).alias(UNTIL),
        held.alias(HELD),
        (last - first).alias(LENGTH),
        *(flag.cast(nw.Int64).alias(name) for name, flag in zip(COUNTED, flags, strict=True)),
    )


def count_reckoned() -> dict[str, nw.Expr]:
    """Return the aggregates that count rows whose time is not recorded in full."""
    return {name: nw.col(name).sum() for name in COUNTED}


def note_reckoned() -> pl.Expr:
    """Return how many rows run to or from an end that is not recorded; null if none does."""
    parts = [
        pl.when(pl.col(name) == 1)
        .then(pl.lit(f"1 job {text.format('runs')}"))
        .when(pl.col(name) > 1)
        .then(pl.format(f"{{}} jobs {text.format('run')}", name))
        for name, text in COUNTED.items()
    ]
    joined = pl.concat_str(parts, separator="; ", ignore_nulls=True)
    return pl.when(joined != "").then(joined)


def sum_edges(
    frame: nw.LazyFrame[Any],
    keys: Sequence[str],
    weights: Sequence[str],
    place: Callable[[nw.Expr], tuple[nw.Expr, nw.Expr]],
    /,
) -> pl.DataFrame:
    """Return, by period, what begins minus what ends, and its seconds to the period's end.

    [*keys, index, "WEIGHT change", "WEIGHT left"] for each of the weights and :data:`JOBS`, of rows
    with BEGIN and UNTIL. `place` returns the index of a time's period, and the seconds left of it.
    """
    every, parts = (*weights, JOBS), []
    frame = frame.with_columns(nw.lit(1.0).alias(JOBS))
    for time, sign in ((BEGIN, 1), (UNTIL, -1)):
        index, left_s = place(nw.col(time))
        placed = frame.with_columns(
            index.cast(nw.Int64).alias("index"),
            *((nw.col(weight) * left_s).alias(f"{weight} left") for weight in every),
        )
        sums = {f"{weight} change": nw.col(weight).sum() * sign for weight in every}
        sums |= {f"{weight} left": nw.col(f"{weight} left").sum() * sign for weight in every}
        parts.append(reduce_frame(placed, (*keys, "index"), **sums))
    return pl.concat(parts).group_by(*keys, "index").agg(pl.all().sum())


def merge_times(
    rows: pl.DataFrame, keys: Sequence[str], /, start: str = "start_s", end: str = "end_s"
) -> pl.DataFrame:
    """Return [*keys, start, end]: the times of each group, sorted, those that overlap as one."""
    before = pl.col(end).cum_max().shift().over(keys)
    new = (before.is_null() | (pl.col(start) > before)).cum_sum().alias(".part")
    rows = sort_stably(rows, (*keys, start)).with_columns(new)
    parts = rows.group_by(*keys, ".part", maintain_order=True)
    return parts.agg(pl.col(start).min(), pl.col(end).max()).drop(".part")


def _least(time: nw.Expr, end: nw.Expr) -> nw.Expr:
    return nw.when(time > end).then(end).otherwise(time)


def _most(time: nw.Expr, end: nw.Expr) -> nw.Expr:
    return nw.when(time < end).then(end).otherwise(time)


def _check_window(window: Window | None) -> None:
    if window is None:
        return
    if not (len(window) == 2 and all(map(is_number, window)) and window[0] <= window[1]):
        raise DataError(
            f"window must be two numbers of seconds, the first not above the second; found {window}"
        )


_OF_THE_END: Final = ("end_s", "end_reason", "exit_code")


def clip_jobs(jobs: pl.LazyFrame, window: Window, /) -> pl.LazyFrame:
    """Return the jobs that waited or ran in a window, as they were seen at its end.

    A job that ends later is running, one that starts later pending. Where only submissions are
    recorded, jobs are chosen by these.
    """
    first, last = window
    times = jobs.select(pl.col("start_s", "end_s", "runtime_s").count()).collect()
    if not any(times.row(0)):  # only submissions are known
        submitted = pl.col("submit_s")
        return jobs.filter(submitted >= first, submitted < last)
    begun = pl.coalesce("start_s", "submit_s")
    until = pl.coalesce("end_s", begun + pl.col("runtime_s"))
    ended = pl.col("status").cast(pl.String).is_in(ENDED_STATUSES).fill_null(value=False)
    later = pl.when(ended).then(begun >= first).otherwise(pl.lit(value=True))
    inside = pl.when(until.is_not_null()).then((until > first) | (begun >= first)).otherwise(later)
    seen = (pl.coalesce("submit_s", "start_s") < last).fill_null(value=True)
    # cancelled while it waited
    never = pl.col("start_s").is_null() & (pl.col("runtime_s").fill_null(0) <= 0)
    never &= pl.col("status").cast(pl.String) == "cancelled"
    cut = (until > last).fill_null(value=False)
    waits = (pl.col("start_s") >= last).fill_null(value=False)
    jobs = jobs.filter(inside.fill_null(value=True) & seen).with_columns(
        waits=waits | (never & cut).fill_null(value=False), cut=cut
    )
    waits, open_ = pl.col("waits"), pl.col("waits") | pl.col("cut")
    status = pl.when(waits).then(pl.lit("pending")).otherwise(pl.lit("running"))
    kind = jobs.collect_schema()["status"]
    return jobs.with_columns(
        pl.when(open_).then(status.cast(kind)).otherwise("status").alias("status"),
        pl.when(~waits).then("start_s").alias("start_s"),
        pl.when(waits)
        .then(None)
        .when("cut")
        .then(last - begun)
        .otherwise("runtime_s")
        .alias("runtime_s"),
        *(pl.when(~open_).then(name).alias(name) for name in _OF_THE_END),
    ).drop("waits", "cut")


def local_offset_s(frame: nw.LazyFrame[Any], time: nw.Expr, zone: str) -> nw.Expr:
    """Return the seconds to add to the Unix times of a frame for local time."""
    low, high = reduce_frame(frame, (), low=time.min(), high=time.max()).row(0)
    # zones change at quarters of an hour in UTC
    quarters = [int((end or 0) // 900 * 900) for end in (low, high)]
    begins = pl.int_range(quarters[0], quarters[1] + 900, 900, eager=True)
    local = pl.from_epoch(begins, time_unit="s").dt.replace_time_zone("UTC")
    local = local.dt.convert_time_zone(zone)
    offset = (local.dt.base_utc_offset() + local.dt.dst_offset()).dt.total_seconds()
    changes = offset.ne_missing(offset.shift(1))
    return step_value(time, begins.filter(changes).to_list(), offset.filter(changes).to_list())


def step_value(time: nw.Expr, begins: Sequence[float], values: Sequence[Any], /) -> nw.Expr:
    """Return the value of the step that a time is in; steps are nested as a balanced tree."""
    if len(values) == 1:
        return nw.lit(values[0])
    half = len(values) // 2
    before, after = slice(None, half), slice(half, None)
    return (
        nw.when(time < begins[half])
        .then(step_value(time, begins[before], values[before]))
        .otherwise(step_value(time, begins[after], values[after]))
    )


def find_period(time: nw.Expr, edges: Sequence[float], /) -> tuple[nw.Expr, nw.Expr]:
    """Return the index of the period that a time is in, and the period's end.

    Periods of one length that follow each other, such as days between changes of the clock, are
    counted: a tree of all of them would be computed in every row.
    """
    length = np.diff(edges)
    first = np.flatnonzero(np.diff(length, prepend=-1))  # periods from which the length is another
    count = np.diff(first, append=len(length))

    def of_run(values: NDArray[Any]) -> nw.Expr:
        return step_value(time, begins.tolist(), values.tolist())

    begins = np.asarray(edges)[first]
    begin, each, most = of_run(begins), of_run(length[first]), of_run(count - 1)
    passed = ((time - begin) / each).floor()
    passed = nw.when(passed > most).then(most).otherwise(passed)  # a time at the last edge
    return of_run(first) + passed, begin + (passed + 1) * each
