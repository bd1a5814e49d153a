"""Table of traces side by side."""

from __future__ import annotations

import polars as pl

from traceana.tables.declare import ResultTable, ci, count, number, text


class Comparison(ResultTable):
    """One row per question and trace."""

    question = text("Question")
    name = text("Name", "stable name of the measure, as in results.json")
    measure = text("Measure", "what the estimate is, with its unit")
    trace = text("Trace", "title of the trace")
    n = count("n", "rows that the estimate is from")
    estimate = number("Estimate", "null where the trace cannot answer")
    ci_low, ci_high = ci("confidence interval; null where none can be given")
    rank = count("Rank", "1: the largest estimate of these traces")
    note = text("Note", "why there is no estimate or interval, and what differs between traces")


def reasons(comparison: pl.DataFrame, /, *, answered: bool) -> list[str]:
    """Return the notes of rows with an estimate, or of those without, by measures and traces."""
    rows = comparison.filter(comparison["estimate"].is_not_null() == answered)
    every = comparison["trace"].n_unique()
    tables_by_reason: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for (question, note), of_question in rows.drop_nulls("note").group_by(
        "question", "note", maintain_order=True
    ):
        of_traces = tables_by_reason.setdefault(str(note), {})
        of_traces.setdefault(tuple(of_question["trace"]), []).append(str(question))
    return [
        f"{', '.join(questions)}: {note} "
        f"({'all traces' if len(traces) == every else '; '.join(traces)})"
        for note, of_traces in tables_by_reason.items()
        for traces, questions in of_traces.items()
    ]


class Changes(ResultTable):
    """One row per measure: two periods or clusters, exact, and what another period may bring."""

    measure = text("Measure", "stable name, for `--fail-if`")
    label = text("What", "what it is, with its unit")
    before = number("Before", "of the first period or cluster; null where it has none")
    after = number("After", "of the second")
    difference = number("Difference", "after minus before")
    ratio = number("Ratio", "after over before; null where before is 0")
    ci_low, ci_high = ci("of the ratio, for other days of such periods; null for totals")
    n_before = count("n before", "jobs that the number is of")
    n_after = count("n after", "jobs that the number is of")
