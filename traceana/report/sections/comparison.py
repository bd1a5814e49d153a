"""Section that puts the headline numbers of all traces side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.derived.comparison import compare_traces
from traceana.report.blocks import Content, result_table
from traceana.report.section import Section
from traceana.results.comparison import Comparison
from traceana.results.formatting import three_digits

if TYPE_CHECKING:
    from traceana.report.context import Context

_SHOWN = ("measure", "trace", "n", "estimate", "ci_low", "ci_high", "rank")
_FINDINGS = ("Runtime", "Failure", "Stragglers")


def build(session: Context) -> Content:
    """Compare all traces of the store; nothing with fewer than two."""
    traces = session.store.traces()
    if len(traces) < 2:
        return Content()
    found = session.once(_compare, *traces)
    answered = found.filter(pl.col("estimate").count().over("question") > 1)
    if answered.is_empty():
        return Content()
    return Content(
        tuple(_finding(answered.filter(question=one)) for one in _FINDINGS
              if one in answered["question"].to_list()),
        (
            result_table(
                found.filter(pl.col("note").is_not_null(), pl.col("estimate").is_not_null()
                    | (pl.col("estimate").count().over("question") > 1)),
                Comparison,
                columns=("measure", "trace", "note"),
                caption="Limits of the estimates, and why a trace has none",
            ),
        ),
        lead=(
            result_table(
                answered.drop_nulls("estimate"),
                Comparison,
                columns=_SHOWN,
                caption="Traces side by side",
            ),
        ),
        limitations="Clusters, years and definitions differ between traces, so a difference has no "
        "single cause and is not tested. Where a trace records no users, rows are treated as "
        "independent and intervals are too narrow.",
    )  # fmt: skip


def _compare(session: Context, *traces: str) -> pl.DataFrame:
    return compare_traces(session, traces)


def _finding(rows: pl.DataFrame) -> str:
    """Return the range of an estimate over the traces."""
    known = rows.drop_nulls("estimate").sort("estimate")
    low, high = known.row(0, named=True), known.row(-1, named=True)
    return f"{low['measure']}: from {_estimate(low)} to {_estimate(high)} in {known.height} traces."


def _estimate(row: dict[str, object]) -> str:
    interval = ""
    if row["ci_low"] is not None:
        ends = " to ".join(three_digits(row[end]) for end in ("ci_low", "ci_high"))  # type: ignore[arg-type]
        interval = f", 95 % CI {ends}"
    return f"{three_digits(row['estimate'])} ({row['trace']}; n = {row['n']:,}{interval})"  # type: ignore[arg-type]


SECTION = Section(
    "comparison",
    "Traces side by side",
    30,
    build,
    part="Workload",
    question="Where does each trace stand among the others?",
)
