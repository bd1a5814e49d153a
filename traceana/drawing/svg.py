"""Figures as SVG with their values for a page, as PDF and PNG, and the mark of synthetic data."""

from __future__ import annotations

import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from html import escape
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.dates import AutoDateFormatter, ConciseDateFormatter, num2date
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FuncFormatter, PercentFormatter

from traceana.drawing.style import use_style
from traceana.tables.formatting import text as shortened
from traceana.tables.formatting import without_controls

WATERMARK: Final = "SYNTHETIC"
PNG_DPI: Final = 300
"""Resolution (dots per inch) of PNG, and of images within PDF, for print."""
_STYLE: Final = re.compile(r"<defs>\s*<style[^>]*>\*\{([^}]*)\}</style>\s*</defs>\s*")
_NUMBERED: Final = re.compile(
    r' id="(?:figure|axes|patch|text|line2d|[xy]tick|legend|matplotlib\.axis|QuadMesh|'
    r'\w+Collection)_\d+"'
)
"""Names that matplotlib counts up, to which nothing refers: a tenth of a figure's bytes."""
_REFERENCE: Final = re.compile(r'(\bid="|href="#|url\(#)')
_HASHED: Final = re.compile(r"\b([mp][0-9a-f]{10})\b")
_PLACE: Final = re.compile(r'(?<= )(x|y)="(-?[\d.]+)"')
_LEVEL: Final = re.compile(r' transform="rotate\(-?0 [^"]*\)"')
_FAMILY: Final = re.compile(r" font-family: [^;\"]*;")
_GROUP: Final = re.compile(r"<g>|<g [^>]*[^/>]>|</g>")
_BETWEEN: Final = re.compile(r">\s+<")
_PATH: Final = re.compile(r'\bd="[^"]*"')
_DECIMALS: Final = re.compile(r"-?\d+\.\d+")
_LINES: Final = re.compile(r'd="(?:[ML] -?[\d.]+ -?[\d.]+ ?\n?|z\n?)+"')
_STEP: Final = re.compile(r"(z)|([ML]) (-?[\d.]+) (-?[\d.]+)")
_LOOK: Final = re.compile(r'(?: clip-path="([^"]*)")? style="([^"]*)"')
_SEPARATED: Final = re.compile("; ")
_FEW: Final = 2
_MARK_IN: Final = 0.12
_DARK: Final = 0.5
"""Largest part of red, green or blue below which a background is dark."""
_SPACE: Final = re.compile(r"\s*\n|(?<=[MLCQ]) ")


def mark_synthetic(figure: Figure, /) -> None:
    """Write SYNTHETIC into the upper right corner of a figure."""
    dark = max(to_rgb(figure.get_facecolor())) < _DARK
    layout = figure.get_layout_engine()
    if isinstance(layout, ConstrainedLayoutEngine):  # titles and legends stay below the mark
        layout.set(rect=(0, 0, 1, 1 - _MARK_IN / figure.get_figheight()))
    figure.text(
        0.995,
        0.995,
        WATERMARK,
        ha="right",
        va="top",
        fontsize=6,
        fontweight="bold",
        color="#FF5A6E" if dark else "#B00020",
        zorder=10,
        gid="synthetic",
        in_layout=False,
    )


def render_file(figure: Figure, form: str, /, *, dpi: int = PNG_DPI) -> bytes:
    """Return a figure as a PDF or PNG without a date: equal figures have equal bytes."""
    sheet = io.BytesIO()
    with use_style(), _kept_canvas(figure):
        if form == "pdf":
            # slow to load, and a report writes no PDF
            from matplotlib.backends.backend_pdf import FigureCanvasPdf  # noqa: PLC0415

            figure.set_dpi(dpi)
            no_date = dict.fromkeys(("Creator", "Producer", "CreationDate"))
            FigureCanvasPdf(figure).print_pdf(sheet, metadata=no_date)  # type: ignore[no-untyped-call]
        else:
            figure.savefig(sheet, format=form, dpi=dpi, metadata={"Software": None})
    return sheet.getvalue()


@contextmanager
def _kept_canvas(figure: Figure) -> Iterator[None]:
    """Draw by a canvas of its own: savefig draws twice, first to lay out, which drawing does."""
    canvas, dpi = figure.canvas, figure.get_dpi()
    try:
        yield
    finally:
        figure.set_canvas(canvas)
        figure.set_dpi(dpi)


def render_svg(figure: Figure, /, *, prefix: str) -> str:
    """Return a figure, which is not kept, as an `<svg>` element whose ids begin with a prefix."""
    sheet = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with use_style(), _kept_canvas(figure):
        FigureCanvasSVG(figure).print_svg(sheet, metadata=nothing)  # type: ignore[no-untyped-call]
        values = without_controls(value_marks(figure))
    text = without_controls(sheet.getvalue())
    text = text[text.index("<svg") :].rstrip()
    rule = _STYLE.search(text)
    if rule:
        text = text.replace(rule[0], "").replace("<svg", f'<svg style="{rule[1]}"', 1)
    text = _REFERENCE.sub(rf"\g<1>{prefix}-", _NUMBERED.sub("", text))
    text = _shrink(_PATH.sub(lambda path: _shorten(path[0]), text), prefix)
    return f"{text.removesuffix('</svg>')}{values}</svg>"


def _shrink(text: str, prefix: str) -> str:
    """Leave out what a browser does not need: half of the bytes."""
    start = f"{zlib.crc32(prefix.encode()):x}"
    ids: dict[str, str] = {}
    text = re.sub(
        rf"{re.escape(prefix)}-{_HASHED.pattern}",
        lambda match: ids.setdefault(match[1], f"i{start}{len(ids)}"),
        text,
    )
    text = _PLACE.sub(lambda match: f'{match[1]}="{_written(float(match[2]))}"', text)
    text = _LEVEL.sub("", text)
    if (family := _FAMILY.search(text)) is not None:
        text = text.replace(family[0], "").replace(
            '<svg style="', f'<svg style="{family[0].strip()} ', 1
        )
    opened: list[bool] = []

    def group(match: re.Match[str]) -> str:
        if match[0] == "</g>":
            return "" if opened.pop() else match[0]
        opened.append(match[0] == "<g>")
        return "" if opened[-1] else match[0]

    return _classed(_BETWEEN.sub("><", _GROUP.sub(group, text)), f"c{start}")


def _classed(text: str, start: str) -> str:
    """Write styles that several elements have as classes, whose names no other figure has."""
    styles = [styled for styled, n in Counter(_LOOK.findall(text)).items() if n > _FEW]
    names = {styled: f"{start}{place}" for place, styled in enumerate(styles)}

    def look(match: re.Match[str]) -> str:
        name = names.get((match[1], match[2]))
        return match[0] if name is None else f' class="{name}"'

    rules = "".join(
        f".{name}{{{f'clip-path:{clip};' if clip else ''}{_SEPARATED.sub(';', style)}}}"
        for (clip, style), name in names.items()
    )
    head, rest = text.split(">", 1)
    return f"{head}><style>{rules}</style>{_LOOK.sub(look, rest)}" if rules else text


def _shorten(path: str) -> str:
    """Write a path to a tenth of a point; one of lines alone by their differences."""
    if not _LINES.fullmatch(path):
        path = _DECIMALS.sub(lambda number: _written(float(number[0])), path)
        return _SPACE.sub("", path)
    written, last = [], ""
    x = y = begin_x = begin_y = 0.0
    for close, command, to_x, to_y in _STEP.findall(path):
        if close:  # the next point is relative to the first one
            written.append("z")
            x, y, last = begin_x, begin_y, ""
            continue
        new_x, new_y = round(float(to_x), 1), round(float(to_y), 1)
        step = f"{_written(new_x - x)} {_written(new_y - y)}".replace(" -", "-")
        if command == "M":
            written.append(f"m{step}")
            begin_x, begin_y = new_x, new_y
        else:
            written.append(
                ("" if step.startswith("-") else " ") + step if last == "L" else f"l{step}"
            )
        x, y, last = new_x, new_y, command
    return f'd="{"".join(written)}"'


def _written(number: float) -> str:
    """Write a number to a tenth, without what is not needed."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text in ("-0", "0") else text.replace("0.", ".") if abs(number) < 1 else text


_MOST: Final = 150
"""Most values of an artist; a cloud of more marks has none."""
_OF_CURVE: Final = 16
"""Values of a line without marks."""
_RULE: Final = 2
_MOST_LINES: Final = 12
"""Lines beyond which only those with a name have values."""

_Mark = tuple[str, float, float, str]
"""Name of the series, position on both axes, and a further text."""


def value_marks(figure: Figure, /) -> str:
    """Return a ``<g>`` element per axes with the place and text of each value (at 72 dpi)."""
    height = figure.bbox.height
    return "".join(_group(ax, height) for ax in figure.axes if ax.axison)


def _group(ax: Axes, height: float) -> str:
    written = []
    for name, x, y, more in _marks(ax):
        if not (math.isfinite(x) and math.isfinite(y)):
            continue
        across, up = ax.transData.transform((x, y))
        if not ax.bbox.padded(2).contains(across, up):
            continue
        parts = (name, _text(ax.xaxis, x), _text(ax.yaxis, y) + more)
        written.append(f"{across:.0f} {height - up:.0f} {';'.join(map(_plain, parts))}")
    if not written:
        return ""
    labels = ";".join(_plain(axis.get_label_text()) for axis in (ax.xaxis, ax.yaxis))
    return f'<g data-axes="{escape(labels)}" data-values="{escape("|".join(written))}"/>'


def _plain(text: str) -> str:
    return shortened(" ".join(text.replace(";", ",").replace("|", "/").split()))


def _marks(ax: Axes) -> Iterator[_Mark]:
    taken: set[object] = set()
    for container in ax.containers:
        if isinstance(container, BarContainer):
            yield from _of_bars(container)
        elif isinstance(container, ErrorbarContainer) and container.lines[0] is not None:
            taken.add(container.lines[0])
            yield from _of_intervals(ax, container)
    crowded = len(ax.lines) > _MOST_LINES
    for line in ax.lines:
        in_data = all(line.get_transform().contains_branch_seperately(ax.transData))
        if line not in taken and in_data and line.get_visible():
            yield from _of_line(line, crowded=crowded)
    for collection in ax.collections:
        if isinstance(collection, PathCollection):
            points = np.ma.getdata(collection.get_offsets())
            if len(points) <= _MOST:
                yield from ((_name(collection), *point, "") for point in points.tolist())
        elif isinstance(collection, QuadMesh):
            yield from _of_cells(collection)


def _of_line(line: Line2D, *, crowded: bool) -> Iterator[_Mark]:
    points = np.asarray(line.get_xydata(), dtype=float)
    marked = line.get_marker() not in ("None", "", None)
    if marked and len(points) <= _MOST:
        yield from ((_name(line), *point, "") for point in points.tolist())
    elif not marked and len(points) > _RULE and (_name(line) or not crowded):
        places = np.linspace(0, len(points) - 1, min(_OF_CURVE, len(points))).round()
        yield from ((_name(line), *point, "") for point in points[places.astype(int)].tolist())


def _of_bars(bars: BarContainer) -> Iterator[_Mark]:
    for bar in bars.patches[:_MOST]:
        middle_x, middle_y = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
        if bars.orientation == "horizontal":
            yield _name(bars), bar.get_x() + bar.get_width(), middle_y, ""
        else:
            yield _name(bars), middle_x, bar.get_y() + bar.get_height(), ""


def _of_intervals(ax: Axes, container: ErrorbarContainer) -> Iterator[_Mark]:
    line, _, bars = container.lines
    points = np.asarray(line.get_xydata(), dtype=float)
    side = 0 if container.has_xerr else 1
    axis = ax.yaxis if side else ax.xaxis
    ends = [np.asarray(segment)[:, side] for segment in bars[0].get_segments()] if bars else []
    for place, point in enumerate(points[:_MOST].tolist()):
        end = ends[place] if len(ends) == len(points) else np.array([])
        more = f" ({_text(axis, end.min())} to {_text(axis, end.max())})" if end.size else ""
        yield _name(container), point[0], point[1], more


def _of_cells(mesh: QuadMesh) -> Iterator[_Mark]:
    values: Any = np.ma.asarray(mesh.get_array())
    corners = np.asarray(mesh.get_coordinates())
    if values.size > _MOST or values.ndim != _RULE:
        return
    middle = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    for (row, column), value in np.ndenumerate(values):
        if value is not np.ma.masked and math.isfinite(value):
            yield "", *middle[row, column].tolist(), f": {_number(float(value))}"


def _name(artist: Any) -> str:  # noqa: ANN401  any artist, or a container
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") else label


def _text(axis: Axis, value: float) -> str:
    """Write a value as its axis does: a category's name, a date, a duration or a number."""
    form = axis.get_major_formatter()
    if isinstance(form, (AutoDateFormatter, ConciseDateFormatter)):
        low, high = axis.get_view_interval()
        moment = num2date(value, tz=UTC)  # type: ignore[no-untyped-call]
        return f"{moment:%Y-%m-%d}" if high - low > _RULE else f"{moment:%Y-%m-%d %H:%M}"
    if isinstance(form, PercentFormatter):
        return f"{_number(100 * value / form.xmax)} %"
    if not isinstance(form, (FixedFormatter, FuncFormatter)):
        return _number(value)
    text = form(_rounded(value))
    if text:
        return text
    named = {  # an axis of categories
        abs(place - value): name
        for nth, place in enumerate(axis.get_majorticklocs())
        if (name := form(place, nth)).strip()
    }
    return named[min(named)] if named else ""


def _rounded(value: float) -> float:
    return value if value == round(value) else float(f"{value:.3g}")


def _number(value: float) -> str:
    return f"{_rounded(value):,.10g}"
