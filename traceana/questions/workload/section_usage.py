"""Section on who used the cluster, how long jobs waited, and which nodes fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from traceana.page.blocks import Block, Content, Heading, Text, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.failures.nodes import SIGNIFICANT
from traceana.questions.failures.tables_nodes import NodeFailures
from traceana.questions.workload.analyze_usage import FEWEST, USAGE_NEEDS, describe_usage
from traceana.questions.workload.tables import QueueingDelay
from traceana.questions.workload.tables_usage import GpuHours
from traceana.store import distinct_traces
from traceana.tables.display import csv_text, key_heading
from traceana.tables.formatting import (
    count,
    in_sentence,
    listed,
    plural,
    seconds,
    seconds_range,
    share,
    three_digits,
    three_digits_range,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.questions.workload.analyze_usage import Usage
    from traceana.store import Trace

_LEAD = ("user", "account", "queue", "status")
_MOST_NODES = 20
_NAMED = 3
_NOTICED_S = 10
_NOTICED_RATIO = 1.25
"""Difference and ratio of median delays from which groups are reported to differ."""
_ROWS = 10
_SIZE = {"size": "GPUs requested"}
_WAITS = ("n", "median_s", "p90_s", "p99_s", "share_zero")


def build(traces: Sequence[Trace]) -> Content:
    """Show GPU-hours by group of each trace, waits, arrays and nodes."""
    findings: list[str] = []
    lead: list[Block] = []
    blocks: list[Block] = []
    for trace in distinct_traces(traces):
        found, title = trace.once(describe_usage), trace.label
        findings += _findings(found, title)
        first = next((name for name in _LEAD if name in found.groups), None)
        whole = set[str]()  # tables that the lead has in full
        if first and not lead:
            lead = [_group(found, first, title, rows=_ROWS)]
            whole = {first} if found.groups[first].height <= _ROWS else whole
        blocks += [Heading(title)] if len(traces) > 1 else []
        blocks += [_group(found, name, title) for name in found.groups if name not in whole]
        blocks += [_wait(name, rows, title) for name, rows in found.waits.items()]
        blocks += [Text(_arrays(found.arrays))] if found.arrays else []
        blocks += _nodes(found, title)
    return Content(
        tuple(findings),
        tuple(blocks),
        findings[0] if findings else "",
        lead=tuple(lead),
        limitations="All recorded jobs with GPUs and a runtime are counted, so there is no "
        "sampling error and no interval. GPU-hours in failed or cancelled jobs are not all lost: "
        "some jobs save checkpoints.",
    )


def _group(found: Usage, name: str, title: str, *, rows: int | None = None) -> Block:
    table = found.groups[name]
    what = in_sentence(key_heading(name))
    return result_table(
        table.head(rows) if rows else table,
        GpuHours,
        caption=f"GPU-hours by {what}. {title}",
        columns=[
            c
            for c in table.columns
            if (c not in ("users", "n_missing") or rows is None)
            and (c not in ("failed", "cancelled") or table[c].sum())
        ],
    )


def _wait(name: str, rows: pl.DataFrame, title: str) -> Block:
    heading = {"size": "requested GPUs", "hour": "hour of submission"}
    what = heading.get(name, in_sentence(key_heading(name)))
    return result_table(
        rows,
        QueueingDelay,
        caption=f"Queueing delay by {what}. {title}",
        columns=[name, *_WAITS],
        headings=_SIZE,
    )


def _arrays(found: dict[str, int]) -> str:
    """Return a sentence on arrays, restarts and requeued runs."""
    parts = []
    if found.get("jobs_in_arrays"):
        parts.append(
            f"{found['jobs_in_arrays']:,} of {found['jobs']:,} jobs belong to "
            f"{plural(found['arrays'], 'job array')}"
        )
    if "restarted" in found:
        again = plural(found["restarted"], "job")
        parts.append(f"{again} restarted at least once, {plural(found['restarts'], 'time')} in all")
    if "requeued" in found:
        parts.append(f"{plural(found['requeued'], 'run')} ended in a requeue")
    return f"{'; '.join(parts)}." if parts else ""


def _nodes(found: Usage, title: str) -> list[Block]:
    if found.nodes is None:
        return []
    ended, placed = found.node_rows
    named = found.nodes.filter(pl.col("pvalue_adjusted") < SIGNIFICANT).height
    text = (
        f"The failures of each node are compared with those of comparable jobs on other nodes, "
        f"over the {placed:,} of {ended:,} completed and failed jobs with a node: jobs of the same "
        "GPU type, queue and user (users with few jobs together) on a similar number of nodes. A "
        "job on several nodes counts for each. Time limits, memory limits and other limits of "
        f"a request are no failures of a node. Named: adjusted p below {SIGNIFICANT}."
    )
    table = result_table(
        found.nodes.head(max(_MOST_NODES, named)),
        NodeFailures,
        caption=f"Failures by node, smallest adjusted p first. {title}",
    )
    return [Text(text), replace(table, data=csv_text(found.nodes, NodeFailures))]


def _findings(found: Usage, title: str) -> list[str]:
    """State who used the cluster and what was lost, then what differs, then what does not."""
    used, findings, others = list[str](), list[str](), list[str]()
    if found.top_share is not None and found.n_top is not None:
        first = found.groups["user"].drop_nulls("user")["share"][0]
        several = f", and the {found.n_top} with the most {share(found.top_share)}"
        used.append(
            f"1 of {found.n_users:,} users used {share(first)} of the GPU-hours"
            f"{several if found.n_top > 1 else ''}."
        )
    by_status = found.groups.get("status")
    if by_status is not None and (total := float(by_status["gpu_hours"].sum())):
        parts = [
            f"{share(row['share'])} were in {row['status']} jobs"
            for row in by_status.drop_nulls("status").rows(named=True)
            if row["status"] != "completed" and row["gpu_hours"]
        ]
        if parts:
            used.append(f"Of {count(total)} GPU-hours, {listed(parts)}.")
    if used:
        text = " ".join([used[0][0].lower() + used[0][1:], *used[1:]])
        findings.append(Finding(f"{title}: {text}", heading=_heading(found, title)))
    compared = [name for name in found.waits if name not in ("hour", "user")]
    differ = [name for name in compared if _differ(found.waits, name)]
    findings += [
        f"{title}: the queueing delay differs by {_by(name)}: "
        f"{_from_to(_medians(found.waits, name), name)}."
        for name in differ
    ]
    if alike := [_alike(found.waits, name) for name in compared
                 if name not in differ and _medians(found.waits, name).height > 1]:  # fmt: skip
        others.append(f"{title}: the queueing delay differs little by {listed(alike)}.")
    if found.nodes is not None:
        named = _outliers(found.nodes, title)
        if named.alert:
            findings.insert(0, named)
        else:
            others.append(named)
    return findings + others


def _heading(found: Usage, title: str) -> str:
    """State how many of the GPU-hours completed jobs used."""
    by_status = found.groups.get("status")
    if by_status is None:
        return ""
    useful = by_status.filter(pl.col("status") == "completed")["share"].drop_nulls().sum()
    return f"{title}: {share(useful)} of the GPU-hours were in jobs that completed"


def _by(name: str) -> str:
    return in_sentence(_SIZE.get(name) or key_heading(name))


def _medians(waits: dict[str, pl.DataFrame], by: str) -> pl.DataFrame:
    """Return the groups with the smallest and the largest median delay."""
    known = waits[by].drop_nulls([by, "median_s"]).filter(pl.col("n") >= FEWEST).sort("median_s")
    return known[[0, -1]] if known.height > 1 else known


def _differ(waits: dict[str, pl.DataFrame], name: str) -> bool:
    """Return whether the largest median is far above the smallest."""
    medians = _medians(waits, name)["median_s"]
    if medians.len() < 2:
        return False
    low, high = medians
    return bool(high - low >= _NOTICED_S and high >= _NOTICED_RATIO * low)


def _alike(waits: dict[str, pl.DataFrame], by: str) -> str:
    low, high = _medians(waits, by)["median_s"]
    return f"{_by(by)} (medians {seconds_range(low, high)} s)"


def _from_to(medians: pl.DataFrame, by: str) -> str:
    ends = (
        f"{seconds(row['median_s'])} s ({row[by]}; n = {row['n']:,})"
        for row in medians.iter_rows(named=True)
    )
    return f"its median is from {' to '.join(ends)}"


def _outliers(nodes: pl.DataFrame, title: str) -> Finding:
    """State which nodes fail more often than comparable jobs on others."""
    tested = nodes["pvalue"].count()
    more = nodes.filter(pl.col("pvalue_adjusted") < SIGNIFICANT)
    if not tested:
        text = f"{title}: no job failed on a node with comparable jobs on other nodes."
        return Finding(text, certainty="cannot tell")
    if more.is_empty():
        text = f"{title}: none of {plural(tested, 'node')} fails more often than comparable jobs."
        return Finding(text, n=tested, certainty="estimated")
    parts = [
        f"{row['node']} {three_digits(row['ratio'])} times (95 % CI "
        f"{three_digits_range(row['ci_low'], row['ci_high'])}; {row['failures']:,} failures, "
        f"{three_digits(row['expected'])} expected)"
        for row in more.head(_NAMED).rows(named=True)
    ]
    parts += [f"{more.height - _NAMED} others in the table"] if more.height > _NAMED else []
    names = listed([*more["node"].head(_NAMED), *([] if more.height <= _NAMED else ["others"])])
    first, lost = more.row(0, named=True), float(more["lost_gpu_hours"].fill_null(0).sum())
    cost = f" They cost {count(lost)} GPU-hours beyond what is expected." if lost else ""
    verb = "fails" if more.height == 1 else "fail"
    return Finding(
        f"{title}: {more.height} of {plural(tested, 'node')} {verb} more often than comparable "
        f"jobs: {listed(parts)}.{cost}",
        effect=first["ratio"],
        interval=(first["ci_low"], first["ci_high"]),
        n=first["n"],
        cost_gpu_h=lost,
        cost_jobs=float((more["failures"] - more["expected"]).sum()),
        certainty="estimated",
        alert=f"{'node' if more.height == 1 else 'nodes'} {names}: "
        f"{three_digits(first['ratio'])} times the failures of comparable jobs",
        heading=f"{title}: {more.height} of {plural(tested, 'node')} {verb} more often than "
        "comparable jobs elsewhere",
    )


SECTION = Section(
    "usage",
    "Usage, waiting and nodes",
    20,
    build,
    needs=USAGE_NEEDS,
    part="Workload",
    question="Who used the cluster, what was lost to failed jobs, and how long did jobs wait?",
)
