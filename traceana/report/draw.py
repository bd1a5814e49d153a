"""Drawings of a section become pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traceana.report.blocks import Content, Drawing, Gallery, Picture

if TYPE_CHECKING:
    from traceana.report.context import Context


def draw_content(content: Content, context: Context, /) -> Content:
    """Return a section's content with its drawings drawn, those of other figures left out."""
    blocks = tuple(
        Gallery(
            tuple(
                _draw(one, context) if isinstance(one, Drawing) else one
                for one in block.pictures
                if context.figures is None or one.figure in context.figures
            )
        )
        if isinstance(block, Gallery)
        else block
        for block in content.blocks
    )
    return replace(content, blocks=blocks)


def _draw(drawing: Drawing, context: Context) -> Picture:
    # matplotlib is slow to load, and a report that was kept draws nothing
    from traceana.figures import (  # noqa: PLC0415
        draw_figure,
        get_figure,
        mark_synthetic,
        render_file,
        render_svg,
    )

    entry = get_figure(drawing.figure)
    drawn = draw_figure(drawing.figure, drawing.result, **drawing.options)
    title = drawing.title or context.title(drawing.trace)
    caption = f"{drawing.about}. {title}. {entry.describe(drawing.result)}"
    if context.synthetic(drawing.trace):
        mark_synthetic(drawn)
        caption += " SYNTHETIC data: no real system is shown."
    # SVG first: each rendering moves the layout a little
    svg = render_svg(drawn, prefix=drawing.key)
    files = tuple((suffix, render_file(drawn, suffix)) for suffix in context.formats)
    return Picture(svg, caption, drawing.key, drawing.figure, entry.reading, files)
