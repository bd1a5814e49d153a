"""Detect stragglers of synchronous jobs from the iteration times of their workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import DataError
from traceana.questions.stragglers.blocks import read_parts
from traceana.questions.stragglers.episodes import Rules
from traceana.questions.stragglers.frames import assemble
from traceana.questions.stragglers.tables import StragglerResult
from traceana.stats.arguments import is_number
from traceana.store.clock import with_seconds
from traceana.store.frames import (
    LARGEST,
    Names,
    as_names,
    open_frame,
    refuse_clash,
)

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.questions.stragglers.frames import Frames

__all__ = ["StragglerResult", "detect_stragglers"]

RATIOS_KEPT: Final = 2_000_000
"""Samples up to which the ratios to the peers are kept for the map."""

_ALL: Final = "all as one job"
"""Key column if the whole frame is one job."""

_LEAST_EVIDENCE: Final = 1e-9


def detect_stragglers(
    samples: IntoFrame,
    /,
    by: Names = ("job_id",),
    *,
    time: str = "time_s",
    worker: str = "worker_id",
    value: str = "batch_time",
    slow_level: float = 1.1,
    min_severity: float = 1.15,
    min_reports: int = 3,
    min_duration_s: float = 0.0,
    max_gap_reports: int = 2,
    evidence: float = 14.0,
) -> StragglerResult:
    """Detect persistent and transient stragglers of synchronous jobs, and their cost.

    A worker is a persistent straggler if its level, the median without episodes, is above its
    peers' all along the job. If all workers move as one, times include synchronization and nothing
    can be identified; measure compute time. An episode is a period in which a worker is slow
    compared with its own usual value and, at the same time, with its peers. A persistent straggler
    has no episode for that alone, and a job that slows down as a whole has neither.

    With r the logarithm of a sample over the usual value of its worker, and q the 25 % quantile of
    r over the other workers at that time, minus its usual value, the excess of a worker is e = r -
    max(q, 0). With s the noise of the worker and a = max(log(min_severity) / 2, 0.75 s), the
    evidence of a report is 2 a (e - a) / s^2. An episode is where the cumulative sum of evidence,
    bounded below by 0, reaches `evidence` (Page, Biometrika 41, 1954). The whole method, its
    accuracy and limits: :doc:`/explanation/stragglers`.

    Parameters
    ----------
    samples
        One row per worker and time: `by`, `time`, `worker` and `value`; eager or lazy, of any
        supported engine. Two million rows are read at a time, or one job if it has more.
    by
        Columns of the job; null is a job of its own, and ``()`` takes the frame as one job.
    time
        Column of the time that the workers of a job share: numbers, such as seconds or a step, or
        datetimes, which become Unix seconds.
    worker
        Column of the worker.
    value
        Column of the iteration time, or any measure on a ratio scale that is larger for a slower
        worker. Null and NaN are missing, and counted.
    slow_level
        Ratio to its peers above which a worker is a persistent straggler; above 1.
    min_severity
        Minimum severity and excess of an episode; above 1.
    min_reports
        Minimum number of reports of an episode.
    min_duration_s
        Minimum duration of an episode.
    max_gap_reports
        Maximum number of consecutive normal reports within an episode.
    evidence
        Logarithm of the likelihood ratio that makes an episode: 14 is a million to one.

    Returns
    -------
    StragglerResult
        Frames sorted by `by`, nulls last, then by worker and time. The columns of worker and time
        have standard names, whatever those of `samples`. ``result.plot(job=...)`` draws the ratios
        of a job's workers to their peers.

    Raises
    ------
    DataError
        If `time` or `worker` is null in a row with a value, a (by, time, worker) has several
        values, or the workers of a job of millions of (worker, time) rarely share a time.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> step, worker = np.divmod(np.arange(400), 4)
    >>> slow = (worker == 2) & (step >= 20) & (step < 40)
    >>> seconds = np.where(slow, 3, 1) + 0.01 * ((7 * step + worker) % 5)
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": 30 * step, "worker_id": worker,
    ...                         "batch_time": seconds})
    >>> result = traceana.detect_stragglers(samples)
    >>> print(result)
    1 job, 4 workers
    episodes: 1, in 1 of 1 job; up to 1 at once; severity median 2.96, maximum 2.96
    levels:   no persistent straggler
    slowdown: median 1.28, maximum 1.28 (sum of the slowest over sum of the mean)
    noise:    median 1.02, maximum 1.02 (slowdown without stragglers)
    """
    rules = Rules(min_severity, min_reports, min_duration_s, max_gap_reports, evidence)
    _check(rules, slow_level)
    names = as_names(by)
    refuse_clash(names, set(chain(*(table.columns() for table in StragglerResult.tables.values()))))
    roles = {"time": time, "worker": worker}
    frame = open_frame(samples, keys=(*names, time, worker), measures={"value": value}, roles=roles)
    frame = with_seconds(frame, time)
    keys = names or (_ALL,)
    if not names:
        refuse_clash((time, worker, value), (_ALL,))
        frame = frame.with_columns(nw.lit(0).alias(_ALL))
    parts: list[Frames] = []
    reading = read_parts(frame, keys, time, worker, value)
    with ThreadPoolExecutor(max_workers=1) as reader:
        # the next part is read while one is searched
        coming = reader.submit(next, reading, None)
        n_samples = 0
        while part := coming.result():
            coming = reader.submit(next, reading, None)
            n_samples += int(part.workers["n_samples"].to_numpy().sum())
            keep = n_samples <= RATIOS_KEPT
            parts.append(assemble(part, worker, rules, slow_level, with_ratios=keep))
    frames = {
        name: pl.concat([part[name] for part in parts]).select(*names, *table.columns())
        for name, table in StragglerResult.tables.items()
    }
    return StragglerResult(**frames)


def _check(rules: Rules, slow_level: float) -> None:
    for name, ratio in (("slow_level", slow_level), ("min_severity", rules.min_severity)):
        if not (is_number(ratio) and 1 < ratio <= LARGEST):
            raise DataError(f"{name} must be a ratio above 1, such as 1.1; it is {ratio!r}")
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
