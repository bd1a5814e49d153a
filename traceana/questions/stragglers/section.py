"""Stragglers: which workers delay their jobs, when, and what that costs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import chain, islice, zip_longest
from typing import Any, Final

import polars as pl

from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Text,
    captioned,
    drawing,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.stragglers import analyze as workers
from traceana.questions.stragglers.cov import iteration_cov
from traceana.questions.stragglers.detect import UNCLEAR, detect_stragglers
from traceana.questions.stragglers.tables import Episodes, Levels, StragglerJobs, StragglerResult
from traceana.store import Trace
from traceana.tables.formatting import (
    duration,
    listed,
    plural,
    share,
    three_digits,
    three_digits_range,
)

_MAX_DRAWN: Final = 2
_LEAST_CAUSE: Final = 0.01
_LEAST_STALLED: Final = 0.01  # fraction of a job's time below which its stalls are no main result
_NAMED: Final = 3
_COSTLY: Final = 0.01
"""Workers in a finding; fraction of a job's time from which a worker is an alert."""
_LEAST: Final = 1.01  # ratio to its peers from which a slower worker is named; the table has all
_LONG_BEFORE: Final = 0.2
"""Fraction of a job, at its end, without a worker from which this may be a main result."""
_MAX_FILES: Final = 12
_SLOWDOWN: Final = ("slowdown", "slowdown_iterations", "slowdown_noise")
_COST: Final = ("slowdown", "slowdown_median", *_SLOWDOWN[1:], "slowdown_excess")
_COUNTS: Final = ("n_episodes", "max_at_once", "n_slow_workers")
_WITHOUT: Final = ("slowdown_without_episodes", "slowdown_without_either")
_FRACTIONS: Final = ("episodes_fraction", "levels_fraction")
_JOBS: Final = ("job_id", *_COST, *_COUNTS, *_WITHOUT, *_FRACTIONS, "note")
_PERIOD: Final = ("onset_s", "end_s", "duration_s", "n_samples", "n_reports")
_SIZE: Final = ("severity", "excess", "ratio_to_peers", "n_at_once")
_EPISODES: Final = ("job_id", "worker_id", *_PERIOD, *_SIZE)
_RATIO: Final = ("n_samples", "median", "ratio_to_peers", "ci_low", "ci_high", "pvalue_adjusted")
_LEVELS: Final = ("job_id", "worker_id", *_RATIO, "saved", "n_episodes", "lost_fraction", "note")
_WAITS: Final = "times may include synchronization; measure compute time"
_LIMITATIONS: Final = (
    "Slowdown is what a job would lose if all waited for the slowest at every time step; traces do "
    "not state whether their jobs do. Times that include synchronization hide stragglers."
)


def build(traces: Sequence[Trace]) -> Content:
    """The costliest jobs as figures, the cost of all jobs, and each trace's stragglers."""
    results = {trace: trace.once(workers.stragglers) for trace in traces}
    jobs = {trace: result.jobs.sort(*workers.JOB_ORDER) for trace, result in results.items()}
    lead: tuple[Block, ...] = (Gallery(tuple(_draw_costliest(results))),)
    by_iterations = pl.col("slowdown_iterations").alias("slowdown")  # of samples of equal time
    weighted = {
        trace: rows.with_columns(by_iterations) if workers.clock(trace) == "time_s" else rows
        for trace, rows in jobs.items()
    }
    of_each = []
    for trace, rows in weighted.items():
        levels = results[trace].levels
        of_trace = _findings(trace, rows, results[trace]) + _slow_phases(trace) + _stalls(trace)
        of_trace += _slow_groups(trace, levels) + _ended(levels)
        of_each.append([finding.of(trace.label) for finding in of_trace])
    # the first of each trace before the second ones
    findings = [finding for same in zip_longest(*of_each) for finding in same if finding]
    blocks = (
        block
        for trace in traces
        for block in captioned(_details(trace, results[trace]), trace.label)
    )
    return Content(tuple(findings), (Text(_definitions()), *blocks), lead, _LIMITATIONS)


def _draw_costliest(results: dict[Trace, StragglerResult]) -> list[Drawing]:
    """Draw the costliest job of each of two traces, or two of one trace."""
    order = ["slowdown", *workers.JOB_ORDER]
    of_each = {
        trace: result.jobs.drop_nulls("slowdown").sort(order, descending=[True, False, False])
        for trace, result in results.items()
    }
    chosen = [(trace, jobs["job_id"][0]) for trace, jobs in of_each.items() if jobs.height]
    if len(chosen) == 1:
        chosen = [(trace, job) for trace, jobs in of_each.items() for job in jobs["job_id"]]
    drawn = (
        draw_job(trace, workers.worker_samples(trace, job), results[trace].of_job(job))
        for trace, job in chosen
    )
    every = chain.from_iterable(drawn)
    return [*islice((each for each in every if each.figure == "straggler-overview"), _MAX_DRAWN)]


def draw_job(trace: Trace, samples: pl.DataFrame, of_job: StragglerResult, /) -> list[Drawing]:
    """Draw a job: its workers, their CoV, their ratios to their peers, and all on one time axis."""
    (job,) = of_job.jobs["job_id"]
    time, unit = workers.clock(trace), workers.batch_time_unit(trace)
    cov = iteration_cov(samples, ddof=0, time=time)

    def draw(figure: str, result: object, kind: str, about: str, **options: object) -> Drawing:
        return drawing(figure, result, trace, picture_key(kind, trace, job), about, **options)  # type: ignore[arg-type]

    slow = sorted({*of_job.levels.filter("is_slow")["worker_id"], *of_job.episodes["worker_id"]})
    about = f"Mini-batch time of the workers of {job}"
    pictures = [draw("worker-times", samples, "times", about, unit=unit, stragglers=slow)]
    if not cov.is_empty():
        pictures.append(draw("cov", cov, "cov", f"CoV across the workers of {job}", ddof=0))
    if not (of_job.ratios["ratio_to_peers"].drop_nulls() > 0).any():
        return pictures  # a single worker has no peers
    episodes, n_slow = of_job.jobs.select("n_episodes", "n_slow_workers").row(0)
    outcome = f"{_number(episodes, 'episode')}, {_number(n_slow, 'persistent straggler')}"
    outcome = "cannot be analyzed" if episodes is None else outcome
    about = f"Ratios to the peers in {job}: {outcome}"
    both = {"samples": samples, "cov": cov, "time": time, "unit": unit}
    return [
        *pictures,
        draw("straggler-map", of_job, "stragglers", about, time=time),
        draw("straggler-overview", of_job, "overview", f"Stragglers of {job}: {outcome}", **both),
    ]


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the first jobs of each trace."""
    pictures = []
    for trace in traces:
        samples, result = (workers.worker_samples(trace), trace.once(workers.stragglers))
        for job in samples["job_id"].unique(maintain_order=True).head(_MAX_FILES):
            pictures += draw_job(trace, samples.filter(job_id=job), result.of_job(job))
    return pictures


def _number(number: int | None, noun: str) -> str:
    return plural(number, noun) if number else f"no {noun}"


def _details(trace: Trace, result: StragglerResult) -> list[Block]:
    jobs = result.jobs.sort(*workers.JOB_ORDER)
    return [
        result_table(jobs, StragglerJobs, columns=_JOBS, caption="Cost of stragglers, by job"),
        *_episodes(result, workers.clock(trace)),
        *_levels(result, workers.batch_time_unit(trace)),
    ]


def _definitions() -> str:
    """Return the definitions with the default thresholds, and how cost is measured."""
    parameters = inspect.signature(detect_stragglers).parameters.items()
    rule = {name: parameter.default for name, parameter in parameters}
    return (
        "The level of a worker is its median without its episodes over the median of the other "
        "workers' medians. A worker is slower beyond noise if its level exceeds 1 all along the "
        "job with p below 0.05 (from blocks of consecutive times, adjusted over the workers of the "
        f"job); above {rule['slow_level']:g} it is a persistent straggler. A transient "
        f"straggler has an episode: at least {plural(rule['min_reports'], 'report')} in which it "
        f"takes at least {rule['min_severity']:g} times as long as usual (severity), also after "
        "accounting for a slowdown of its peers (excess). Equal consecutive values are one report. "
        f"An episode is e^{rule['evidence']:g} times as likely under slowness as under the noise "
        f"of the worker, with at most {plural(rule['max_gap_reports'], 'normal report')} in a row "
        "within it, and larger than those of 95 % of simulated jobs with the same noise. "
        "Slowdown is the sum over time steps, also those of one worker, of the slowest "
        "worker's time divided by the sum of the mean (or median) over workers: what a job would "
        "lose if all workers waited for the slowest one at every time step. Where samples are "
        "spans of time and not iterations, a slow sample has few of them: slowdown (iterations) "
        "weights by iterations, and sentences state it. Traces do not state whether jobs wait. "
        "Slowdown (noise) is "
        "expected from random variation alone: as many workers of "
        "one level with the same distribution around it; excess is the difference. Workers that "
        "move as one (own variation below 70 % of the common) cannot be analyzed: their times may "
        "include synchronization, and compute time is needed. With a jitter of 5 % or more a "
        "barrier is not always recognized. The job is also evaluated without its episodes (their "
        "samples at the peers' median), and then with every slower worker at its peers' level. The "
        "fractions of (slowdown - 1) that disappear are attributed to episodes and to levels, in "
        "this order; the rest is random variation."
    )


def _episodes(result: StragglerResult, time: str) -> list[Block]:
    if result.episodes.is_empty():
        # of jobs that cannot be analyzed the finding states why
        n_analyzed = result.jobs["n_episodes"].count()
        return [Text("No straggler episode was found.")] if n_analyzed else []
    rows = result.episodes.sort(*workers.JOB_ORDER, "onset_s", "worker_id")
    in_steps = {"onset_s": "Onset", "end_s": "End", "duration_s": "Duration"}
    headings = {} if time == "time_s" else {k: f"{v} ({time})" for k, v in in_steps.items()}
    caption = "Straggler episodes"
    return [result_table(rows, Episodes, columns=_EPISODES, headings=headings, caption=caption)]


def _levels(result: StragglerResult, unit: str) -> list[Block]:
    order = [*workers.JOB_ORDER, pl.col("ratio_to_peers")]
    rows = result.levels.sort(order, descending=[False, False, True])
    caption = (
        "Levels of the workers. Waited for: fraction of the waiting time in which the worker is "
        f"the slowest. Medians: {unit}"
    )
    table = result_table(rows, Levels, caption=caption, columns=_LEVELS, folded=True)
    is_slow = pl.col("is_slow") | pl.col("is_slower")
    none_slow = rows.filter(is_slow).is_empty() and result.jobs["n_episodes"].count()
    none = [Text("No worker is slower than its peers beyond noise.")] if none_slow else []
    return [*none, table]


def _unknown(jobs: pl.DataFrame) -> str:
    """Return how many jobs are inconclusive, and why."""
    waiting = jobs.filter(pl.col("n_workers") > 0, pl.col("n_episodes").is_null()).height
    noisy = jobs.filter(note=UNCLEAR).height
    causes = ((waiting, _WAITS), (noisy, "slow periods are within the noise"))
    parts = [f"{plural(number, 'job')} ({why})" for number, why in causes if number]
    return f"Cannot tell for {listed(parts)}." if parts else ""


def _findings(trace: Trace, jobs: pl.DataFrame, result: StragglerResult) -> list[Finding]:
    """Return how many jobs have stragglers, what the costliest job loses, and to which kind."""
    hosts = _hosts(trace)
    selection = trace.manifest.selection
    analyzed = jobs.drop_nulls("n_episodes")
    text = _unknown(jobs)
    slowest, alert, saved = _costliest(result.levels, hosts)
    if not analyzed.is_empty():
        hit = analyzed.filter(pl.col("n_episodes") > 0).height
        slow = analyzed.filter(pl.col("n_slow_workers") > 0).height
        calm = analyzed.filter(n_episodes=0)["job_id"].to_list()
        none_in = f" (none in {listed(calm)})" if 0 < len(calm) < min(analyzed.height, 4) else ""
        counts = (
            f"{hit} of {plural(analyzed.height, 'job')} had straggler episodes{none_in}, and "
            f"{slow or 'none'} had persistent stragglers"
        )
        if analyzed.height == 1:
            job, episodes, slow = analyzed.select("job_id", "n_episodes", "n_slow_workers").row(0)
            counts = f"{job} had {_number(episodes, 'straggler episode')} and "
            counts += _number(slow, "persistent straggler")
            counts += _where(result.episodes, hosts, workers.clock(trace))
        text = f"{counts}.{selection} {text}".rstrip()
        text = f"{text} {slowest}".rstrip()
    findings = [Finding(text, alert=alert, cost_jobs=saved)]
    by_cost = jobs.drop_nulls("slowdown").sort("slowdown", descending=True).rows(named=True)
    if not by_cost or analyzed.is_empty():
        return findings
    most, least = by_cost[0], by_cost[-1]
    job, longer = most["job_id"], _longer(most)
    waits = "if all workers waited for the slowest one at every time step"
    cost = f"{waits}, {job} would take {longer}."
    if len(by_cost) > 1:
        cost += f" For {least['job_id']}, it is {_longer(least, '')}."
    heading = f"waiting for its slowest worker would make {job} take {longer}"
    is_null = not (most["n_episodes"] or most["n_slow_workers"])
    findings.append(Finding(cost, heading=heading, is_null=is_null))
    parts = [max(most[name] or 0.0, 0.0) for name in ("episodes_fraction", "levels_fraction")]
    if max(parts) >= _LEAST_CAUSE:
        episodes, levels = map(share, parts)
        text = f"of the loss of {job}, {episodes} is due to episodes and {levels} to workers that "
        findings.append(Finding(f"{text}are slower beyond noise."))
    return findings


def _longer(job: dict[str, Any], word: str = " longer") -> str:
    """Return how much longer a job takes, and how much of that is noise."""
    noise = job["slowdown_noise"]
    alone = "an unknown part" if noise is None else share(noise - 1)
    weighted = "weighted by iterations; " * (job["slowdown"] == job["slowdown_iterations"])
    return f"{share(job['slowdown'] - 1)}{word} ({weighted}{alone} by random variation alone)"


def _hosts(trace: Trace) -> dict[tuple[str, str], str]:
    """Return the host of each worker of a job that has one alone."""
    if not trace.has("worker_samples", ("host",)):
        return {}
    of_worker = trace.scan("worker_samples").group_by("job_id", "worker_id")
    host = pl.col("host").drop_nulls().cast(pl.String)
    of_one = of_worker.agg(host=host.first(), n=host.n_unique()).filter(n=1).collect()
    names = of_one.select("job_id", "worker_id", "host").iter_rows()
    return {(job, worker): host for job, worker, host in names}


def _where(episodes: pl.DataFrame, hosts: dict[tuple[str, str], str], time: str) -> str:
    """Name the host that has most of the episodes of a job, if it is one of several workers."""
    named = [hosts.get(key) for key in episodes.select("job_id", "worker_id").rows()]
    rows = episodes.with_columns(host=pl.Series(named, dtype=pl.String)).drop_nulls("host")
    of_hosts = rows.group_by("host", maintain_order=True).agg(
        n=pl.len(),
        workers=pl.col("worker_id").n_unique(),
        first=pl.col("onset_s").min(),
        last=pl.col("end_s").max(),
    )
    most = of_hosts.filter(pl.col("workers") > 1, 2 * pl.col("n") > episodes.height)
    return "".join(
        f"; {'all' if n == episodes.height else n} of the episodes are on host {host}, "
        f"{_span(first, last, time)}"
        for host, n, _, first, last in most.iter_rows()
    )


def _span(first: float, last: float, time: str) -> str:
    if time == "time_s":
        return f"from {duration(first)} to {duration(last)}"
    return f"from {time} {first:,.0f} to {last:,.0f}"


def _slow_phases(trace: Trace) -> list[Finding]:
    """State when all workers of a job were slow."""
    findings = []
    for phase in trace.once(workers.slow_phases)[:_NAMED]:
        every, some = phase["n_workers"], phase["n_slow"]
        who = f"all {every}" if some == every else f"{some} of {every}"
        heading = (
            f"{who} workers of {phase['job_id']} were {three_digits(phase['ratio'])} times as slow "
            f"{_span(phase['first'], phase['last'], workers.clock(trace))} as otherwise"
        )
        text = f"{heading} (median), which took {share(phase['cost'])} of the job's time, if each "
        text += "step waits for its slowest worker."
        findings.append(
            Finding(
                text,
                effect=phase["ratio"],
                n=every,
                cost_jobs=phase["cost"],
                certainty="estimated",
                heading=heading,
            )
        )
    return findings


def _stalls(trace: Trace) -> list[Finding]:
    """State the steps in which all workers of a job stall, as at a checkpoint."""
    findings = []
    unit = " s" if workers.clock(trace) == "time_s" else " steps"
    for row in trace.once(workers.common_stalls)[:_NAMED]:
        every = f"every {row['apart']:,.0f}{unit}" if row["is_regular"] else "irregularly"
        if row["once"]:
            every = _span(row["first"], row["last"], workers.clock(trace))
        times = "times" if row["n"] > 1 else "time"
        heading = f"all workers of {row['job_id']} stalled together {row['n']:,} {times}, {every}"
        text = (
            f"{heading}: such a step took {three_digits(row['ratio'])} times as long (median), "
            f"{share(row['cost'])} of the job's time in {row['n']:,} of {row['n_steps']:,} steps."
        )
        findings.append(
            Finding(
                text,
                effect=row["ratio"],
                n=row["n"],
                cost_jobs=row["cost"],
                heading=heading,
                is_null=row["cost"] < _LEAST_STALLED,
            )
        )
    return findings


def _costliest(levels: pl.DataFrame, hosts: dict[tuple[str, str], str]) -> tuple[str, str, float]:
    """Return the slower workers, the costliest as an alert, and what it costs."""
    slower = levels.filter("is_slower", pl.col("ratio_to_peers") >= _LEAST)
    slower = slower.sort("saved", "ratio_to_peers", descending=True)
    text, alert, saved = "", "", 0.0
    if slower.height:
        first, *_ = rows = slower.head(_NAMED).rows(named=True)
        who = [
            f"worker {row['worker_id']} {f'on host {host} ' if host else ''}of {row['job_id']}"
            for row in rows
            for host in [hosts.get((row["job_id"], row["worker_id"]))]
        ]
        named = [
            f"{each}, {three_digits(row['ratio_to_peers'])} times (95 % CI "
            f"{three_digits_range(row['ci_low'], row['ci_high'])}; {share(row['saved'])} of the "
            "job's time)"
            for each, row in zip(who, rows, strict=True)
        ]
        are, their, it = (
            ("is", "its", "It") if slower.height == 1 else ("are", "their", "The costliest")
        )
        text = f"{plural(slower.height, 'worker')} {are} slower than {their} peers beyond noise. "
        text += f"{it} is {named[0]}."
        if named[1:]:
            text += f" Next {'is' if len(named) == 2 else 'are'} {listed(named[1:])}."
        saved = first["saved"] or 0.0
        if saved >= _COSTLY:
            alert = f"{who[0]} is {three_digits(first['ratio_to_peers'])} times as slow as its "
            alert += f"peers and costs {share(saved)} of the job's time"
    return text, alert, saved


def _ended(levels: pl.DataFrame) -> list[Finding]:
    """Name the worker that ended first before its job; the cost is the part of workers' time."""
    part = pl.col("last_s") / pl.max("last_s").over("job_id")
    early = pl.col("note").str.starts_with("ended early")
    ended = levels.with_columns(lost=1 - part).filter(early).sort("lost", descending=True)
    if ended.is_empty():
        return []
    row, lost = ended.row(0, named=True), sum(ended["lost"]) / levels.height
    heading = f"{plural(ended.height, 'worker')} ended before the job"
    heading += ", such as" if ended.height > 1 else ":"
    heading += f" worker {row['worker_id']} of {row['job_id']}"
    text, late = f"{heading} ({row['note']}).", row["lost"] < _LONG_BEFORE
    return [Finding(text, heading=heading, cost_jobs=lost, is_description=late)]


def _slow_groups(trace: Trace, levels: pl.DataFrame) -> list[Finding]:
    """Name the groups, such as hosts, of which every worker is slower than its peers."""
    findings = []
    of_job = ("job_id", "worker_id")
    slow = (pl.col("is_slower") & (pl.col("ratio_to_peers") >= _LEAST)).fill_null(value=False)
    for name in workers.attribute_columns(trace) if levels.filter(slow).height > 1 else ():
        member = trace.scan("worker_samples").select(*of_job, name).drop_nulls().unique().collect()
        groups = levels.join(member, on=of_job).group_by("job_id", name, maintain_order=True)
        counted = groups.agg(n=pl.len(), every=slow.all(), ratio=pl.median("ratio_to_peers"))
        counted = counted.filter("every", pl.col("n") > 1).sort("ratio", descending=True)
        for row in counted.head(_NAMED).iter_rows(named=True):
            text = (
                f"all {row['n']} workers of {name} {row[name]} in {row['job_id']} "
                f"are slower than their peers beyond noise: {three_digits(row['ratio'])} times"
            )
            lost = (1 - 1 / row["ratio"]) * row["n"] / levels.height  # of the workers' time
            findings.append(Finding(f"{text} (median).", heading=text, n=row["n"], cost_jobs=lost))
    return findings


SECTION = Section(
    "stragglers",
    "Stragglers",
    10,
    build,
    needs=({"worker_samples": ("batch_time",)},),
    unless=workers.PIPELINE,
    figures=("straggler-overview", "straggler-map", "worker-times", "cov"),
    more=draw_more,
    part="Stragglers",
    question="Which workers delay their jobs, and what does this cost?",
)
