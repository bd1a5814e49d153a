"""Competing risks by runtime, hazards and lost GPU-hours, and jobs that fail again and again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

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
from traceana.questions.failures.events import (
    goodput,
    hazard_by_runtime,
    time_limit_ends,
)
from traceana.questions.failures.nodes import (
    AGAIN_S,
    FIRST_S,
    Repeats,
    failing_positions,
    fewest_tries,
    find_repeats,
)
from traceana.questions.failures.section_model import incidence_of, of_equal_users
from traceana.questions.failures.tables import Goodput, HazardByRuntime, TimeLimitEnds
from traceana.questions.failures.tables_competing_risks import (
    CumulativeIncidence,
    IncidenceAtTimes,
    SurvivalGroups,
)
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.store import Trace, distinct_traces
from traceana.store.frames import beside
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
    three_digits_range,
)

_DAY_S: Final = 86_400
_SHOWN_S: Final = {"1h": 3600, "24h": _DAY_S}
_ENDED: Final = {"cancelled": "were cancelled", "running": "were removed"}
_LEAST_POINTS: Final = 0.05  # percentage points that are written as 0.0
_FIRST: Final = "failed"  # the event that the findings are on
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
    panels, key = _figures(risks, cohort, group), f"incidence-{cohort.trace.id}"
    heights = [1.7] * len(panels)
    figure = small_multiples(panels, key=key, about=what, heights_in=heights, share_x=True)
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
    keys, table = [*incidence.by, "event"], incidence.groups
    columns, names = [*keys, "n", "n_events"], ("incidence", "ci_low", "ci_high")
    for suffix, time_s in _SHOWN_S.items():
        within = {name: f"{name}_{suffix}" for name in names}
        table = beside(table, incidence.incidence_at(time_s).rename(within), keys)
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
    bad = len(cohort.trace.once(bad_nodes))
    off = f"without the jobs on {plural(bad, 'node')} with excess failures, " if bad else ""
    finding = (
        f"{compared}: {off}a difference of {difference:z.1f} percentage points "
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
_FEWEST: Final = 10  # events in an interval that the finding needs
_MOSTLY: Final = 0.5
"""Fraction of GPU-hours without an end state from which it is the main result on them, and of the
failed tasks of some positions of arrays from which they are an alert."""


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
    of_jobs = () if cohort.from_tasks else (_goodput(cohort), _limits(cohort))
    parts = [*filter(None, of_jobs), (_early(hazards, cohort), of_hazard)]
    first, *tables = [block for _, block in parts]
    told = tuple(finding for finding, _ in parts if finding)
    blocks = (Text("", cohort.definitions), *tables)
    return Content(told, blocks, lead=(first,), limitations=_HAZARD_LIMITATIONS)


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
        f"from {duration(row['from_s'])} "
        + ("on" if row["to_s"] is None else f"to {duration(row['to_s'])}")
        for row in (first, last)
    )
    per_hour = "per hour of runtime"
    heading = compared = f"failures {per_hour} {when} are not distinguishable from those {later}"
    if apart:
        ratio = three_digits(first["hazard_per_h"] / last["hazard_per_h"])
        ends = first["ci_low"] / last["ci_high"], first["ci_high"] / last["ci_low"]
        heading = f"{cohort.noun} fail {ratio} times as often {per_hour} {when} as {later}"
        compared = f"{heading} ({three_digits_range(*ends)} times by the limits of both intervals)"
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
    hours, until = 24, "within a further day"
    if row["to_s"] is not None:
        hours = (row["to_s"] - row["from_s"]) / 3600
        until = f"before {duration(row['to_s'])} of runtime"
    part, low, high = (-math.expm1(-row[name] * hours) for name in ("hazard_per_h", *_LIMITS))
    of = noun if not row["from_s"] else f"the {noun} that run for {duration(row['from_s'])}"
    limits = f"95 % CI {fraction_range(low, high)}; n = {count(row['n_events'])}"
    return f"{share(part)} of {of} fail {until} ({limits})"


def _are_apart(first: dict[str, Any], last: dict[str, Any]) -> bool:
    return bool(first["ci_low"] > last["ci_high"] or last["ci_low"] > first["ci_high"])


def _limits(cohort: Cohort) -> tuple[str, Block] | None:
    trace = cohort.trace
    if not trace.has("jobs", ("time_limit_s", "runtime_s", "gpus")):
        return None
    limit_ends = time_limit_ends(trace.scan("jobs"), window=trace.once(window_of))
    row = limit_ends.row(0, named=True)
    if not row["n"]:
        return None
    block = result_table(limit_ends, TimeLimitEnds, caption="Ends at the time limit", folded=True)
    reached = f"none of the {cohort.noun} reaches its time limit"
    if row["fraction_at_limit"]:
        reached = f"{share(row['fraction_at_limit'])} of {cohort.noun} reach their time limit"
        if row["fraction_hours"] is not None:
            reached += f", with {share(row['fraction_hours'])} of GPU-hours"
    used = f"the median one uses {share(row['median'])} of its limit (n = {count(row['n'])})."
    return f"{reached}; {used}", block


def _goodput(cohort: Cohort) -> tuple[str, Block] | None:
    trace = cohort.trace
    if not trace.has("jobs", ("status", "start_s", "runtime_s", "gpus")):
        return None
    same = _SAME if trace.has("jobs", _SAME) else ()
    result = goodput(trace.frame("jobs"), same=same, window=trace.once(window_of))
    total = float(result["gpu_hours"].sum())
    if not total:
        return None
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
    text = f"of {hours_text(total)} GPU-hours {listed(parts).replace(' to ', ' went to ', 1)}."
    heading = f"{share(part) if part else 'none'} of the GPU-hours went {said[kind]}"
    return Finding(text, effect=part, heading=heading, is_description=kind == "useful"), block


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


_NAMED: Final = 3
_NEGLIGIBLE: Final = 0.05  # fraction of all failures, or hours, below which it is no main result
_FEWEST_FAILED, _PART, _TIMES = 20, 0.2, 2
"""Failures of a name (and jobs of other names), their fraction of all, and ratio of the rates, from
which the name is stated."""
_PLAIN: Final = re.compile("(?i)fail|err")  # reasons that state no more than the status does
_COSTLY: Final = 0.1  # fraction of all hours from which it is an alert
_DEFINITIONS: Final = (
    "Again and again: failures of one user and job name (without the number that it ends in), "
    f"each submitted within {duration(AGAIN_S)} after the failure before, or later, if there are "
    "more of them. "
    "Crash at start: a failure within the first "
    f"{duration(FIRST_S)} of runtime; a user or a name is stated if most of its failures, and at "
    "least 5 % of all, are crashes. Time limits and faults of machines do not count. "
    "Without either, the name with the most failures of any reason is stated, if it has a fifth "
    "of all and fails twice as often as others. "
)


def build_repeats(traces: Sequence[Trace]) -> Content:
    """State jobs that fail again and again, and crashes at start; nothing without them."""
    findings, tries = list[Finding](), list[tuple[int, int]]()
    for trace in distinct_traces(traces):
        repeats = trace.once(find_repeats)
        stated = [*_series(repeats, trace), *_crashes(repeats)] or [*_name(repeats)]
        placed = (_positions(row) for row in trace.once(failing_positions)[:_NAMED])
        findings += [finding.of(trace.label) for finding in (*stated, *placed)]
        late = fewest_tries(repeats.ended, soon=False)
        tries += [(repeats.tries, late)] if stated else []
    if not tries:
        return Content(tuple(findings))
    soon, late = map(min, zip(*tries, strict=True))
    text = (
        f"{_DEFINITIONS} A series has at least {soon} failures, or {late} that may be later: with "
        "that, at most 0.01 are expected by chance if half of the jobs fail and half follow an end "
        "so soon."
    )
    return Content(tuple(findings), (Text(text),))


def _series(repeats: Repeats, trace: Trace) -> Iterator[Finding]:
    for row in repeats.series.head(_NAMED).rows(named=True):
        job = f"job {row['job_name']}{_of(row['user'])}"
        heading = f"{job} failed again and again, {row['failures']:,} times"
        text = f"{heading} ({_when(row, trace)}median runtime {duration(row['runtime_s'])})"
        yield _finding(repeats, row, row["failures"], text, heading)


def _crashes(repeats: Repeats) -> Iterator[Finding]:
    named: list[str] = []
    repeated = {
        group: n
        for by in ("user", "job_name")
        for group, n in repeats.series.group_by(by).agg(pl.col("failures").sum()).iter_rows()
    }
    for row in repeats.crashes.rows(named=True):
        group, most = row["group"], row["job_name_most"]
        if group in named:
            continue
        named += [most] if row["by"] == "user" else []
        if 2 * repeated.get(group, 0) >= row["crashes"]:
            continue  # the series has them
        what = f"of user {group}" if row["by"] == "user" else f"named {group}"
        heading = f"{row['crashes']:,} jobs {what} failed in their first minute"
        part = share(row["crashes"] / row["ended"])
        text = f"{heading}, {part} of their completed and failed jobs"
        yield _finding(repeats, row, row["crashes"], text, heading)


def _name(repeats: Repeats) -> Iterator[Finding]:
    """State the name with the most failures, if it has many of all and fails more than others."""
    for row in repeats.names.head(1).rows(named=True):
        name, failed, ended = row["job_name"], row["failed"], row["ended"]
        n_others = repeats.ended - ended
        if min(failed, n_others) < _FEWEST_FAILED or failed < _PART * repeats.failures:
            return
        others = (repeats.failures - failed) / n_others
        if failed / ended < _TIMES * others:
            return
        heading = f"{failed:,} jobs named {name} failed"
        is_told = 2 * row["of_reason"] > failed and not _PLAIN.match(row["reason"])
        why = f" ({row['of_reason']:,} ended as {row['reason']})" * is_told
        text = f"{heading}{why}, {share(failed / ended)} of the completed and failed ones and of "
        text += f"others {share(others)}"
        yield _finding(repeats, row, failed, text, heading)


def _positions(row: dict[str, Any]) -> Finding:
    """State from which position, or up to which, the tasks of arrays of a name fail more often."""
    low, high = ((failed / n, f"{failed:,} of {n:,}") for failed, n in row["sides"])
    first, last = f"from task {row['from']} on", f"before task {row['from']}"
    if low[0] > high[0]:
        low, high, first, last = high, low, last, first
    heading = f"arrays {row['name']}{_of(row['user'])} fail {first}"
    text = f"{heading}: {share(high[0])} of these tasks ({high[1]}), {last} {share(low[0])} "
    text += f"({low[1]}; {row['arrays']:,} arrays)"
    return Finding(
        f"{text}.",
        effect=high[0] - low[0],
        n=row["failures"],
        cost_jobs=row["failures"],
        certainty="estimated",
        alert=text if high[0] > _MOSTLY else "",
        heading=heading,
    )


def _finding(repeats: Repeats, row: dict[str, Any], n: int, text: str, heading: str) -> Finding:
    hours, effect = row["hours"] or 0.0, n / repeats.failures
    part = hours / repeats.hours if repeats.hours else 0.0
    cost = f" and {hours_text(hours)} {repeats.unit}-hours" * bool(hours)
    of_all = f"{share(effect)} of all failures{cost}"
    return Finding(
        f"{text}: {of_all}.",
        effect=effect,
        n=n,
        cost_gpu_h=hours if repeats.unit == "GPU" else 0.0,
        cost_jobs=n,
        alert=f"{heading}: {of_all}" if part >= _COSTLY else "",
        heading=heading,
        is_null=max(part, effect) < _NEGLIGIBLE,
    )


def _of(user: str | None) -> str:
    return "" if user is None else f" of user {user}"


def _when(row: dict[str, Any], trace: Trace) -> str:
    lasted = duration(row["last_s"] - row["first_s"])
    if not trace.manifest.absolute_times:
        return f"within {lasted}, "
    zone = ZoneInfo(trace.manifest.timezone) if trace.manifest.timezone else UTC
    return f"within {lasted} from {datetime.fromtimestamp(row['first_s'], zone):%Y-%m-%d %H:%M}, "


REPEATS = Section(
    "repeats",
    "Repeated failures and crashes at start",
    66,
    build_repeats,
    needs=({"jobs": ("status", "submit_s", "end_s", "runtime_s")},),
    part="Failures",
    question="Which jobs fail again and again, and whose jobs crash at start?",
)
