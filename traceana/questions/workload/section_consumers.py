"""Section on who uses, waits, wastes and idles: by user, account, queue and end reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from traceana.cohorts.ends import END_CLASS
from traceana.page.blocks import Block, Content, Heading, Table, Text, captioned, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.failures.analyze import bad_nodes, odds_at_equal, rates_at_equal
from traceana.questions.workload.analyze import describe_workload
from traceana.questions.workload.analyze_consumers import (
    CONSUMER_NEEDS,
    FEWEST_WAITS,
    MOST_SHOWN,
    OVERDUE,
    Consumers,
    describe_consumers,
    overdue_jobs,
    pending_jobs,
    restarted_jobs,
)
from traceana.questions.workload.tables import ResourceUsage
from traceana.store import Trace, distinct_traces
from traceana.tables.display import csv_text, key_heading
from traceana.tables.formatting import (
    duration,
    hours_text,
    in_sentence,
    listed,
    percent,
    plural,
    share,
    three_digits,
    three_digits_range,
)

_MOST_IN_FILE: Final = 10_000  # groups in the file of a table: a million users are 135 MB
_NO_END: Final = "completed, not ended or unknown"
_IDLE: Final = 0.25
"""GPU utilization below which a user is named."""
_NOTICED: Final = 0.01
"""Fraction of all hours from which a user or an end reason is named."""
_DOMINANT: Final = 0.4
"""Fraction of the jobs from which numbers are stated with and without a user, who has twice the
jobs of the next one."""
_COSTLY: Final = 0.1
"""Fraction of all hours from which a loss is an alert."""
_NEGLIGIBLE: Final = 0.05
"""Fraction of all hours below which a loss is no main result."""
_NAMED: Final = 3
_NOTED_S: Final = 600
_NOTED_TIMES: Final = 2
"""Median wait of a queue, in all and as a multiple of that of the log, from which it is named."""
_SLOW_S: Final = 3600
_TIMES: Final = 5
"""The same of an alert."""
_LONG_WAITS: Final = (
    ("wait_s_median", "median wait", _NOTED_S, _NOTED_TIMES),
    ("wait_s_p90", "90th percentile of the wait", _SLOW_S, _TIMES),
)
"""Column, words and limits by which a queue waits long; the second where few of its jobs wait: in
240 simulated logs whose queues are alike, at loads of 0.6 to 1, it named none."""
_WASTING: Final = 0.2
_WASTING_TIMES: Final = 2
"""Fraction of the hours wasted, and ratio to the others' wasted fraction, of a named user."""
_LONGER: Final = 1.2
"""Of the longest wait of a job that started, that of a job that waits and is an alert."""
_OFTEN: Final = 20
"""Restarts of a job from which it is named."""
_ALPHA: Final = 0.05
_ALARMING: Final = 0.01
"""Adjusted p below which a GPU type that fails more often is an alert, as a node is."""
_SURE: Final = 0.001
"""The same of an account: few users are of one, so its level is not kept exactly."""
_HIGHER: Final = 1.1
_FAR_HIGHER: Final = 1.5
"""Ratio of failure rates from which a GPU type or account is named, and is an alert."""


_FIRST: Final = (
    "jobs",
    "gpu_hours",
    "fraction_of_all",
    "wait_s_median",
    "failure_rate",
    "fraction_wasted",
    "trend",
)
"""Columns that come first, also in the excerpt."""


def build(traces: Sequence[Trace]) -> Content:
    """Show the resources by group of each trace, with waste and idle GPUs."""
    findings, lead, blocks = list[Finding](), list[Block](), list[Block]()
    for trace in distinct_traces(traces):
        consumers, title = trace.once(describe_consumers), trace.label
        of_trace = (
            *_findings(consumers, trace),
            *_pending(trace),
            *_overdue(trace),
            *_restarting(trace),
        )
        findings += [finding.of(title) for finding in of_trace]
        each = (_table(consumers, name) for name in _distinct(consumers.groups))
        tables = [*captioned(each, title)]
        if tables and not lead:
            lead = [tables.pop(0)]
        blocks += [Heading(title)] if len(traces) > 1 else []
        blocks += tables
        blocks += [Text(text)] if (text := _arrays(consumers.arrays)) else []
    if not lead:
        return Content()
    findings.sort(key=lambda row: (not row.alert, -row.cost_gpu_h))
    return Content(
        tuple(findings),
        tuple(blocks),
        lead=tuple(lead),
        limitations="All recorded jobs are counted, so these numbers have no interval. Hours in "
        "failed or cancelled jobs are not all lost: some jobs save checkpoints.",
    )


def _distinct(groups: dict[str, pl.DataFrame]) -> list[str]:
    """Return the names of groups, without those whose numbers repeat others'."""
    seen: list[pl.DataFrame] = []
    names = []
    for name in sorted(groups, key=END_CLASS.__eq__):
        if name == END_CLASS and "end_reason" not in groups:
            continue  # it repeats the status
        numbers = groups[name].drop(name).head(_MOST_IN_FILE)
        numbers = numbers.sort(numbers.columns)
        if not any(numbers.equals(other) for other in seen):
            names.append(name)
        seen.append(numbers)
    return names


def _table(consumers: Consumers, name: str) -> Table:
    rows = consumers.groups[name]
    left = {"measured_gpu_hours", "ended", "own_failures", "note"}
    left |= {"gpu_hours"} if consumers.unit != "GPU" else set()
    what = f"by {in_sentence(key_heading(name))}"
    if name == "job_id":  # one each
        what, left = f"of the {rows.height} jobs with the most idle hours", left | {"jobs"}
    shown = [column for column in rows.columns if column not in left]
    if rows.height > _MOST_IN_FILE:
        what += f", the {_MOST_IN_FILE:,} of {rows.height:,} with the most hours"
        rows = rows.head(_MOST_IN_FILE)
    first = rows.head(MOST_SHOWN)
    if (trend := consumers.trends.get(name)) is not None:
        first = first.join(trend, on=name, how="left", nulls_equal=True, maintain_order="left")
        shown.append("trend")
    ranked = {column: place for place, column in enumerate((name, *_FIRST))}
    table = result_table(
        first,
        ResourceUsage,
        caption=f"Resources, wait, failure, waste and efficiency {what}",
        columns=sorted(shown, key=lambda column: ranked.get(column, len(ranked))),
        headings={"trend": "GPUs over the period"},
        null={name: _NO_END if name == END_CLASS else "not stated"},
    )
    return replace(table, data=csv_text(rows, ResourceUsage))


def _findings(consumers: Consumers, trace: Trace) -> list[Finding]:
    parts = (
        _plain(consumers),
        _failing(consumers, trace, "gpu_type"),
        _failing(consumers, trace, "account"),
        _top(consumers),
        _slow_queue(consumers),
        _waits(consumers, trace),
    )
    findings = [
        *_idle(consumers),
        *_wasted(consumers),
        *_wasting(consumers),
        *filter(None, parts),
    ]
    if not findings:
        whole = consumers.whole
        used = [
            f"{share(whole[column])} of the {what}"
            for column, what in (("cpu_used", "allocated CPU time"), ("memory_used", "memory"))
            if whole[column] is not None
        ]
        text = f"jobs used {listed(used)}"
        return [Finding(f"{text}.", n=whole["jobs"], heading=text)] if used else []
    return findings


def _idle(consumers: Consumers) -> Iterator[Finding]:
    """Name the users, else queues whose GPUs are idle, the largest number of idle hours first."""
    total = consumers.whole["measured_gpu_hours"]
    if not total:
        return
    low = (pl.col("gpu_utilization") < _IDLE) & (pl.col("measured_gpu_hours") >= _NOTICED * total)
    rows = pl.DataFrame()
    for name in ("user", "queue", "account"):
        if rows.is_empty() and name in consumers.groups:
            rows = consumers.groups[name].drop_nulls(name).filter(low)
            rows = rows.sort("idle_gpu_hours", descending=True).head(_NAMED)
    for row in rows.rows(named=True):
        user = f"{in_sentence(key_heading(rows.columns[0]))} {row[rows.columns[0]]}"
        use = percent(row["gpu_utilization"])
        hours = hours_text(row["measured_gpu_hours"])
        yield Finding(
            f"idle GPUs: {user} used {use} of {hours} GPU-hours, which are "
            f"{share(row['measured_gpu_hours'] / total)} of all with recorded utilization.",
            effect=row["gpu_utilization"],
            n=row["jobs"],
            cost_gpu_h=row["idle_gpu_hours"],
            cost_jobs=row["jobs"],
            alert=f"idle GPUs: {user} at {use} GPU utilization with {hours} GPU-hours",
            heading=f"{user} leaves {hours_text(row['idle_gpu_hours'])} GPU-hours idle",
        )
    use, idle = consumers.whole["gpu_utilization"], consumers.whole["idle_gpu_hours"]
    heading = f"{share(use)} of the allocated GPU time was used"
    text = f"{heading}; {hours_text(idle)} of {hours_text(total)} GPU-hours with recorded "
    text += "utilization were idle."
    yield Finding(text, effect=use, n=consumers.whole["jobs"], cost_gpu_h=idle, heading=heading)


def _wasted(consumers: Consumers) -> Iterator[Finding]:
    """State the hours in jobs that failed or were cancelled, by end reason."""
    rows = consumers.groups.get("end_reason", consumers.groups.get("status"))
    if rows is None:
        return
    name, unit = rows.columns[0], consumers.unit
    total = float(rows[f"{unit.lower()}_hours"].sum() or 0)
    lost = rows.drop_nulls(name).filter(
        pl.col("wasted_hours") >= _NOTICED * total, pl.col("wasted_hours") > 0
    )
    for row in lost.sort("wasted_hours", descending=True).head(_NAMED).rows(named=True):
        part, jobs = row["wasted_hours"] / total, plural(row["jobs"], "job")
        ended, of = f"that ended as {row[name]} used {share(part)} of", f"{unit}-hours"
        heading, alert = f"jobs {ended} the {of}", f"{jobs} {ended} all {hours_text(total)} {of}"
        yield Finding(
            f"{heading}: {hours_text(row['wasted_hours'])} of {hours_text(total)} ({jobs}).",
            effect=part,
            n=row["jobs"],
            cost_gpu_h=row["wasted_hours"] if unit == "GPU" else 0.0,
            # where no hours of GPUs rank them: jobs of the mean size with as many hours
            cost_jobs=row["jobs"] if unit == "GPU" else part * consumers.whole["jobs"],
            alert=alert if part >= _COSTLY else "",
            heading=heading,
            is_null=part < _NEGLIGIBLE,
        )


def _wasting(consumers: Consumers) -> Iterator[Finding]:
    """Name the users that waste much of all that is wasted, and more of their hours than others."""
    users, unit = consumers.groups.get("user"), consumers.unit
    hours = f"{unit.lower()}_hours"
    if users is None or hours not in users.columns:
        return
    total, lost = (float(users[name].sum() or 0) for name in (hours, "wasted_hours"))
    several = users.drop_nulls("user").filter(pl.col("jobs") >= FEWEST_WAITS)
    for row in several.sort("wasted_hours", descending=True).head(_NAMED).rows(named=True):
        used, wasted = row[hours] or 0.0, row["wasted_hours"] or 0.0
        others = (lost - wasted) / (total - used) if total > used else 0.0
        if not wasted or wasted < max(_WASTING * lost, _NOTICED * total):
            return
        if wasted <= _WASTING_TIMES * others * used:
            continue
        part = wasted / total
        heading = f"user {row['user']} wasted {share(wasted / used)} of their {unit}-hours"
        of_all = f"{hours_text(wasted)} of the {hours_text(lost)} wasted"
        yield Finding(
            f"{heading} in jobs that failed or were cancelled, the others {share(others)}: "
            f"{of_all} ({plural(row['jobs'], 'job')}).",
            effect=wasted / used,
            n=row["jobs"],
            cost_gpu_h=wasted if unit == "GPU" else 0.0,
            cost_jobs=row["jobs"],
            alert=f"{heading}, {of_all}" if part >= _COSTLY else "",
            heading=heading,
            is_null=part < _NEGLIGIBLE,
        )


def _plain(consumers: Consumers) -> Finding | None:
    """State the longest wait, the largest job and the waste of a small log."""
    if consumers.each is None:
        return None
    whole, unit = consumers.whole, consumers.unit
    waited = consumers.each.filter(pl.col("wait_s_median") > 0)
    waited = waited.sort("wait_s_median", descending=True)
    facts = [
        f"the longest wait of a job that started was {duration(row['wait_s_median'])} "
        f"(job {row['job_id']})"
        for row in waited.head(1).rows(named=True)
    ]
    hours = f"{unit.lower()}_hours"
    for row in consumers.each.filter(pl.col(hours) > 0).head(1).rows(named=True):
        of = f"{share(row['fraction_of_all'])} of all {hours_text(whole[hours])} {unit}-hours"
        facts.append(f"the largest job used {of} (job {row['job_id']})")
        facts.append(f"jobs that failed or were cancelled used {share(whole['fraction_wasted'])}")
    if not facts:
        return None
    return Finding(f"{'; '.join(facts)}.", n=whole["jobs"], heading=facts[0], is_description=True)


def _top(consumers: Consumers) -> Finding | None:
    """State the user with the most hours; of a dominant one, numbers with and without it."""
    users, unit = consumers.groups.get("user", pl.DataFrame({"user": []})), consumers.unit
    users = users.drop_nulls("user")
    if users.height < 2:
        return None
    row, second = users.sort("jobs", descending=True).head(2).rows(named=True)
    whole, without, jobs = consumers.whole, consumers.without, consumers.whole["jobs"]
    if row["jobs"] < max(_DOMINANT * jobs, 2 * second["jobs"]) or without is None:
        row = users.row(0, named=True)
        part = row["fraction_of_all"]
        if not part:
            return None
        user = f"user {row['user']} used"
        text = (
            f"{user} the most {unit}-hours, {share(part)} of all, in {plural(row['jobs'], 'job')}"
        )
        text += f" (n = {plural(users.height, 'user')})."
        heading = f"{user} {share(part)} of the {unit}-hours"
        is_costly = part >= _DOMINANT and jobs >= FEWEST_WAITS
    else:
        part, of_hours = row["jobs"] / jobs, row["fraction_of_all"] or 0.0
        user, is_costly = f"user {row['user']}", True
        pairs = [
            f"{what} {show(without[column])} instead of {show(whole[column])}"
            for column, what, show in (
                ("failure_rate", "failure rate", percent),
                ("wait_s_median", "median wait", duration),
                ("expansion_median", "median expansion factor", three_digits),
                ("fraction_wasted", f"{unit}-hours wasted", percent),
            )
            if without[column] is not None and whole[column] is not None
            if show(without[column]) != show(whole[column])
        ]
        used = f" and used {share(of_hours)} of the {unit}-hours" if of_hours else ""
        text = f"{user} submitted {share(part)} of {jobs:,} jobs{used}."
        text += f" Without {row['user']}: {listed(pairs)}." if pairs else ""
        heading = f"{user} submitted {share(part)} of the jobs"
        if of_hours > part:
            heading = f"{user} used {share(of_hours)} of the {unit}-hours"
    return Finding(
        text,
        effect=part,
        n=row["jobs"],
        cost_gpu_h=float(row.get("gpu_hours") or 0.0) * is_costly,
        cost_jobs=part * jobs * is_costly,  # most of the use is large, also on an idle cluster
        heading=heading,
        is_description=not is_costly,
    )


def _waits(consumers: Consumers, trace: Trace) -> Finding | None:
    """State the overall wait, and which queue, user and size waits far longer."""
    whole = consumers.whole
    if whole["wait_s_median"] is None:
        return None
    parts = []
    for name in ("queue", "user", "gpus_requested"):
        table = consumers.groups.get(name, pl.DataFrame())
        if table.height:
            table = table.drop_nulls([name, "wait_s_median"])
            table = table.filter(pl.col("jobs") >= FEWEST_WAITS)
        if table.height < 2:
            continue
        row = table.sort("wait_s_median", descending=True).row(0, named=True)
        if row["wait_s_median"] > _NOTED_TIMES * whole["wait_s_median"]:
            group, wait = row[name], duration(row["wait_s_median"])
            named = f"{name} {group}"
            if isinstance(group, float):
                named = f"jobs of {group:g} GPU{'s' * (group != 1)}"
            parts.append(f"{named} with {wait} ({row['jobs']:,} jobs)")
    longest = f" Longest by group: {listed(parts)}." if parts else ""
    stretched = ""
    if whole["expansion_median"] is not None:
        stretched = f"; expansion factor {three_digits(whole['expansion_median'])} (median)"
    started, pending = "", ""
    delays = trace.once(describe_workload).queueing
    if delays is not None and not delays["p99_pending_s"].equals(delays["p99_s"]):
        row, started = delays.row(0, named=True), " that started"
        pending_s = row["p90_pending_s"]
        pending = (
            f" {row['n_no_start']:,} of {row['jobs']:,} jobs never started; with the pending ones "
            "as censored, the 90th percentile is "
            f"{'not reached' if pending_s is None else duration(pending_s)} (Kaplan-Meier)."
        )
    heading = f"the median job{started} waited {duration(whole['wait_s_median'])}"
    text = f"{heading}, the 90th percentile is {duration(whole['wait_s_p90'])}{stretched}."
    text += f"{pending}{longest}"
    return Finding(text, effect=whole["wait_s_median"], n=whole["jobs"], heading=heading)


def _pending(trace: Trace) -> Iterator[Finding]:
    """State how long jobs have waited that have not started; an alert if longer than any other."""
    jobs = trace.once(pending_jobs)
    if not jobs["wait_s"].sum():
        return
    first, job = jobs["wait_s"][0], jobs["job_id"][0]
    as_one = " (the waiting tasks of an array as one)" * bool(
        jobs["job_id"].cast(pl.String).str.contains("[", literal=True).any()
    )
    waits = f"{jobs.height:,} jobs{as_one} wait, the longest"
    waits = waits if jobs.height > 1 else f"1 job{as_one} waits,"
    heading = f"{waits} for {duration(first)} so far"
    text = f"{heading} (job {job})"
    delays = trace.once(describe_workload).queueing
    usual, most = None, None
    if delays is not None and delays.height:
        usual, most = delays.select("p90_s", "max_s").row(0)
    if is_longest := most is not None and first > _LONGER * most:
        text += f", longer than any job that started waited ({duration(most)})"
    yield Finding(
        f"{text}.",
        n=jobs.height,
        cost_jobs=jobs.height,
        alert=text if is_longest else "",
        heading=heading,
        is_description=usual is not None and first <= usual,
    )


def _overdue(trace: Trace) -> Iterator[Finding]:
    """State the jobs that run far longer than any before of their kind, as those that hang."""
    for row in trace.once(overdue_jobs).head(1).iter_rows(named=True):
        jobs = trace.once(overdue_jobs)
        lost = float(jobs["gpu_hours"].fill_null(0).sum())
        have = f"{jobs.height:,} running jobs have" if jobs.height > 1 else "1 running job has"
        heading = f"{have} lasted more than {OVERDUE} times as long as any before"
        which = f"job {row['job_id']}: {duration(row['ran_s'])}, before at most "
        text = f"{heading} of the same user and name ({which}{duration(row['longest_s'])})"
        yield Finding(
            f"{text}; they hold {hours_text(lost)} GPU-hours so far.",
            n=jobs.height,
            cost_gpu_h=lost,
            cost_jobs=jobs.height,
            alert=text,
            heading=heading,
        )


def _restarting(trace: Trace) -> Iterator[Finding]:
    """State the jobs that restarted again and again."""
    often = trace.once(restarted_jobs).filter(pl.col("restarts") >= _OFTEN)
    for job, n in often.head(1).iter_rows():
        heading = f"job {job} restarted {n:,} times"
        others = f"{plural(often.height - 1, 'other')} {_OFTEN} times or more"
        text = f"{heading}, {others}" if often.height > 1 else heading
        yield Finding(f"{text}.", n=often.height, cost_jobs=n, alert=text, heading=heading)


def _failing(consumers: Consumers, trace: Trace, name: str) -> Finding | None:
    """State the GPU type (by itself) or account whose jobs surely fail more often, as at equal."""
    groups, is_type = consumers.groups.get(name), name == "gpu_type"
    if groups is None:
        return None
    rate = "own_failure_rate" if is_type else "failure_rate"
    table = groups.drop_nulls([name, rate]).filter(pl.col("ended") >= FEWEST_WAITS)
    most = table.sort("ended", descending=True).head(_NAMED)
    if most.height < 2:
        return None
    low, *_, high = most.sort(rate).rows(named=True)
    if high[name] != (usual := most.row(0, named=True))[name]:
        low = usual  # the model's odds are against it
    excess = high[rate] - low[rate]
    if excess < (_HIGHER - 1) * low[rate] or not excess:
        return None
    at_equal = _at_equal(trace, name, (high[name], low[name]))
    if at_equal is None:
        return None
    equally, p = at_equal
    times = f" {three_digits(high[rate] / low[rate])} times" if low[rate] else ""
    apart = high[rate] + low[rate] < high["failure_rate"] + low["failure_rate"]
    without = ", without ends by a limit or the scheduler" * apart
    on = "on" if is_type else "of account"
    text = (
        f"jobs {on} {high[name]} fail{times} as often as {on} {low[name]} "
        f"({share(high[rate])} and {share(low[rate])}{without})"
    )
    n = f"n = {high['ended']:,} and {low['ended']:,} completed and failed jobs"
    return Finding(
        f"{text.removesuffix(')')}; {n}).{equally}",
        effect=excess,
        n=high["ended"],
        cost_jobs=excess * high["ended"],
        certainty="estimated",
        alert=text
        if p < (_ALARMING if is_type else _SURE) and high[rate] >= _FAR_HIGHER * low[rate]
        else "",
        heading=text.partition(" (")[0],
    )


def _at_equal(trace: Trace, name: str, pair: tuple[str, str]) -> tuple[str, float] | None:
    """State the rates and the odds ratio of two groups at equal users and requests, with its p.

    None if the ratio is not surely above 1, or if other users or sizes explain the difference.
    """
    equally = ""
    if (at_equal := trace.once(rates_at_equal, name, pair, name != "gpu_type")) is not None:
        held, rate, other = at_equal
        if rate < _HIGHER * other:
            return None
        equally = f" With the same composition of {held}: {share(rate)} and {share(other)}."
    bad = trace.once(bad_nodes)
    without = f" and without the jobs on {plural(len(bad), 'bad node')}" if bad else ""
    odds = trace.once(odds_at_equal, name, pair)
    if odds is None or odds[-1] >= _ALPHA or odds[1] <= 1:
        return None
    held, ratio, *ends, p = odds
    equally += f" With equal {held}{without} the odds ratio is {three_digits(ratio)}"
    equally += f" (95 % CI {three_digits_range(*ends)})."
    return equally, p


def _slow_queue(consumers: Consumers) -> Finding | None:
    """State the queue, account or GPU type whose jobs wait far longer than the others."""
    name = next(
        (column for column in ("queue", "account", "gpu_type") if column in consumers.groups), None
    )
    if name is None or consumers.whole["wait_s_median"] is None:
        return None
    for wait, words, least, times in _LONG_WAITS:
        whole, table = consumers.whole[wait], consumers.groups[name].drop_nulls([name, wait])
        table = table.filter(
            pl.col("jobs") >= max(FEWEST_WAITS, _NOTICED * consumers.whole["jobs"]),
            pl.col(wait) >= max(least, times * whole),
        )
        for row in table.sort(wait, descending=True).head(1).rows(named=True):
            text = f"{words} {duration(row[wait])}, of all jobs {duration(whole)}"
            of = f"{in_sentence(key_heading(name))} {row[name]}"
            is_slow = row[wait] >= max(_SLOW_S, _TIMES * whole)
            return Finding(
                f"jobs in {of} wait longest: {text} ({row['jobs']:,} jobs).",
                effect=row[wait],
                n=row["jobs"],
                cost_jobs=row["jobs"],
                alert=f"long waits in {of}: {text}" if is_slow else "",
                heading=f"jobs in {of} wait longest",
            )
    return None


def _arrays(counts: dict[str, int]) -> str:
    """Return a sentence on arrays, restarts and requeued runs."""
    parts = []
    if counts.get("jobs_in_arrays"):
        parts.append(
            f"{counts['jobs_in_arrays']:,} of {counts['jobs']:,} jobs belong to "
            f"{plural(counts['arrays'], 'job array')}"
        )
    if "restarted" in counts:
        again = plural(counts["restarted"], "job")
        parts.append(
            f"{again} restarted at least once, {plural(counts['restarts'], 'time')} in all"
        )
    if "requeued" in counts:
        parts.append(f"{plural(counts['requeued'], 'run')} ended in a requeue")
    return f"{'; '.join(parts)}." if parts else ""


SECTION = Section(
    "consumers",
    "Users, accounts and queues",
    15,
    build,
    needs=CONSUMER_NEEDS,
    part="Workload",
    question="Who uses the cluster, who waits, and what is wasted or idle?",
)
