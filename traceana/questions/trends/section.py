"""Section on trends: what ran by period, outages, and changes of level."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from traceana.cohorts.cohort import count_users
from traceana.page.blocks import (
    Block,
    Content,
    Gallery,
    Text,
    drawing,
    join_parts,
    picture_key,
    result_table,
    small_multiples,
)
from traceana.page.finding import Certainty, Finding
from traceana.page.section import Section
from traceana.questions.trends.by_period import FEWEST_DAYS
from traceana.questions.trends.capacity import NEEDS, TrendsFound, trends_of
from traceana.questions.trends.changes import WEEKENDS
from traceana.questions.trends.tables import (
    ClusterUtilization,
    Drift,
    FailureBursts,
    IdleNodes,
    LevelChanges,
    Outages,
    Trends,
)
from traceana.stats.time_blocks import DAY_S
from traceana.store import Trace, distinct_traces
from traceana.tables.formatting import (
    duration,
    fraction_range,
    hours_text,
    listed,
    plain,
    plural,
    share,
    three_digits,
)

_LIMITATIONS: Final = (
    "Outages, drained nodes and changes of level are tested at 1 % each: of simulated logs without "
    "any, fewer than 1 % had a false one of each kind. Standstills of a queue, and changes shorter "
    "than three days (of demand, a queue or a user: a week), are not tested. Waits and demand "
    "leave out outages."
)
_PANELS: Final = (
    "jobs",
    "users",
    "gpu_hours",
    "cpu_hours",
    "utilization",
    "wait_s_median",
    "runtime_s_median",
    "failure_rate",
)
_CAPACITY: Final = ("period", "gpu_type", "gpus", "gpu_hours", "allocated", "down", "idle")
_DAILY: Final = 3
_SAME_MIN: Final = 15
"""Failures together, and minutes around their median time of the day, that recur."""
_NAMED: Final = 3
_MOST_OPEN: Final = 12
"""Periods of a table that is open."""
_NOTICED: Final = 0.05
_LONG_WAIT_S: Final = 600.0
"""Median wait from which a longer one is an alert."""
_ALPHA: Final = 0.05
_CERTAIN: Final = 0.01
"""Bound of p of what may be a main result."""
_NONE_AT_FIRST: Final = 0.9
"""Rise within half of the log, over the mean, from which the first demand is too near 0."""
_GROWN: Final = 1.5
"""Ratio of the last demand to the first from which it may be a main result."""
_TYPED: Final = 0.95
"""Least fraction of the use that must have a GPU type for a statement by type."""
_COMPARABLE: Final = {"user": "user", "job_name": "name", "queue": "queue"}
_WORDS: Final = {
    "runtime": "median runtime of comparable jobs",
    "failure rate": "failure rate of comparable jobs",
    "wait": "median wait",
    "demand": "demand",
}


def build(traces: Sequence[Trace]) -> Content:
    """Show the trends of each trace, its outages and changes of level."""
    return join_parts("", ((trace.label, _trace(trace)) for trace in distinct_traces(traces)))


def _trace(trace: Trace) -> Content:
    result = trace.once(trends_of)
    panels = []
    for name in (name for name in _PANELS if result.trends[name].sum()):
        look: dict[str, Any] = {"measure": name, "timezone": result.timezone}
        key = picture_key(f"trends-{name}", trace)
        panels.append(drawing("trends", result.trends, trace, key, "Trends", **look))
    gallery = small_multiples(
        panels,
        key=picture_key("trends", trace),
        about="Trends by period",
        columns=2,
        share_x=True,
        heights_in=(1.5,) * -(-len(panels) // 2),
    )
    names = [word for name, word in _COMPARABLE.items() if trace.has("jobs", (name,))]
    strata = listed([*names, "size"])
    findings = [*_events(result, strata)]
    findings = findings or [_none(result)]
    findings += _drifts(result)
    is_of_one = count_users(trace) == 1
    others = " The log has one user; the jobs of others are not in it." * is_of_one
    certainty: Certainty = "cannot tell" if is_of_one else "exact"
    if result.capacity is not None:
        text, heading, whole = _allocated(result.capacity, result.capacity_source)
        findings.append(
            Finding(
                f"{text}{others}",
                effect=whole["allocated"],
                cost_gpu_h=whole["gpu_hours"] * (whole["idle"] or 0),
                heading=heading,
                certainty=certainty,
            )
        )
    if result.cpus is not None:
        cpus, allocated, source = result.cpus
        text = f"{share(allocated)} of {plain(cpus)} CPUs ({source}) were allocated in the mean"
        findings.append(Finding(f"{text}.{others}", effect=allocated, certainty=certainty))
    blocks = tuple(_blocks(result, trace))
    return Content(tuple(findings), blocks, (gallery,), _LIMITATIONS).of(trace.label)


def _events(result: TrendsFound, strata: str) -> Iterator[Finding]:
    """Yield missing records, outages, failures together, idle nodes and changes of level."""
    named = _unit_and_zone(result)
    yield from _missing(result, named["zone"])
    for table in (result.outages, result.of_types):
        yield from (_outage(row | named) for row in table.rows(named=True))
    yield from _bursts(result, named)
    yield from (_idle(row | named) for row in result.idle_nodes.rows(named=True))
    for row in result.changes.rows(named=True):
        yield _change(row | named, strata)


def _blocks(result: TrendsFound, trace: Trace) -> Iterator[Block]:
    """Yield the tables: by period, of the capacity, of outages, changes and drift."""
    definition = trace.manifest.own_failures
    if definition and result.trends["failure_rate"].count():
        yield Text(f"Failures are those of the published definition here: {definition}")
    yield result_table(
        result.trends,
        Trends,
        caption="Trends by period",
        columns=[
            name
            for name in result.trends.columns
            if name == "period" or (name not in ("start_s", "end_s") and result.trends[name].sum())
        ],
        folded=result.trends.height > _MOST_OPEN,
    )
    yield from _capacity_blocks(result, trace)
    yield from _idle_blocks(result)
    if result.changes.height:
        left = {"start_s", "level", "level_rest"}  # the sentences have them
        names = ("user", "job_name", "queue")
        left |= {name for name in names if not result.changes[name].count()}
        yield result_table(
            result.changes,
            LevelChanges,
            caption="Changes of level of comparable jobs",
            columns=[name for name in result.changes.columns if name not in left],
            null=dict.fromkeys(names, ""),
        )
    if result.drift.height:
        caption = "Drift of comparable jobs: linear change per week"
        yield result_table(result.drift, Drift, caption=caption)


def _idle_blocks(result: TrendsFound) -> Iterator[Block]:
    """Yield the tables of outages and of idle nodes."""
    if result.outages.height:
        lost = ("start_s", "end_s", "gpu_hours_lost", "jobs_lost", "pvalue")
        yield result_table(
            result.outages,
            Outages,
            caption="Outages",
            columns=[name for name in lost if name[-5:] != "_lost" or result.outages[name].sum()],
        )
    if result.bursts.height:
        caption = "Jobs of many users that failed together"
        yield result_table(result.bursts, FailureBursts, caption=caption)
    if result.idle_nodes.height:
        left = {"begin", "duration_s", "is_first", "lasts"}
        idle = result.idle_nodes
        yield result_table(
            idle,
            IdleNodes,
            caption="Nodes that ran no job, while others did",
            columns=[name for name in idle.columns if name not in left],
        )


def _capacity_blocks(result: TrendsFound, trace: Trace) -> Iterator[Block]:
    if result.capacity is None:
        return
    figure, about, zone = "cluster-utilization", "GPUs allocated", result.timezone
    key = f"{figure}-{trace.id}"
    yield Gallery((drawing(figure, result.capacity, trace, key, about, timezone=zone),))
    is_whole = pl.col("period") == "all"
    shown = [name for name in _CAPACITY if result.capacity[name].count()]
    for rows, columns, by in (
        (result.capacity.filter(is_whole), shown[1:], ""),
        (result.capacity.filter(~is_whole), shown, ", by period"),
    ):
        caption = f"GPUs allocated, down and idle ({result.capacity_source}){by}"
        yield result_table(
            rows, ClusterUtilization, columns=columns, folded=bool(by), caption=caption
        )


def _allocated(capacity: pl.DataFrame, source: str) -> tuple[str, str, dict[str, Any]]:
    """State how much of the GPUs was allocated, down and idle, in all and by type; with the row."""
    of_all, *types = capacity.filter(pl.col("period") == "all").rows(named=True)
    parts = [
        f"{share(of_all[name] or 0)} were {name}"
        for name in ("allocated", "down", "idle")
        if of_all[name] is not None
    ]
    used, by_type = (of_all["allocated"] or 0) * of_all["gpu_hours"], ""
    if types and sum((row["allocated"] or 0) * row["gpu_hours"] for row in types) >= _TYPED * used:
        by_type = ", ".join(f"{row['gpu_type']} {share(row['allocated'] or 0)}" for row in types)
        by_type = f" (allocated by type: {by_type})"
    absent = of_all["gpus"] * (of_all["end_s"] - of_all["start_s"]) / 3600 - of_all["gpu_hours"]
    if absent >= 1:
        source += f"; without {hours_text(absent)} GPU-hours of nodes that ran no job for long"
    text = (
        f"of {hours_text(of_all['gpu_hours'])} GPU-hours of {plain(of_all['gpus'])} GPUs "
        f"({source}), {listed(parts)}{by_type}."
    )
    heading = f"{share(of_all['allocated'] or 0)} of the GPUs were allocated"
    return text, heading, of_all


def _drifts(result: TrendsFound) -> Iterator[Finding]:
    """State the drifts that differ from none, where intervals hold their level."""
    rows = result.drift
    clear = rows.filter(
        pl.col("pvalue") * rows.height < _ALPHA,
        pl.col("note").is_null(),
        pl.col("measure").is_in(["wait", "demand"])  # of the others, a step is no drift
        | ~pl.col("measure").is_in(result.changes["measure"].implode()),
    )
    alone = _alone(rows)
    clear = clear.filter(pl.col("queue").is_null() | pl.col("queue").is_in(alone))
    if clear["queue"].count():  # waits of all queues are no result beside those of one
        clear = clear.filter((pl.col("measure") != "wait") | pl.col("queue").is_not_null())
    for row in clear.iter_rows(named=True):
        unit = "percentage points" if row["measure"] == "failure rate" else "%"
        verb, sign = ("rises", 100) if row["per_week"] > 0 else ("falls", -100)
        ends = sorted(sign * row[name] for name in ("ci_low", "ci_high"))
        low, change, high = (
            f"{value:.0f}" if abs(value) >= 10 else f"{value:.2g}"
            for value in (ends[0], sign * row["per_week"], ends[1])
        )
        of_all, times, cost = "", "", 0.0
        if row["measure"] == "demand":
            is_sure = row["pvalue"] * rows.height < _CERTAIN
            of_all, (times, cost) = " of its mean", _growth(result, row) if is_sure else ("", 0.0)
        of_queue = f" in queue {row['queue']}" if row["queue"] is not None else ""
        word = _WORDS[row["measure"]].replace("median wait", "wait of comparable jobs")
        what = f"the {word}{of_queue} {verb}"
        yield Finding(
            f"{what} by {change} {unit}{of_all} per week (95 % CI {low} to {high}; "
            f"n = {row['n']:,} {'days' if row['measure'] == 'demand' else 'jobs'}){times}.",
            effect=row["per_week"],
            interval=(row["ci_low"], row["ci_high"]),
            n=row["n"],
            cost_gpu_h=cost,
            certainty="estimated",
            heading=f"{what}{times.partition(' (')[0].removeprefix(',')}" if cost else "",
        )


def _alone(drift: pl.DataFrame) -> list[str]:
    """Return the queues whose waits do not drift as those of the others do in the mean."""
    queues = drift.drop_nulls("queue").with_columns(sum=pl.col("n") * pl.col("per_week"))
    rest, jobs = (pl.col(name).sum() - pl.col(name) for name in ("sum", "n"))
    alike = (rest / jobs).is_between("ci_low", "ci_high")
    return queues.filter(jobs > 0, ~alike)["queue"].to_list()


def _growth(result: TrendsFound, row: dict[str, Any]) -> tuple[str, float]:
    """Return how many times the first demand the last is, if large, and the GPU-hours of it."""
    table = result.trends
    half = (table["end_s"][-1] - table["start_s"][0]) / (14 * DAY_S)
    rises = (half * row[name] for name in ("ci_low", "per_week", "ci_high"))
    low, times, high = (
        (1 + rise) / (1 - rise) if rise < _NONE_AT_FIRST else None for rise in rises
    )
    if times is None or low is None or low <= 0 or 1 / _GROWN < times < _GROWN:
        return "", 0.0
    interval = f"{low:.2g} or more" if high is None else f"{low:.2g} to {high:.2g}"
    text = f", to {times:.2g} times that of the start (95 % CI {interval})"
    return text, float(table["gpu_hours"].sum() or 0) * abs(half * row["per_week"])


def _none(trends_table: TrendsFound) -> Finding:
    rows = trends_table.trends
    if rows["end_s"][-1] - rows["start_s"][0] < FEWEST_DAYS * DAY_S:
        short = f"shorter than {FEWEST_DAYS} days, so changes of level are not tested"
        return Finding(f"{short}.", certainty="cannot tell", heading=short)
    measures = trends_table.drift["measure"].unique(maintain_order=True)
    of_levels = f" and no change of level ({', '.join(measures)})" if measures.len() else ""
    longest = "".join(
        f" The longest time in which no job ran is {duration(row['duration_s'])} "
        f"from {row['begin']}; it is not certain whether it was an outage."
        for row in trends_table.longest.iter_rows(named=True)
    )
    return Finding(
        f"no outage{of_levels} is found in "
        f"{plural(rows.height, 'period')} ({rows['period'][0]} to {rows['period'][-1]}; "
        f"{int(rows['jobs'].sum()):,} jobs).{longest}",
        certainty="cannot tell",
        heading=f"no outage{of_levels.partition(' (')[0]} is found",
    )


def _unit_and_zone(result: TrendsFound) -> dict[str, str]:
    """Return what is in use, and the time zone where tables and other sections have UTC."""
    zone = "" if result.timezone in (None, "UTC") else f" ({result.timezone})"
    return {"unit": "GPUs" if result.trends["gpu_hours"].sum() else "CPUs", "zone": zone}


def _outage(row: dict[str, Any]) -> Finding:
    on = f" on {row['gpu_type']}" if row.get("gpu_type") else ""
    text = f"no job ran{on} from {row['begin']}{row['zone']} for {_hours(row['duration_s'])}"
    lost = row["gpu_hours_lost"] or 0.0
    cost = f", {three_digits(lost)} GPU-hours at the usual demand" if lost else ""
    return Finding(
        f"{text}{cost}.",
        effect=row["duration_s"],
        cost_gpu_h=lost,
        cost_jobs=row["jobs_lost"],
        alert=f"outage: {text}",
        heading=text,
    )


def _missing(result: TrendsFound, zone: str) -> Iterator[Finding]:
    """Yield the times of which records may be missing."""
    for what, begin, lasted_s, jobs in result.missing:
        text = f"no job {what} from {begin}{zone} for {_hours(lasted_s)}, while jobs ran"
        yield Finding(
            f"{text}: records of about {plural(round(jobs), 'job')} may be missing. Rates and use "
            "are then those of the other jobs.",
            effect=lasted_s,
            cost_jobs=jobs,
            certainty="estimated",
            # a log of all jobs submitted in a period, each until its end, has such an end, too
            alert=f"records may be missing: {text}" if what == "ended" else "",
            heading=text,
        )


def _bursts(result: TrendsFound, named: dict[str, Any]) -> Iterator[Finding]:
    """Yield the failures together, those of one time of the day as one."""
    bursts = result.bursts
    clock = pl.col("begin").str.extract(r" (\d\d:\d\d)$")
    minute = clock.str.slice(0, 2).cast(pl.Int64) * 60 + clock.str.slice(3).cast(pl.Int64)
    bursts = bursts.with_columns(clock=clock, minute=minute)
    usual = bursts["minute"].drop_nulls().median()
    if usual is not None:
        daily = bursts.filter((minute - usual).abs() <= _SAME_MIN)
        if daily.height >= _DAILY and 2 * daily.height > bursts.height:
            yield _recurring(daily, named["zone"])
            bursts = bursts.join(daily, on="start_s", how="anti")
    bursts = bursts.sort("n_users", "n", descending=True).head(_NAMED)  # the table has all
    yield from (_burst(row | named) for row in bursts.rows(named=True))


def _recurring(daily: pl.DataFrame, zone: str) -> Finding:
    """State failures together that recur at one time of the day."""
    lost, n = float(daily["gpu_hours"].fill_null(0).sum()), int(daily["n"].sum())
    first, last = daily["clock"].sort()[0], daily["clock"].sort()[-1]
    text = f"jobs of many users failed together on {daily.height:,} days, each time at {first}"
    text += f" to {last}{zone}" if last != first else zone
    cost = f"; they had used {three_digits(lost)} GPU-hours" if lost else ""
    days = [begin.partition(" ")[0] for begin in daily["begin"].head(_NAMED)]
    days += [f"{daily.height - _NAMED} more"] if daily.height > _NAMED else []
    return Finding(
        f"{text} ({plural(n, 'job')}{cost}). The days are {listed(days)}.",
        effect=float(daily.height),
        n=n,
        cost_gpu_h=lost,
        cost_jobs=n,
        alert=f"{text}: {plural(n, 'job')}",
        heading=text,
    )


def _burst(row: dict[str, Any]) -> Finding:
    lost, lasted_s = row["gpu_hours"] or 0.0, row["end_s"] - row["start_s"]
    within = duration(60 * -(-lasted_s // 60) or 60)
    text = (
        f"{row['n']:,} jobs of {row['n_users']:,} users failed within {within} from {row['begin']}"
        f"{row['zone']}"
    )
    cost = f"; they had used {three_digits(lost)} GPU-hours" if lost else ""
    return Finding(
        f"{text}{cost}. {plural(row['n_running'], 'job')} ran then.",
        effect=row["n"] / max(row["n_running"], row["n"]),
        n=row["n"],
        cost_gpu_h=lost,
        cost_jobs=row["n"],
        alert=text,
        heading=text,
    )


def _hours(lasted_s: float) -> str:
    return f"{lasted_s / 3600:.0f} h" if 10 <= lasted_s / 3600 < 96 else duration(lasted_s)


def _idle(row: dict[str, Any]) -> Finding:
    names = row["nodes"].split(", ")
    named = [*names[:_NAMED], *([f"{row['n'] - _NAMED} others"] if row["n"] > _NAMED else [])]
    nodes = f"{row['n']:,} of {row['n_nodes']:,} nodes" if row["n"] > 1 else f"node {names[0]}"
    until = "on" if row["lasts"] else f"for {_hours(row['duration_s'])}"
    text = f"{nodes} ran no job from {row['begin']}{row['zone']} {until}, while others did"
    is_new = row["is_first"]
    lost = 0.0 if is_new else row["gpu_hours_lost"] or 0.0
    cost = f", {three_digits(lost)} GPU-hours at their usual use" if lost else ""
    cost = f"; {'they' if row['n'] > 1 else 'it'} may be new" if is_new else cost
    which = f" ({listed(named)})" if row["n"] > 1 else ""
    return Finding(
        f"{text}{cost}{which}.",
        effect=row["n"] / row["n_nodes"],
        n=row["n"],
        cost_gpu_h=lost,
        cost_jobs=0.0 if is_new else row["jobs_lost"],
        certainty="estimated",
        alert="" if is_new else f"drained or down: {text}",
        machine=names[0] if row["n"] == 1 else "",
        heading=text,
    )


def _change(row: dict[str, Any], strata: str) -> Finding:
    measure, size, worse = row["measure"], abs(row["effect"]), row["effect"] > 0
    low, high = row["ci_low"], row["ci_high"]
    if low * high >= 0:
        low, high = sorted((abs(low), abs(high)))
    until = "on" if row["end_s"] is None else f"for {duration(row['end_s'] - row['start_s'])}"
    since = row["begin"]
    if row["earliest"] != row["latest"]:
        since += f" (between {row['earliest']} and {row['latest']})"
    what = _what_changed(row, size, worse=worse)
    limits = f" (95 % CI {fraction_range(low, high)})" * (measure in ("runtime", "failure rate"))
    when = f"from {since} {until}" if since != WEEKENDS else f"for starts on {since}"
    text = f"{what}{limits} {when}"
    text += f"; {row['note']}" if row["note"] else ""
    # fraction of the jobs' hours that the change added
    part = {"runtime": size / (1 + size), "failure rate": size}.get(measure, 0.0) * worse
    hours = row["gpu_hours"] * part
    if measure == "demand":
        hours = abs(row["level"] - row["level_rest"]) * 24 * row["n"]
    concerned = row["n"] * (part if measure != "wait" else float(worse))  # all of them wait
    certain = worse and size >= _NOTICED and measure != "demand" and row["ci_low"] > 0
    certain = certain and (measure != "wait" or row["level"] >= _LONG_WAIT_S)
    return Finding(
        f"{text} ({_counts(row, strata)}).",
        effect=row["effect"],
        interval=(row["ci_low"], row["ci_high"]),
        n=row["n"],
        cost_gpu_h=hours,
        cost_jobs=concerned,
        certainty="estimated",
        alert=f"{what} {when}" if certain else "",
        heading=f"{what} {when.removesuffix(f' {until}')}",
    )


def _what_changed(row: dict[str, Any], size: float, *, worse: bool) -> str:
    measure, what = row["measure"], _WORDS[row["measure"]]
    if row["job_name"] is not None:
        what = f"median runtime of {row['job_name']} jobs of {row['user']}"
    elif row["user"] is not None:
        what += f" of user {row['user']}"
    elif row["queue"] is not None:
        what += f" in queue {row['queue']}"
    if measure == "failure rate":
        return f"{what} {100 * size:.2g} percentage points {'higher' if worse else 'lower'}"
    if measure == "wait":
        return f"{what} {duration(row['level'])} instead of {duration(row['level_rest'])}"
    if measure == "demand":
        return (
            f"{what} {share(size)} {'higher' if worse else 'lower'}: {three_digits(row['level'])} "
            f"instead of {three_digits(row['level_rest'])} {row['unit']} in use"
        )
    return f"{what} {share(size)} {'longer' if worse else 'shorter'}"


def _counts(row: dict[str, Any], strata: str) -> str:
    both = f"n = {row['n']:,} and {row['n_rest']:,}"
    if row["measure"] == "demand":
        return f"{both} days"
    of = strata if row["user"] is None else "size"
    of = "queue and size" if row["measure"] == "wait" else of
    number = f"{row['strata']:,} strata" if row["strata"] > 1 else "one stratum"
    return f"{both} jobs in {number} of {of}"


SECTION = Section(
    "trends",
    "Trends",
    15,
    build,
    needs=NEEDS,
    figures=("trends", "small-multiples", "cluster-utilization"),
    part="Workload",
    question="How did use, waits, runtimes and failures change, and since when?",
)
