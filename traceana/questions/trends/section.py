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
    drawing,
    join_parts,
    picture_key,
    result_table,
    small_multiples,
)
from traceana.page.finding import Certainty, Finding
from traceana.page.section import Section
from traceana.questions.trends.capacity import NEEDS, Found, trends_of
from traceana.questions.trends.comparable import FEWEST_DAYS
from traceana.questions.trends.tables import (
    ClusterUtilization,
    Drift,
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
    plural,
    share,
    three_digits,
)

_OPENING: Final = (
    "Use is by overlap with the period. A job counts where it is submitted, its wait where it "
    "starts, its runtime and status where it ends."
)
_LIMITATIONS: Final = (
    "Outages and changes of level are tested at 1 % each. Of 200 simulated logs without a change, "
    "1 had a false one (of the demand), and 12 of 200 if users work in spells of days and waits "
    "depend on the day before (4 of the wait, 7 of the demand). Changes shorter than three days "
    "(of demand: a week) are not tested. Waits and demand leave out outages."
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
_MOST_PANELS: Final = 8
_NOTICED: Final = 0.05
_ALPHA: Final = 0.05
_TYPED: Final = 0.95
"""Least fraction of the use that must have a GPU type for a statement by type."""
_WORDS: Final = {
    "runtime": "median runtime of comparable jobs",
    "failure rate": "failure rate of comparable jobs",
    "wait": "median wait",
    "demand": "demand",
}


def build(traces: Sequence[Trace]) -> Content:
    """Show the trends of each trace, its outages and changes of level."""
    return join_parts(_OPENING, ((trace.label, _trace(trace)) for trace in distinct_traces(traces)))


def _trace(trace: Trace) -> Content:
    trends_table, title = trace.once(trends_of), trace.label
    panels = [
        drawing(
            "trends",
            trends_table.trends,
            trace=trace,
            key=picture_key(f"trends-{name}", trace),
            about="Trends",
            measure=name,
            timezone=trends_table.timezone,
        )
        for name in _PANELS
        if trends_table.trends[name].sum()
    ][:_MOST_PANELS]
    gallery = small_multiples(
        panels,
        key=picture_key("trends", trace),
        about="Trends by period",
        columns=2,
        share_x=True,
        heights_in=(1.5,) * -(-len(panels) // 2),
    )
    columns = [
        name
        for name in trends_table.trends.columns
        if name == "period"
        or (name not in ("start_s", "end_s") and trends_table.trends[name].sum())
    ]
    table = result_table(
        trends_table.trends,
        Trends,
        caption=f"Trends by period. {title}",
        columns=columns,
        folded=trends_table.trends.height > 12,
    )
    blocks: list[Block] = [table]
    if trends_table.capacity is not None:
        of_all, by_period = (
            trends_table.capacity.filter((pl.col("period") == "all") == with_users)
            for with_users in (True, False)
        )
        shown = [
            name
            for name in ("period", "gpu_type", "gpus", "gpu_hours", "allocated", "down", "idle")
            if trends_table.capacity[name].count()
        ]
        caption = f"GPUs allocated, down and idle ({trends_table.capacity_source})"
        blocks += [
            result_table(
                of_all, ClusterUtilization, columns=shown[1:], caption=f"{caption}. {title}"
            ),
            result_table(
                by_period,
                ClusterUtilization,
                columns=shown,
                folded=True,
                caption=f"{caption}, by period. {title}",
            ),
        ]
    if trends_table.outages.height:
        lost = ["start_s", "end_s", "gpu_hours_lost", "jobs_lost", "pvalue"]
        if not trends_table.outages["gpu_hours_lost"].sum():
            lost.remove("gpu_hours_lost")
        caption = f"Outages. {title}"
        blocks.append(result_table(trends_table.outages, Outages, caption=caption, columns=lost))
    if trends_table.changes.height:
        caption = f"Changes of level of comparable jobs. {title}"
        left = {"start_s", "level", "level_rest"}  # the sentences have them
        left |= {name for name in ("user", "job_name") if not trends_table.changes[name].count()}
        blocks.append(
            result_table(
                trends_table.changes,
                LevelChanges,
                caption=caption,
                columns=[name for name in trends_table.changes.columns if name not in left],
                null={"user": "", "job_name": ""},
            )
        )
    if trends_table.drift.height:
        caption = f"Drift of comparable jobs: linear change per week. {title}"
        blocks.append(result_table(trends_table.drift, Drift, caption=caption))
    findings = (
        *(_outage(row, title) for row in trends_table.outages.iter_rows(named=True)),
        *(
            _change(row, title, _strata(trace))
            for row in trends_table.changes.iter_rows(named=True)
        ),
    )
    if not findings:
        findings = (_none(trends_table, title),)
    findings += tuple(_drifts(trends_table.drift, title))
    if trends_table.capacity is not None:
        findings += (_allocated(trends_table.capacity, trends_table.capacity_source, title, trace),)
        picture = drawing(
            "cluster-utilization",
            trends_table.capacity,
            trace=trace,
            timezone=trends_table.timezone,
            key=f"cluster-utilization-{trace.id}",
            about="GPUs allocated",
        )
        blocks.insert(1, Gallery((picture,)))
    if trends_table.cpus is not None:
        cpus, allocated, source = trends_table.cpus
        text = f"{share(allocated)} of {cpus:,.6g} CPUs ({source}) were allocated in the mean"
        others, certainty = _others(trace)
        findings += (Finding(f"{title}: {text}.{others}", effect=allocated, certainty=certainty),)
    return Content(findings, tuple(blocks), findings[0], (gallery,), _LIMITATIONS)


def _allocated(capacity: pl.DataFrame, source: str, title: str, trace: Trace) -> Finding:
    """State how much of the GPUs was allocated, down and idle, in all and by type."""
    of_all, *types = capacity.filter(pl.col("period") == "all").rows(named=True)
    parts = [
        f"{share(of_all[name] or 0)} were {name}"
        for name in ("allocated", "down", "idle")
        if of_all[name] is not None
    ]
    used, by_type = (of_all["allocated"] or 0) * of_all["gpu_hours"], ""
    if sum((row["allocated"] or 0) * row["gpu_hours"] for row in types) >= _TYPED * used:
        by_type = ", ".join(f"{row['gpu_type']} {share(row['allocated'] or 0)}" for row in types)
    others, certainty = _others(trace)
    return Finding(
        f"{title}: of {hours_text(of_all['gpu_hours'])} GPU-hours of {of_all['gpus']:,.5g} GPUs "
        f"({source}), {listed(parts)}{f' (allocated by type: {by_type})' * bool(by_type)}."
        f"{others}",
        effect=of_all["allocated"],
        heading=f"{title}: {share(of_all['allocated'] or 0)} of the GPUs were allocated",
        certainty=certainty,
    )


def _others(trace: Trace) -> tuple[str, Certainty]:
    """Return what a log of one user leaves open, and how certain an allocation is."""
    if count_users(trace) != 1:
        return "", "exact"
    return " The log has one user; the jobs of others are not in it.", "cannot tell"


def _drifts(rows: pl.DataFrame, title: str) -> Iterator[Finding]:
    """State the drifts that differ from none, where intervals hold their level."""
    clear = rows.filter(pl.col("pvalue") * rows.height < _ALPHA, pl.col("note").is_null())
    for row in clear.iter_rows(named=True):
        size = _WORDS[row["measure"]]
        points = " percentage points" * (row["measure"] == "failure rate")
        low, change, high = (
            f"{100 * row[name]:+.2g}" for name in ("ci_low", "per_week", "ci_high")
        )
        unit = points or " %"
        yield Finding(
            f"{title}: the {size} changes by {change}{unit} per week (95 % CI {low} to {high}; "
            f"n = {row['n']:,} {'days' if row['measure'] == 'demand' else 'jobs'}).",
            effect=row["per_week"],
            interval=(row["ci_low"], row["ci_high"]),
            n=row["n"],
            certainty="estimated",
        )


def _none(trends_table: Found, title: str) -> Finding:
    rows = trends_table.trends
    if rows["end_s"][-1] - rows["start_s"][0] < FEWEST_DAYS * DAY_S:
        short = f"{title}: shorter than {FEWEST_DAYS} days, so changes of level are not tested"
        return Finding(f"{short}.", certainty="cannot tell", heading=short)
    measures = trends_table.drift["measure"].unique(maintain_order=True)
    of_levels = f" and no change of level ({', '.join(measures)})" if measures.len() else ""
    return Finding(
        f"{title}: no outage{of_levels} is found in "
        f"{plural(rows.height, 'period')} ({rows['period'][0]} to {rows['period'][-1]}; "
        f"{int(rows['jobs'].sum()):,} jobs).",
        certainty="cannot tell",
        heading=f"{title}: no outage{of_levels.partition(' (')[0]} is found",
    )


def _outage(row: dict[str, Any], title: str) -> Finding:
    lasted = row["duration_s"] / 3600
    hours = f"{lasted:.0f} h" if lasted >= 10 else duration(row["duration_s"])
    text = f"no job ran from {row['begin']} for {hours}"
    lost = row["gpu_hours_lost"] or 0.0
    cost = f", {three_digits(lost)} GPU-hours at the usual demand" if lost else ""
    return Finding(
        f"{title}: {text}{cost}.",
        effect=row["duration_s"],
        cost_gpu_h=lost,
        cost_jobs=row["jobs_lost"],
        alert=f"{title}: outage: {text}",
        heading=f"{title}: {text}",
    )


def _change(row: dict[str, Any], title: str, strata: str) -> Finding:
    worse, size = row["effect"] > 0, abs(row["effect"])
    low, high = sorted((abs(row["ci_low"]), abs(row["ci_high"])))
    if row["ci_low"] * row["ci_high"] < 0:
        low, high = row["ci_low"], row["ci_high"]
    until = "on" if row["end_s"] is None else f"for {duration(row['end_s'] - row['start_s'])}"
    what = _WORDS[row["measure"]]
    if row["user"] is not None:
        what = f"median runtime of {row['job_name']} jobs of {row['user']}"
        strata = "size"
    if row["measure"] == "failure rate":
        points = "higher" if worse else "lower"
        what = f"{what} {100 * size:.2g} percentage points {points}"
    elif row["measure"] == "wait":
        what = f"{what} {duration(row['level'])} instead of {duration(row['level_rest'])}"
    elif row["measure"] == "demand":
        what = (
            f"{what} {share(size)} {'higher' if worse else 'lower'}: {three_digits(row['level'])} "
            f"instead of {three_digits(row['level_rest'])} in use"
        )
    else:
        what = f"{what} {share(size)} {'longer' if worse else 'shorter'}"
    interval = fraction_range(low, high)
    limits = f" (95 % CI {interval})" if row["measure"] in ("runtime", "failure rate") else ""
    since = f"{row['begin']} {until}"
    if row["earliest"] != row["latest"]:
        since += f" (it began between {row['earliest']} and {row['latest']})"
    text = f"{what}{limits} from {since}"
    text += f"; {row['note']}" if row["note"] else ""
    # fraction of the jobs' hours that the change added
    part = {"runtime": size / (1 + size), "failure rate": size}.get(row["measure"], 0.0)
    certain = worse and size >= _NOTICED and row["measure"] != "demand" and row["ci_low"] > 0
    return Finding(
        f"{title}: {text} ({_counts(row, strata)}).",
        effect=row["effect"],
        interval=(row["ci_low"], row["ci_high"]),
        n=row["n"],
        cost_gpu_h=row["gpu_hours"] * part if worse else 0.0,
        cost_jobs=row["n"] * part if worse else 0.0,
        certainty="estimated",
        alert=f"{title}: {what} from {since}" if certain else "",
        heading=f"{title}: {what} from {row['begin']} {until}",
    )


def _strata(trace: Trace) -> str:
    """Return the columns by which jobs are comparable, as far as the trace has them."""
    named = {"user": "user", "job_name": "name"}
    return listed(
        [*(word for column, word in named.items() if trace.has("jobs", (column,))), "size"]
    )


def _counts(row: dict[str, Any], strata: str) -> str:
    both = f"n = {row['n']:,} and {row['n_rest']:,}"
    if row["measure"] == "demand":
        return f"{both} days"
    of = "queue and size" if row["measure"] == "wait" else strata
    strata = f"{row['strata']:,} strata" if row["strata"] > 1 else "one stratum"
    return f"{both} jobs in {strata} of {of}"


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
