"""Runtimes and outcomes by GPU type, or by the groups that a trace has, and failures by node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from traceana.cohorts.cohort import COHORT_NEEDS, Cohort, form_cohort, outcome_cohort
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Picture,
    Text,
    captioned,
    drawing,
    result_table,
    small_multiples,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.correlations.analyze import FEATURES, failure_association
from traceana.questions.correlations.section import (
    FAIL,
    compare_methods,
    draw_forest,
    name_feature,
    name_rows,
    state_correlations,
)
from traceana.questions.failures.analyze import (
    COMPARED,
    NODES_NEED,
    Outcomes,
    analyze_outcomes,
    compare_nodes,
    variance_between_units,
)
from traceana.questions.failures.nodes import SIGNIFICANT, SlowNode
from traceana.questions.failures.rates import MOST_VALUES, failure_by_request
from traceana.questions.failures.runtimes import runtime_by
from traceana.questions.failures.section_model import (
    findings_of,
    state_overall,
    tests_table,
)
from traceana.questions.failures.tables import (
    FailureByRequest,
    FailureRates,
    NodeFailures,
    OutcomesByHorizon,
    StandardizedRates,
)
from traceana.questions.failures.tables_competing_risks import SurvivalGroups
from traceana.questions.section_per_cohort import build_per_cohort
from traceana.store import Trace, distinct_traces
from traceana.tables.display import csv_text, key_heading
from traceana.tables.formatting import (
    count,
    duration,
    in_sentence,
    interval,
    listed,
    p_equals,
    plural,
    ratio,
    ratio_range,
    three_digits,
    three_digits_range,
)


def _columns(cohort: Cohort, table: pl.DataFrame, *names: str) -> list[str]:
    """Return those of the columns that a table has; a complete log has no sampling error."""
    exact = not (cohort.sampled or cohort.horizon_s)
    return [n for n in names if n in table.columns and not (exact and n.startswith("ci_"))]


def _headings(cohort: Cohort) -> dict[str, str]:
    if cohort.horizon_s is None:
        return {"n": "Completed or failed"}
    return {"n": "Watched", "completed": "Not failed by then"}


def _name(column: str) -> str:
    return f"{'requested ' * (column in FEATURES)}{name_feature(column)}"


def draw_rates(cohort: Cohort, /) -> list[Drawing]:
    """Return a panel of failure rates for the cohort's groups and for each feature."""
    counted = f"{cohort.counted[0].upper()}{cohort.counted[1:]}, by"
    heading = counted if cohort.horizon_s else "Failure rate by"
    return [
        drawing(
            "outcome-rates",
            with_rows,
            trace=cohort.trace,
            key=f"failure-rates-{column}-{cohort.trace.id}",
            about=f"Failure rate of {cohort.noun} by {_name(column)}",
            heading=f"{heading} {_name(column)}",
        )
        for column, table in cohort.trace.once(failure_by_request).items()
        if (with_rows := table.filter(pl.col("n") > 0)).height
    ]


def rate_tables(cohort: Cohort, /) -> list[Block]:
    """Return the rates by each feature."""
    rates = {
        column: table.with_columns(success_rate=1 - pl.col("rate"))
        for column, table in cohort.trace.once(failure_by_request).items()
    }
    shown = ("n", "failures", "rate", "ci_low", "ci_high", "success_rate", "n_clusters")
    return [
        result_table(
            table,
            FailureByRequest,
            columns=_columns(cohort, table, column, *shown, "note"),
            headings=_headings(cohort),
            caption=f"Failure rate by {_name(column)}: {cohort.counted}. By value "
            f"if there are up to {MOST_VALUES}, else in bins between powers of two",
            folded=True,
        )
        for column, table in rates.items()
        if column != cohort.by
    ]


def correlate_failure(cohort: Cohort, /) -> tuple[str, list[Block]]:
    """Return a finding on the rank correlations of failure, and their figure and tables."""
    result = cohort.trace.once(failure_association)
    if result is None:
        return "", []
    overall, within = name_rows(result[0]), result[1]
    blocks: list[Block] = [
        Gallery(tuple(draw_forest(cohort, "failure", overall, within))),
        compare_methods(cohort, "failure", overall, [] if within is None else [within]),
    ]
    when = f" within {duration(cohort.horizon_s)}" if cohort.horizon_s else ""
    ranks = overall.filter(method="spearman")
    groups = None if within is None else within.filter(method="spearman")
    return state_correlations(cohort, cohort.noun, FAIL, ranks, groups, when=when), blocks


_OPENING: Final = (
    "Failure rate: rows of status failed among the completed and failed. "
    "Cancelled, running, pending and unknown rows are excluded and counted. Runtime: median and "
    "restricted mean, the mean of min(runtime, horizon), by the Kaplan-Meier estimator with "
    "delayed entry and censoring. Unrestricted means are not shown, because runtimes are "
    "heavy-tailed. Tests of failure: chi-squared with Cramér's V. Tests of runtime: rank ANOVA "
    "(Brunner, Dette and Munk; of two groups Brunner and Munzel's test) with epsilon squared, the "
    "fraction of the variance of ranks between groups, over rows that started in the observation "
    "window. Conclusion: "
    "negligible below V = 0.1 or epsilon squared = 0.01; inconclusive if the adjusted p is 0.05 or "
    "more; else small, medium (0.3; 0.06) or large (0.5; 0.14), after Cohen. All tests of a trace "
    "are one family, adjusted by Holm's method. The groups named in a finding are those with the "
    "most rows."
)
_LIMITATIONS: Final = (
    "Jobs are not assigned to groups at random, so a difference has no single cause. Intervals of "
    "restricted means are too narrow where there is a note."
)
_NOT_COUNTED: Final = ("cancelled", "running", "pending", "unknown", "n_missing")


def build(traces: Sequence[Trace]) -> Content:
    """Build runtime by group and status, and outcomes by group, for each cohort."""
    return build_per_cohort(traces, _build, opening=_OPENING)


def _build(cohort: Cohort) -> Content:
    groupings, tests, notes = cohort.trace.once(analyze_outcomes)
    cohort = cohort.trace.once(outcome_cohort)
    blocks: list[Block] = [Text("", (*cohort.definitions, cohort.independence))]
    if not cohort.fails:
        text = f"None of the {cohort.noun} has status failed, so there are no failure rates."
        blocks.append(Text(text))
    if tests.height:
        blocks.append(tests_table(cohort, tests))
    blocks += [*_between_units(cohort), *(Text(note) for note in notes)]
    (rates, *others), *further = (_tables(cohort, grouping) for grouping in groupings)
    blocks += [*others, *(table for _, *more in further for table in more)]
    findings = [state_overall(cohort)] if cohort.fails else []
    for grouping in groupings:
        if grouping.strata is None:  # a confounded difference is no finding
            findings += findings_of(cohort, grouping, tests)
    lead: list[Block] = [Gallery(_figures(cohort, groupings))]
    if cohort.fails:
        correlated, more = correlate_failure(cohort)
        findings.append(correlated)
        blocks += [*(table for table, *_ in further), *more, *rate_tables(cohort)]
        lead.append(rates)
    stated = tuple(filter(None, findings))
    return Content(stated, tuple(blocks), tuple(lead), _LIMITATIONS)


def _figures(cohort: Cohort, groupings: Sequence[Outcomes]) -> tuple[Picture | Drawing, ...]:
    watched = ""
    if cohort.horizon_s:
        watched = (
            f"; n: {cohort.noun} that could be watched for {duration(cohort.horizon_s)} (the text "
            "also counts the others)"
        )
    rates = draw_rates(cohort) if cohort.fails else []
    runtimes = [runtime for grouping in groupings for runtime in _draw_runtimes(cohort, grouping)]
    figures: list[Picture | Drawing] = []
    about_rates = f"Failure rate of {cohort.noun} by group and requested resources{watched}"
    for panels, name, about in (
        (rates, "failure-rates", about_rates),
        (runtimes, "runtimes", f"Median runtime of {cohort.noun} by group and status"),
    ):
        heights, key = [0.5 + 0.14 * p.result.height for p in panels], f"{name}-{cohort.trace.id}"
        look: dict[str, Any] = {"heights_in": heights, "share_x": True}
        figures += small_multiples(panels, key=key, about=about, **look).pictures
    return tuple(figures)


def _between_units(cohort: Cohort) -> list[Block]:
    result = cohort.trace.once(variance_between_units)
    parts = []
    for what, (part, low, high, n, units) in result.items():
        if not math.isnan(part):
            limits = "no interval" if math.isnan(low) else f"95 % CI {ratio_range(low, high)}"
            parts.append(f"{what} {ratio(part)} ({limits}; n = {n:,}, {units:,} units)")
    if not parts:
        return []
    text = (
        f"Fraction of the variance between the {cohort.units} (intraclass correlation): "
        f"{'; '.join(parts)}. The interval is too narrow if a few of them have most rows."
    )
    return [Text(text)]


def _tables(cohort: Cohort, outcomes: Outcomes) -> list[Block]:
    """Return the failure rates by one column, or those by a horizon, then the other tables."""
    by = outcomes.by
    group = f"by {in_sentence(key_heading(by))}" if by else "overall"
    what = f"{cohort.noun} {group}"
    counted = [name for name in _NOT_COUNTED if outcomes.rates[name].sum()]
    shown = ("n", "failed", "rate", "ci_low", "ci_high", "completed", *counted)
    tables: list[Block] = [
        result_table(
            outcomes.rates,
            FailureRates,
            columns=_columns(cohort, outcomes.rates, by or "", *shown, "n_clusters", "note"),
            headings=_headings(cohort),
            caption=f"Failure rate of {what}: {cohort.counted}",
        )
    ]
    if outcomes.horizon is not None:
        caption = f"Cumulative incidence of failure of {what}"
        tables.insert(0, result_table(outcomes.horizon, OutcomesByHorizon, caption=caption))
    if outcomes.standardized is not None:
        held, standardized = outcomes.standardized
        tables.append(
            result_table(
                standardized,
                StandardizedRates,
                headings=_headings(cohort),
                caption=f"Standardized failure rate of {what}: with the same composition of {held} "
                "(direct standardization over the strata that all groups have)",
            )
        )
    if outcomes.horizon is None:  # until any end: with the competing risks
        tables.append(
            result_table(
                outcomes.runtimes.groups.drop("n_events", "last_s"),
                SurvivalGroups,
                headings={
                    "n": "Runtimes",
                    "n_excluded": "Without runtime",
                    "restricted_mean_s": f"{duration(outcomes.runtimes.horizon_s)} restricted mean",
                },
                caption=f"Runtime of {what} and status",
                folded=True,
            )
        )
    return tables


def _draw_runtimes(cohort: Cohort, outcomes: Outcomes) -> list[Drawing]:
    by = outcomes.by
    rows = outcomes.runtimes.groups.filter(pl.col("n") > 0)
    until_any = cohort.horizon_s is not None
    what = f"{cohort.noun} until any end" if until_any else cohort.noun
    if by or not until_any:
        what += f" by {in_sentence(key_heading(by or 'status'))}"
    parts = {"": rows}
    if by and not until_any:
        parts = {status: rows.filter(status=status).drop("status") for status in COMPARED}
    return [
        drawing(
            "runtime-by",
            of_status,
            trace=cohort.trace,
            key=f"runtime{f'-{status}' * bool(status)}-{cohort.trace.id}-{by or 'status'}",
            about=f"Runtime of {f'{status} ' * bool(status)}{what}",
            heading=f"{status.capitalize()} {what}" if status else what[0].upper() + what[1:],
            log_x=True,
        )
        for status, of_status in parts.items()
        if not of_status.is_empty()
    ]


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw mean runtimes by group, of successes and of what the publisher counts as failures."""
    drawings: list[Drawing] = []
    for trace in traces:
        if (result := trace.once(failure_association)) is not None:
            overall, within = name_rows(result[0]), result[1]
            of_outcome = trace.once(outcome_cohort)
            drawings += draw_forest(of_outcome, "failure", overall, within, method="pearson")
        cohort = form_cohort(trace)
        failure = trace.manifest.failure_statuses
        for outcome, statuses in (("success", ("completed",)), ("failure", failure)):
            rows = cohort.rows.filter(pl.col("status").is_in(statuses))
            if cohort.by is None or not rows["runtime_s"].count():
                continue
            what = f"{cohort.noun} by {in_sentence(key_heading(cohort.by))}"
            about = f"Mean runtime of {what}, {outcome} ({', '.join(statuses)})"
            look = {"title": cohort.title, "heading": f"{outcome.capitalize()}: {what}"}
            key = f"mean-runtime-{outcome}-{cohort.by}-{trace.id}"
            means = cohort.over_units(runtime_by, rows, cohort.by)
            drawings.append(drawing("runtime-by", means, trace, key, about, **look))
    return drawings


SECTION = Section(
    "outcomes",
    "Failure and runtime by group",
    70,
    build,
    needs=COHORT_NEEDS,
    figures=("outcome-rates", "runtime-by", "small-multiples", "correlations"),
    shares="cohort",
    more=draw_more,
    part="Failures",
    question="Which groups and requests fail most, and which groups run longest?",
)


_MOST_NODES: Final = 20
_NAMED: Final = 3
_FEWEST_ALIKE: Final = 3


def build_nodes(traces: Sequence[Trace]) -> Content:
    """Show the failures of the nodes of each trace."""
    findings, blocks = list[Finding](), list[Block]()
    for trace in distinct_traces(traces):
        result = trace.once(compare_nodes)
        if result is None:
            continue
        title, nodes = trace.label, result.nodes
        findings.append(_outliers(nodes).of(title))
        findings += [_slower(node).of(title) for node in result.slow[:_NAMED]]
        blocks += [Heading(title)] if len(traces) > 1 else []
        named = nodes.filter(pl.col("pvalue_adjusted") < SIGNIFICANT).height
        text = (
            "The failures of each node are compared with those of comparable jobs on other nodes: "
            "of the same GPU type, queue, user and name (rare names together) on a similar "
            f"number of nodes. Of {result.ended:,} completed and failed jobs {result.placed:,} "
            "have a node. Cancelled and running jobs, and those without a "
            "comparable job on another node, are not counted. A job on several nodes counts for "
            "each, the jobs that one crash of a node ended as one. A job that reached its time, "
            "memory or other requested limit is no failure of a node. Nodes are named if the "
            f"adjusted p is below {SIGNIFICANT}. Runtimes of "
            "completed jobs are compared in the same way, of jobs with the same number of GPUs."
        )
        shown = nodes.head(max(_MOST_NODES, named))
        if result.trend:
            trend = pl.col("node").replace_strict(result.trend, default="", return_dtype=pl.String)
            shown = shown.with_columns(trend=trend)
        caption = "Failures by node, smallest adjusted p first"
        table = result_table(
            shown, NodeFailures, headings={"trend": "Failures over the period"}, caption=caption
        )
        table = replace(table, data=csv_text(nodes, NodeFailures))
        blocks += [Text(text), *captioned([table], title)]
    return Content(tuple(findings), tuple(blocks)) if findings else Content()


def _outliers(nodes: pl.DataFrame) -> Finding:
    tested = nodes["pvalue"].count()
    more = nodes.filter(pl.col("pvalue_adjusted") < SIGNIFICANT)
    if not tested:
        text = "no job failed on a node with comparable jobs on other nodes."
        return Finding(text, certainty="cannot tell", heading=text.removesuffix("."))
    if more.is_empty():
        text = f"none of {plural(tested, 'node')} fails more often than comparable jobs."
        heading = "no node fails more often than comparable jobs elsewhere"
        return Finding(text, n=tested, certainty="cannot tell", heading=heading)
    parts = []
    for row in more.head(_NAMED).rows(named=True):  # no ratio: no comparable job failed elsewhere
        times = "" if row["ratio"] is None else f"{three_digits(row['ratio'])} times "
        limits = interval(row, three_digits_range)
        expected = three_digits(row["expected"])
        parts.append(
            f"{row['node']} {times}({limits}{row['failures']:,} failures, {expected} expected)"
        )
    names = more["node"].head(_NAMED).to_list()
    if more.height > _NAMED:
        parts.append(f"{plural(more.height - _NAMED, 'other')} in the table")
        names.append("others")
    first, lost = more.row(0, named=True), float(more["lost_gpu_hours"].fill_null(0).sum())
    cost = f" This costs {count(lost)} GPU-hours beyond what is expected." if lost else ""
    node, fails = ("node", "fails") if more.height == 1 else ("nodes", "fail")
    ends = first["ci_low"], first["ci_high"]
    times = "all" if first["ratio"] is None else f"{three_digits(first['ratio'])} times"
    alert = f"{node} {listed(names)}: {times} the failures of comparable jobs"
    return Finding(
        f"{more.height} of {plural(tested, 'node')} {fails} more often than comparable "
        f"jobs: {listed(parts)}.{_alike(nodes, more)}{cost}",
        effect=first["ratio"],
        interval=None if None in ends else ends,
        n=first["n"],
        cost_gpu_h=lost,
        cost_jobs=float((more["failures"] - more["expected"]).sum()),
        certainty="estimated",
        alert=alert,
        machine=names[0] if more.height == 1 else "",
        heading=alert,
    )


def _slower(node: SlowNode) -> Finding:
    heading = f"completed jobs ran {three_digits(node.ratio)} times as long on node {node.node}"
    text = f"{heading} as comparable jobs on other nodes (95 % CI "
    text += f"{three_digits_range(node.ci_low, node.ci_high)}; n = {node.n:,}; adjusted "
    text += f"{p_equals(node.pvalue_adjusted)})."
    if node.of_name is not None:
        name, own, other = node.of_name
        text += f" Those named {name} ran {three_digits(own)} times as long, others "
        text += f"{three_digits(other)} times."
    alert = f"node {node.node}: completed jobs ran {three_digits(node.ratio)} times as long as "
    alert += "comparable jobs elsewhere"
    return Finding(
        text,
        effect=node.ratio,
        interval=(node.ci_low, node.ci_high),
        n=node.n,
        cost_gpu_h=node.lost_gpu_hours,
        cost_jobs=node.n * (1 - 1 / node.ratio),
        certainty="estimated",
        alert=alert,
        machine=node.node,
        heading=heading,
    )


def _alike(nodes: pl.DataFrame, more: pl.DataFrame) -> str:
    """State that the named nodes are all those whose names begin alike, as those of a switch."""
    low, high = min(more["node"]), max(more["node"])
    differ = (place for place, letter in enumerate(low) if high[place : place + 1] != letter)
    prefix = low[: next(differ, len(low))]
    alike = int(nodes["node"].str.starts_with(prefix).sum())
    if not prefix or more.height < _FEWEST_ALIKE or not more.height == alike < nodes.height:
        return ""
    return f" They are all of the nodes {prefix}*."


NODES = Section(
    "nodes",
    "Failures by node",
    65,
    build_nodes,
    needs=NODES_NEED,
    part="Failures",
    question="Which nodes fail more often than others with the same kind of jobs?",
)
