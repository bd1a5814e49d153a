"""Values of a drawn figure, which the page shows under the pointer."""

from __future__ import annotations

import math
from datetime import UTC
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.dates import AutoDateFormatter, ConciseDateFormatter, num2date
from matplotlib.ticker import FixedFormatter, FuncFormatter, PercentFormatter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

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
    """Return a ``<g>`` element per axes with the place and the text of each value.

    The figure must have been drawn at 72 dots per inch: the places are points of the page's SVG.
    """
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
    return " ".join(text.replace(";", ",").replace("|", "/").split())


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
    """Return all points of a line with markers, and some of a curve."""
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
