"""``results.json``: findings and headline numbers under stable names, for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final

from traceana.page.context import Context
from traceana.page.finding import Finding
from traceana.questions.comparison.compare_traces import describe_headlines
from traceana.report.page import Built
from traceana.tables.formatting import rounded

FORMAT: Final = 1
"""Version of the file: it changes if a name changes or goes."""
_OF_FINDING: Final = (
    "heading",
    "alert",
    "effect",
    "ci_low",
    "ci_high",
    "n",
    "cost_gpu_h",
    "cost_jobs",
    "certainty",
)
_NUMBERS: Final = ("n", "estimate", "ci_low", "ci_high", "note")


def results_json(built: Sequence[Built], context: Context, /) -> str:
    """Return the findings of each section, and the headline numbers of each trace, as JSON.

    ``numbers.<trace>.<name>`` has n, estimate, ci_low, ci_high and note, as ``traceana compare``; a
    finding is named ``<section>.<position>``.
    """
    traces = {
        trace.id: {"title": trace.title, "synthetic": trace.synthetic} for trace in context.traces
    }
    numbers: dict[str, dict[str, Any]] = {}
    for trace in traces:
        rows = context.store.trace(trace).once(describe_headlines).rows(named=True)
        numbers[trace] = {row["name"]: {number: row[number] for number in _NUMBERS} for row in rows}
    findings = [
        {
            "name": f"{section.section.id}.{position}",
            "section": section.section.id,
            "question": section.section.question,
            "text": text,
            **{name: getattr(text, name) for name in _OF_FINDING if isinstance(text, Finding)},
        }
        for section in built
        for position, text in enumerate(section.content.every_finding, start=1)
    ]
    content = {
        "format": FORMAT,
        "version": version("traceana"),
        "date": context.date,
        "traces": traces,
        "numbers": numbers,
        "findings": findings,
    }
    return json.dumps(rounded(content), indent=2, ensure_ascii=False, default=float) + "\n"
