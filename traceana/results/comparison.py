"""Table of traces side by side."""

from __future__ import annotations

from traceana.results.tables import ResultTable, count, number, text


class Comparison(ResultTable):
    """One row per question and trace."""

    question = text("Question")
    name = text("Name", "stable name of the measure, as in results.json")
    measure = text("Measure", "what the estimate is, with its unit")
    trace = text("Trace", "title of the trace")
    n = count("n", "rows that the estimate is from")
    estimate = number("Estimate", "null where the trace cannot answer")
    ci_low = number("95 % CI", "confidence interval; null where none can be given")
    ci_high = number("95 % CI", "confidence interval; null where none can be given")
    rank = count("Rank", "1: the largest estimate of these traces")
    note = text("Note", "why there is no estimate or interval, and what differs between traces")
