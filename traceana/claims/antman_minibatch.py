"""Mini-batch time of workers (AntMan, OSDI'20): the CoV table and four jobs' worker times."""

from __future__ import annotations

from math import sqrt
from typing import Final

import polars as pl

from traceana.claims.claim import Claim, Judgement, decide, span, untested
from traceana.errors import DataError
from traceana.questions.stragglers.analyze import cov_matches, stragglers, worker_samples
from traceana.questions.stragglers.cov import summarize_cov
from traceana.store import Store, Trace

_TRACE: Final = "alibaba-minibatch-2020"
_COV: Final = (_TRACE, "cov_samples")
_WORKERS: Final = 10
_IS_ROW: Final = 0.99
_TICK_S: Final = 10


def _files(trace: Trace) -> pl.DataFrame:
    time = pl.col("batch_time")
    jobs = trace.scan("worker_samples").group_by("job_id")
    return (
        jobs.agg(
            workers=pl.col("worker_id").n_unique(),
            gpus=pl.col("gpus").drop_nulls().unique().sort(),
            first_s=pl.col("time_s").min(),
            last_s=pl.col("time_s").max(),
            smallest=time.min(),
            largest=time.max(),
        )
        .sort("job_id")
        .collect()
    )


def _own_range(store: Store, job: str) -> float:
    """Return the largest ratio of a worker's own 95 % to its 5 % quantile."""
    high, low = (pl.col("batch_time").quantile(q, "linear") for q in (0.95, 0.05))
    rows = store.trace(_TRACE).scan("worker_samples").filter(job_id=job)
    return span(rows.group_by("worker_id").agg(own=high / low).collect()["own"])[1]


def _rows_of_table(store: Store) -> pl.DataFrame:
    matches = store.trace(_TRACE).once(cov_matches)
    rows = matches.filter(pl.col("fraction_within_rounding") > _IS_ROW)
    if rows.is_empty():
        raise DataError("no job file is a row of the table, with either deviation")
    return rows


def antman_cov_definition(store: Store, _claim: Claim) -> Judgement:
    """Find the deviation with which job files are rows of the table."""
    matches, rows = store.trace(_TRACE).once(cov_matches), _rows_of_table(store)
    above = store.scan(*_COV).filter(pl.col("cov") > sqrt(_WORKERS - 1)).collect().height
    jobs = rows["job_id"].unique().sort().to_list()
    parts = []
    for ddof, name in ((1, "sample"), (0, "population")):
        same = matches.filter(pl.col("job_id").is_in(jobs), pl.col("ddof") == ddof)
        within = (same["fraction_within_rounding"] * same["overlap"]).round().sum()
        parts.append(f"{within:,.0f} of {same['overlap'].sum():,} by the {name} deviation")
    return decide(
        holds=not rows["ddof"].sum() and not above,
        measured=f"{', '.join(jobs)} are rows of the table to within rounding at "
        f"{', '.join(parts)}; {above:,} CoVs above {sqrt(_WORKERS - 1):g}, the largest of "
        f"{_WORKERS} values with the population deviation",
        evidence=matches,
    )


def antman_iterations(store: Store, _claim: Claim) -> Judgement:
    """Compare the columns of the table with the ticks of job files."""
    rows = _rows_of_table(store)
    of_rows = worker_samples(store.trace(_TRACE)).filter(
        pl.col("job_id").is_in(rows["job_id"].unique().implode())
    )
    ticks = of_rows.select("job_id", "time_s").unique().sort("job_id", "time_s")
    steps = ticks.select(pl.col("time_s").diff().over("job_id")).drop_nulls()["time_s"]
    held = (
        of_rows.sort("job_id", "worker_id", "time_s")
        .select((pl.col("batch_time").diff() == 0).over("job_id", "worker_id"))["batch_time"]
        .drop_nulls()
    )
    regular = (steps == _TICK_S).sum()
    return decide(
        holds=regular < _IS_ROW * len(steps),
        measured=f"the columns of {', '.join(rows['job_id'].unique().sort())} are consecutive "
        f"samples, {_TICK_S} s apart at {regular:,} of {len(steps):,}; "
        f"{100 * held.sum() / len(held):.0f} % of a worker's values repeat its previous sample",
        evidence=rows,
    )


def job(store: Store, claim: Claim) -> Judgement:
    """Check a job file: its GPU request, then what is stated of its workers."""
    name = claim.values["job"]
    file = store.trace(_TRACE).once(_files).filter(job_id=name)
    if file.is_empty():
        return untested(f"{name} is not among the jobs of {claim.needs[0]}")
    episodes = store.trace(_TRACE).once(stragglers).episodes.filter(job_id=name)
    holds, measured = _JOBS[name](store, file, episodes)
    request = file["gpus"].item().to_list()
    printed = ", ".join(f"{100 * each:g} %" for each in request)
    return decide(
        holds=holds and request == [claim.values["gpus"]],
        measured=f"GPU request {printed}; {measured}",
        evidence=episodes,
    )


def _job1(_store: Store, file: pl.DataFrame, episodes: pl.DataFrame) -> tuple[bool, str]:
    first, last = file.select("first_s", "last_s").row(0)
    onset = ((episodes["onset_s"] - first) / (last - first)).to_list()
    parts = [
        f"worker {worker} from {100 * at:.0f} % of the job on, {severity:.2f} times its usual"
        for worker, severity, at in zip(
            episodes["worker_id"], episodes["severity"], onset, strict=True
        )
    ]
    holds = episodes["worker_id"].to_list() == ["6"] and 0.25 <= onset[0] <= 0.75
    return holds, f"episodes: {'; '.join(parts) or 'none'}"


def _job2(store: Store, _file: pl.DataFrame, episodes: pl.DataFrame) -> tuple[bool, str]:
    low, high = span(store.trace(_TRACE).once(stragglers).levels.filter(job_id="job_2")["median"])
    covs = _own_range(store, "job_2")
    return episodes.is_empty() and high / low > covs, (
        f"{episodes.height} episodes; workers' medians differ by a factor of {high / low:.2f}, a "
        f"worker's own 95 % and 5 % quantiles by {covs:.2f} at most"
    )


def _job3(store: Store, file: pl.DataFrame, episodes: pl.DataFrame) -> tuple[bool, str]:
    levels = store.trace(_TRACE).once(stragglers).levels.filter(job_id=file["job_id"].item())
    slow = levels.filter("is_slow")["worker_id"]
    workers = episodes["worker_id"].unique()
    return len(set(slow) | set(workers)) >= 2, (
        f"{episodes.height} episodes of {len(workers)} workers, {len(slow)} persistent stragglers"
    )


def _job4(store: Store, file: pl.DataFrame, episodes: pl.DataFrame) -> tuple[bool, str]:
    holds, measured = _job3(store, file, episodes)
    cov = _own_range(store, "job_4")
    return holds and cov >= 2, (
        f"{measured}; a worker's own 95 % and 5 % quantiles differ by a factor of {cov:.2f} at most"
    )


_JOBS: Final = {"job_1": _job1, "job_2": _job2, "job_3": _job3, "job_4": _job4}


def _covs(trace: Trace) -> pl.DataFrame:
    return summarize_cov(trace.scan("cov_samples"))


FRAMES: Final = {"covs": (_covs,), "files": (_files,)}
"""Analyses of a trace that queries read as tables."""
