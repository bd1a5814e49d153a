"""Results on worker samples shared by claims and sections."""

from __future__ import annotations

from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana import simulate
from traceana.errors import DataError
from traceana.questions.stragglers.attributes import (
    straggler_attributes as compute_straggler_attributes,
)
from traceana.questions.stragglers.cov import (
    iteration_cov,
    match_cov_rows,
    summarize_cov_pooled,
    summarize_cov_series,
)
from traceana.questions.stragglers.detect import CANNOT_TELL, detect_stragglers
from traceana.questions.stragglers.tables import AttributeResult, StragglerResult
from traceana.schema import get_table
from traceana.simulate.batching.tables import BatchingReplay
from traceana.store import Trace
from traceana.store.frames import reduce_frame

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
    time, samples = clock(trace), worker_rows(trace).to_native()
    covs = {ddof: iteration_cov(samples, ddof=ddof, time=time) for ddof in (0, 1)}
    parts = (
        summarize_cov_series(cov, time=time).with_columns(ddof=pl.lit(ddof))
        for ddof, cov in covs.items()
    )
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
    samples = worker_rows(trace).to_native()
    return detect_stragglers(samples, time=clock(trace))


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


def straggler_attributes(trace: Trace, /) -> AttributeResult:
    """Return what explains the slowness of a trace's jobs."""
    time, names = clock(trace), attribute_columns(trace)
    rows = trace.rows("worker_samples").drop_nulls(time)
    rows = rows.filter(~nw.col("job_id").is_in(synchronized(trace)["job_id"].to_list()))
    return compute_straggler_attributes(rows.to_native(), attributes=names, time=time)


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


def oracle_by_noise(trace: Trace, /) -> dict[str, float]:
    """Return the oracle's speedup of each job if its workers were alike, apart from their noise."""
    ratios, rng, time = {}, np.random.default_rng(1), clock(trace)
    for (job,), rows in worker_samples(trace).group_by("job_id", maintain_order=True):
        wide = rows.pivot(
            "worker_id", index=time, values="batch_time", aggregate_function="first"
        ).drop_nulls()
        times = wide.drop(time).to_numpy().astype(float)
        if times.shape[1] < 2 or not times.size or times.min() <= 0:
            continue
        # each worker's times over their median, in a random order
        times = rng.permuted(times / np.median(times, axis=0), axis=0)
        best = times.shape[1] / (1 / times).sum(axis=1)
        slowest = times.max(axis=1)
        weight = 1 / slowest if time == "time_s" else np.ones(len(best))
        ratios[str(job)] = float(weight @ slowest / (weight @ best))
    return ratios
