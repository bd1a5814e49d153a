"""Detect stragglers of synchronous jobs from the iteration times of their workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.questions.stragglers.blocks import Block, Counts, Part, over, read_parts
from traceana.questions.stragglers.episodes import (
    ALPHA,
    FEWEST_EFFECTIVE,
    Levels,
    Rules,
    Stretch,
    effective_times,
    find_stretches,
    keep_beyond_chance,
    measure_levels,
    measure_noise,
)
from traceana.questions.stragglers.tables import Episodes, StragglerJobs, StragglerResult
from traceana.stats.arguments import is_number
from traceana.stats.arrays import Floats
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.quantiles import median_present, peers_median
from traceana.store.frames import LARGEST, Names, as_keys, open_frame, reduce_frame, with_seconds
from traceana.tables.declare import schema_of
from traceana.tables.formatting import clock


def measure_cost(
    value: Floats, peers: Floats, levels: Levels, beyond: Floats, stretches: Sequence[Stretch], /
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return slowdowns of each job, and of each worker the time waited for it and its cost."""
    slowest, mean = _over_workers(value)
    slowdown = _ratio(slowest, mean)
    median = median_present(np.ascontiguousarray(value.swapaxes(1, 2)))
    of_slowest = over(mean, slowest)
    even = value.copy()
    for stretch in stretches:
        even[stretch.cells] = np.fmin(value[stretch.cells], peers[stretch.cells])
    changed = even != value  # NaN is never equal and stays NaN
    without_either = np.where(changed, even, even / np.fmax(beyond, 1)[..., None])
    of_job = {
        "slowdown": slowdown,
        "slowdown_median": _ratio(slowest, median),
        "slowdown_iterations": _ratio((~np.isnan(of_slowest)).astype(float), of_slowest),
        "slowdown_without_episodes": _ratio(*_over_workers(even)),
        "slowdown_without_either": _ratio(*_over_workers(without_either)),
    }
    waited_for = value == slowest[:, None]
    together = np.maximum(np.count_nonzero(waited_for, axis=1), 1)
    mine = np.einsum("jwt,jt->jw", waited_for, np.nan_to_num((slowest - mean) / together))
    lost = over(mine, mine.sum(axis=1, keepdims=True))
    return of_job, {"lost_fraction": lost, "saved": _saved(value, slowest, levels.ratio_to_peers)}


def at_once(shape: tuple[int, ...], stretches: Sequence[Stretch], /) -> tuple[Counts, list[int]]:
    """Return the maximum number of workers in an episode at one time, by job and by episode."""
    number = np.zeros((shape[0], shape[2]), dtype=np.intp)
    for stretch in stretches:
        number[stretch.job, stretch.first : stretch.last + 1] += 1
    of_stretch = [int(number[s.job, s.first : s.last + 1].max()) for s in stretches]
    return number.max(axis=1, initial=0), of_stretch


def _over_workers(value: Floats) -> tuple[Floats, Floats]:
    """Return the maximum and mean over the workers at each time; NaN if there is no value."""
    n = np.count_nonzero(~np.isnan(value), axis=1)
    mean = over(np.nansum(value, axis=1), n.astype(float))
    return np.fmax.reduce(value, axis=1, initial=np.nan), mean


def _ratio(above: Floats, below: Floats) -> Floats:
    """Return the ratio of the sums over time; NaN if the second is 0."""
    return over(np.nansum(above, axis=-1), np.nansum(below, axis=-1))


def _saved(value: Floats, slowest: Floats, ratio: Floats) -> Floats:
    """Return the fraction of the job's time saved if each slower worker had its peers' level."""
    total = np.nansum(slowest, axis=-1)
    saved = np.zeros(ratio.shape)
    for job, worker in zip(*np.nonzero(ratio > 1), strict=True):
        of_worker = value[job, worker]
        at = np.flatnonzero(of_worker == slowest[job])  # elsewhere nothing changes
        if total[job] > 0 and len(at):
            others = np.delete(value[job][:, at], worker, axis=0)
            left = np.fmax.reduce(others, axis=0, initial=0.0)
            saved[job, worker] = (
                of_worker[at] - np.fmax(left, of_worker[at] / ratio[job, worker])
            ).sum() / total[job]
    return np.where(np.isnan(ratio), np.nan, saved)


CANNOT_TELL: Final = "cannot tell: times may include synchronization; measure compute time"
"""Note of a job whose workers move as one."""
VANISHED: Final = 0.05
"""Fraction of the job, at its end, without a value of a worker that gets a note."""
_GAPS: Final = 10
UNCLEAR: Final = "cannot tell: noise makes slow periods as long and as severe as those of this job"
"""Note of a job of which an episode is within its own noise."""

Frames: TypeAlias = dict[str, pl.DataFrame]
"""Frames of the result by name."""
_JOB: Final[Any] = {".job": pl.Int64}
_WORKER: Final[Any] = {**_JOB, ".worker": pl.Int64}
_RATIOS: Final = ("median", "ratio_to_peers", "ci_low", "ci_high", "pvalue_adjusted")
_OF_WORKER: Final = (*_RATIOS, "lost_fraction", "saved", "last_s", "missing_end")
_SLOWDOWNS: Final = [name for name in StragglerJobs.columns() if name.startswith("slowdown")]
_COUNTS: Final = ("unclear", "max_at_once", "shared_ticks")
_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "episodes": _WORKER | dict(list(schema_of(Episodes).items())[1:]),
    "ratios": _WORKER | {"time_s": pl.Float64, "ratio_to_peers": pl.Float64},
    "levels": _WORKER | dict.fromkeys(_OF_WORKER, pl.Float64) | {"changes": pl.Boolean},
    "jobs": _JOB
    | dict.fromkeys(_SLOWDOWNS, pl.Float64)
    | dict.fromkeys(_COUNTS, pl.Int64)
    | {"as_one": pl.Boolean},
}


def assemble(
    part: Part,
    worker_name: str,
    rules: Rules,
    slow_level: float,
    written: Callable[[float], str],
    /,
    *,
    with_ratios: bool,
) -> Frames:
    """Return the frames of a part, sorted; the ratios to the peers are empty if not requested."""
    of_block = partial(_of_block, rules=rules, slow_level=slow_level, with_ratios=with_ratios)
    with ThreadPoolExecutor() as pool:  # numpy releases the interpreter lock
        parts = list(pool.map(of_block, part.blocks))
    frames = {
        name: pl.concat([pl.DataFrame(schema=schema), *(frames[name] for frames in parts)])
        for name, schema in _SCHEMAS.items()
    }
    worker, job = [".job", ".worker"], [".job"]
    workers = part.workers.rename({worker_name: "worker_id"}).cast(_WORKER)
    names = workers.drop("n_samples", "n_missing")
    episodes = names.join(frames["episodes"], on=worker).sort(*worker, "onset_s")
    pvalue, is_above = pl.col("pvalue_adjusted"), pl.col("ratio_to_peers") > slow_level
    is_slower = (pl.col("ratio_to_peers") > 1) & (pvalue < ALPHA) & ~pl.col("changes")
    # a job of a few times has no interval
    lasts = pl.when(pvalue.is_null()).then(~pl.col("changes")).otherwise(is_slower)
    levels = (
        workers.join(frames["levels"], on=worker, how="left", maintain_order="left")
        .join(reduce_frame(episodes, worker, n_episodes=pl.len()), on=worker, how="left")
        .with_columns(
            pl.col("n_episodes").fill_null(0), is_slower=is_slower, is_slow=is_above & lasts
        )
        .sort(worker)
    )
    has_values = pl.col("n_samples") > 0
    episodes_and_slow = {"n_episodes": pl.sum("n_episodes"), "n_slow_workers": pl.sum("is_slow")}
    counts = reduce_frame(levels, job, n_workers=has_values.sum(), **episodes_and_slow)
    jobs = part.jobs.cast(_JOB).join(frames["jobs"], on=job, how="left")
    jobs = jobs.join(counts, on=job, how="left").sort(job)
    jobs = jobs.with_columns(pl.col("max_at_once", *counts.columns[1:]).fill_null(0))
    as_one = pl.col("as_one").fill_null(value=False)
    hidden = pl.selectors.starts_with("slowdown", "max_at_once", "n_episodes", "n_slow_workers")
    jobs = jobs.with_columns(pl.when(~as_one).then(hidden).name.keep())
    slowdown, lost = pl.col("slowdown"), pl.col("slowdown") - 1
    without, without_either = (
        pl.col(f"slowdown_without_{what}") for what in ("episodes", "either")
    )
    jobs = jobs.with_columns(
        episodes_fraction=pl.when(lost > 0).then((slowdown - without) / lost),
        levels_fraction=pl.when(lost > 0).then((without - without_either) / lost),
        note=_first(
            (pl.col("n_workers") == 0, "no value"),
            (as_one, CANNOT_TELL),
            (pl.col("n_workers") == 1, "one worker has no peers; episodes are undefined"),
            (pl.col("shared_ticks") == 0, "no two workers share a time; episodes are undefined"),
            (pl.col("slowdown").is_null(), "all values are 0; ratios are undefined"),
            (lost <= 0, "no time is lost; fractions are undefined"),
            (pl.col("unclear") > 0, UNCLEAR),
        ),
    )
    unknown = pl.col("is_slow", "is_slower", "lost_fraction", "saved", "n_episodes")
    ended_early = pl.format(
        "ended early: no value after {}, the last {} % of the job",
        pl.col("last_s").map_elements(written, pl.String),
        (100 * pl.col("missing_end")).round(0).cast(pl.Int64),
    )
    levels = levels.join(
        jobs.select([*job, "n_workers", "as_one"]), on=job, maintain_order="left"
    ).with_columns(
        pl.when(~as_one).then(unknown).name.keep(),
        note=_first(
            (~has_values, "no value"),
            (pl.col("missing_end") >= VANISHED, ended_early),
            (as_one, CANNOT_TELL),
            (pl.col("n_workers") == 1, "one worker has no peers"),
            (pl.col("changes"), "slow in a part of the job only (drift or long episode)"),
            (pl.col("median") == 0, "the worker's median is 0; episodes are undefined"),
            (pl.col("ratio_to_peers").is_null(), "the peers' median is 0; the ratio is undefined"),
            (pl.col("lost_fraction").is_null(), "the job loses no time; the fraction is undefined"),
        ),
    )
    ratios = frames["ratios"].join(names, on=worker, maintain_order="left")
    ratios = ratios.sort(worker, maintain_order=True)
    return {"episodes": episodes, "levels": levels, "jobs": jobs, "ratios": ratios}


def _of_block(block: Block, *, rules: Rules, slow_level: float, with_ratios: bool) -> Frames:
    value = block.value
    suspected = find_stretches(value, block.time_s, rules)
    stretches, unclear = keep_beyond_chance(value, block.time_s, suspected, rules)
    calm = value.copy()
    for stretch in stretches:
        calm[stretch.cells] = np.nan
    n_jobs, n_workers, n_times = value.shape
    levels = measure_levels(calm, slow_level)
    noise, as_one = measure_noise(calm)
    as_one[[stretch.job for stretch in stretches]] = False
    adjusted = np.stack([adjust_pvalues(of_job, method="holm") for of_job in levels.pvalue])
    slower = (adjusted < ALPHA) & (levels.ratio_to_peers > 1)
    few = np.array([effective_times(of_job) for of_job in calm]) < FEWEST_EFFECTIVE
    unclear += few & slower.any(axis=1)
    adjusted[few[:, None] & slower] = 1.0
    noise[few & (n_times >= FEWEST_EFFECTIVE)] = np.nan
    # without a p-value, of a few times, a level is taken as it is
    beyond = np.where(np.isnan(adjusted) | (adjusted < ALPHA), levels.ratio_to_peers, 1.0)
    peers = value  # where nothing is compared with them
    if stretches or with_ratios:
        peers = peers_median(np.ascontiguousarray(value.swapaxes(1, 2))).swapaxes(1, 2)
    of_job, of_worker = measure_cost(value, peers, levels, beyond, stretches)
    most, of_stretch = at_once(value.shape, stretches)
    rows = []
    ratios = over(value, peers)
    for stretch, together in zip(stretches, of_stretch, strict=True):
        onset, end = block.time_s[stretch.job, [stretch.first, stretch.last]]
        row = {".job": block.job[stretch.job], ".worker": stretch.worker, **vars(stretch)}
        row |= {"onset_s": onset, "end_s": end, "duration_s": end - onset, "n_at_once": together}
        row["n_samples"] = np.count_nonzero(~np.isnan(value[stretch.cells]))
        row["ratio_to_peers"] = median_present(ratios[stretch.cells])
        rows.append(row)
    last_s, missing_end = _ends(block)
    of_job |= {
        ".job": block.job,
        "slowdown_noise": noise,
        "slowdown_excess": of_job["slowdown"] - noise,
        "as_one": as_one,
        "unclear": unclear,
        "max_at_once": most,
        "shared_ticks": (np.count_nonzero(~np.isnan(value), axis=1) > 1).sum(axis=1),
    }
    of_worker |= levels._asdict() | {
        ".job": np.repeat(block.job, n_workers),
        ".worker": np.tile(np.arange(n_workers), n_jobs),
        "pvalue_adjusted": adjusted,
        "last_s": last_s,
        "missing_end": missing_end,
    }
    job, worker, tick = np.nonzero(~np.isnan(value) & with_ratios)
    of_sample = {
        ".job": block.job[job],
        ".worker": worker,
        "time_s": block.time_s[job, tick],
        "ratio_to_peers": ratios[job, worker, tick],
    }
    frames = {"episodes": pl.DataFrame(rows, schema=_SCHEMAS["episodes"])}
    for name, columns in {"levels": of_worker, "jobs": of_job, "ratios": of_sample}.items():
        schema = _SCHEMAS[name]
        flat = {column: columns[column].ravel() for column in schema}
        frames[name] = pl.DataFrame(flat, schema=schema)
    return {name: frame.fill_nan(None) for name, frame in frames.items()}


def _first(*cases: tuple[pl.Expr, str | pl.Expr]) -> pl.Expr:
    """Return the text of the first condition that is true; null if none is."""
    return pl.coalesce(
        pl.when(case).then(text if isinstance(text, pl.Expr) else pl.lit(text))
        for case, text in cases
    )


def _ends(block: Block) -> tuple[Floats, Floats]:
    """Return the last time of each worker, and the fraction of the job without it at the end."""
    reported = ~np.isnan(block.value)
    n_times = reported.shape[2]
    last = n_times - 1 - reported[..., ::-1].argmax(axis=2)
    last = np.where(reported.any(axis=2), last, n_times - 1)
    first = reported.argmax(axis=2)
    usual = (last - first + 1) / np.maximum(np.count_nonzero(reported, axis=2), 1)
    gap = n_times - 1 - last
    missing = np.where(gap > _GAPS * usual, gap / n_times, 0.0)
    return np.take_along_axis(block.time_s, last, axis=1), missing


RATIOS_KEPT: Final = 2_000_000  # samples up to which the ratios to the peers are kept for the map
_ALL: Final = "all as one job"  # key column if the whole frame is one job
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
    peers' all along the job. An episode is a period in which a worker is slow compared with its own
    usual value and, at the same time, with its peers. If all workers move as one, times include
    synchronization and nothing can be identified; measure compute time.

    With r the logarithm of a sample over the usual value of its worker, q the 25 % quantile of r
    over the other workers minus its usual value, s the noise of the worker and a =
    max(log(min_severity) / 2, 0.75 s), the evidence of a report is 2 a (e - a) / s^2 for the excess
    e = r - max(q, 0). An episode is where its cumulative sum, bounded below by 0, reaches
    `evidence` (Page, Biometrika 41, 1954). The whole method: :doc:`/explanation/stragglers`.

    Parameters
    ----------
    samples
        One row per worker and time: `by`, `time`, `worker` and `value`; eager or lazy, of any
        supported engine. Two million rows are read at a time, or one job if it has more; a job of
        millions whose workers rarely share a time is refused.
    by
        Columns of the job; null is a job of its own, and ``()`` takes the frame as one job.
    time
        Column of the time that the workers of a job share: numbers, such as seconds or a step, or
        datetimes, which become Unix seconds. It is not null where there is a value.
    worker
        Column of the worker, not null where there is a value and once at a time.
    value
        Column of the iteration time, or any measure on a ratio scale that is larger for a slower
        worker. Null and NaN are missing, and counted.
    slow_level
        Ratio to its peers above which a worker is a persistent straggler; above 1.
    min_severity, min_reports, min_duration_s
        Minimum severity and excess (above 1), number of reports, and duration of an episode.
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
    names = as_keys(by, *(table.columns() for table in StragglerResult.tables.values()))
    roles = {"time": time, "worker": worker}
    frame = open_frame(samples, keys=(*names, time, worker), measures={"value": value}, roles=roles)
    in_seconds = time.endswith("_s") or frame.collect_schema()[time].is_temporal()
    written = clock if in_seconds else f"{time} {{:,.12g}}".format
    frame = with_seconds(frame, time)
    keys = names or (_ALL,)
    if not names:
        as_keys((time, worker, value), (_ALL,))
        frame = frame.with_columns(nw.lit(0).alias(_ALL))
    parts, n_samples = list[Frames](), 0
    for part in read_parts(frame, keys, time, worker, value):
        n_samples += int(part.workers["n_samples"].to_numpy().sum())
        keep = n_samples <= RATIOS_KEPT
        parts.append(assemble(part, worker, rules, slow_level, written, with_ratios=keep))
    frames = {
        name: pl.concat([part[name] for part in parts]).select(*names, *table.columns())
        for name, table in StragglerResult.tables.items()
    }
    return StragglerResult(**frames)


def _check(rules: Rules, slow_level: float) -> None:
    for name, ratio in (("slow_level", slow_level), ("min_severity", rules.min_severity)):
        if not (is_number(ratio) and 1 < ratio <= LARGEST):
            raise DataError(f"{name} must be a ratio above 1, such as 1.1; it is {ratio!r}")
    lowest = {"evidence": _LEAST_EVIDENCE, "min_duration_s": 0, "min_reports": 1}
    for name, least in (lowest | {"max_gap_reports": 0}).items():
        number, whole = getattr(rules, name), name.endswith("reports")
        if not (is_number(number, whole=whole) and least <= number <= LARGEST):
            kind = "whole number" if whole else "number"
            raise DataError(f"{name} must be a {kind} and at least {least}; it is {number!r}")
