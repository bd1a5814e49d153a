"""Cumulative incidence of completion, failure and other ends by runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from traceana.cohorts.cohort import BLOCK, COHORT_NEEDS, MOST_UNTIMED, Cohort, form_cohort
from traceana.errors import DataError
from traceana.page.blocks import (
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
from traceana.questions.failures.analyze import estimate_competing_risks, incidence_difference
from traceana.questions.failures.section_tests import incidence_of
from traceana.questions.failures.tables_competing_risks import (
    CumulativeIncidence,
    IncidenceAtTimes,
    RowsWithoutRuntime,
    SurvivalGroups,
    SurvivalQuantiles,
)
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.store import Trace
from traceana.tables.display import key_heading
from traceana.tables.formatting import duration, fraction_range, in_sentence, listed, share

_DAY_S: Final = 86_400
_SHOWN_S: Final = {"1h": 3600, "24h": _DAY_S}
_ENDED: Final = {"cancelled": "were cancelled", "running": "were removed"}
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
    null = {by: "not stated"} if by else {}
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
    groups = risks.groups.select(risks.by).n_unique() if risks.by else 1
    figure = small_multiples(
        panels,
        key=f"incidence-{cohort.trace.id}",
        about=what,
        heights_in=[1.7 + 0.13 * groups] * len(panels),
        share_x=True,
    )
    tables = (
        *_excluded(cohort),
        result_table(
            survival.groups.drop("n_excluded", "last_s"),
            SurvivalGroups,
            headings={"restricted_mean_s": f"{duration(survival.horizon_s)} restricted mean"},
            caption="Median and restricted mean (mean of min(runtime, horizon)) of the time to any "
            f"event of {cohort.noun}{group} (Kaplan-Meier). {cohort.title}",
            null=null,
        ),
        result_table(
            survival.quantiles,
            SurvivalQuantiles,
            caption=f"Quantiles of the time to any event of {cohort.noun}{group} (Kaplan-Meier), "
            f"not known where the curve does not fall that low. {cohort.title}",
            null=null,
            folded=True,
        ),
    )
    about = Text(running, (*cohort.definitions, cohort.independence))
    lead = (figure, _incidence(risks, what, cohort))
    return Content(_findings(risks, cohort), (about, *tables), lead, _LIMITATIONS)


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the survival of the runtimes of each trace."""
    pictures = []
    for trace in traces:
        cohort = form_cohort(trace, end_imputation="running")
        if cohort.events:
            _, survival = trace.once(estimate_competing_risks, cohort.by)
            pictures.append(
                drawing(
                    "survival",
                    survival,
                    trace=trace,
                    key=f"survival-{trace.id}",
                    about=f"Survival of the runtimes of {cohort.noun}",
                )
            )
    return pictures


def _excluded(cohort: Cohort) -> tuple[Table, ...]:
    """Return the rows without a runtime by status, if there are any."""
    by = [cohort.by] if cohort.by else []
    counts = (
        cohort.rows.group_by(*by, "status")
        .agg(n=pl.len().cast(pl.Int64), n_excluded=pl.col("duration_s").null_count().cast(pl.Int64))
        .filter(pl.col("n_excluded") > 0)
        .sort(*by, "status", nulls_last=True)
    )
    if counts.is_empty():
        return ()
    caption = f"Rows excluded because they have no runtime, by status. {cohort.title}"
    null = dict.fromkeys((*by, "status"), "not stated")
    return (result_table(counts, RowsWithoutRuntime, caption=caption, null=null),)


def _incidence(incidence: CumulativeIncidence, caption: str, cohort: Cohort) -> Table:
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
        caption=f"{caption}. {cohort.title}",
        null=dict.fromkeys(incidence.by, "not stated"),
    )


def _figures(incidence: CumulativeIncidence, cohort: Cohort, group: str) -> list[Drawing]:
    return [
        drawing(
            "cumulative-incidence",
            incidence.only(event),
            trace=cohort.trace,
            title=cohort.title,
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
            f"{cohort.title}: curves of failure are biased, so groups are not compared: "
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
    verdict = f", which is inconclusive{others}" if low < 0 < high else ""
    compared = (
        f"{share(first['incidence'])} of {first[by]} and {share(second['incidence'])} of "
        f"{second[by]} {cohort.noun} fail within {duration(_DAY_S)}"
    )
    finding = (
        f"{cohort.title}: {compared}: a difference of {difference:.1f} percentage points "
        f"(95 % CI {low:.1f} to {high:.1f}){verdict}"
    )
    if equal:  # in the same sentence, which may be all that is read
        same, heading = _of_equal_size(equal, 0.0 if low < 0 < high else difference)
        finding, compared = finding + same, compared + heading
    finding += f". {'. '.join(incidence_of(row, by, 'incidence') for row in largest)}."
    ended = cohort.rows.filter(pl.col("status").cast(pl.String) == "failed")["duration_s"]
    if ended.null_count() > MOST_UNTIMED * ended.len():
        finding += (
            f" Both are too low: {ended.null_count():,} of the {ended.len():,} failed "
            f"{cohort.noun} have no runtime and are excluded."
        )
    heading = f"{cohort.title}: {compared}"
    return (Finding(finding, heading=heading, is_null=low < 0 < high),)


def _of_equal_size(equal: tuple[float, float, float], difference: float) -> tuple[str, str]:
    """State a difference with the same GPUs, and how the heading of a clear crude one changes."""
    of_equal, low, high = (100 * value for value in equal)
    text, heading = f"; with the same GPUs {of_equal:.1f} (95 % CI {low:.1f} to {high:.1f})", ""
    if difference and low < 0 < high:
        heading = ", but with the same GPUs no difference is clear"
    elif of_equal * difference < 0:
        text += ", so the sign changes (Simpson's paradox)"
        heading = f", but {of_equal:+.1f} points with the same GPUs"
    return text, heading


def _of_all(incidence: CumulativeIncidence, cohort: Cohort) -> tuple[Finding, ...]:
    """State each event within a day, the most frequent first; nothing if there are groups."""
    rows = incidence.incidence_at(_DAY_S).drop_nulls("incidence")
    rows = rows.filter(pl.col("incidence") > 0).sort("incidence", descending=True)
    if cohort.by or rows.is_empty():
        return ()
    parts = [
        f"{share(row['incidence'])} {_ENDED.get(row['event'], row['event'])}"
        for row in rows.to_dicts()
    ]
    limits = [
        f"{row['event']} {fraction_range(row['ci_low'], row['ci_high'])}"
        for row in rows.drop_nulls(["ci_low", "ci_high"]).to_dicts()
    ]
    n = f"n = {incidence.groups['n'][0]:,}"
    heading = f"{cohort.title}: within {duration(_DAY_S)} of runtime, {listed(parts)}"
    interval = f"95 % CI: {', '.join(limits)}; " if limits else ""
    text = f"{heading} (cumulative incidence; {interval}{n})."
    return (Finding(text, heading=heading, is_description=True),)


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
