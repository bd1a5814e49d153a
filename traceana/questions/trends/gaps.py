"""Gaps without a job and failures at a time against chance, and the linear change per week."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import bdtrc, pdtrc, stdtr, stdtrit

from traceana.stats.segments import long_gaps
from traceana.stats.time_blocks import DAY_S, LONGEST_S, MIN_BLOCKS, autocorrelation, time_blocks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from traceana.cohorts.overlap import Window
    from traceana.stats.arrays import Floats

SHORTEST_S: Final = 3600.0
"""Length of a gap that is considered."""
_HOUR_S: Final = 3600.0
_FEWEST_WEEKS: Final = 3
_FLOOR: Final = 0.02
_FEWEST: Final = 40
"""Waits in gaps that suffice as what is usual."""
_SHAPE: Final = 0.75
_SURE: Final = 0.01
_MOMENTS: Final = 102
"""Times within a gap, and its ends, at which running jobs are counted."""


def gap_pvalues(
    begin: Floats, latest: Floats, waits: pl.DataFrame, window: Window, /
) -> dict[int, float]:
    """Return p of the gaps without a running job, by place; `waits` has submit_s, start_s, user."""
    submit, start = (waits[name].to_numpy() for name in ("submit_s", "start_s"))
    idle = np.flatnonzero(begin[1:] - latest[:-1] >= SHORTEST_S).tolist()
    is_short = window[1] - window[0] <= LONGEST_S
    expected = expected_starts(begin, *window) if is_short else begin[:0]
    of_starts = dict(long_gaps(expected, shape=_SHAPE))
    of_waits = waits_in_gaps(begin, latest, submit, start)
    of_users = _users_in_gaps(waits.sort("submit_s"), {i: (latest[i], begin[i + 1]) for i in idle})
    each = (of_starts, of_waits, of_users)
    return {i: min(1.0, *(2 * pvalues.get(i, 1.0) for pvalues in each)) for i in idle}


def _users_in_gaps(waits: pl.DataFrame, gaps: dict[int, tuple[float, float]]) -> dict[int, float]:
    """Return p of gaps till the end of which five users or more wait, each longer than by chance.

    It is the product over users of the fraction of all jobs that wait as long as their first one,
    times the gaps. A user who submits within the last hour does not count.
    """
    every = (waits["start_s"] - waits["submit_s"]).sort()
    pvalues: dict[int, float] = {}
    for place, (low, high) in gaps.items():
        first, after = waits["submit_s"].search_sorted(pl.Series([low, high - SHORTEST_S]))
        inside = (
            waits[first:after].drop_nulls("user").group_by("user").agg(pl.col("submit_s").min())
        )
        if inside.height >= _FEWEST_USERS:
            shorter = every.search_sorted(high - inside["submit_s"])
            pvalues[place] = len(gaps) * float((1 - shorter / every.len()).product())
    return pvalues


def missing_records(jobs: pl.DataFrame, window: Window, /) -> list[tuple[str, float, float]]:
    """Find times of a day or more in which no job ended, or any more was submitted, but jobs ran.

    `jobs` has submit_s, start_s and end_s. Returns what did not happen, and the ends of the time.
    Gaps between ends, and the last one of the submissions, stand out from the tail of the others by
    the bursts that are usual at their hours (:func:`expected_starts`), at p below 0.005 each. Times
    half of which, or more, no job ran may be outages and are left out.
    """
    found = list[tuple[str, float, float]]()
    started = jobs.drop_nulls("start_s")
    start, end = started["start_s"].sort(), started["end_s"].drop_nulls().sort()
    inside = end.filter(end.is_between(*window)).to_numpy()
    if window[1] - window[0] > LONGEST_S or not len(inside):
        return found
    submit, until = jobs["submit_s"].drop_nulls().sort().to_numpy(), float(inside[-1])
    submit = np.append(submit[(window[0] <= submit) & (submit <= until)], until)
    for what, times in (("was submitted", submit), ("ended", inside)):
        at = times[times <= until]
        for place, p in long_gaps(expected_starts(at, *window), shape=_SHAPE):
            low, high = at[place : place + 2].tolist()
            if p >= _SURE / 2 or high - low < DAY_S or (what != "ended" and high < until):
                continue
            moments = np.linspace(low, high, _MOMENTS)[1:-1]
            running = np.searchsorted(start, moments, "right")
            if (running > np.searchsorted(end, moments, "right")).mean() > 1 / 2:
                found.append((what, low, high))
                until = until if what == "ended" else low
    return found


def expected_starts(begin: Floats, first: float, last: float, /) -> Floats:
    """Return the gaps between times, as the bursts of starts that are usual at their hours.

    An hour of the day, times a day of the week, in which a fraction q of the hours has a start has
    -log(1 - q) of them, as in a Poisson process of bursts.
    """
    total = int((last - first) // _HOUR_S) + 1
    at = (begin - first) / _HOUR_S
    whole = np.clip(np.floor(at).astype(np.int64), 0, total - 1)
    started = np.zeros(total)
    started[whole] = 1
    rates = np.full(total, 1 / _rate(started.mean(), total))
    for parts, size in ((24, 1), (7, 24)):
        if total >= parts * size * _FEWEST_WEEKS:
            part = np.arange(total) // size % parts
            n = np.bincount(part, minlength=parts)
            rates *= _rate(np.bincount(part, started, parts) / n, n)[part]
        else:
            rates *= _rate(started.mean(), total)
    rates = np.maximum(rates, _FLOOR)
    sums = np.concatenate([[0.0], np.cumsum(rates)])
    return np.diff(sums[whole] + (at - whole) * rates[whole])


def _rate(fraction: ArrayLike, n: ArrayLike) -> Floats:
    half = 0.5 / np.asarray(n)
    rate: Floats = -np.log1p(-np.clip(fraction, half, 1 - half))
    return rate


def waits_in_gaps(
    begin: Floats, latest: Floats, submit: Floats, start: Floats, /
) -> dict[int, float]:
    """Return p of gaps in which jobs waited longer than otherwise while none ran.

    The wait of a gap is from the second submission within it, an hour or more after the first,
    until its end; with one submission, from that.
    """
    order = np.argsort(submit, kind="stable")
    submit, start = submit[order], start[order]
    place = np.flatnonzero(begin[1:] > latest[:-1])
    low, high = latest[place], begin[place + 1]
    padded = np.append(submit, np.inf)
    first_submit = padded[np.searchsorted(submit, low)]
    later_submit = padded[np.searchsorted(submit, first_submit + _HOUR_S)]
    tested = (later_submit < high) & (high - low >= SHORTEST_S)
    wait = np.maximum(high - np.where(tested, later_submit, first_submit), 0)
    if not tested.any():
        return {}
    usual = wait[:0]
    if (wait > 0).sum() < _FEWEST:  # rarely idle: as long as jobs of a cluster in use wait
        hour = (submit - submit[0]) // _HOUR_S
        usual = np.diff(hour, prepend=-1) > 0
        after = np.searchsorted(high[tested], submit, side="right")
        next_low = np.append(low[tested], np.inf)[after]
        usual = (start - submit)[usual & (start <= next_low)]
    pvalues = long_gaps(np.concatenate([wait, usual]), shape=_SHAPE)
    return {int(place[i]): p for i, p in pvalues if i < len(wait) and tested[i]}


_TOGETHER_S: Final = 600.0
_FEWEST_USERS: Final = 5
_BUSY: Final = 3.0
"""Failures of a busy hour over those of the mean hour."""


def failure_bursts(jobs: pl.DataFrame, window: Window, /) -> pl.DataFrame:
    """Find times of 10 min or less in which jobs of many users failed; jobs by user and end.

    `jobs` has user, start_s, end_s, gpu_s and failed. A user has a failure in 10 min by chance as
    in a Poisson process at three times the rate of the log. p is that of so many users (Poisson),
    times the number of intervals of 10 min, at every 5 min; it is below 0.01. So is
    that of so many failures among the jobs that end then (binomial, at the rate of all). Times that
    are rounded to 10 min have none.
    """
    ended = jobs.drop_nulls(["user", "end_s", "failed"])
    failed = ended.filter("failed")
    if failed.filter(pl.col("end_s") % _TOGETHER_S == 0).height > failed.height / 2:
        failed = ended = ended.clear()
    n_intervals = 2 * (window[1] - window[0]) / _TOGETHER_S
    rate = _BUSY * failed["user"].value_counts()["count"].to_numpy() * 2 / max(n_intervals, 1)
    expected = float(-np.expm1(-rate).sum())
    parts = [
        ended.group_by((pl.col("end_s") + shift) // _TOGETHER_S).agg(
            start_s=pl.col("end_s").filter("failed").min(),
            last_s=pl.col("end_s").filter("failed").max(),
            n=pl.col("failed").sum().cast(pl.Int64),
            n_users=pl.col("user").filter("failed").n_unique().cast(pl.Int64),
            gpu_hours=pl.col("gpu_s").filter("failed").sum() / _HOUR_S,
            n_ended=pl.len(),
        )
        for shift in (0.0, _TOGETHER_S / 2)
    ]
    table = pl.concat(parts).rename({"last_s": "end"}).drop("end_s").rename({"end": "end_s"})
    p = np.minimum(n_intervals * pdtrc(table["n_users"].to_numpy() - 1, expected), 1.0)
    n, of = table.select("n", "n_ended").to_numpy().T
    of_ended = bdtrc(n - 1, of, failed.height / max(ended.height, 1))
    table = table.with_columns(pvalue=p, of_ended=of_ended).filter(
        pl.col("n_users") >= _FEWEST_USERS, pl.max_horizontal("pvalue", "of_ended") < _SURE
    )
    rows: list[dict[str, Any]] = []
    for row in table.sort("n_users", "n", "start_s", descending=[True, True, False]).to_dicts():
        if all(
            row["start_s"] > other["end_s"] or row["end_s"] < other["start_s"] for other in rows
        ):
            running = (pl.col("start_s") < row["start_s"]) & (pl.col("end_s") >= row["start_s"])
            rows.append(row | {"n_running": jobs.filter(running).height})
    return pl.DataFrame(rows, schema={**table.schema, "n_running": pl.Int64}).sort("start_s")


WEEK: Final = 7
_BIAS: Final = 1.5
_LARGEST_R: Final = 0.97
_FLAT: Final = 1e-12
_HIGH_R: Final = 0.7
"""Autocorrelation of days above which intervals of 95 % cover less than 93 %."""


def slope_over_time(
    week: NDArray[Any], values: NDArray[Any], strata: NDArray[Any], /
) -> tuple[float, float, float, float, str | None]:
    """Return the slope within strata, its interval, p and a note; NaN with few blocks of days."""
    rows = np.bincount(strata)
    x, y = (axis - (np.bincount(strata, axis) / rows)[strata] for axis in (week, values))
    squares, products = x @ x, x @ y
    whole = float(products / squares) if squares > 0 else np.nan
    rest = values - whole * week
    middle = np.bincount(strata, rest) / rows
    blocks = time_blocks(week * WEEK * DAY_S, rest - middle[strata])
    if blocks.n_blocks < MIN_BLOCKS:
        return whole, np.nan, np.nan, np.nan, blocks.note
    left = _slopes_without_blocks(x, y, strata, blocks.code)
    share = (blocks.n_blocks - 1) / blocks.n_blocks
    variance, df = share * float(((left - left.mean()) ** 2).sum()), blocks.n_blocks - 1.0
    # blocks of a tenth of the span are too short for dependence that lasts
    days, of_day = np.unique(week, return_inverse=True)
    daily = np.bincount(of_day, rest - middle[strata]) / np.bincount(of_day)
    n, r = len(days), float(autocorrelation(daily, lags=1)[0])
    r = min(max((n * r + _BIAS) / (n - 4 * _BIAS), 0.0), _LARGEST_R)
    scores = np.bincount(of_day, x * (rest - middle[strata]))
    inflated = float(scores @ scores) / float(squares) ** 2 * (1 + r) / (1 - r)
    if inflated > variance:
        variance, df = inflated, max(n * (1 - r) / (1 + r) - 2, 1.0)
    error = float(np.sqrt(variance))
    reach = float(stdtrit(df, 0.975)) * error
    p = float(2 * stdtr(df, -abs(whole) / error)) if error > 0 else np.nan
    note = f"autocorrelation {r:.2g} of days: intervals are too narrow" if r > _HIGH_R else None
    return whole, whole - reach, whole + reach, p, note


def _slopes_without_blocks(
    x: NDArray[Any], y: NDArray[Any], strata: NDArray[Any], block: NDArray[Any]
) -> Floats:
    """Return the slopes within strata without each block; x and y have mean 0 in each stratum."""
    n_strata = int(strata.max()) + 1
    cells, of_cell = np.unique(block * n_strata + strata, return_inverse=True)
    block_of, stratum_of = np.divmod(cells, n_strata)
    n_left = np.bincount(strata)[stratum_of] - np.bincount(of_cell)
    sums = [np.bincount(of_cell, axis) for axis in (x, y)]

    def left(axis: NDArray[Any], cell_sums: NDArray[Any]) -> NDArray[Any]:
        # what is left of a stratum has another mean
        moved = sums[0] * cell_sums / np.maximum(n_left, 1)
        return float(x @ axis) - np.bincount(block, x * axis) - np.bincount(block_of, moved)

    squares, products = (left(*pair) for pair in zip((x, y), sums, strict=True))
    squares[squares <= _FLAT * (x @ x)] = np.nan
    slopes: Floats = products / squares
    return slopes
