"""Stragglers of synchronous jobs, from the time each worker takes at each tick."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import (
    LARGEST,
    Names,
    as_names,
    open_frame,
    refuse_clash,
)
from traceana.analysis.stragglers.blocks import read_parts
from traceana.analysis.stragglers.episodes import Rules
from traceana.analysis.stragglers.frames import assemble
from traceana.analysis.stragglers.result import StragglerResult
from traceana.errors import DataError
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_ALL: Final = "all as one job"
"""Stands in for the keys where the whole frame is one job."""

_LEAST_EVIDENCE: Final = 1e-9

_EPISODES: Final = (
    "onset_s", "end_s", "duration_s", "n_samples", "severity", "ratio_to_peers", "excess",
    "n_reports", "n_at_once",
)  # fmt: skip
_LEVELS: Final = (
    "median", "ratio_to_peers", "is_slow", "n_samples", "n_missing", "n_episodes", "lost_share",
    "note",
)  # fmt: skip
_JOBS: Final = (
    "n_workers", "slowdown", "slowdown_median", "n_episodes", "n_slow_workers", "max_at_once",
    "slowdown_without_episodes", "slowdown_without_either", "episodes_share", "levels_share",
    "n_missing", "note",
)  # fmt: skip


def detect_stragglers(
    samples: IntoFrame,
    /,
    *,
    by: Names = ("job_id",),
    at: str = "time_s",
    over: str = "worker_id",
    value: str = "batch_time",
    slow_level: float = 1.2,
    min_severity: float = 1.15,
    min_reports: int = 3,
    min_duration_s: float = 0.0,
    max_gap_reports: int = 2,
    evidence: float = 14.0,
) -> StragglerResult:
    """Find the stragglers of synchronous jobs: slow levels, slow episodes, and their cost.

    A level is how slow a worker is all along; an episode is a stretch in which it is slow
    against its own usual and, at the same time, against its peers. A worker that is slow all
    along has a level and no episode, and a job that slows down as a whole has neither.

    With u the median of worker w over the job (without its episodes), r = log(x / u) of a sample
    x, and q the 25 % quantile (lower) of r over the other workers at that tick, less the usual
    value of that quantile, the excess of w is e = r - max(q, 0); for a worker that follows its job
    up and down, which r - q is the smaller for, its usual moves along and e = r = r - q. Equal
    values in a row are one report, held, with its e where it begins. The evidence of a report is
    2 a (e - a) / s^2, with s the noise of the worker's reports and
    a = max(log(min_severity) / 2, 0.75 s); it counts for at most evidence / min_reports, and
    against for at most evidence / (max_gap_reports + 1). An episode is where the sum of evidence,
    held at 0 from below, reaches `evidence`, from where it left 0 to where it is highest before it
    falls by as much (cumulative sum in both directions; Page, Biometrika 41, 1954). The whole
    method, its measured accuracy and its blind spots are in the documentation (Stragglers).

    Parameters
    ----------
    samples
        One row a worker and tick: [*by, at, over, value]; eager or lazy, of any listed engine.
        Read some millions of rows at a time, or one job where it has more.
    by, at, over
        Columns of the job, of the time (a number, in s) that the job's workers share, and of the
        worker. Null in `by` is a group of its own; ``()`` takes the whole frame as one job.
    value
        Time an iteration takes, or any measure that is larger where a worker is slower, on a
        ratio scale of any unit. Null and NaN are missing, and counted.
    slow_level
        Ratio to its peers above which a worker's level is slow; above 1.
    min_severity
        Least severity and least excess of an episode; above 1.
    min_reports
        Reports that an episode takes at the least, however slow they are.
    min_duration_s
        Least duration of an episode.
    max_gap_reports
        Calm reports in a row that an episode may have within it, however calm they are.
    evidence
        Logarithm of the likelihood ratio that makes an episode: 14 is a million to one.

    Returns
    -------
    StragglerResult
        Frames sorted by `by`, nulls last, then by worker and onset; in the value's unit or a
        ratio where no other is said.

        episodes: [*by, worker_id, onset_s, end_s, duration_s, n_samples, severity,
        ratio_to_peers, excess, n_reports, n_at_once]. onset_s and end_s are the times of the
        first and the last slow sample, duration_s is what lies between. severity is the median
        of exp(r) over the episode; ratio_to_peers that of x over the median of the other
        workers' values at the tick; excess that of exp(e). n_at_once is the most workers that are
        in an episode at one tick of it, itself included.

        levels: [*by, worker_id, median, ratio_to_peers, is_slow, n_samples, n_missing,
        n_episodes, lost_share, note]. ratio_to_peers is the worker's median over the median of
        the OTHER workers' medians; is_slow where that is above `slow_level`. lost_share is, of
        the time that the job loses to waiting (sum over ticks of the slowest less the mean), the
        part at ticks where this worker is the slowest.

        jobs: [*by, n_workers, slowdown, slowdown_median, n_episodes, n_slow_workers,
        max_at_once, slowdown_without_episodes, slowdown_without_either, episodes_share,
        levels_share, n_missing, note]. slowdown is the sum over all ticks of the workers' largest
        value over the sum of their mean, slowdown_median over that of their median. Without
        episodes, each sample in one is its peers' median at the tick, where that is smaller;
        without either, every worker whose ratio_to_peers is above 1 is divided by it too. The
        shares say how much of (slowdown - 1) goes with each; a share can fall below 0, where the
        mean falls and the slowest stays.

        Where one of them is not defined it is null, and note says why.

    Raises
    ------
    DataError
        If an option is out of range; a column is missing or not numeric; a value is negative or
        infinite; `at` or `over` is null beside a value; a (by, at, over) has more than one
        value, so that a worker would count twice; or the workers of a job of millions of
        (worker, tick) hardly ever share a tick.
    """
    rules = Rules(min_severity, min_reports, min_duration_s, max_gap_reports, evidence)
    _check(rules, slow_level)
    names = as_names(by)
    refuse_clash(names, ("worker_id", *_EPISODES, *_LEVELS, *_JOBS))
    frame = open_frame(samples, keys=(*names, at, over), measures=(value,))
    keys = names or (_ALL,)
    if not names:
        refuse_clash((at, over, value), (_ALL,))
        frame = frame.with_columns(nw.lit(0).alias(_ALL))
    parts = []
    reading = read_parts(frame, keys, at, over, value)
    with ThreadPoolExecutor(max_workers=1) as reader:
        # the next part is read while one is searched
        coming = reader.submit(next, reading, None)
        while part := coming.result():
            coming = reader.submit(next, reading, None)
            parts.append(assemble(part, over, rules, slow_level))
    episodes, levels, jobs = (pl.concat(frames) for frames in zip(*parts, strict=True))
    return StragglerResult(
        episodes.select(*names, "worker_id", *_EPISODES),
        levels.select(*names, "worker_id", *_LEVELS),
        jobs.select(*names, *_JOBS),
    )


def _check(rules: Rules, slow_level: float) -> None:
    for name, ratio in (("slow_level", slow_level), ("min_severity", rules.min_severity)):
        if not (is_number(ratio) and 1 < ratio <= LARGEST):
            raise DataError(f"{name} must be a ratio above 1, such as 1.2; it is {ratio!r}")
    for name, least, whole in (
        ("evidence", _LEAST_EVIDENCE, False),
        ("min_duration_s", 0, False),
        ("min_reports", 1, True),
        ("max_gap_reports", 0, True),
    ):
        number = getattr(rules, name)
        if not (is_number(number, whole=whole) and least <= number <= LARGEST):
            kind = "whole number" if whole else "number"
            raise DataError(f"{name} must be a {kind} and at least {least}; it is {number!r}")
