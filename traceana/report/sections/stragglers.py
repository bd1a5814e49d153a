"""Which workers held their jobs up, when, and what that cost."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis import detect_stragglers
from traceana.derived.workers import stragglers
from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Gallery,
    Table,
    Text,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.straggler_maps import IN_ORDER, TRACE, draw_jobs
from traceana.results.formatting import count, plain, plural, ratio, share, share_range

if TYPE_CHECKING:
    from traceana.analysis import StragglerResult
    from traceana.report.context import Context

_JOBS = [
    words("Job", "job_id"),
    Column("Workers", "n_workers", count),
    Column("Slowdown", "slowdown", ratio),
    Column("By the median", "slowdown_median", ratio),
    Column("Episodes", "n_episodes", count),
    Column("Most at once", "max_at_once", count),
    Column("Slow all along", "n_slow_workers", count),
    Column("Without episodes", "slowdown_without_episodes", ratio),
    Column("Without either", "slowdown_without_either", ratio),
    Column("Episodes account for", "episodes_share", share),
    Column("Levels account for", "levels_share", share),
]
_EPISODES = [
    words("Job", "job_id"),
    words("Worker", "worker_id"),
    Column("Onset (s)", "onset_s", count),
    Column("End (s)", "end_s", count),
    Column("Duration (s)", "duration_s", count),
    Column("Samples", "n_samples", count),
    Column("Reports", "n_reports", count),
    Column("Severity", "severity", ratio),
    Column("Excess", "excess", ratio),
    Column("Ratio to peers", "ratio_to_peers", ratio),
    Column("At once", "n_at_once", count),
]
_LEVELS = [
    words("Job", "job_id"),
    words("Worker", "worker_id"),
    Column("Samples", "n_samples", count),
    Column("Median", "median", plain),
    Column("Ratio to peers", "ratio_to_peers", ratio),
    Column("Episodes", "n_episodes", count),
    Column("Waited for", "lost_share", share),
]


def build(session: Context) -> Content:
    """Slowdown by job, episodes, levels, and a map of each job."""
    if not session.has(TRACE, "worker_samples"):
        what = "Stragglers and what they cost"
        return Content((), (session.absent(TRACE, "worker_samples", what=what),))
    samples = session.scan(TRACE, "worker_samples").collect()
    result = session.once(stragglers, TRACE)
    jobs = result.jobs.sort(IN_ORDER)
    name = session.title(TRACE)
    blocks: list[Block] = [
        Text(_definitions()),
        Text(
            "Slowdown is the sum over ticks of the slowest worker's time over the sum of the "
            "workers' mean (by the median: of their median), which is what a synchronous job "
            "pays for waiting. A job is run again without its episodes (their samples at the "
            "peers' median), then also with every worker that is slower than its peers, however "
            "little, brought to their level. What of (slowdown - 1) goes with each is what "
            "they account for; the rest is variation from tick to tick."
        ),
        make_table(jobs, _JOBS, caption=f"What the slowest workers cost, by job. {name}"),
        Gallery(tuple(draw_jobs(samples, result))),
        _episodes(result, name),
        *_levels(result, name),
    ]
    return Content((f"{name}: {_finding(jobs)}",), tuple(blocks), f"{name}: {_headline(jobs)}")


def _definitions() -> str:
    """Say what a level and an episode are, with the thresholds that are the defaults."""
    parameters = inspect.signature(detect_stragglers).parameters.items()
    rule = {name: parameter.default for name, parameter in parameters}
    return (
        f"A worker is slow all along (its level) where its median is above {rule['slow_level']:g} "
        "times the median of the other workers' medians. An episode is a stretch of at least "
        f"{plural(rule['min_reports'], 'report')} (equal values in a row are one report, held) in "
        f"which a worker takes at least {rule['min_severity']:g} times as long as it usually does "
        "(severity) and as much longer than a slow-down of its peers would explain (excess), and "
        f"which is e^{rule['evidence']:g} times as likely under slowness as under the noise of "
        f"its own reports; at most {plural(rule['max_gap_reports'], 'calm report')} in a row may "
        "lie within it."
    )


def _episodes(result: StragglerResult, name: str) -> Block:
    if result.episodes.is_empty():
        return Text("No episode was found.")
    rows = result.episodes.sort(*IN_ORDER, "onset_s", "worker_id")
    return make_table(rows, _EPISODES, caption=f"Episodes. {name}")


def _levels(result: StragglerResult, name: str) -> list[Block]:
    rows = result.levels.sort(*IN_ORDER, "ratio_to_peers", descending=[False, False, True])
    slow = rows.filter("is_slow")
    others = rows.filter(pl.col("is_slow").not_() | pl.col("is_slow").is_null())
    reading = (
        "Waited for: of the job's time lost to waiting, the part at ticks where the worker is the "
        "slowest."
    )
    tables: list[Table] = []
    if not slow.is_empty():
        tables.append(
            make_table(slow, _LEVELS, caption=f"Workers slow all along. {reading} {name}")
        )
    if not others.is_empty():
        caption = f"Levels of the other workers. {reading} {name}"
        tables.append(make_table(others, _LEVELS, caption=caption, folded=True))
    return [*([Text("No worker is slow all along.")] if slow.is_empty() else []), *tables]


def _headline(jobs: pl.DataFrame) -> str:
    hit = jobs.filter((pl.col("n_episodes") > 0) | (pl.col("n_slow_workers") > 0)).height
    told = f"{hit} of {plural(jobs.height, 'job')} had stragglers"
    cost = jobs.filter(pl.col("slowdown").is_not_null()).sort("slowdown")["slowdown"].to_list()
    if not cost:
        return f"{told}."
    span = share_range(cost[0] - 1, cost[-1] - 1) if len(cost) > 1 else share(cost[0] - 1)
    return (
        f"{told}. Waiting for the slowest worker at each tick makes a job {span} longer than its "
        "mean worker needs."
    )


def _finding(jobs: pl.DataFrame) -> str:
    told = [f"{jobs.filter(pl.col('n_episodes') > 0).height} of {plural(jobs.height, 'job')} had "]
    told.append("straggler episodes")
    calm = jobs.filter(n_episodes=0)["job_id"].to_list()
    if 0 < len(calm) < min(jobs.height, 4):
        told.append(f" (none in {' and '.join(calm)})")
    slow = jobs.filter(pl.col("n_slow_workers") > 0)
    told.append(
        f", {slow.height} had workers that were slow all along. "
        if slow.height
        else ", and in none was a worker slow all along. "
    )
    by_cost = jobs.filter(pl.col("slowdown").is_not_null()).sort("slowdown").rows(named=True)
    if by_cost:
        told.append("A synchronous job waits at each tick for its slowest worker: that made ")
        told.append(_cost(by_cost[-1]))
    if len(by_cost) > 1:
        told.append(f"; least in {_cost(by_cost[0])}")
    return "".join(told) + ("." if by_cost else "")


def _cost(job: dict[str, float]) -> str:
    told = (
        f"{job['job_id']} {share(job['slowdown'] - 1)} longer than its mean worker needs "
        f"(slowdown {ratio(job['slowdown'])})"
    )
    if None in (job["episodes_share"], job["levels_share"]):
        return told
    return (
        f"{told}, of which episodes account for {share(job['episodes_share'])} and levels for "
        f"{share(job['levels_share'])}"
    )


SECTION = Section("stragglers", "Stragglers", 40, build, figures=("straggler-map",))
