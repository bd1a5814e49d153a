"""Section on nodes that fail more often than comparable jobs on other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from traceana.page.blocks import Block, Content, Heading, Text, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.failures.analyze import NODES_NEED, compare_nodes
from traceana.questions.failures.nodes import SIGNIFICANT
from traceana.questions.failures.tables import NodeFailures
from traceana.store import Trace, distinct_traces
from traceana.tables.display import csv_text
from traceana.tables.formatting import (
    count,
    listed,
    p_equals,
    plural,
    three_digits,
    three_digits_range,
)

_MOST_NODES: Final = 20
_NAMED: Final = 3
_POSSIBLE: Final = 0.05
"""Adjusted p below which a node is stated, without an alert."""


def build(traces: Sequence[Trace]) -> Content:
    """Show the failures of the nodes of each trace."""
    findings: list[Finding] = []
    blocks: list[Block] = []
    for trace in distinct_traces(traces):
        result = trace.once(compare_nodes)
        if result is None:
            continue
        title, nodes = trace.label, result.nodes
        findings.append(_outliers(nodes, title))
        blocks += [Heading(title)] if len(traces) > 1 else []
        named = nodes.filter(pl.col("pvalue_adjusted") < SIGNIFICANT).height
        text = (
            "The failures of each node are compared with those of comparable jobs on other nodes: "
            "of the same GPU type, queue and user (users with few jobs together) on a similar "
            f"number of nodes. Of {result.ended:,} completed and failed jobs {result.placed:,} "
            "have a node. Cancelled and running jobs, and those without a "
            "comparable job on another node, are not counted. A job on several nodes counts for "
            "each. Time limits, memory limits and other limits of a request are jobs, but no "
            "failures of a node. Named: "
            f"adjusted p below {SIGNIFICANT}."
        )
        shown = nodes.head(max(_MOST_NODES, named))
        if result.trend:
            trend = pl.col("node").replace_strict(result.trend, default="", return_dtype=pl.String)
            shown = shown.with_columns(trend=trend)
        table = result_table(
            shown,
            NodeFailures,
            headings={"trend": "Failures over the period"},
            caption=f"Failures by node, smallest adjusted p first. {title}",
        )
        blocks += [Text(text), replace(table, data=csv_text(nodes, NodeFailures))]
    return Content(tuple(findings), tuple(blocks)) if findings else Content()


def _outliers(nodes: pl.DataFrame, title: str) -> Finding:
    """State which nodes fail more often than comparable jobs on others."""
    tested = nodes["pvalue"].count()
    more = nodes.filter(pl.col("pvalue_adjusted") < SIGNIFICANT)
    if not tested:
        text = f"{title}: no job failed on a node with comparable jobs on other nodes."
        return Finding(text, certainty="cannot tell", heading=text.removesuffix("."))
    if more.is_empty():
        text = f"{title}: none of {plural(tested, 'node')} fails more often than comparable jobs."
        for row in nodes.filter(pl.col("pvalue_adjusted") < _POSSIBLE).head(1).rows(named=True):
            text = f"{title}: node {row['node']} possibly fails more often than comparable jobs"
            excess = row["failures"] - row["expected"]
            return Finding(
                f"{text}: {row['failures']:,} failures, {three_digits(row['expected'])} expected "
                f"(adjusted {p_equals(row['pvalue_adjusted'])}).",
                effect=row["ratio"],
                n=row["n"],
                cost_jobs=excess,
                certainty="estimated",
                heading=text,
                is_null=True,
            )
        heading = f"{title}: no node fails more often than comparable jobs elsewhere"
        return Finding(text, n=tested, certainty="cannot tell", heading=heading)
    parts = [
        f"{row['node']} {three_digits(row['ratio'])} times (95 % CI "
        f"{three_digits_range(row['ci_low'], row['ci_high'])}; {row['failures']:,} failures, "
        f"{three_digits(row['expected'])} expected)"
        for row in more.head(_NAMED).rows(named=True)
    ]
    parts += [f"{more.height - _NAMED} others in the table"] if more.height > _NAMED else []
    names = listed([*more["node"].head(_NAMED), *([] if more.height <= _NAMED else ["others"])])
    first, lost = more.row(0, named=True), float(more["lost_gpu_hours"].fill_null(0).sum())
    cost = f" This costs {count(lost)} GPU-hours beyond what is expected." if lost else ""
    verb = "fails" if more.height == 1 else "fail"
    alert = (
        f"{'node' if more.height == 1 else 'nodes'} {names}: {three_digits(first['ratio'])} times "
        "the failures of comparable jobs"
    )
    return Finding(
        f"{title}: {more.height} of {plural(tested, 'node')} {verb} more often than comparable "
        f"jobs: {listed(parts)}.{cost}",
        effect=first["ratio"],
        interval=(first["ci_low"], first["ci_high"]),
        n=first["n"],
        cost_gpu_h=lost,
        cost_jobs=float((more["failures"] - more["expected"]).sum()),
        certainty="estimated",
        alert=f"{title}: {alert}",
        machine=names if more.height == 1 else "",
        heading=f"{title}: {alert}",
    )


SECTION = Section(
    "nodes",
    "Failures by node",
    65,
    build,
    needs=NODES_NEED,
    part="Failures",
    question="Which nodes fail more often than others with the same kind of jobs?",
)
