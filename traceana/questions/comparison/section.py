"""Section that puts the headline numbers of all traces side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.page.blocks import Content, Points, Table, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.comparison.compare_traces import compare_traces
from traceana.questions.comparison.tables import reasons
from traceana.tables.formatting import (
    duration,
    duration_range,
    fraction_range,
    listed,
    share,
    three_digits,
    three_digits_range,
)

if TYPE_CHECKING:
    from traceana.store import Trace

_UNITS: Final[dict[str, tuple[Callable[[float], str], Callable[[float, float], str]]]] = {
    " (s)": (duration, duration_range),
    " (fraction)": (share, fraction_range),
}
_MOST_NAMED: Final = 4
_FINDINGS: Final = ("Runtime", "Failure", "Stragglers")


def build(traces: Sequence[Trace]) -> Content:
    """Compare all traces; nothing with fewer than two."""
    if len(traces) < 2:
        return Content()
    table = compare_traces(traces)
    table = table.filter(pl.col("estimate").count().over("question") > 0)
    answered = table.filter(pl.col("estimate").count().over("question") > 1)
    if answered.is_empty():
        return Content()
    # a trace without its short jobs is no peer of the others
    cut = [
        trace.label
        for trace in traces
        if any(t.left_truncated for t in trace.manifest.tables.values())
    ]
    alike = answered.filter((pl.col("question") != "Runtime") | ~pl.col("trace").is_in(cut))
    alike = alike.filter(pl.col("estimate").count().over("question") > 1)
    return Content(
        tuple(
            _finding(alike.filter(question=finding))
            for finding in _FINDINGS
            if finding in alike["question"].to_list()
        )
        or (_heading(answered),),
        tuple(
            Points(name, tuple(lines))
            for name, lines in (
                ("Limits of the estimates", reasons(table, answered=True)),
                ("Not compared", reasons(table, answered=False)),
            )
            if lines
        ),
        lead=(_side_by_side(answered),),
        limitations="Clusters, years and definitions differ between traces, so a difference has no "
        "single cause and is not tested. Where a trace records no users, blocks of days are the "
        "independent unit; with fewer than ten of them intervals are too narrow.",
    )


def _side_by_side(answered: pl.DataFrame) -> Table:
    """Return one row per trace, and one column per measure."""
    rows: dict[str, dict[str, str]] = {}
    for row in answered.drop_nulls("estimate").rows(named=True):
        interval = _interval(row)
        cell = f"{_written(row, row['estimate'])} ({interval}n = {row['n']:,})"
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


def _heading(answered: pl.DataFrame) -> Finding:
    """State the first measure of the traces that have it."""
    first = answered.filter(question=answered["question"][0]).drop_nulls("estimate")
    parts = [f"{_written(row, row['estimate'])} ({row['trace']})" for row in first.to_dicts()]
    text = f"{_name(first['measure'][0])}: {listed(parts[:_MOST_NAMED])}"
    return Finding(f"{text}.", heading=text)


def _finding(rows: pl.DataFrame) -> str:
    """Return the range of an estimate over the traces."""
    table = rows.drop_nulls("estimate").sort("estimate")
    low, high = table.row(0, named=True), table.row(-1, named=True)
    ends = [f"{_written(row, row['estimate'])} ({row['trace']})" for row in (low, high)]
    return Finding(
        f"{_name(low['measure'])}: the lowest of {table.height} traces is {_estimate(low)}. "
        f"The highest is {_estimate(high)}.",
        heading=f"{_name(low['measure'])}: {' to '.join(ends)}",
    )


def _estimate(row: dict[str, Any]) -> str:
    interval = _interval(row, "95 % CI ")
    return f"{_written(row, row['estimate'])} ({row['trace']}; {interval}n = {row['n']:,})"


def _interval(row: dict[str, Any], name: str = "") -> str:
    if row["ci_low"] is None:
        return ""
    if row["ci_high"] is None:  # the curve does not fall that low
        return f"{name}{_written(row, row['ci_low'])} or more; "
    write = _writers(row["measure"])[1]
    return f"{name}{write(row['ci_low'], row['ci_high'])}; "


def _written(row: dict[str, Any], value: float) -> str:
    """Write a value of a measure in the unit that a person would choose."""
    return _writers(row["measure"])[0](value)


def _writers(measure: str) -> tuple[Callable[[float], str], Callable[[float, float], str]]:
    """Return what writes a value of a measure, and an interval."""
    found = (write for unit, write in _UNITS.items() if measure.endswith(unit))
    return next(found, (three_digits, three_digits_range))


def _name(measure: str) -> str:
    """Leave out the unit, which the values have."""
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
