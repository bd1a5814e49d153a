"""Sections in, one Markdown text out; its figures are files beside it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from traceana.page.blocks import Block, Facts, Gallery, Heading, Points, Quote, Table, Text
from traceana.report.page import (
    Built,
    Ranked,
    alerts,
    group_parts,
    main_results,
    name_page,
    trace_facts,
    trace_titles,
)
from traceana.tables.formatting import text as shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceana.page.context import Context

_CODE: Final = re.compile(r"(`[^`]+`)")
_MARKS: Final = re.compile(r"[\\*<\[\]]")
_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")


def render_markdown(built: list[Built], context: Context, /, *, title: str, figures: str) -> str:
    """Write the report as Markdown (GitHub's, for the tables)."""
    parts = [f"# {_prose(name_page(title, context))}"]
    if (traces := trace_titles(context)) != [title]:
        parts.append(" · ".join(traces))
    synthetic = [trace.label for trace in context.traces if trace.synthetic]
    if synthetic:
        parts.append(
            f"> **SYNTHETIC data** ({', '.join(synthetic)}): no number and no figure that comes "
            "from them describes a real system."
        )
    parts += _summary(built, context)
    for name, sections in group_parts(built):
        parts.append(f"## {name}")
        for part in sections:
            if [part.section.title] != [name] * len(sections):
                parts.append(f"### {_prose(part.section.title)}")
            parts += _section(part, figures)
    return "\n\n".join(parts) + "\n"


def _summary(built: list[Built], context: Context) -> Iterator[str]:
    """Write the head of the page: facts of each trace, alerts and main results."""
    facts = [
        f"- **{_prose(trace.label)}**: "
        + "; ".join(f"{name} {_prose(value)}" for name, value in values)
        for trace, values in trace_facts(context)
        if values
    ]
    results = main_results(built, trace_facts(context))
    lists = (("", facts), ("Alerts", _linked(alerts(built))), ("Main results", _linked(results)))
    if any(lines for _, lines in lists):
        yield "## Summary"
    for name, lines in lists:
        if lines:
            yield from (f"### {name}",) if name else ()
            yield "\n".join(lines)


def _linked(results: list[Ranked]) -> list[str]:
    return [f"- {_prose(one.text)} ([more](#{_anchor(one.part.section.title)}))" for one in results]


def _section(part: Built, figures: str) -> Iterator[str]:
    content = part.content
    if part.section.question:
        yield f"*{_prose(part.section.question)}*"
    if content.heading:
        yield f"**{_prose(content.heading)}**"
    if content.findings:
        yield "\n".join(f"- {_prose(text)}" for text in content.findings)
    for block in content.lead:
        yield from _write(block, figures)
    if content.limitations:
        yield f"**Limitations.** {_prose(content.limitations)}"
    for block in content.blocks:
        yield from _write(block, figures)


def _write(block: Block, figures: str) -> Iterator[str]:
    match block:
        case Gallery():
            for picture in block.drawn:
                about = picture.caption.partition(". ")[0]
                yield f"![{_prose(about)}]({figures}/{picture.key}.svg)"
                told = _prose(f"{picture.caption} {picture.reading}".rstrip())
                yield f"**Figure {picture.number}.** {told}"
        case Text(text):
            yield _prose(text)
        case Heading(text):
            yield f"#### {_prose(text)}"
        case Points(summary, points):
            yield f"{_prose(summary)}:"
            yield "\n".join(f"- {_prose(point)}" for point in points)
        case Facts(facts):
            yield "\n".join(f"- **{_prose(term)}**: {_prose(fact)}" for term, fact in facts)
        case Quote(summary, text):
            yield f"{_prose(summary)}:"
            yield f"```text\n{text.strip()}\n```"
        case Table():
            yield f"**Table {block.number}.** {_prose(block.caption)}"
            yield "\n".join(_rows(block))


def _rows(table: Table) -> Iterator[str]:
    yield _row(table.headings)
    yield _row(["---:" if numeric else "---" for numeric in table.numeric])
    for row in table.rows:
        yield _row([_cell(text) for text in row])
    if table.total:
        yield _row([f"**{_cell(text)}**" if text else "" for text in table.total])


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _prose(text: str) -> str:
    """Escape what Markdown would read as a mark, outside of `code`; a name may have lines."""
    return "".join(
        part if part.startswith("`") else _MARKS.sub(r"\\\g<0>", part)
        for part in _CODE.split(" ".join(shortened(text).splitlines()))
    )


def _anchor(title: str) -> str:
    """Return the name that a heading gets from those who show Markdown."""
    return _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-")
