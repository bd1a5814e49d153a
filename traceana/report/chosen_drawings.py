"""Drawings of a figure that are chosen by trace, job, GPU and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.errors import DataError
from traceana.page.blocks import Content, Drawing, Gallery
from traceana.page.section import Section, sections
from traceana.report.figure_sources import DIRECT, Choice

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        found, errors = _direct_drawings(context, name, trace, choice)
        if found:
            return found
        if errors:
            raise errors[0]
    own = [section for section in sections() if name in section.figures]
    for section in own:
        if section.id not in kept:
            kept[section.id] = _build(section, context, trace)
    contents = [kept[section.id] for section in own]
    drawings = [
        *(
            member
            for content, _ in contents
            for block in content.all_blocks
            if isinstance(block, Gallery)
            for picture in block.pictures
            if isinstance(picture, Drawing)
            for member in ((picture,) if picture.figure == name else picture.members)
        ),
        *(drawing for _, more in contents for drawing in more),
    ]
    known = list({one.key: one for one in drawings if one.figure == name}.values())
    if not known:
        raise DataError(_tell_absent(name, own))
    chosen = [drawing for drawing in known if choice.matches(drawing.key)]
    if not chosen:
        there = ", ".join(drawing.key for drawing in known)
        raise DataError(f"no figure has {choice}; available: {there}")
    return chosen


def _direct_drawings(
    context: Context, name: str, trace: Sequence[str] | None, choice: Choice
) -> tuple[list[Drawing], list[DataError]]:
    """Return the drawings of each trace, and the errors of those that have not what is chosen."""
    found, errors = [], []
    for one in DIRECT[name].traces(context):
        if trace is None or one.id in trace:
            try:
                drawings = DIRECT[name].drawings(one, choice)
            except DataError as error:
                errors.append(error)
            else:
                found += [drawing for drawing in drawings if drawing.figure == name]
    return found, errors


def _build(
    section: Section, context: Context, trace: Sequence[str] | None
) -> tuple[Content, list[Drawing]]:
    """Return the content of a section and its further drawings, of the traces that are named."""
    traces = [one for one in section.traces(context) if trace is None or one.id in trace]
    more = section.more(traces) if section.more and traces else []
    if trace is None or not section.needs:
        return section.content(context), more
    return (section.build(traces) if traces or section.always else Content()), more


def _tell_absent(name: str, own: list[Section]) -> str:
    """Return which tables a figure needs that its sections could not draw."""
    from traceana.figures import get_figure  # noqa: PLC0415  as above

    needed = " or ".join(dict.fromkeys(section.needed for section in own if section.needs))
    remedy = f"; it needs {needed}" if needed else ""
    return f"the store has nothing to draw it from ({get_figure(name).result}){remedy}"
