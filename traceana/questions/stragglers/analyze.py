"""Which workers explain why a job is slow, when all were slow, and a trace's results on workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana import simulate
from traceana.errors import DataError
from traceana.questions.stragglers.blocks import cut_jobs, over
from traceana.questions.stragglers.cov import (
    iteration_cov,
    match_cov_rows,
    summarize_cov_pooled,
    summarize_cov_series,
)
from traceana.questions.stragglers.detect import CANNOT_TELL, detect_stragglers
from traceana.questions.stragglers.tables import (
    AttributeGroups,
    AttributeResult,
    StragglerAttributes,
    StragglerResult,
)
from traceana.schema import get_table
from traceana.simulate.batching.tables import BatchingReplay
from traceana.stats.arguments import MOST_RESAMPLES, as_generator, check_count, is_number
from traceana.stats.arrays import Floats, Integers
from traceana.stats.quantiles import median_present
from traceana.stats.segments import deviating_ranks
from traceana.store import Trace
from traceana.store.frames import (
    Names,
    as_keys,
    collect,
    open_frame,
    reduce_frame,
    with_seconds,
)
from traceana.tables.declare import ResultTable, declared, schema_of

WORKER: Final = "worker"
_SAME: Final = 0.9  # an attribute whose group explains this fraction of the best one's is as good
_SHUFFLES: Final = 20
_BLOCKS: Final = 8
_CLEAR: Final = 0.01  # p of groups that differ, and, over all jobs, of a slow phase


def straggler_attributes(
    samples: IntoFrame,
    /,
    by: Names = ("job_id",),
    *,
    attributes: Names = (),
    time: str = "time_s",
    worker: str = "worker_id",
    value: str = "batch_time",
    min_explained: float = 0.5,
    resamples: int = 999,
    rng: int | np.random.Generator = 1,
) -> AttributeResult:
    """Find the attribute of workers that explains a job's slowdown.

    A step takes as long as its slowest worker. Of 16 steps or more, what lasts of the times counts
    for `explained`: in 8 blocks of steps, the median of each worker's ratio to the step's median.
    `systematic` is the fraction of the time above the median worker in these.

    For each group of an attribute, and each worker by itself, the times of its workers are reduced
    to the median of the others in the same step. The time gained, relative to what the job takes
    above the median worker, is the fraction of the slowdown that the group explains: the measures M
    of Lin et al., OSDI 2025, without the dependencies between operations. `explained_by_chance` is
    the largest of 20 shuffles of the times between the workers of each step, which take steps as
    independent. Of the attributes whose group explains at least `min_explained` more than that, and
    at least 90 % as much as the best one, the one with the smallest group explains the slowness
    (limits: :doc:`/explanation/straggler-attributes`).

    Parameters
    ----------
    samples, by, time, worker
        As in :func:`detect_stragglers`, with a row per worker and step.
    attributes
        Columns with the group of a worker, such as host, rack or pipeline stage. Null: no group.
    value
        Column of the time of a worker in a step, without waiting for others: compute time. Null
        and NaN are missing, and counted.
    min_explained
        Smallest fraction of the slowdown, beyond chance, that explains it; above 0, at most 1.
    resamples, rng
        Permutations of workers between groups for `pvalue`, a test of the variance between groups,
        and seed or generator of these and of the shuffles.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> step = {"job_id": "a", "step": [0] * 6, "rank": range(6), "stage": [0, 0, 1, 1, 2, 2]}
    >>> samples = pl.DataFrame(step | {"compute_s": [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]})
    >>> found = traceana.straggler_attributes(
    ...     samples, attributes="stage", time="step", worker="rank", value="compute_s"
    ... )
    >>> print(found)
    a: stage 2 explains 100 % of the slowdown; without it the job would take 50 % less time
    """
    if not (is_number(min_explained) and 0 < min_explained <= 1):
        raise DataError(f"min_explained must be above 0 and at most 1; it is {min_explained!r}")
    check_count("resamples", resamples, most=MOST_RESAMPLES)
    keys = as_keys(by, *(table.columns() for table in AttributeResult.tables.values()))
    names = as_keys(attributes, (WORKER,))
    if both := {*keys} & {*names}:
        raise DataError(f"by and attributes both name {', '.join(sorted(both))}; name it once")
    roles = {"time": time, "worker": worker}
    used = tuple(dict.fromkeys((*keys, time, worker, *names)))
    frame = open_frame(samples, keys=used, measures={"value": value}, roles=roles)
    frame, random = with_seconds(frame, time), as_generator(rng)
    rows_of_jobs: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    # a bounded number of whole jobs at a time
    for some in map(frame.filter, cut_jobs(frame, keys)) if keys else [frame]:
        rows = collect(some)
        with_value = rows.drop_nulls(value)
        if with_value.select(pl.struct(*keys, time, worker).is_duplicated().any()).item():
            raise DataError(f"a ({', '.join((*keys, time, worker))}) has several values of {value}")
        parts = rows.partition_by(keys, maintain_order=True, as_dict=True) if keys else {(): rows}
        for key, job in parts.items():
            of_job = dict(zip(keys, key, strict=True))
            mine, each = _of_job(job, names, (time, worker, value), resamples, random)
            _choose(mine, min_explained)
            rows_of_jobs += [of_job | row for row in mine]
            groups += [of_job | row for row in each]
    like = rows.select(keys).schema
    return AttributeResult(
        _frame(rows_of_jobs, StragglerAttributes, keys, like),
        _frame(groups, AttributeGroups, keys, like),
    )


def _frame(
    rows: list[dict[str, Any]], table: type[ResultTable], keys: tuple[str, ...], like: pl.Schema
) -> pl.DataFrame:
    frame = pl.DataFrame(rows, {key: like[key] for key in keys} | schema_of(table)).fill_nan(None)
    return declared(frame.sort(keys, nulls_last=True, maintain_order=True), table, by=keys)


def _of_job(
    job: pl.DataFrame,
    names: tuple[str, ...],
    roles: tuple[str, str, str],
    resamples: int,
    rng: np.random.Generator,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    time, worker, value = roles
    rows = job.drop_nulls((time, worker, value))
    # a step with one worker has no others
    rows = rows.filter(pl.len().over(time) > 1)
    if rows.is_empty():
        note = "no step has two workers"
        missing = {"n_missing": job[value].null_count(), "note": note, "explains": False}
        return [{"attribute": name, **missing} for name in (WORKER, *names)], []
    step, at = (rows[name].rank("dense").to_numpy().astype(np.int64) - 1 for name in (time, worker))
    times = np.full((step.max() + 1, at.max() + 1), np.nan)
    times[step, at] = rows[value].to_numpy()
    steady = _systematic(times)
    of_job, lasting = _time_lost(times, steady)
    steady_middle = median_present(steady)
    ratios = steady[steady_middle > 0] / steady_middle[steady_middle > 0, None]
    n_ratios = np.count_nonzero(~np.isnan(ratios), axis=0).astype(float)
    level = over(np.nansum(ratios, axis=0), n_ratios)  # of each worker

    def part_of(gain: float) -> float | None:
        return gain / lasting if lasting > 0 else None

    of_attributes, groups = [], []
    for name in (WORKER, *names):
        labels, of_row = _codes_of(rows[worker if name == WORKER else name])
        codes = np.full(times.shape, -1)
        codes[step, at] = of_row
        of_blocks = np.stack([block.max(axis=0) for block in _blocks(codes)])
        each = [_of_group(times, codes, code, label) for code, label in enumerate(labels)]
        for code, group in enumerate(each):
            group |= {"attribute": name, "explained": part_of(_gain(steady, of_blocks, code))}
        groups += each
        n_missing = job[value].null_count() + int(np.count_nonzero(of_row < 0))
        row = of_job | {"attribute": name, "n_groups": len(labels), "n_missing": n_missing}
        if each:
            best = max(each, key=lambda group: group["gain"] or 0)
            row |= {key: best[key] for key in ("group", "n_workers", "gain", "explained")}
            row["without"] = None if best["gain"] is None else of_job["job"] * (1 - best["gain"])
            by_chance = _by_chance(times, of_blocks, each.index(best), rng)
            row["explained_by_chance"] = part_of(by_chance)
        between = _between(level, np.max(codes, axis=0), resamples, rng)
        if name != WORKER:
            row |= zip(("variance_explained", "pvalue"), between, strict=True)
        of_attributes.append(row)
    return of_attributes, groups


def _time_lost(times: Floats, steady: Floats) -> tuple[dict[str, Any], float]:
    """Return the time of a job and what is above its median worker, and how much of that lasts."""
    (total, middle), (slowest, usual) = (
        (float(np.nanmax(x, axis=1).mean()), float(median_present(x).mean()))
        for x in (times, steady)
    )
    is_known = steady is not times and total > middle
    row: dict[str, Any] = {
        "job": total,
        "slowdown": total / middle if middle > 0 else None,
        "systematic": min((slowest - usual) / (total - middle), 1) if is_known else None,
        "n_steps": times.shape[0],
        "explains": False,
    }
    return row, slowest - usual


def _codes_of(column: pl.Series) -> tuple[pl.Series, Integers]:
    """Return the groups of an attribute as sorted text, and the group of each row; -1 for none."""
    text = column.dt.to_string() if column.dtype == pl.Duration else column.cast(pl.String)
    labels = text.drop_nulls().unique().sort()
    codes = text.replace_strict(labels, range(len(labels)), default=-1, return_dtype=pl.Int64)
    return labels, codes.to_numpy()


def _blocks(values: NDArray[Any]) -> list[NDArray[Any]]:
    """Cut steps into blocks of consecutive ones, or take each step if there are few."""
    n = len(values)
    return np.array_split(values, _BLOCKS if n >= 2 * _BLOCKS else n)


def _systematic(times: Floats) -> Floats:
    """Return what lasts of the times (block, worker): median ratio times the mean median."""
    if len(times) < 2 * _BLOCKS:  # too few steps
        return times
    systematic = []
    for block in _blocks(times):
        middle = median_present(block)
        ratio = over(block, middle[:, None])
        systematic.append(median_present(np.ascontiguousarray(ratio.T)) * middle.mean())
    steady: Floats = np.stack(systematic)
    shared: Floats = steady[np.count_nonzero(~np.isnan(steady), axis=1) > 1]
    return shared


def _of_group(times: Floats, codes: Integers, code: int, label: str) -> dict[str, Any]:
    gained, total = _gain(times, codes, code), float(np.nanmax(times, axis=1).mean())
    in_group, present = codes == code, ~np.isnan(times)
    inside, outside = times[in_group & present], times[~in_group & present]
    comparable = len(inside) and len(outside) and outside.mean()
    return {
        "group": label,
        "n_workers": int(in_group.any(axis=0).sum()),
        "ratio_to_others": float(inside.mean() / outside.mean()) if comparable else None,
        "gain": gained / total if total else None,
    }


def _gain(times: Floats, codes: Integers, code: int) -> float:
    """Return the mean time gained if a group were as fast as the others."""
    steps = codes[np.arange(len(times)), np.nanargmax(times, axis=1)] == code
    in_group, here = codes[steps] == code, times[steps]
    others = np.where(in_group, np.nan, here)
    compared = ~np.isnan(others).all(axis=1)
    if not compared.any():
        return 0.0
    in_group, here, others = in_group[compared], here[compared], others[compared]
    as_fast = np.minimum(here, median_present(others)[:, None])
    without = np.nanmax(np.where(in_group, as_fast, here), axis=1)
    return float((np.nanmax(here, axis=1) - without).sum()) / len(times)


def _by_chance(times: Floats, codes: Integers, code: int, rng: np.random.Generator) -> float:
    """Return the largest gain of a group if times are shuffled between the workers of each step."""
    gains = []
    for _ in range(_SHUFFLES):
        order = rng.permuted(np.tile(np.arange(times.shape[1]), (len(times), 1)), axis=1)
        shuffled = np.take_along_axis(times, order, axis=1)
        gains.append(_gain(_systematic(shuffled), codes, code))
    return max(gains)


def _between(
    level: Floats, codes: Integers, resamples: int, rng: np.random.Generator
) -> tuple[float | None, float | None]:
    """Return the fraction of variance between groups, and the p-value of a permutation test."""
    in_some = (codes >= 0) & np.isfinite(level)
    level, codes = level[in_some], codes[in_some]
    level = level - level.mean() if in_some.any() else level
    sizes = np.bincount(codes)
    total = float((level**2).sum())
    if np.count_nonzero(sizes) < 2 or np.count_nonzero(sizes) == len(codes) or not total:
        return None, None

    def between(values: Floats) -> float:
        sums = np.bincount(codes, weights=values)
        return float((sums[sizes > 0] ** 2 / sizes[sizes > 0]).sum())

    observed = between(level)
    as_large = sum(
        between(rng.permutation(level)) >= observed * (1 - 1e-9) for _ in range(resamples)
    )
    return observed / total, (1 + as_large) / (1 + resamples)


def _choose(rows: list[dict[str, Any]], min_explained: float) -> None:
    """Mark the attribute with the smallest group among those that explain most."""
    if "note" in rows[0]:
        return
    beyond = [(row.get("explained") or 0) - (row.get("explained_by_chance") or 0) for row in rows]
    best = max(beyond)
    if best < min_explained:
        for row in rows:
            row["note"] = "no group explains enough of the slowdown"
            pvalue, explained = row.get("pvalue"), row.get("explained")
            of_one = rows[0].get("explained") or 0  # a worker that is slow alone is not its group
            if pvalue and pvalue <= _CLEAR and explained and of_one < _SAME * explained:
                row["note"] = (
                    f"its groups differ (p = {pvalue:.2g}); the slowest explains "
                    f"{100 * explained:.0f} % of what lasts"
                )
        return
    as_good = max(min_explained, _SAME * best)
    good = [row for row, pvalue in zip(rows, beyond, strict=True) if pvalue >= as_good]
    min(good, key=lambda row: row["n_workers"])["explains"] = True


JOB_ORDER: Final = (pl.col("job_id").str.len_chars(), pl.col("job_id"))  # sorts job_2 before job_10
PIPELINE: Final = {"operations": ("dp_rank", "stage")}
"""What a trace of pipelines has. Its micro-batches pass all stages, so that times per worker do not
add up to a slowdown: the section on operations replays them."""


_UNIX_S: Final = 631_152_000  # 1990
"""Times from here on are Unix times."""


def clock(trace: Trace, table: str = "worker_samples", /) -> str:
    """Return the time column of a table: time_s; its step where workers log the same; or sample."""
    manifest = trace.manifest
    if table == "worker_samples" and manifest.has(table, ("time_s", "step")):
        return "step" if trace.once(_shares_steps) else "time_s"
    if manifest.has(table, ("time_s",)):
        return "time_s"
    return "step" if table == "worker_samples" else "sample"


def _shares_steps(trace: Trace, /) -> bool:
    """Return whether most times are of one worker, and each has a row per step."""
    counts = trace.scan("worker_samples").select(
        pl.len(),
        pl.col("step").null_count().alias("missing"),
        pl.struct("job_id", "time_s").n_unique().alias("times"),
        pl.struct("job_id", "worker_id", "step").n_unique().alias("steps"),
    )
    n, missing, times, steps = counts.collect().row(0)
    return not missing and times > n / 2 and steps == n


def batch_time_unit(trace: Trace, /) -> str:
    """Return the unit of the mini-batch times of a trace: ``s`` or ``relative``."""
    return trace.manifest.tables["worker_samples"].units.get("batch_time", "s")


def worker_rows(trace: Trace, /) -> nw.LazyFrame[Any]:
    """Return the samples that have a time: [job_id, worker_id, time, batch_time]."""
    time = clock(trace)
    rows = trace.rows("worker_samples").drop_nulls(time)
    if time == "time_s":
        at = nw.col(time)
        first = at.min().over("job_id")  # Unix times become seconds since it
        rows = rows.with_columns(at - nw.when(first >= _UNIX_S).then(first).otherwise(0))
    return rows.select("job_id", "worker_id", time, "batch_time")


def worker_samples(trace: Trace, /, *jobs: str) -> pl.DataFrame:
    """Return the rows of :func:`worker_rows`, or those of some jobs, sorted by job."""
    rows = worker_rows(trace)
    if jobs:
        rows = rows.filter(nw.col("job_id").is_in(jobs))
    local = trace.local(rows.to_native(), "worker_samples")
    return local.sort(*JOB_ORDER, maintain_order=True).collect()


def cov_samples(trace: Trace, /) -> pl.DataFrame:
    """Return the published CoVs of a trace that have a time: [job_id, time, cov]."""
    time = clock(trace, "cov_samples")
    rows = trace.rows("cov_samples").drop_nulls(time).select("job_id", time, "cov")
    return trace.local(rows.to_native(), "cov_samples").collect()


def cov_by_job(trace: Trace, /) -> pl.DataFrame:
    """Return the distribution of each job's CoV across workers, for ddof 0 and 1."""
    time, samples, parts = clock(trace), worker_rows(trace).to_native(), []
    for ddof in (0, 1):
        cov = iteration_cov(samples, ddof=ddof, time=time)
        parts.append(summarize_cov_series(cov, time=time).with_columns(ddof=pl.lit(ddof)))
    return pl.concat(parts).sort(*JOB_ORDER, "ddof")


def published_cov(trace: Trace, /) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the distribution of the published CoV of each job, and of all jobs together."""
    cov, time = cov_samples(trace), clock(trace, "cov_samples")
    cut_at = trace.manifest.tables["cov_samples"].cut_at_s if time == "time_s" else None
    return (
        summarize_cov_series(cov, time=time, cut_at=cut_at),
        summarize_cov_pooled(cov, time=time, cut_at=cut_at),
    )


def cov_matches(trace: Trace, /) -> pl.DataFrame:
    """Return the rows of a trace's CoV table that its jobs match best."""
    return match_cov_rows(worker_samples(trace), trace.scan("cov_samples"), time=clock(trace))


def stragglers(trace: Trace, /) -> StragglerResult:
    """Return the stragglers of a trace's jobs."""
    return detect_stragglers(worker_rows(trace).to_native(), time=clock(trace))


def synchronized(trace: Trace, /) -> pl.DataFrame:
    """Return [job_id] of the jobs whose times include synchronization, which hide stragglers."""
    return trace.once(stragglers).jobs.filter(note=CANNOT_TELL).select("job_id")


def attribute_columns(trace: Trace, /) -> tuple[str, ...]:
    """Return the columns of the worker samples that group workers: host, and texts kept along."""
    types = trace.scan("worker_samples").collect_schema()
    declared = set(get_table("worker_samples").column_names()) - {"host"}
    kept = [name for name, kind in types.items() if kind == pl.String and name not in declared]
    counts = {name: nw.col(name).n_unique() for name in kept}
    if not kept:
        return ()
    table = reduce_frame(trace.rows("worker_samples"), (), **counts)
    return tuple(name for name in kept if table[name].item() > 1)


def attributes_of_jobs(trace: Trace, /) -> AttributeResult:
    """Return what explains the slowness of a trace's jobs."""
    time, names = clock(trace), attribute_columns(trace)
    rows = trace.rows("worker_samples").drop_nulls(time)
    rows = rows.filter(~nw.col("job_id").is_in(synchronized(trace)["job_id"].to_list()))
    return straggler_attributes(rows.to_native(), attributes=names, time=time)


def batching_replay(trace: Trace, /) -> BatchingReplay | str:
    """Return the jobs of a trace replayed under batch-size controllers, or why none can be."""
    samples = worker_samples(trace).join(synchronized(trace), on="job_id", how="anti")
    if samples.is_empty():
        return CANNOT_TELL
    try:
        return simulate.replay_batching(
            samples, episodes=trace.once(stragglers).episodes, time=clock(trace)
        )
    except DataError as error:
        return str(error)


def job_times(trace: Trace, /) -> Iterator[tuple[str, pl.Series, Floats]]:
    """Yield each job's steps and its times (step, worker)."""
    time = clock(trace)
    for (job,), rows in worker_samples(trace).group_by("job_id", maintain_order=True):
        wide = rows.pivot("worker_id", index=time, values="batch_time", aggregate_function="first")
        wide = wide.sort(time)
        yield str(job), wide[time], wide.drop(time).to_numpy().astype(np.float64)


def oracle_by_noise(trace: Trace, /) -> dict[str, float]:
    """Return the oracle's speedup of each job if its workers were alike, apart from their noise."""
    ratios, rng = {}, np.random.default_rng(1)
    for job, steps, measured in job_times(trace):
        times = measured[~np.isnan(measured).any(axis=1)]
        if times.shape[1] < 2 or not times.size or times.min() <= 0:
            continue
        # each worker's times over their median, in a random order
        noise = rng.permuted(times / np.median(times, axis=0), axis=0)
        best = times.shape[1] / (1 / noise).sum(axis=1)
        slowest = noise.max(axis=1)
        weight = 1 / slowest if steps.name == "time_s" else np.ones(len(best))
        ratios[job] = float(weight @ slowest / (weight @ best))
    return ratios


def _compute_times(trace: Trace) -> Iterator[tuple[str, pl.Series, Floats]]:
    """Yield the steps of two workers or more, and their times, of jobs that show stragglers."""
    hidden = {*synchronized(trace)["job_id"]}
    for job, steps, times in job_times(trace):
        if job not in hidden:
            several = np.count_nonzero(~np.isnan(times), axis=1) > 1
            yield job, steps.filter(pl.Series(several)), times[several]


_BINS: Final = 100
_SLOW: Final = 1.05  # ratio of a slow phase to the other steps
_ALL: Final = 0.9  # fraction of the workers of a slow phase
_STALL: Final = 2.0
_FEWEST, _MOST = 5, 0.05
"""Ratio to a worker's median time in a stall; number of stalls, and their fraction of the steps."""
_LEAST_COST: Final = 0.01  # fraction of a job's time of a stall that does not recur
_REGULAR: Final = 0.05  # range of the steps between regular stalls, over their median


def slow_phases(trace: Trace, /) -> list[dict[str, Any]]:
    """Return the slow phase of each job that has one, the most costly first.

    The median worker's time of 100 equal bins of steps has a segment that differs from the rest
    (:func:`~traceana.stats.segments.deviating_ranks`, p below 0.01 times the number of jobs) and is
    slower by 5 %; nine tenths of the workers are slower in it by at least half as much.
    Of 40 jobs of 300 steps whose workers share an AR(1) process of 3 % at r = 0, 0.5, 0.9 and 0.97,
    0, 0, 0 and 4 have one.
    """
    phases, jobs = [], [*_compute_times(trace)]
    for job, steps, times in jobs:
        phase = _slow_phase(times, len(jobs))
        if phase is not None:
            first, last = steps[[phase["first"], phase["last"]]]
            phases.append(phase | {"job_id": job, "first": first, "last": last})
    return sorted(phases, key=lambda phase: -float(phase["cost"]))


def common_stalls(trace: Trace, /) -> list[dict[str, Any]]:
    """Return the stalls of each job that has some, the most costly first.

    In a step with a stall nine tenths of the workers take more than twice their median time. There
    are five such steps or more, and at most a twentieth of all; a slow phase has more. Fewer, or
    steps in a row, count after the beginning if they take a hundredth of the job's time.
    """
    stalls = []
    for job, steps, times in _compute_times(trace):
        slow = (times > _STALL * median_present(times.T)).sum(axis=1)
        is_stall = slow >= _ALL * np.count_nonzero(~np.isnan(times), axis=1)
        places = np.flatnonzero(is_stall)
        if not 0 < len(places) <= _MOST * len(times):
            continue
        at = steps.to_numpy()[places]
        slowest, apart = np.nanmax(times, axis=1), np.diff(at) if at.size > 1 else np.zeros(1)
        usual = float(np.median(slowest[~is_stall]))
        row = {"job_id": job, "n": len(places), "n_steps": len(times), "apart": np.median(apart)}
        row |= {"first": at[0], "last": at[-1]}
        row["is_regular"] = bool(np.ptp(apart) <= _REGULAR * np.median(apart))
        row["ratio"] = float(np.median(slowest[places])) / usual
        cost = row["cost"] = float((slowest[places] - usual).sum() / slowest.sum())
        recurs = len(places) >= _FEWEST and np.median(np.diff(places)) > 1
        row["once"] = not recurs
        is_late = _MOST * len(times) < places[0]  # later than a slow start
        if recurs or (is_late and len(places) <= len(times) / _BINS and cost >= _LEAST_COST):
            stalls.append(row)
    return sorted(stalls, key=lambda row: -float(row["cost"]))


def _slow_phase(times: Floats, jobs: int) -> dict[str, Any] | None:
    """Return the slow phase of a job's times (step, worker), if it has one."""
    middle = median_present(times)
    if len(middle) < 2 * _BINS:
        return None
    width = len(middle) // _BINS
    bins = median_present(middle[: _BINS * width].reshape(_BINS, width))
    # a difference that is not stated, as of a few slow workers, is none
    segment = deviating_ranks(np.maximum(bins, np.quantile(bins, 0.25) * (1 + _SLOW) / 2))
    if segment.pvalue * jobs >= _CLEAR:
        return None
    inside = np.zeros(_BINS, bool)
    inside[segment.first : segment.after] = True
    if segment.after == _BINS and np.median(bins[inside]) < np.median(bins[~inside]):
        inside = ~inside  # slow from the start
    usual, slow = np.median(bins[~inside]), np.median(bins[inside])
    if slow < _SLOW * usual:
        return None
    # the steps next to the bins, above the mean of both levels
    low, high = np.flatnonzero(inside)[[0, -1]]
    begin, end = max(low - 1, 0) * width, min(high + 2, _BINS) * width
    above = np.sign(middle[begin:end] - (usual + slow) / 2)
    sums = np.concatenate([[0.0], np.cumsum(above)])
    last = int(np.argmax(sums - np.minimum.accumulate(sums)))
    first = int(np.argmin(sums[:last]))
    phase = slice(begin + first, begin + last)
    rest = np.delete(times, phase, axis=0)
    ratios = median_present(times[phase].T) / median_present(rest.T)
    ratio = float(np.median(middle[phase]) / np.median(np.delete(middle, phase)))
    ratios = ratios[~np.isnan(ratios)]
    n_slow = int(np.count_nonzero(ratios > 1 + (ratio - 1) / 2))
    if n_slow < _ALL * len(ratios):
        return None
    slowest = np.nanmax(times, axis=1)
    return {
        "first": phase.start,
        "last": phase.stop - 1,
        "ratio": ratio,
        "n_workers": len(ratios),
        "n_slow": n_slow,
        "cost": float(slowest[phase].sum() * (1 - 1 / ratio) / slowest.sum()),
        "pvalue": segment.pvalue,
    }
