"""Changes of level of comparable jobs, from some day on, and drift over the days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
import scipy
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.cohorts.ends import OUTCOMES
from traceana.cohorts.overlap import Window
from traceana.questions.trends.by_period import (
    FEWEST_DAYS,
    MINUTE_S,
    comparable_days,
    local_time,
    outages,
)
from traceana.questions.trends.gaps import WEEK, slope_over_time
from traceana.questions.trends.tables import Drift, LevelChanges
from traceana.stats.arguments import as_generator
from traceana.stats.arrays import Floats
from traceana.stats.segments import Segment, deviating_ranks, deviating_segment
from traceana.stats.time_blocks import DAY_S
from traceana.store.frames import Names
from traceana.tables.declare import declared, returns, schema_of

ALPHA: Final = 0.01
"""Nominal error rate of each measure."""
DOMINANT: Final = 0.4
"""Fraction of the jobs from which a change is also stated without a user."""
_MOST_CHANGES: Final = 3
_RESAMPLES: Final = 500
_FEWEST_CHANGED: Final = 30
_SHORTEST: Final = {"runtime": 3, "failure rate": 3, "wait": 3, "demand": 7}
_NOTICED: Final = {"runtime": 0.0, "failure rate": 0.0, "wait": 0.5, "demand": 0.2}
"""Days of a stretch, and its change, that are reported."""
_MOST_NAMES: Final = 20
"""Queues, and names of jobs, that are tested one by one: those with the most GPU-hours."""
_SETS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "runtime": (("queue",), ("user", "name")),
    "failure rate": (("queue",), ("user",)),
    "wait": (("queue",),),
    "demand": (),
}
_COLUMNS: Final = {"queue": "queue", "user": "user", "name": "job_name"}
_OWN: Final = {"runtime": np.log1p(0.05), "failure rate": 0.03, "wait": np.log1p(0.5)}
"""Least change of a set of jobs."""
_STRICTER: Final = {"wait": 0.2}
"""Of the error rate, for sets of jobs: the waits of a queue depend on those of the day before."""
_CLEAR: Final = 0.05
"""p of a change on days that are known: of other jobs, or of all that change with a first one."""
_HALF: Final = 2.0
"""Jobs of a stratum and day that have half of the most weight."""
_GROUPS: Final = 20
_ONSET: Final = 6.6
_FEWEST_WEEKS: Final = 4
WEEKENDS: Final = "Saturdays and Sundays"
"""Begin of a change that recurs."""
_T_95: Final = 2.09
"""Quantile of Student's t with 19 degrees of freedom: groups of days less one."""


@returns(LevelChanges)
def level_changes(
    jobs: IntoFrame,
    /,
    *,
    timezone: str | None = None,
    window: Window | None = None,
    success: Names = OUTCOMES["success"],
    failure: Names = OUTCOMES["failure"],
    rng: int | np.random.Generator = 1,
) -> pl.DataFrame:
    """Find stretches of days with other runtimes, failures, waits or demand.

    Jobs are comparable by user (else account), job_name, queue and gpus, or cpus: a stratum.
    Numbers at the end of a name with fewer than 5 jobs are left out, then all of them, then the
    name. The days' series is the mean over strata of the day's median log runtime of successes (or
    failure rate, without time and memory limits), minus the stratum's; n jobs of a stratum and day
    have the weight n / (n + 2). Of the wait, strata are queue and size, and the value its log, a
    minute added; the demand is that of all jobs by overlap with the day. Both leave out outages and
    the day after them.

    Deviating segments are found by circular binary segmentation, against resampled AR(1) series of
    days as alike as the observed ones, at p below 0.01 (of runtimes else by ranks of days, at
    0.005): at most 3 of each measure, of 3 days or more (demand: 7). Waits that change by less than
    a half, demand that changes by less than a fifth, and changes of fewer than 30 comparable jobs
    are left out. A segment at the beginning is stated as a change from its end on.

    Before that, queues, of failure rates users, and of runtimes the names of a user's jobs, are
    tested one by one, the 20 with the most GPU-hours (ranks of days; p below 0.01 over all of them;
    of waits 0.002). A change of 5 % or more (of waits a half, of failure rates 3 percentage
    points), of which other jobs have less than half, has a row of its own, and these are left out
    of the rest. That of a queue is not of one user alone. Others are then tested on the same days,
    at 5 %. A failure rate of jobs that start on Saturdays and Sundays that differs by 3 percentage
    points or more is a change too (t test of the weeks' differences, from 4 weeks on; p below 0.01;
    2 of 300 simulated logs without such a difference have one).

    The change is the mean over strata with jobs on both sides, weighted by their days; of runtimes
    the median, in which a job that reached its time limit counts as longer. Intervals are by a
    bootstrap over days, of medians by a jackknife over groups of days. How often none is found, and
    a false one: :doc:`/explanation/error-rates`.

    Parameters
    ----------
    jobs, timezone, window, success, failure
        As for :func:`trends`; `jobs` with job_name where the frame has it.
    rng
        Seed, or numpy Generator, of permutations and bootstrap.

    Returns
    -------
    DataFrame
        One row per change, without rows if there is none:
        {columns}

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> rng = np.random.default_rng(1)
    >>> day = np.repeat(np.arange(60), 40)
    >>> runtime = np.exp(rng.normal(7, 0.3, 2400)) * np.where(day >= 40, 1.3, 1)
    >>> jobs = pl.DataFrame({"start_s": day * 86400.0, "runtime_s": runtime, "gpus": 1,
    ...     "user": [f"u{i % 20}" for i in range(2400)]})
    >>> traceana.level_changes(jobs).select("measure", "begin").rows()
    [('runtime', 'day 41'), ('demand', 'day 41')]
    """
    lost = outages(jobs, timezone=timezone, window=window)
    options: dict[str, Any] = {"timezone": timezone, "window": window, "lost": lost, "rng": rng}
    return changes_and_drift(jobs, (success, failure), **options)[0]


def segments(
    data: tuple[pl.DataFrame, pl.DataFrame],
    edges: NDArray[Any],
    measure: str,
    timezone: str | None,
    generator: np.random.Generator,
    /,
) -> list[dict[str, Any]]:
    """Find the deviating segments one after the other, each adjusted for before the next."""
    changes: list[dict[str, Any]] = []
    for by in _SETS[measure]:
        of_groups, data = _own_changes(data, (edges, timezone), measure, generator, by)
        changes += of_groups
    cells, rows = data
    edges_are_days = len(edges) > 2 and edges[2] - edges[1] < 2 * DAY_S
    if edges_are_days and measure == "failure rate" and timezone is not None:
        changes += _on_weekends(data, edges, timezone, generator)
    n_before = len(changes)
    while len(changes) < n_before + _MOST_CHANGES:
        days = _days(_centered(cells.filter(pl.len().over("stratum") > 1)))
        if days.height < FEWEST_DAYS:
            break
        values, weights = days["value"].to_numpy(), np.sqrt(days["w"].to_numpy())
        if edges_are_days and days.height >= 4 * WEEK:
            values = _without_weekdays(values, days["day"].to_numpy() % WEEK)
        segment = deviating_segment(values, weights, min_length=_SHORTEST[measure], rng=generator)
        if segment.pvalue >= ALPHA and measure == "runtime":  # days alike in a row are not usual
            segment = deviating_ranks(values, min_length=_SHORTEST[measure])
            segment = segment._replace(pvalue=2 * segment.pvalue)
        if segment.pvalue >= ALPHA:
            break
        series = (days["day"].to_numpy(), values, weights)
        low, high, dates = _dated(series, segment, (edges, timezone), _SHORTEST[measure])
        row = _estimate((cells, rows), range(low, high + 1), measure, generator)
        if row is None:
            break
        shift = row.pop("shift")
        smaller = min(abs(row["effect"]), abs(np.log1p(max(row["effect"], -0.99))))
        if measure == "wait":  # the medians that are stated differ too
            levels = (row["level"] + MINUTE_S) / (row["level_rest"] + MINUTE_S)
            smaller = min(smaller, abs(np.log(levels)))
        few = measure != "demand" and min(row["n"], row["n_rest"]) < _FEWEST_CHANGED
        if smaller >= np.log1p(_NOTICED[measure]) and not few:
            changes.append({"measure": measure} | dates | row)
        inside = pl.col("day").is_between(low, high)
        cells = cells.with_columns(pl.col("value") - pl.when(inside).then(shift).otherwise(0))
    return changes


def _on_weekends(
    data: tuple[pl.DataFrame, pl.DataFrame],
    edges: NDArray[Any],
    timezone: str,
    generator: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return the change of the failures of jobs that start on weekends, with weeks as units.

    By their ends, jobs that run on from Friday would make weekends seem good.
    """
    # long jobs that start late have not ended
    margin = min(float(data[1]["ran_s"].quantile(0.95) or 0), (edges[-1] - edges[0]) / 4)
    rows = data[1].with_columns(start=pl.col("time") - pl.col("ran_s"))
    rows = rows.filter(pl.col("start").is_between(edges[0], edges[-1] - margin))
    day = np.searchsorted(edges, rows["start"].to_numpy(), side="right") - 1
    rows = rows.with_columns(day=pl.Series(day, dtype=pl.Int64))
    sums = {"value": pl.col("value").mean(), "n": pl.len(), "gpu_hours": pl.col("gpu_hours").sum()}
    cells = rows.group_by("stratum", "day").agg(**sums).sort("stratum", "day")
    noon = pl.from_epoch(pl.Series((edges[:-1] + edges[1:]) / 2).cast(pl.Int64))
    noon = noon.dt.replace_time_zone("UTC").dt.convert_time_zone(timezone)
    calendar = pl.DataFrame({"week": noon.dt.truncate("1w"), "free": noon.dt.weekday() > 5})
    days = _days(_centered(cells)).join(calendar.with_row_index("day"), on="day")
    weeks = (
        days.group_by("week")
        .agg(
            pl.col("value").filter("free").mean() - pl.col("value").filter(~pl.col("free")).mean()
        )["value"]
        .drop_nulls()
    )
    p = float(scipy.stats.ttest_1samp(weeks, 0.0).pvalue) if weeks.len() >= _FEWEST_WEEKS else 1.0
    row = None
    if p < ALPHA:
        free = calendar["free"].arg_true().to_list()
        row = _estimate((cells, rows), free, "failure rate", generator)
    if row is None or abs(row.pop("shift")) < _OWN["failure rate"]:
        return []
    dates = dict.fromkeys(("begin", "earliest", "latest"), WEEKENDS)
    return [{"measure": "failure rate", "pvalue": p, "start_s": float(edges[0])} | dates | row]


def _centered(cells: pl.DataFrame) -> pl.DataFrame:
    """Return cells minus the mean of their stratum, with their weight: one of few jobs has less."""
    value, w = pl.col("value"), pl.col("w")
    cells = cells.with_columns(w=pl.col("n") / (pl.col("n") + _HALF))
    middle = (value * w).sum().over("stratum") / w.sum().over("stratum")
    return cells.with_columns(value - middle)


def _days(cells: pl.DataFrame) -> pl.DataFrame:
    """Return the weighted mean of each day over strata, in order, and the sum of the weights."""
    value, w = pl.col("value"), pl.col("w")
    return cells.group_by("day").agg(value=(value * w).sum() / w.sum(), w=w.sum()).sort("day")


def _dated(
    days: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    segment: Segment,
    clock: tuple[NDArray[Any], str | None],
    shortest: int,
) -> tuple[int, int, dict[str, Any]]:
    """Return the first and last day of a segment of days (day, value, weight), and their dates."""
    (place, values, weights), (edges, timezone) = days, clock
    first, after, p, r = segment
    tail = max(shortest, len(place) // 20)  # few days decide no end
    if first < tail <= len(place) - after:  # nor a beginning: what follows is the new level
        first, after = after, len(place)
    if place[-1] - place[after - 1] < tail:  # it lasts
        after = len(place)
    onset = [int(place[value]) for value in _onset(values, weights, (first, after), r)]
    low, high = int(place[first]), int(place[after - 1])
    names = ("begin", "earliest", "latest")
    dates: dict[str, Any] = {
        name: _date(float(edges[value]), timezone)
        for name, value in zip(names, (low, *onset), strict=True)
    }
    dates["start_s"] = float(edges[low])
    dates["end_s"] = None if after == len(place) else float(edges[high + 1])
    return low, high, dates | {"pvalue": p}


def _own_changes(
    data: tuple[pl.DataFrame, pl.DataFrame],
    clock: tuple[NDArray[Any], str | None],
    measure: str,
    generator: np.random.Generator,
    by: tuple[str, ...],
) -> tuple[list[dict[str, Any]], tuple[pl.DataFrame, pl.DataFrame]]:
    """Find sets of jobs (queue; user and name) that alone change; with the rest."""
    cells, rows = data
    alpha = ALPHA * _STRICTER.get(measure, 1.0)
    several = _centered(cells).join(
        rows.select("stratum", "user", "name", "queue").unique("stratum"), on="stratum"
    )
    days, jobs = pl.col("day").n_unique(), pl.col("n").sum()
    sums = (
        several.drop_nulls(by).group_by(by).agg(days=days, jobs=jobs, h=pl.col("gpu_hours").sum())
    )
    sums = sums.filter(pl.col("days") >= FEWEST_DAYS, pl.col("jobs") >= 2 * _FEWEST_CHANGED)
    order = sums.sort("h", "jobs", *by, descending=True).head(_MOST_NAMES).select(by).rows()
    series: dict[tuple[Any, ...], _Series] = {}
    for key in order if len(order) > 1 else ():
        mine = pl.all_horizontal(pl.col(name) == value for name, value in zip(by, key, strict=True))
        place, values, w = _days(several.filter(mine)).select("day", "value", "w").to_numpy().T
        series[key] = _Series(mine, place.astype(np.int64), values, np.sqrt(w))
    spans: dict[tuple[Any, ...], tuple[int, int, dict[str, Any]]] = {}
    for key, member in series.items():
        segment = deviating_ranks(member.values, min_length=WEEK)
        p = segment.pvalue * len(order)
        if p < alpha:
            spans[key] = _dated(member[1:], segment._replace(pvalue=p), clock, WEEK)

    def change_of(key: tuple[Any, ...]) -> dict[str, Any] | None:
        (low, high, dates), mine = spans[key], series[key].mine
        alike = pl.col("stratum").is_in(several.filter(mine)["stratum"].unique().implode())
        alike_jobs = (cells.filter(alike), rows.filter(alike))
        row = _estimate(alike_jobs, range(low, high + 1), measure, generator)
        # those that change too are no others, unless most do
        others = several.filter(~mine)
        rest = others.filter(*(~series[other].mine for other in spans if other != key))
        sides = [others, rest] if 2 * rest.height > several.height else [others]
        inside = pl.col("day").is_between(low, high)
        clear = (each for each in sides if _changes(_days(each), low, high))
        if row is None or not _is_own(row, measure, [_shift(each, inside) for each in clear]):
            return None
        if by == ("queue",) and measure != "wait" and _is_of_one(several.filter(mine), inside):
            return None
        names = {_COLUMNS[name]: value for name, value in zip(by, key, strict=True)}
        return {"measure": measure} | names | dates | row

    changes = {key: row for key in spans if (row := change_of(key)) is not None}
    for leader, (key, member) in product([*changes], series.items()):
        if key not in spans:  # it may change at the same time, which is one test
            low, high, dates = spans[leader]
            ends = np.searchsorted(member.place, [low, high + 1])
            segment = deviating_ranks(member.values, segment=(int(ends[0]), int(ends[1])))
            p = segment.pvalue * len(order) * len(changes)
            if p < _CLEAR:
                spans[key] = low, high, dates | {"pvalue": p}
                row = change_of(key)
                changes |= {} if row is None else {key: row}
    for key in changes:
        gone = several.filter(series[key].mine)["stratum"].unique().implode()
        cells, rows = (each.filter(~pl.col("stratum").is_in(gone)) for each in (cells, rows))
    stated = sorted(changes.values(), key=lambda row: -row["gpu_hours"] * abs(row["effect"]))
    return stated[: 2 * _MOST_CHANGES], (cells, rows)


class _Series(NamedTuple):
    """Days of a set of jobs: which they are, day, mean over strata, and weight."""

    mine: pl.Expr
    place: NDArray[Any]
    values: NDArray[Any]
    weights: NDArray[Any]


def _is_own(row: dict[str, Any], measure: str, commons: list[float]) -> bool:
    """Return whether a change is noticed, and that of other jobs is neither like it nor half."""
    row.pop("shift")
    ends = np.array([row[name] for name in ("ci_low", "effect", "ci_high")])
    least, shift, most = ends if measure == "failure rate" else np.log1p(ends)
    if min(row["n"], row["n_rest"]) < _FEWEST_CHANGED or abs(shift) < _OWN[measure]:
        return False
    return not any(
        least <= common <= most or abs(shift - common) < abs(shift) / 2 for common in commons
    )


def _changes(days: pl.DataFrame, low: int, high: int) -> bool:
    """Return whether the level of some days differs within two of them, tested at 5 %."""
    ends = np.searchsorted(days["day"].to_numpy(), [low, high + 1])
    segment = deviating_ranks(days["value"].to_numpy(), segment=(int(ends[0]), int(ends[1])))
    return segment.pvalue < _CLEAR


def _shift(cells: pl.DataFrame, inside: pl.Expr) -> float:
    """Return the difference of the means of cells within and outside of some days; 0 without."""
    sides = (cells.filter(side)["value"].mean() for side in (inside, ~inside))
    within, outside = (float(side) if side is not None else np.nan for side in sides)  # type: ignore[arg-type]
    return float(np.nan_to_num(within - outside))


def _is_of_one(cells: pl.DataFrame, inside: pl.Expr) -> bool:
    """Return whether a change is that of one user: without them it is less than half."""
    whole = _shift(cells, inside)
    users = cells["user"].value_counts(sort=True)["user"].head(_MOST_NAMES)
    others = (_shift(cells.filter(pl.col("user").ne_missing(user)), inside) for user in users)
    return any(rest * whole <= 0 or abs(rest) < abs(whole) / 2 for rest in others)


def _date(time_s: float, timezone: str | None) -> str:
    if timezone is None:
        return f"day {int(time_s // DAY_S) + 1}"
    return local_time(time_s, timezone, clock=False)


def _onset(
    values: NDArray[Any], weights: NDArray[Any], segment: tuple[int, int], r: float
) -> tuple[int, int]:
    """Return the earliest and the latest first day that the noise leaves possible."""
    first, after = segment
    n, kept = len(values), range(max(0, first - 4 * WEEK), min(first + 4 * WEEK, after - 2))

    def rest(start: int) -> float:
        inside, total = np.zeros(n, dtype=bool), 0.0
        inside[start:after] = True
        for side in (inside, ~inside):
            if side.any():
                off = values[side] - np.average(values[side], weights=weights[side])
                total += float((weights[side] * off**2).sum())
        return total

    sums = {start: rest(start) for start in kept}
    limit = sums[first] * (1 + _ONSET * (1 + r) / (1 - r) / max(n - 2, 1))
    possible = [start for start, total in sums.items() if total <= limit]
    return min(possible), max(possible)


def _without_weekdays(values: NDArray[Any], weekday: NDArray[Any]) -> Floats:
    """Return the values minus the mean of their weekday."""
    counts = np.maximum(np.bincount(weekday, minlength=WEEK), 1)
    result: Floats = values - (np.bincount(weekday, values, WEEK) / counts)[weekday]
    return result


def _estimate(
    data: tuple[pl.DataFrame, pl.DataFrame],
    days_within: Sequence[int],
    measure: str,
    generator: np.random.Generator,
) -> dict[str, Any] | None:
    """Return the change of comparable jobs between the days within and the others."""
    cells, rows = data
    inside = pl.col("day").is_in(days_within)
    both = cells.with_columns(inside=inside).filter(
        pl.col("inside").any().over("stratum"), (~pl.col("inside")).any().over("stratum")
    )
    if both.is_empty():
        return None
    stratum = both["stratum"].rank("dense").to_numpy().astype(np.int64) - 1
    day, within, values = (both[name].to_numpy() for name in ("day", "inside", "value"))
    days, of_day = np.unique(day, return_inverse=True)
    is_in = np.isin(days, days_within)
    count = int(stratum.max()) + 1

    def difference(times: NDArray[Any]) -> float:
        w = times[of_day]
        mass = [np.bincount(stratum, w * side, count) for side in (within, ~within)]
        sums = [np.bincount(stratum, w * side * values, count) for side in (within, ~within)]
        present = (mass[0] > 0) & (mass[1] > 0)
        if not present.any():
            return np.nan
        a, b = (weights[present] for weights in mass)
        return float(
            np.average(sums[0][present] / a - sums[1][present] / b, weights=a * b / (a + b))
        )

    shift = difference(np.ones(len(days)))
    drawn = [
        difference(_resampled(is_in, generator) + _resampled(~is_in, generator))
        for _ in range(_RESAMPLES)
    ]
    level, rest = _levels(cells if rows.is_empty() else rows, inside, measure)
    ends, note = [shift, *np.nanquantile(drawn, [0.025, 0.975])], None
    if measure == "runtime" and (better := _of_medians(rows, inside)) is not None:
        ends, note = [*better], _without(rows, inside)
    if measure == "demand":
        ends = [end * cells["level"].mean() / rest for end in ends]
    elif measure != "failure rate":
        ends = list(np.expm1(ends))
    return dict(zip(("effect", "ci_low", "ci_high"), map(float, ends), strict=True)) | {
        "level": level,
        "level_rest": rest,
        "n": int(both.filter("inside")["n"].sum()),
        "n_rest": int(both.filter(~pl.col("inside"))["n"].sum()),
        "strata": count,
        "gpu_hours": float(cells.filter(inside)["gpu_hours"].sum()),
        "note": note,
        "shift": shift,
    }


def _levels(rows: pl.DataFrame, inside: pl.Expr, measure: str) -> tuple[float, float]:
    """Return the level within the days and outside of them, over all jobs that count."""
    level = {
        "runtime": pl.col("ran_s").filter(~pl.col("is_limit")).median(),
        "failure rate": pl.col("value").mean(),
        "wait": (pl.col("value").median().exp() - MINUTE_S).round(3).abs(),
        "demand": pl.col("level").mean(),
    }[measure]
    sides = (rows.filter(inside), rows.filter(~inside))
    first, second = (float(side.select(level).item() or 0.0) for side in sides)
    return first, second


def _of_medians(rows: pl.DataFrame, inside: pl.Expr) -> tuple[float, float, float] | None:
    """Return the difference of weighted medians within strata, and its jackknife interval."""
    value, several = pl.col("value"), pl.col("inside").n_unique().over("stratum") > 1
    inside_days, other_days = (
        pl.col("day").filter(side).n_unique().over("stratum")
        for side in (pl.col("inside"), ~pl.col("inside"))
    )
    both = inside_days * other_days / (inside_days + other_days)
    rows = rows.select("stratum", "day", "value", inside=inside).filter(several)
    rows = rows.select(
        "day",
        "inside",
        above=value - value.mean().over("stratum"),
        weight=both / pl.len().over("stratum", "inside"),
    ).sort("above")
    if rows.is_empty():
        return None
    above, weight, within = (rows[name].to_numpy() for name in ("above", "weight", "inside"))
    days = rows.select("day", "inside").unique().sort("inside", "day")
    part = pl.int_range(pl.len()) * _GROUPS // pl.len().clip(_GROUPS)
    of_day = dict(days.with_columns(part=part.over("inside")).select("day", "part").iter_rows())
    group = rows["day"].replace_strict(of_day).to_numpy()

    def median(chosen: NDArray[Any]) -> float:
        mass = np.cumsum(np.where(chosen, weight, 0.0))
        return float(above[np.searchsorted(mass, mass[-1] / 2)])

    sides, variance = [median(within), median(~within)], 0.0
    for chosen in (within, ~within):
        left = np.array([median(chosen & (group != unit)) for unit in np.unique(group[chosen])])
        if len(left) < 2:
            return None
        variance += (len(left) - 1) / len(left) * float(((left - left.mean()) ** 2).sum())
    shift, error = sides[0] - sides[1], _T_95 * float(np.sqrt(variance))
    return shift, shift - error, shift + error


def _without(rows: pl.DataFrame, inside: pl.Expr) -> str | None:
    """Return the change of runtimes without a user of many of the jobs; None: there is none."""
    owners = rows["owner"].drop_nulls().value_counts(sort=True)
    if owners.height < 2 or owners["count"][0] < DOMINANT * rows.height:
        return None
    name = owners["owner"][0]
    medians = _of_medians(rows.filter(pl.col("owner").ne_missing(name)), inside)
    if medians is None:
        return None
    size, low, high = (100 * float(np.expm1(median)) for median in medians)
    return f"without {name}: {size:.2g} % ({low:.2g} to {high:.2g} %)"


def _resampled(chosen: NDArray[Any], generator: np.random.Generator) -> Floats:
    """Return how often each of the chosen days is drawn, as often as there are such days."""
    n = int(chosen.sum())
    times = np.zeros(len(chosen))
    times[chosen] = np.bincount(generator.integers(0, n, n), minlength=n) if n else 0
    return times


def changes_and_drift(
    jobs: IntoFrame,
    outcomes: tuple[Names, Names],
    /,
    *,
    timezone: str | None,
    window: Window | None,
    lost: pl.DataFrame,
    rng: int | np.random.Generator = 1,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return :func:`level_changes`, and the linear change per week of each of their measures.

    By least squares with an intercept for each stratum; of waits also in each queue, as one alone
    may drift: up to 20 with the most jobs. Of 300 series of 30 and 90 days without a
    drift, 95 % intervals cover 96 and 95 % at an autocorrelation of 0, 94 and 94 % at 0.5, 87 and
    91 % at 0.8 (`note`).
    """
    changes: list[dict[str, Any]] = []
    results: list[tuple[Any, ...]] = []
    generator = as_generator(rng)
    of_days = comparable_days(jobs, timezone, window, outcomes, lost)
    for measure, cells, rows, edges in of_days:
        changes += segments((cells, rows), edges, measure, timezone, generator)
        for queue, several in _by_queue(measure, cells.filter(pl.len().over("stratum") > 1), rows):
            week = (edges[several["day"].to_numpy()] - edges[0]) / (WEEK * DAY_S)
            strata = several["stratum"].rank("dense").to_numpy() - 1
            values = several["value"].to_numpy()
            if len(np.unique(week)) < 2:
                continue
            slope, low, high, p, note = slope_over_time(week, values, strata)
            ends = [slope, low, high]
            if measure in ("runtime", "wait"):
                ends = [float(np.expm1(end)) for end in ends]
            n, number = int(several["n"].sum()), int(strata.max()) + 1
            results.append((measure, queue, *ends, n, number, p, note))
    slopes = pl.DataFrame(results, schema=schema_of(Drift), orient="row").fill_nan(None)
    return declared(pl.DataFrame(changes, schema=schema_of(LevelChanges)), LevelChanges), declared(
        slopes, Drift
    )


def _by_queue(
    measure: str, cells: pl.DataFrame, rows: pl.DataFrame
) -> Iterator[tuple[str | None, pl.DataFrame]]:
    """Yield the days; of waits also those of each queue, the queues with the most jobs first."""
    yield None, cells
    if measure != "wait" or rows["queue"].n_unique() < 2:
        return
    cells = cells.join(rows.select("stratum", "queue").unique("stratum"), on="stratum")
    days, jobs = pl.col("day").n_unique().over("queue"), pl.col("n").sum().over("queue")
    cells = cells.with_columns(jobs=jobs).filter(days >= FEWEST_DAYS, jobs >= 2 * _FEWEST_CHANGED)
    queues = cells.drop_nulls("queue").sort("jobs", "queue", descending=True)
    parts = queues.partition_by("queue", maintain_order=True, as_dict=True)
    for (queue,), part in list(parts.items())[:_MOST_NAMES]:
        yield queue, part.sort("stratum", "day")
