"""Section that puts the headline numbers of all traces side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import polars as pl

from traceana.page.blocks import Content, Points, Table, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.comparison.compare_traces import compare_traces, reasons
from traceana.questions.failures.hazards import NO_END
from traceana.store import Trace
from traceana.tables.formatting import (
    duration,
    duration_range,
    fraction_range,
    share,
    three_digits,
    three_digits_range,
)

_UNITS: Final[dict[str, tuple[Callable[..., str], Callable[..., str]]]] = {
    " (s)": (duration, duration_range),
    " (fraction)": (share, fraction_range),
}
_OF: Final = re.compile(r"of (\w+)")
"""Begins a note: what the rows are."""
_OF_SHORT_JOBS: Final = ("Runtime", "Size")
"""Questions whose answer depends on whether short jobs are listed."""


def build(traces: Sequence[Trace]) -> Content:
    """Compare all traces; nothing with fewer than two."""
    if len(traces) < 2:
        return Content()
    n_with_value = pl.col("estimate").count().over("question")
    table = compare_traces(traces).filter(n_with_value > 0)
    answered = table.filter(n_with_value > 1)
    if answered.is_empty():
        return Content()
    cut = [trace.label for trace in traces if trace.manifest.is_left_truncated]
    unlike = pl.col("trace").is_in(cut) & pl.col("question").is_in(_OF_SHORT_JOBS)
    alike = answered.filter(~unlike).filter(n_with_value > 1)
    biased = alike.filter(pl.col("note").str.contains(NO_END), question="Failure")
    failure = "Failure" if biased.is_empty() else "Failure by a runtime"
    parts = [alike.filter(question=question) for question in ("Runtime", failure, "Stragglers")]
    findings = tuple(_finding(rows) for rows in parts if rows.height)
    notes = {"Limits of the estimates": True, "Not compared": False}
    points = {name: reasons(table, answered=is_answered) for name, is_answered in notes.items()}
    return Content(
        findings,
        tuple(Points(name, tuple(lines)) for name, lines in points.items() if lines),
        lead=(_side_by_side(answered),),
        limitations="Clusters, years and definitions differ between traces, so a difference has no "
        "single cause and is not tested. Where a trace records no users, blocks of days are the "
        "independent unit; with fewer than ten of them intervals are too narrow.",
    )


def _side_by_side(answered: pl.DataFrame) -> Table:
    rows: dict[str, dict[str, str]] = {}
    for row in answered.drop_nulls("estimate").rows(named=True):
        cell = f"{_written(row, row['estimate'])} ({_interval(row)}{_counted(row)})"
        rows.setdefault(row["trace"], {})[row["measure"]] = cell
    measures = answered["measure"].unique(maintain_order=True).to_list()
    return result_table(
        pl.DataFrame(
            [{"trace": trace, **dict.fromkeys(measures), **cells} for trace, cells in rows.items()],
            infer_schema_length=None,
        ),
        headings={measure: _name(measure) for measure in measures},
        caption="Traces side by side: estimate, 95 % confidence interval, and n",
    )


def _finding(rows: pl.DataFrame) -> str:
    """Return the range of an estimate over the traces."""
    first, *_, last = table = rows.drop_nulls("estimate").sort("estimate").rows(named=True)
    short, ends = [], []
    for row in (first, last):
        stated = f"{_written(row, row['estimate'])} ({row['trace']}"
        short.append(f"{stated})")
        ends.append(f"{stated}; {_interval(row, '95 % CI ')}{_counted(row)})")
    (low, high), name = ends, _name(first["measure"])
    return Finding(
        f"{name}: the lowest of {len(table)} traces is {low}. The highest is {high}.",
        heading=f"{name}: {' to '.join(short)}",
    )


def _counted(row: dict[str, Any]) -> str:
    """Write n, and of what, where a trace has no jobs with these values."""
    noun = _OF.match(row["note"] or "")
    return f"n = {row['n']:,}{f' {noun[1]}' if noun else ''}"


def _interval(row: dict[str, Any], name: str = "") -> str:
    if row["ci_low"] is None:
        return ""
    if row["ci_high"] is None:  # the curve does not fall that low
        return f"{name}{_written(row, row['ci_low'])} or more; "
    return f"{name}{_written(row, row['ci_low'], row['ci_high'])}; "


def _written(row: dict[str, Any], *values: float) -> str:
    """Write a value of a measure, or an interval, in the unit that a person would choose."""
    units = (write for unit, write in _UNITS.items() if row["measure"].endswith(unit))
    write_value, write_range = next(units, (three_digits, three_digits_range))
    return write_value(*values) if len(values) == 1 else write_range(*values)


def _name(measure: str) -> str:
    for unit in _UNITS:
        measure = measure.removesuffix(unit)
    return measure


SECTION = Section(
    "comparison",
    "Traces side by side",
    30,
    build,
    needs=({},),
    part="Workload",
    question="How do the traces compare?",
)
