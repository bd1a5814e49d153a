"""A figure as PDF, whose fonts are reduced once per process."""

from __future__ import annotations

import inspect
from contextlib import contextmanager, nullcontext
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from fontTools import subset
from matplotlib.backends import _backend_pdf_ps as fonts
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.font_manager import get_font

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from io import BytesIO

    from matplotlib.figure import Figure

_USUAL: Final = "".join(map(chr, range(32, 127))) + "−–×≤≥±·…"  # noqa: RUF001
"""Characters of nearly all figures: with the same ones, figures share a reduced font."""
_reduce_font: Final = fonts.get_glyphs_subset


def write_pdf(figure: Figure, sheet: BytesIO, /, *, dpi: int) -> None:
    """Write a figure as PDF without a date; it is drawn once, while savefig draws twice."""
    nothing = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    canvas, own_dpi = figure.canvas, figure.get_dpi()
    figure.set_dpi(dpi)
    with _share_fonts():
        FigureCanvasPdf(figure).print_pdf(sheet, metadata=nothing)  # type: ignore[no-untyped-call]
    figure.set_canvas(canvas)
    figure.set_dpi(own_dpi)


@contextmanager
def _share_fonts() -> Iterator[None]:
    """Replace matplotlib's reduction of a font, which takes more time than drawing a figure."""
    if list(inspect.signature(_reduce_font).parameters) != ["fontfile", "glyphs"]:
        yield  # another version of matplotlib
        return
    fonts.get_glyphs_subset = _shared
    try:
        yield
    finally:
        fonts.get_glyphs_subset = _reduce_font


def _shared(fontfile: Any, glyphs: Iterable[int]) -> AbstractContextManager[Any]:  # noqa: ANN401
    font = get_font(fontfile)
    usual = {font.get_char_index(ord(character)) for character in _USUAL}
    return nullcontext(_reduced(fontfile, tuple(sorted(usual.union(glyphs)))))


@cache
def _reduced(fontfile: Any, glyphs: tuple[int, ...]) -> Any:  # noqa: ANN401
    options = subset.Options(glyph_names=True, recommended_glyphs=True)
    # of no use without a layout engine, and slow to reduce
    options.drop_tables += ["GSUB", "GPOS", "GDEF", "FFTM"]
    options.font_number = fontfile.face_index
    subsetter = subset.Subsetter(options)
    subsetter.populate(gids=glyphs)
    with subset.load_font(fontfile, options) as font:
        subsetter.subset(font)
        file = fonts.font_as_file(font).getvalue()  # type: ignore[no-untyped-call]
    written = SimpleNamespace(save=lambda sheet, **_: sheet.write(file))
    return fonts.SubsetResults(written, subsetter.glyph_index_map)
