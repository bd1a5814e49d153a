"""Changes of level: comparable jobs that run longer, or fail more, from some day on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.cohorts.definitions import OUTCOMES
from traceana.cohorts.overlap import BEGIN, HELD
from traceana.questions.trends.by_period import ENDED, open_jobs, span
from traceana.questions.trends.periods import DAY_S, divide_window, local_time
from traceana.questions.trends.tables import LevelChanges
from traceana.stats.arguments import as_generator
from traceana.stats.segments import dependent_block, deviating_segment
from traceana.store.frames import Names, as_names, collect
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    from traceana.cohorts.overlap import Window

ALPHA: Final = 0.01
"""Nominal error rate of each measure."""
_MEASURES: Final = ("runtime", "failure rate")
_MOST_DAYS: Final = 400
_FEWEST_DAYS: Final = 12
_MOST_CHANGES: Final = 3
_RESAMPLES: Final = 500
_FEWEST_JOBS: Final = 5
_WEEK: Final = 7
_SHORTEST: Final = 3


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
    """Find stretches of days with longer runtimes or more failures.

    Jobs are comparable by user, job_name and gpus, or cpus: a stratum. Numbers in a name with fewer
    than 5 jobs are left out, then the name. The days' series is the mean over strata of the day's
    median log runtime of successes (or failure rate), minus the stratum's; a stratum counts once a
    day, however many jobs it has. Its deviating segments are found by circular binary segmentation,
    with a permutation test of blocks of days at p below 0.01: at most 3, of 3 days or more. The
    change is the mean over strata with jobs on both sides, weighted by their days; its interval is
    a bootstrap over days. Of 100 simulated logs of 90 days without a change, with a weekly rhythm,
    bursts and heavy users, 3 have a false one.

    Parameters
    ----------
    jobs
        One row per job, as for :func:`trends`, and where the frame has it job_name.
    timezone
        Time zone of the days, for Unix times; None: days begin at multiples of 86,400 s.
    window
        First and last second of the observation window; None: from the first to the last time.
    success, failure
        Status values that count as a success and as a failure.
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
    [('runtime', 'day 41')]
    """
    generator = as_generator(rng)
    frame = open_jobs(jobs, window)
    first, last = window or span(frame)
    every = _with_parts(frame)
    found: list[dict[str, Any]] = []
    for measure in _MEASURES if (last - first) >= _FEWEST_DAYS * DAY_S else ():
        rows = _outcomes(every, measure, as_names(success), as_names(failure))
        if rows.is_empty():
            continue
        length = "day" if (last - first) <= _MOST_DAYS * DAY_S else "week"
        edges = np.array(divide_window((first, last), period=length, timezone=timezone).edges_s)
        if measure == "runtime":
            # long jobs that began late have not ended: the last days would seem short
            margin = min(float(rows["ran_s"].quantile(0.95) or 0), (last - first) / 4)
            rows = rows.filter(pl.col("time") < last - margin)
        cells = _cells(rows, edges, measure)
        found += _segments(cells, edges, measure, timezone, generator)
    return declared(pl.DataFrame(found, schema=schema_of(LevelChanges)), LevelChanges)


def _with_parts(frame: nw.LazyFrame[Any]) -> pl.DataFrame:
    """Return the rows with the parts of their stratum: user, name and size."""
    return collect(frame).with_columns(
        name=pl.col("job_name").cast(pl.String),
        size=pl.coalesce("gpus", "cpus"),
        user=pl.col("user").cast(pl.String),
    )


def _outcomes(
    rows: pl.DataFrame, measure: str, success: tuple[str, ...], failure: tuple[str, ...]
) -> pl.DataFrame:
    """Return [user, name, size, time, value, ran_s, gpu_hours] of the jobs with an outcome."""
    status = pl.col("status").cast(pl.String)
    runtime = pl.coalesce("runtime_s", pl.col("end_s") - pl.col("start_s"))
    succeeded = status.is_in(success) | status.is_null()
    value = runtime.log() if measure == "runtime" else status.is_in(failure).cast(pl.Float64)
    chosen = (
        succeeded & (runtime > 0) if measure == "runtime" else status.is_in([*success, *failure])
    )
    time = pl.col(BEGIN if measure == "runtime" else ENDED)
    return rows.filter(chosen, time.is_not_null(), pl.col(BEGIN).is_not_null()).select(
        "user", "name", "size", time=time, value=value, ran_s=runtime,
        gpu_hours=(pl.col("gpus") * pl.col(HELD) / 3600).fill_null(0),
    )  # fmt: skip


def _cells(rows: pl.DataFrame, edges: NDArray[Any], measure: str) -> pl.DataFrame:
    """Return one row per stratum and day: [stratum, day, value, n, gpu_hours]."""
    # a name of its own for every job compares nothing: numbers are left out, then the name
    for fewer in (pl.col("name").str.replace_all(r"\d+", "#"), pl.lit(None, pl.String)):
        few = pl.len().over("user", "name", "size") < _FEWEST_JOBS
        rows = rows.with_columns(name=pl.when(few).then(fewer).otherwise("name"))
    day = np.clip(np.searchsorted(edges, rows["time"].to_numpy(), side="right") - 1, 0,
                  len(edges) - 2)  # fmt: skip
    value = pl.col("value").median() if measure == "runtime" else pl.col("value").mean()
    keyed = rows.with_columns(
        stratum=pl.struct("user", "name", "size").rank("dense").cast(pl.Int64) - 1,
        day=pl.Series(day, dtype=pl.Int64),
    )
    return (
        keyed.group_by("stratum", "day")
        .agg(value=value, n=pl.len(), gpu_hours=pl.col("gpu_hours").sum())
        .sort("stratum", "day")
    )


def _segments(
    cells: pl.DataFrame,
    edges: NDArray[Any],
    measure: str,
    timezone: str | None,
    generator: np.random.Generator,
) -> list[dict[str, Any]]:
    """Find the deviating segments one after the other, each adjusted for before the next."""
    found: list[dict[str, Any]] = []
    edges_are_days = len(edges) > 2 and edges[2] - edges[1] < 2 * DAY_S
    while len(found) < _MOST_CHANGES:
        middle = pl.col("value") - pl.col("value").mean().over("stratum")
        several = cells.filter(pl.len().over("stratum") > 1).with_columns(value=middle)
        days = several.group_by("day").agg(value=pl.col("value").mean(), w=pl.len()).sort("day")
        if days.height < _FEWEST_DAYS:
            break
        values, weights = days["value"].to_numpy(), np.sqrt(days["w"].to_numpy())
        if edges_are_days and days.height >= 4 * _WEEK:
            values = _without_weekdays(values, days["day"].to_numpy() % _WEEK)
        block = dependent_block(values, weights)
        first, after, p = deviating_segment(values, weights, block=block, rng=generator)
        if p >= ALPHA:
            break
        place = days["day"].to_numpy()
        low, high = int(place[first]), int(place[after - 1])
        row = _estimate(cells, low, high, measure, generator)
        if row is None:
            break
        until = None if place[-1] - high < _SHORTEST else float(edges[high + 1])
        start = float(edges[low])
        begin = local_time(start, timezone, clock=False)
        if timezone is None:
            begin = f"day {int(start // DAY_S) + 1}"
        shift = row.pop("shift")
        found.append(
            {"measure": measure, "begin": begin, "start_s": start, "end_s": until, "pvalue": p}
            | row
        )
        inside = pl.col("day").is_between(low, high)
        cells = cells.with_columns(pl.col("value") - pl.when(inside).then(shift).otherwise(0))
    return found


def _without_weekdays(values: NDArray[Any], weekday: NDArray[Any]) -> NDArray[np.float64]:
    """Return the values minus the mean of their weekday."""
    counts = np.maximum(np.bincount(weekday, minlength=_WEEK), 1)
    result: NDArray[np.float64] = values - (np.bincount(weekday, values, _WEEK) / counts)[weekday]
    return result


def _estimate(
    cells: pl.DataFrame, low: int, high: int, measure: str, generator: np.random.Generator
) -> dict[str, Any] | None:
    """Return the change of comparable jobs between the days within and the others."""
    inside = pl.col("day").is_between(low, high)
    both = cells.with_columns(inside=inside).filter(
        pl.col("inside").any().over("stratum"), (~pl.col("inside")).any().over("stratum")
    )
    if both.is_empty():
        return None
    stratum = both["stratum"].rank("dense").to_numpy().astype(np.int64) - 1
    day = both["day"].to_numpy()
    within = both["inside"].to_numpy()
    values = both["value"].to_numpy()
    days = np.unique(day)
    of_day = np.searchsorted(days, day)
    is_in = (days >= low) & (days <= high)
    count = int(stratum.max()) + 1

    def difference(times: NDArray[Any]) -> float:
        w = times[of_day]
        mass = [np.bincount(stratum, w * side, count) for side in (within, ~within)]
        sums = [np.bincount(stratum, w * side * values, count) for side in (within, ~within)]
        there = (mass[0] > 0) & (mass[1] > 0)
        if not there.any():
            return np.nan
        a, b = (one[there] for one in mass)
        return float(np.average(sums[0][there] / a - sums[1][there] / b, weights=a * b / (a + b)))

    shift = difference(np.ones(len(days)))
    drawn = np.array([
        difference(_resampled(is_in, generator) + _resampled(~is_in, generator))
        for _ in range(_RESAMPLES)
    ])  # fmt: skip
    low_end, high_end = np.nanquantile(drawn, [0.025, 0.975])
    change = np.expm1 if measure == "runtime" else float
    return {
        "effect": float(change(shift)),
        "ci_low": float(change(low_end)),
        "ci_high": float(change(high_end)),
        "n": int(both.filter("inside")["n"].sum()),
        "n_rest": int(both.filter(~pl.col("inside"))["n"].sum()),
        "strata": count,
        "gpu_hours": float(cells.filter(inside)["gpu_hours"].sum()),
        "shift": shift,
    }


def _resampled(chosen: NDArray[Any], generator: np.random.Generator) -> NDArray[np.float64]:
    """Return how often each of the chosen days is drawn, as often as there are such days."""
    n = int(chosen.sum())
    times = np.zeros(len(chosen))
    times[chosen] = np.bincount(generator.integers(0, n, n), minlength=n) if n else 0
    return times
