"""Competing risks of completion and failure by runtime, hazards, and lost GPU-hours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from traceana.cohorts.cohort import BLOCK, COHORT_NEEDS, SEEN, Cohort, form_cohort
from traceana.cohorts.observation import window_of
from traceana.errors import DataError
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Table,
    Text,
    drawing,
    result_table,
    small_multiples,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.failures.analyze import (
    bad_nodes,
    estimate_competing_risks,
    incidence_difference,
    without_limits,
)
from traceana.questions.failures.hazard_by_runtime import (
    goodput,
    hazard_by_runtime,
    time_limit_ends,
)
from traceana.questions.failures.section_model import incidence_of, of_equal_users
from traceana.questions.failures.tables import Goodput, HazardByRuntime, TimeLimitEnds
from traceana.questions.failures.tables_competing_risks import (
    CumulativeIncidence,
    IncidenceAtTimes,
    SurvivalGroups,
)
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.store import Trace
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    count,
    duration,
    fraction_range,
    hours_text,
    in_sentence,
    interval,
    listed,
    plural,
    share,
    three_digits,
)
from traceana.tables.formatting import three_digits_range as digits_range

_DAY_S: Final = 86_400
_SHOWN_S: Final = {"1h": 3600, "24h": _DAY_S}
_ENDED: Final = {"cancelled": "were cancelled", "running": "were removed"}
_LEAST_POINTS: Final = 0.05
"""Percentage points that are written as 0.0."""
_FIRST: Final = "failed"
"""The event that the findings are on."""
_OPENING: Final = (
    "Completion and failure are competing risks: a job that failed can no longer complete. The "
    "cumulative incidence of an event is the fraction of all rows with this event by a given "
    "runtime. Rows still running when last seen are at risk until then (censored). Rows that "
    "started before the observation window are at risk only within it (delayed entry). The finding "
    "compares the two groups with the most rows of those in which some complete, regardless of "
    "their result."
)
_LIMITATIONS: Final = (
    "Rows without a runtime are excluded and counted: if the runtimes of one event are missing "
    "more often than those of another, the curves are biased. Censoring must not depend on the "
    "remaining runtime."
)


def build(traces: Sequence[Trace]) -> Content:
    """Build the cumulative incidence of each event of each cohort."""
    return build_per_cohort(traces, _build, opening=_OPENING, end_imputation="running")


def _build(cohort: Cohort) -> Content:
    events = cohort.events
    if not events:
        return Content((), (Text(f"No {cohort.noun} with a runtime have ended."),))
    by = cohort.by
    try:
        risks, survival = cohort.trace.once(estimate_competing_risks, by)
    except DataError as error:
        return Content((), (Text(f"No curves: {error}."),))
    group = f" by {in_sentence(key_heading(by))}" if by else ""
    running = ""
    if cohort.from_tasks:
        running = (
            " If the last status of a task is running, instances without an end run to the end of "
            "the trace, where the task is censored."
        )
    elif "running" in events:
        running = " Rows of status running ended by their removal, which is a separate event."
    what = f"Cumulative incidence of each event of {cohort.noun}{group}"
    panels = _figures(risks, cohort, group)
    figure = small_multiples(
        panels,
        key=f"incidence-{cohort.trace.id}",
        about=what,
        heights_in=[1.7] * len(panels),
        share_x=True,
    )
    table = result_table(
        survival.groups.drop("n_excluded", "last_s"),
        SurvivalGroups,
        headings={"restricted_mean_s": f"{duration(survival.horizon_s)} restricted mean"},
        caption="Median and restricted mean (mean of min(runtime, horizon)) of the time to any "
        f"event of {cohort.noun}{group} (Kaplan-Meier)",
    )
    about = Text(running, (*cohort.definitions, cohort.independence))
    lead = (figure, _incidence(risks, what))
    return Content(_findings(risks, cohort), (about, table), lead, _LIMITATIONS)


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the survival of the runtimes of each trace."""
    pictures = []
    for trace in traces:
        cohort = form_cohort(trace, end_imputation="running")
        if cohort.events:
            _, survival = trace.once(estimate_competing_risks, cohort.by)
            about = f"Survival of the runtimes of {cohort.noun}"
            pictures.append(drawing("survival", survival, trace, f"survival-{trace.id}", about))
    return pictures


def _incidence(incidence: CumulativeIncidence, caption: str) -> Table:
    keys = [*incidence.by, "event"]
    table = incidence.groups
    columns = [*keys, "n", "n_events"]
    names = ("incidence", "ci_low", "ci_high")
    for suffix, time_s in _SHOWN_S.items():
        within = {name: f"{name}_{suffix}" for name in names}
        at = incidence.incidence_at(time_s).rename(within)
        table = table.join(at, on=keys, how="left", nulls_equal=True, maintain_order="left")
        columns += within.values()
    return result_table(
        table,
        IncidenceAtTimes,
        columns=[*columns, *names, "last_s", "n_censored", "n_truncated", "n_excluded"],
        headings={"incidence": "At the last time"},
        caption=caption,
    )


def _figures(incidence: CumulativeIncidence, cohort: Cohort, group: str) -> list[Drawing]:
    return [
        drawing(
            "cumulative-incidence",
            incidence.only(event),
            trace=cohort.trace,
            key=f"incidence-{event}-{cohort.trace.id}",
            about=f"Cumulative incidence of {event} {cohort.noun}{group}",
            heading=event.capitalize(),
        )
        for event in sorted(incidence.events, key=_FIRST.__ne__)
        if (incidence.curves.filter(event=event)["time_s"] > 0).any()
    ]


def _findings(incidence: CumulativeIncidence, cohort: Cohort) -> tuple[str, ...]:
    """Compare failure within a day between the two largest groups in which some rows complete."""
    failed = incidence.groups.filter(event="failed")
    why = failed.filter(pl.col("note").str.starts_with("biased: "))["note"]
    if not why.is_empty():
        finding = (
            f"curves of failure are biased, so groups are not compared: "
            f"{why[0].removeprefix('biased: ')}. Read the failure rates instead."
        )
        return (finding,)
    largest, by = _largest_groups(incidence), cohort.by
    if by is None or len(largest) < 2:
        return _of_all(incidence, cohort)
    first, second = largest
    pair = (first[by], second[by])
    crude, equal = (
        cohort.trace.once(incidence_difference, by, pair, _DAY_S, same) for same in (False, True)
    )
    difference, low, high = (100 * value for value in crude or ())
    named = {"user": "users", BLOCK: "days"}
    others = " and ".join(named[unit] for unit in cohort.unit_columns if unit in named)
    others = others and f" for other {others}"
    size = "negligible" if max(-low, high) < _LEAST_POINTS else "inconclusive"
    verdict = f", which is {size}{others}" if low < 0 < high else ""
    compared = (
        f"{share(first['incidence'])} of {first[by]} and {share(second['incidence'])} of "
        f"{second[by]} {cohort.noun} fail within {duration(_DAY_S)}"
    )
    finding = (
        f"{compared}: {_without_nodes(cohort)}a difference of {difference:z.1f} percentage points "
        f"(95 % CI {low:z.1f} to {high:z.1f}){verdict}"
    )
    explained = ""
    if equal:  # in the same sentence, which may be all that is read
        same, explained = _of_equal_size(equal, 0.0 if low < 0 < high else difference)
        finding += same
    same, by_users = of_equal_users(cohort, pair, more=difference > 0)
    if low * high > 0:
        finding, explained = finding + same, explained or by_users
    finding += f". {'. '.join(incidence_of(row, by, 'incidence') for row in largest)}."
    is_null = bool(by_users) or low < 0 < high
    return (Finding(finding, heading=compared + explained, is_null=is_null),)


def _without_nodes(cohort: Cohort) -> str:
    bad = len(cohort.trace.once(bad_nodes))
    return f"without the jobs on {plural(bad, 'node')} with excess failures, " if bad else ""


def _of_equal_size(equal: tuple[float, float, float], difference: float) -> tuple[str, str]:
    """State a difference with the same GPUs, and how the heading of a clear crude one changes."""
    of_equal, low, high = (100 * value for value in equal)
    text, heading = f"; with the same GPUs {of_equal:z.1f} (95 % CI {low:z.1f} to {high:z.1f})", ""
    if difference and low < 0 < high:
        heading = ", but with the same GPUs no difference is clear"
    elif of_equal * difference < 0:
        text += ", so the sign changes (Simpson's paradox)"
        heading = f", but {of_equal:+.1f} points with the same GPUs"
    return text, heading


def _of_all(incidence: CumulativeIncidence, cohort: Cohort) -> tuple[Finding, ...]:
    at = incidence.incidence_at(_DAY_S).filter(pl.col("incidence") > 0)
    rows = at.sort("incidence", descending=True).to_dicts()
    if cohort.by or not rows:
        return ()
    parts = [f"{share(row['incidence'])} {_ENDED.get(row['event'], row['event'])}" for row in rows]
    limits = [interval(row, fraction_range, " (95 % CI {})") for row in rows]
    within = f"within {duration(_DAY_S)} of runtime"
    text = f"{within}, {listed(map(''.join, zip(parts, limits, strict=True)))}"
    text += f" (cumulative incidence; n = {incidence.groups['n'][0]:,})."
    return (Finding(text, heading=f"{within}, {listed(parts)}", is_description=True),)


def _largest_groups(incidence: CumulativeIncidence) -> list[dict[str, Any]]:
    """Return failure within a day of the two groups with the most rows."""
    by = incidence.by
    if not by:
        return []
    groups = incidence.groups
    sizes = groups.filter(event="failed").select(*by, "n")
    failed = incidence.incidence_at(_DAY_S).filter(event="failed").join(sizes, on=by)
    failed = failed.drop_nulls([*by, "incidence", "ci_low", "ci_high"])
    able = failed.join(groups.filter(pl.col("n_events") > 0, event="completed"), on=by, how="semi")
    table = able if able.height > 1 else failed
    return table.sort("n", descending=True).head(2).to_dicts()


SECTION = Section(
    "competing-risks",
    "Competing risks: completion and failure",
    90,
    build,
    needs=COHORT_NEEDS,
    figures=("cumulative-incidence", "small-multiples", "survival"),
    more=draw_more,
    shares="cohort",
    part="Failures",
    question="How soon do jobs fail or complete?",
)


_HAZARD_OPENING: Final = (
    "The hazard is the number of events over the hours that jobs ran in an interval of runtime; "
    "ends at a limit of the request are apart from other failures. "
    "Jobs that were last seen running count until then. A hazard of failure that falls with "
    "runtime means early failures. Repeated GPU-hours are those of unsuccessful runs after which "
    "the same user started a job of the same name again."
)
_HAZARD_LIMITATIONS: Final = (
    "Jobs differ: a hazard that falls with runtime may also mean that jobs likely to fail end "
    "first. A checkpoint may have kept a part of the work of an unsuccessful run, so that "
    "repeated and lost GPU-hours are an upper bound."
)
_SAME: Final = ("user", "job_name")
_LIMIT: Final = "failed at a limit of the request"
_LIMITS: Final = ("ci_low", "ci_high")
_FEWEST: Final = 10
"""Events in an interval that the finding needs."""
_MOSTLY: Final = 0.5
"""Fraction of GPU-hours without an end state from which it is the main result on them."""


def build_hazards(traces: Sequence[Trace]) -> Content:
    """Show hazards, ends at time limits and goodput of each cohort."""
    return build_per_cohort(traces, _hazards, opening=_HAZARD_OPENING, end_imputation="running")


def _hazards(cohort: Cohort) -> Content:
    events = sorted(cohort.events, key=lambda event: event != "failed")  # failures first
    if not events:
        return Content((), (Text(f"No {cohort.noun} with a runtime have ended."),))
    # a limit of 1 d ends jobs just after the beginning of an interval: no hazard of failure
    rows = without_limits(cohort.rows, _LIMIT)
    events += [_LIMIT] if (rows["status"] == _LIMIT).any() else []
    hazards = cohort.over_units(hazard_by_runtime, rows, events=events, **SEEN)
    of_hazard = result_table(
        hazards.sort(pl.col("event") != events[0], maintain_order=True),
        HazardByRuntime,
        caption=f"Hazards of {cohort.noun} to end, by runtime",
    )
    findings: list[str] = []
    tables: list[Block] = []
    if not cohort.from_tasks:
        for finding, block in (_goodput(cohort), _limits(cohort)):
            findings.append(finding)
            tables += [block] if block is not None else []
    findings.append(_early(hazards, cohort))
    tables.append(of_hazard)
    told = tuple(filter(None, findings))
    blocks = (Text("", cohort.definitions), *tables[1:])
    return Content(told, blocks, lead=(tables[0],), limitations=_HAZARD_LIMITATIONS)


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
    when, later = (
        f"from {duration(row['from_s'])} on"
        if row["to_s"] is None
        else f"from {duration(row['from_s'])} to {duration(row['to_s'])}"
        for row in (first, last)
    )
    per_hour = "per hour of runtime"
    compared = f"failures {per_hour} {when} are not distinguishable from those {later}"
    heading = compared
    if apart:
        ratio = three_digits(first["hazard_per_h"] / last["hazard_per_h"])
        ends = first["ci_low"] / last["ci_high"], first["ci_high"] / last["ci_low"]
        heading = f"{cohort.noun} fail {ratio} times as often {per_hour} {when} as {later}"
        compared = f"{heading} ({digits_range(*ends)} times by the limits "
        compared += "of both intervals)"
    otherwise = f"otherwise{', such as at a limit' * (hazards['event'] == _LIMIT).any()}"
    return Finding(
        f"{_failing(first, cohort.noun)}, and {_failing(last, cohort.noun)}, if they do not end "
        f"{otherwise}. {compared[0].upper()}{compared[1:]}.",
        heading=heading,
        is_null=not apart,
        is_description=True,
    )


def _failing(row: dict[str, Any], noun: str) -> str:
    """State the fraction that fails in an interval of runtime, of those that reach it."""
    hours = 24 if row["to_s"] is None else (row["to_s"] - row["from_s"]) / 3600
    part, low, high = (-math.expm1(-row[name] * hours) for name in ("hazard_per_h", *_LIMITS))
    of = noun if not row["from_s"] else f"the {noun} that run for {duration(row['from_s'])}"
    until = (
        "within a further day"
        if row["to_s"] is None
        else f"before {duration(row['to_s'])} of runtime"
    )
    limits = f"95 % CI {fraction_range(low, high)}; n = {count(row['n_events'])}"
    return f"{share(part)} of {of} fail {until} ({limits})"


def _are_apart(first: dict[str, Any], last: dict[str, Any]) -> bool:
    return bool(first["ci_low"] > last["ci_high"] or last["ci_low"] > first["ci_high"])


def _limits(cohort: Cohort) -> tuple[str, Block | None]:
    trace = cohort.trace
    if not trace.has("jobs", ("time_limit_s", "runtime_s", "gpus")):
        return "", None
    limit_ends = time_limit_ends(trace.scan("jobs"), window=trace.once(window_of))
    row = limit_ends.row(0, named=True)
    if not row["n"]:
        return "", None
    block = result_table(limit_ends, TimeLimitEnds, caption="Ends at the time limit", folded=True)
    reached = f"none of the {cohort.noun} reaches its time limit"
    if row["fraction_at_limit"]:
        reached = f"{share(row['fraction_at_limit'])} of {cohort.noun} reach their time limit"
        if row["fraction_hours"] is not None:
            reached += f", with {share(row['fraction_hours'])} of GPU-hours"
    finding = (
        f"{reached}; the median one uses {share(row['median'])} of its limit "
        f"(n = {count(row['n'])})."
    )
    return finding, block


def goodput_of(trace: Trace) -> pl.DataFrame:
    """Return the goodput of a trace's jobs, with the time that each ran within the window."""
    same = _SAME if trace.has("jobs", _SAME) else ()
    return goodput(trace.frame("jobs"), same=same, window=trace.once(window_of))


def _goodput(cohort: Cohort) -> tuple[str, Block | None]:
    trace = cohort.trace
    if not trace.has("jobs", ("status", "start_s", "runtime_s", "gpus")):
        return "", None
    result = trace.once(goodput_of)
    total = float(result["gpu_hours"].sum())
    if not total:
        return "", None
    block = result_table(result, Goodput, caption="GPU-hours within the window by outcome")
    shares = dict(result.select("kind", "fraction_of_all").iter_rows())
    said = {
        "useful": f"to completed {cohort.noun}",
        "repeated": f"to unsuccessful {cohort.noun} that the user started again",
        "lost": f"to {'other ' if shares['repeated'] else ''}unsuccessful {cohort.noun}",
        "unfinished": f"to {cohort.noun} without an end state",
    }
    parts = [f"{share(shares[kind])} {text}" for kind, text in said.items() if shares[kind]]
    kind = "unfinished" if (shares["unfinished"] or 0.0) >= _MOSTLY else "useful"
    part = shares[kind] or 0.0
    finding = Finding(
        f"of {hours_text(total)} GPU-hours {listed(parts).replace(' to ', ' went to ', 1)}.",
        effect=part,
        heading=f"{share(part) if part else 'none'} of the GPU-hours went {said[kind]}",
        is_description=kind == "useful",
    )
    return finding, block


HAZARDS = Section(
    "hazards",
    "Failures over runtime, and lost GPU-hours",
    95,
    build_hazards,
    needs=COHORT_NEEDS,
    shares="cohort",
    part="Failures",
    question="When do jobs fail, and how many GPU-hours are lost?",
)
