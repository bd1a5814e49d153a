"""Section on failures while jobs run: early failures, time limits, and lost GPU-hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from traceana.cohorts.cohort import COHORT_NEEDS, Cohort
from traceana.cohorts.observation import window_of
from traceana.page.blocks import Block, Content, Text, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.failures.hazard_by_runtime import (
    goodput,
    hazard_by_runtime,
    time_limit_ends,
)
from traceana.questions.failures.tables import Goodput, HazardByRuntime, TimeLimitEnds
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.store import Trace
from traceana.tables.formatting import count, duration, hours_text, listed, share, three_digits
from traceana.tables.formatting import three_digits_range as digits_range

_OPENING: Final = (
    "The hazard is the number of events over the hours that jobs ran in an interval of runtime. "
    "Jobs that were last seen running count until then. A hazard of failure that falls with "
    "runtime means early failures. Repeated GPU-hours are those of unsuccessful runs after which "
    "the same user started a job of the same name again."
)
_LIMITATIONS: Final = (
    "Jobs differ: a hazard that falls with runtime may also mean that jobs likely to fail end "
    "first. A checkpoint may have kept a part of the work of an unsuccessful run, so that "
    "repeated and lost GPU-hours are an upper bound."
)
_SAME: Final = ("user", "job_name")
_FEWEST: Final = 10
"""Events in an interval that the finding needs."""
_MOSTLY: Final = 0.5
"""Fraction of GPU-hours without an end state from which it is the main result on them."""


def build(traces: Sequence[Trace]) -> Content:
    """Show hazards, ends at time limits and goodput of each cohort."""
    return build_per_cohort(traces, _build, opening=_OPENING, end_imputation="running")


def _build(cohort: Cohort) -> Content:
    events = sorted(cohort.events, key=lambda event: event != "failed")  # failures first
    if not events:
        return Content((), (Text(f"No {cohort.noun} with a runtime have ended."),))
    hazards = cohort.over_units(
        hazard_by_runtime,
        cohort.rows,
        events=events,
        runtime="duration_s",
        entry="entry_s",
        observed="observed",
    )
    of_hazard = result_table(
        hazards.filter(event=events[0]),
        HazardByRuntime,
        columns=("from_s", "to_s", "n_events", "run_hours", "hazard_per_h", "ci_low", "ci_high"),
        caption=f"Hazard of {cohort.noun} to end as {events[0]}, by runtime. {cohort.title}",
    )
    findings: list[str] = []
    tables: list[Block] = []
    if not cohort.from_tasks:
        for finding, block in (_goodput(cohort), _limits(cohort)):
            findings.append(finding)
            tables += [block] if block is not None else []
    findings.append(_early(hazards, cohort))
    tables.append(of_hazard)
    if len(events) > 1:
        others = hazards.filter(pl.col("event") != events[0])
        what = f"Hazards of the other ends of {cohort.noun}. {cohort.title}"
        tables.append(result_table(others, HazardByRuntime, caption=what))
    told = tuple(filter(None, findings))
    blocks = (Text("", cohort.definitions), *tables[1:])
    return Content(told, blocks, lead=(tables[0],), limitations=_LIMITATIONS)


def _early(hazards: pl.DataFrame, cohort: Cohort) -> str:
    """Compare the hazards of failure of the first and the last interval with enough events."""
    enough = pl.col("n_events") >= _FEWEST
    table = hazards.filter(enough, event="failed").drop_nulls("hazard_per_h")
    if table.height < 2:
        return ""
    rows = table.to_dicts()
    ordered = sorted(rows, key=lambda row: -float(row["hazard_per_h"]))
    pairs = ((rows[0], rows[-1]), (ordered[0], ordered[-1]))
    first, last = next((pair for pair in pairs if _are_apart(*pair)), pairs[0])
    apart = _are_apart(first, last)
    compared, ratios = "not distinguishable from that", ""
    if apart:
        ratio = first["hazard_per_h"] / last["hazard_per_h"]
        compared = f"{three_digits(ratio)} times that"
        ends = first["ci_low"] / last["ci_high"], first["ci_high"] / last["ci_low"]
        ratios = f": {digits_range(*ends)} times by the limits of both intervals"
    when, later = (
        f"from {duration(row['from_s'])} on"
        if row["to_s"] is None
        else f"from {duration(row['from_s'])} to {duration(row['to_s'])}"
        for row in (first, last)
    )
    first_n, last_n = (
        f"(95 % CI {digits_range(row['ci_low'], row['ci_high'])}; n = {count(row['n_events'])})"
        for row in (first, last)
    )
    return Finding(
        f"{cohort.title}: {cohort.noun} fail at {three_digits(first['hazard_per_h'])} per hour "
        f"{first_n} {when} of runtime. This is {compared} {later}, "
        f"{three_digits(last['hazard_per_h'])} per hour {last_n}{ratios}.",
        heading=f"{cohort.title}: the failure rate {when} of runtime is {compared} {later}",
        is_null=not apart,
        is_description=True,
    )


def _are_apart(first: dict[str, Any], last: dict[str, Any]) -> bool:
    """Return whether the intervals of two hazards have no value in common."""
    return bool(first["ci_low"] > last["ci_high"] or last["ci_low"] > first["ci_high"])


def _limits(cohort: Cohort) -> tuple[str, Block | None]:
    trace = cohort.trace
    if not trace.has("jobs", ("time_limit_s", "runtime_s", "gpus")):
        return "", None
    limit_ends = time_limit_ends(trace.scan("jobs"), window=trace.once(window_of))
    row = limit_ends.row(0, named=True)
    if not row["n"]:
        return "", None
    block = result_table(
        limit_ends, TimeLimitEnds, caption=f"Ends at the time limit. {trace.label}", folded=True
    )
    reached = f"none of the {cohort.noun} reaches its time limit"
    if row["fraction_at_limit"]:
        reached = f"{share(row['fraction_at_limit'])} of {cohort.noun} reach their time limit"
        if row["fraction_hours"] is not None:
            reached += f", with {share(row['fraction_hours'])} of GPU-hours"
    finding = (
        f"{trace.label}: {reached}; the median one uses {share(row['median'])} of its limit "
        f"(n = {count(row['n'])})."
    )
    return finding, block


def goodput_of(trace: Trace) -> pl.DataFrame:
    """Return the goodput of a trace's jobs, with the time that each ran within the window."""
    named = trace.has("jobs", _SAME)
    same = _SAME if named else ()
    return goodput(trace.frame("jobs"), same=same, window=trace.once(window_of))


def _goodput(cohort: Cohort) -> tuple[str, Block | None]:
    trace = cohort.trace
    if not trace.has("jobs", ("status", "start_s", "runtime_s", "gpus")):
        return "", None
    result = trace.once(goodput_of)
    total = float(result["gpu_hours"].sum())
    if not total:
        return "", None
    block = result_table(
        result, Goodput, caption=f"GPU-hours within the window by outcome. {trace.label}"
    )
    shares = dict(result.select("kind", "fraction_of_all").iter_rows())
    said = {
        "useful": f"to completed {cohort.noun}",
        "repeated": f"to unsuccessful ones after which the user started {cohort.noun} of the same "
        "name",
        "lost": f"to {'other ' if shares['repeated'] else ''}unsuccessful {cohort.noun}",
        "unfinished": "to those without an end state",
    }
    parts = {kind: f"{share(shares[kind])} {text}" for kind, text in said.items() if shares[kind]}
    first = next(iter(parts))
    parts[first] = parts[first].replace(" to ", " went to ", 1)
    of = f"{trace.label}: of {hours_text(total)} GPU-hours"
    open_ended, useful = shares["unfinished"] or 0.0, shares["useful"] or 0.0
    if open_ended < _MOSTLY:
        done = share(useful) if useful else "none"
        finding = Finding(
            f"{of} {listed(list(parts.values()))}.",
            effect=useful,
            heading=f"{trace.label}: {done} of the GPU-hours went to completed {cohort.noun}",
            is_description=True,
        )
        return finding, block
    rest = [text for kind, text in parts.items() if kind != "unfinished"]
    text = f"{of}, {share(open_ended)} are of {cohort.noun} without an end state."
    text += f" {listed(rest)}." if rest else ""
    heading = f"{share(open_ended)} of the GPU-hours are of {cohort.noun} without an end state"
    return Finding(text, effect=open_ended, heading=f"{trace.label}: {heading}"), block


SECTION = Section(
    "hazards",
    "Failures over runtime, and lost GPU-hours",
    95,
    build,
    needs=COHORT_NEEDS,
    shares="cohort",
    part="Failures",
    question="When do jobs fail, and how many GPU-hours are lost?",
)
