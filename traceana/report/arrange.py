"""Content of a section as the page shows it: what is open at first, and what is not computed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.page.blocks import (
    SMALL_MULTIPLES,
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Points,
    Table,
    Text,
)
from traceana.page.finding import Finding
from traceana.page.section import PARTS, Section

if TYPE_CHECKING:
    from traceana.page.section import Context
    from traceana.store import Trace


def content_of(section: Section, context: Context, /) -> Content:
    """Build a section; without a trace that qualifies it has no content."""
    if not section.needs:
        built = section.build(context)
        return built if section.part == PARTS[-1] else arrange(built)
    built = arrange(_build(section, section.traces(context)))
    return drop_name(built, context.traces[0].label) if len(context.traces) == 1 else built


def _build(section: Section, traces: list[Trace]) -> Content:
    try:
        return section.build(traces) if traces else Content()
    except DataError as error:
        failed = {traces[0]: error} if len(traces) == 1 else {}
    for trace in traces if not failed else ():
        try:
            section.build([trace])
        except DataError as error:
            failed[trace] = error
    rest = [trace for trace in traces if trace not in failed]
    built = section.build(rest) if rest else Content()
    why = tuple(f"{trace.label}: not computed: {failed[trace]}." for trace in failed)
    return replace(built, findings=(*built.findings, *why))


_MAX_FINDINGS: Final = 2
_MAX_PICTURES: Final = 2
_MAX_ROWS: Final = 2
"""Rows of panels of a figure that is open."""


def arrange(content: Content, /) -> Content:
    """Return the content with a lead and few findings, those without a decided effect last."""
    blocks = list(content.blocks)
    lead = content.lead
    if not lead:
        gallery = next(
            (block for block in blocks if isinstance(block, Gallery) and block.pictures), None
        )
        table = next((part for part in blocks if isinstance(part, Table) and not part.folded), None)
        if gallery:
            lead = (Gallery(gallery.pictures[:_MAX_PICTURES]),)
            blocks[blocks.index(gallery)] = Gallery(gallery.pictures[_MAX_PICTURES:])
        if table:
            lead = (*lead, table)
            blocks.remove(table)
    lead, rest = _split_tall(lead)
    blocks[:0] = rest
    findings = sorted(
        content.findings, key=lambda part: isinstance(part, Finding) and not part.is_decided
    )
    first, further = tuple(findings[:_MAX_FINDINGS]), tuple(findings[_MAX_FINDINGS:])
    if further:
        blocks.insert(0, Points("Further findings", further))
    return replace(content, findings=first, further=further, blocks=tuple(blocks), lead=lead)


def _split_tall(lead: tuple[Block, ...]) -> tuple[tuple[Block, ...], list[Block]]:
    """Return the lead with two rows of panels in its first figure, and a figure of the others."""
    place = next((i for i, block in enumerate(lead) if isinstance(block, Gallery)), None)
    gallery = None if place is None else lead[place]
    if not isinstance(gallery, Gallery) or place is None or not gallery.pictures:
        return lead, []
    tall = gallery.pictures[0]
    if not isinstance(tall, Drawing) or tall.figure != SMALL_MULTIPLES:
        return lead, []
    kept = _MAX_ROWS * int(tall.options.get("columns", 1))
    if len(tall.members) <= kept:
        return lead, []
    heights = tuple(tall.options.get("heights_in", ()))

    def part(panels: tuple[Drawing, ...], rows: slice, end: str) -> Drawing:
        if len(panels) == 1:
            return panels[0]
        options = tall.options | ({"heights_in": heights[rows]} if heights else {})
        return replace(tall, result=panels, key=tall.key + end, options=options)

    first = part(tall.members[:kept], slice(_MAX_ROWS), "")
    others = part(tall.members[kept:], slice(_MAX_ROWS, None), "-more")
    opened = Gallery((first, *gallery.pictures[1:]))
    return (*lead[:place], opened, *lead[place + 1 :]), [Gallery((others,))]


def drop_name(content: Content, name: str, /) -> Content:
    """Return the content without the name of the only trace of a page."""
    escaped = re.escape(name)
    patterns = (
        # a name such as llm-7b, which may come first, keeps its small letter
        (
            re.compile(
                rf"^{escaped}(?:: |, a (?=sample of ))(\w)(?=[a-z]*(?:[\s,:;]|\.?(?:\s|$)))"
            ),
            lambda first: first[1].upper(),
        ),
        (re.compile(rf"^{escaped}(?:: |, a (?=sample of ))"), lambda _: ""),
        (re.compile(rf" in {escaped}(?= \(|\.|,|$)"), lambda _: ""),
        (re.compile(rf"\. {escaped}(?=\.|$)"), lambda _: ""),
        (re.compile(rf" \({escaped}\)"), lambda _: ""),
    )

    def change(text: str) -> str:
        for pattern, put in patterns:
            text = pattern.sub(put, text)
        return text

    def sentences(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(
            text.reword(change) if isinstance(text, Finding) else change(text) for text in texts
        )

    def changed(block: Block) -> Block:
        match block:
            case Text(text, definitions):
                return Text(change(text), tuple(map(change, definitions)))
            case Points():
                return Points(block.summary, sentences(block.points))
            case Heading(text):
                return Heading(change(text))
            case Table():
                rows = tuple((change(row[0]), *row[1:]) for row in block.rows)
                block = replace(block, caption=change(block.caption), rows=rows)
                return _without_column(block, name)
        return block

    def all_of(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        return tuple(changed(block) for block in blocks if block != Heading(name))

    return replace(
        content,
        findings=sentences(content.findings),
        further=sentences(content.further),
        limitations=change(content.limitations),
        lead=all_of(content.lead),
        blocks=all_of(content.blocks),
    )


def _without_column(table: Table, name: str) -> Table:
    """Return a table without its first column if that has one name alone and a text follows."""
    names = {row[0] for row in table.rows}
    is_alone = names == {name} or (table.headings[:1] == ("Trace",) and len(names) == 1)
    if table.numeric[1:2] != (False,) or not is_alone:
        return table
    return replace(
        table,
        headings=table.headings[1:],
        numeric=table.numeric[1:],
        rows=tuple(row[1:] for row in table.rows),
        total=table.total[1:],
    )
