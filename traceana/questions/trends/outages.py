"""Outages: times in which no job ran, longer than chance explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.cohorts.overlap import BEGIN, HELD, UNTIL
from traceana.questions.trends.by_period import open_jobs, span
from traceana.questions.trends.periods import DAY_S, local_time
from traceana.questions.trends.tables import Outages
from traceana.stats.segments import long_gaps
from traceana.store.frames import collect
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    from traceana.cohorts.overlap import Window

ALPHA: Final = 0.01
_SHORTEST_S: Final = 3600.0
_WEEK_H: Final = 168
_FEWEST_WEEKS: Final = 3
_FLOOR: Final = 0.02


@returns(Outages)
def outages(
    jobs: IntoFrame,
    /,
    *,
    timezone: str | None = None,
    window: Window | None = None,
) -> pl.DataFrame:
    """Find times without a running job that chance does not explain.

    Gaps between starts are measured in busy hours: each hour counts with the fraction of weeks (of
    days, in less than three weeks) in which a job started in it, so that a quiet night or weekend
    is short. A gap is an outage if no job ran for an hour or more within it, and it stands out
    from the tail of the others (see :func:`traceana.stats.segments.long_gaps`) with p below 0.01:
    of 100 logs without an outage, about one has a false one.

    Parameters
    ----------
    jobs
        One row per job, as for :func:`trends`.
    timezone
        Time zone of the text `begin`, for Unix times; None: days of the trace's clock.
    window
        First and last second of the observation window; None: from the first to the last time.

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
    known = bool(rows["gpus"].count())
    latest = np.maximum.accumulate(until)
    found = []
    for place, p in outlying:
        start, end = float(latest[place]), float(begin[place] + gaps[place])
        duration = end - start
        if p >= ALPHA or duration < _SHORTEST_S:
            continue
        busy = max(last - first - duration, 1.0)
        found.append(
            {
                "begin": local_time(start, timezone),
                "start_s": start,
                "end_s": end,
                "duration_s": duration,
                "gpu_hours_lost": gpu_rate * (last - first) / busy * duration / 3600
                if known
                else None,
                "jobs_lost": len(begin) / busy * duration,
                "pvalue": p,
            }
        )
    return declared(pl.DataFrame(found, schema=schema_of(Outages)).sort("start_s"), Outages)


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
