"""Drawings of a figure that are chosen by trace, job, GPU and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.errors import DataError
from traceana.page.blocks import Content, Drawing, Gallery
from traceana.page.section import Section, sections
from traceana.report.figure_sources import DIRECT, Choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceana.page.context import Context


def choose_drawings(
    context: Context,
    name: str,
    trace: Sequence[str] | None,
    choice: Choice,
    kept: dict[str, tuple[Content, list[Drawing]]],
    /,
) -> list[Drawing]:
    """Return the drawings of a figure that are chosen, of all traces or of some."""
    if name in DIRECT and choice.has(DIRECT[name].options):
        drawings = _direct_drawings(context, name, trace, choice)
        if drawings:
            return drawings
    drawing_sections = [section for section in sections() if name in section.figures]
    shown: list[Drawing] = []
    further: list[Drawing] = []
    for section in drawing_sections:
        if section.id not in kept:
            kept[section.id] = _build(section, context, trace)
        content, more = kept[section.id]
        shown += _shown(content, name)
        further += more
    by_key = {drawing.key: drawing for drawing in (*shown, *further) if drawing.figure == name}
    if not by_key:
        raise DataError(_tell_absent(name, drawing_sections))
    chosen = [drawing for key, drawing in by_key.items() if choice.matches(key)]
    if not chosen:
        raise DataError(f"no figure has {choice}; available: {', '.join(by_key)}")
    return chosen


def _shown(content: Content, name: str) -> Iterator[Drawing]:
    """Return the drawings of a figure in galleries, alone or as a panel of another."""
    for block in content.all_blocks:
        for picture in block.pictures if isinstance(block, Gallery) else ():
            if isinstance(picture, Drawing):
                yield from (picture,) if picture.figure == name else picture.members


def _direct_drawings(
    context: Context, name: str, trace: Sequence[str] | None, choice: Choice
) -> list[Drawing]:
    """Return the drawings of each trace that has what is chosen; an error if none has."""
    made: list[Drawing] = []
    errors = []
    for one in DIRECT[name].traces(context):
        if trace is None or one.id in trace:
            try:
                made += DIRECT[name].drawings(one, choice)
            except DataError as error:
                errors.append(error)
    drawings = [drawing for drawing in made if drawing.figure == name]
    if errors and not drawings:
        raise errors[0]
    return drawings


def _build(
    section: Section, context: Context, trace: Sequence[str] | None
) -> tuple[Content, list[Drawing]]:
    """Return the content of a section and its further drawings, of the traces that are named."""
    traces = [one for one in section.traces(context) if trace is None or one.id in trace]
    more = section.more(traces) if section.more and traces else []
    if trace is None or not section.needs:
        return section.content(context), more
    return (section.build(traces) if traces or section.always else Content()), more


def _tell_absent(name: str, sections: list[Section]) -> str:
    """Return which tables a figure needs that its sections could not draw."""
    from traceana.figures import get_figure  # noqa: PLC0415  as above

    needed = " or ".join(dict.fromkeys(section.needed for section in sections if section.needs))
    remedy = f"; it needs {needed}" if needed else ""
    return f"the store has nothing to draw it from ({get_figure(name).result}){remedy}"
