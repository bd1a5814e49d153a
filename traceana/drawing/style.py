"""The house style, axes to draw on, and the colors of what is drawn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib.resources import as_file, files
from io import BytesIO
from threading import RLock
from typing import Any, Final, Literal

import numpy as np
from cycler import cycler
from matplotlib import rc_context, rc_params_from_file, rcParams, rcParamsDefault
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from traceana.errors import DataError

WIDTH_IN: Final = 3.6
"""Width of a figure in inches: one column of print, or a phone's screen."""
_HEIGHT_IN: Final = 2.6
MOST_MARKS: Final = 500
"""Marks of a scatter from which on they are an image, and the figure stays small."""


_MOST_GROUPS: Final = 3000
_LEAST_IN: Final = 0.1
"""Height of a group in a figure that has one below the other."""
_DRAWING: Final = RLock()
"""One thread draws at a time: matplotlib's parameters are those of the process."""
_Style = Literal["-", "--", "-.", ":"]


@contextmanager
def use_style(*, alone: bool = False) -> Iterator[None]:
    """Return a context in which matplotlib draws and saves in traceana's style.

    Parameters the user has set, in a matplotlibrc or with a style such as dark_background, stay
    as they are, unless `alone`, as on the report's page. One thread draws at a time: others wait
    until the context ends, so start no threads that draw within it.
    """
    with _DRAWING:
        house: Any = _complete() if alone else _house()
        current: Any = rcParams
        default: Any = rcParamsDefault
        changed = {key: house[key] for key in house if alone or current[key] == default[key]}
        if "grid.color" not in changed and "axes.grid" in changed:
            changed["grid.alpha"] = 0.25  # the user's style draws no grid of that color
        with rc_context(changed), warnings.catch_warnings():
            # names in the data may have characters that no font has; a box is drawn for each
            warnings.filterwarnings("ignore", r"Glyph \d+", UserWarning)
            warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
            yield


def follow_axes(ax: Axes | None, /) -> AbstractContextManager[None]:
    """Return a context in which text has the color of the labels of axes given by the user."""
    return nullcontext() if ax is None else rc_context({"text.color": shade(ax)})


@contextmanager
def use_width(width_in: float | None, /) -> Iterator[None]:
    """Return a context in which new figures have this width.

    Other threads wait, as for :func:`use_style`.

    Parameters
    ----------
    width_in
        Width in inches; None: that of the style.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from traceana.figures import use_width
    >>> with use_width(6.5):
    ...     print(Figure().get_figwidth())
    ...
    6.5
    """
    size = (width_in, max(1.0, width_in / WIDTH_IN) * _HEIGHT_IN) if width_in else None
    with _DRAWING, rc_context({"figure.figsize": size} if size else None):
        yield


_PAPER: Final[dict[str, _Style]] = {
    "#111111": "-",
    "#c44e00": "--",
    "#56a0d3": "-.",
    "#0a4a8f": ":",
    "#e8b04a": "-",
}
"""Colors that differ in gray, CIE lightness 5, 48, 63, 30 and 76, and the style of their lines."""


@contextmanager
def use_paper_colors() -> Iterator[None]:
    """Return a context in which figures are drawn in colors that differ when printed in gray."""
    again = cycler(linestyle=["-"] * len(_PAPER) + [(0, (6, 1.5, 1, 1.5, 1, 1.5))] * len(_PAPER))
    with _DRAWING, rc_context({"axes.prop_cycle": cycler(color=[*_PAPER, *_PAPER]) + again}):
        yield


def adapt_to_paper(figure: Figure, /) -> None:
    """Remove the title of a figure with one panel, and give lines of each color a style."""
    titled = [ax for ax in figure.axes if ax.get_title(loc="left")]
    if len(titled) == 1:
        titled[0].set_title("", loc="left")
    for line in figure.findobj(Line2D):
        assert isinstance(line, Line2D)  # noqa: S101  what was looked for
        if line.get_linestyle() == "-" and line.get_marker() in ("None", None, ""):
            line.set_linestyle(_PAPER.get(to_hex(line.get_color()), "-"))


@cache
def _house() -> Any:  # noqa: ANN401  matplotlib's type lists every parameter
    with as_file(files("traceana.drawing") / "traceana.mplstyle") as path:
        return rc_params_from_file(path, use_default_template=False)


@cache
def _complete() -> Any:  # noqa: ANN401  as above
    figure_keys = ("axes", "errorbar", "figure", "font", "grid", "hatch", "image", "legend")
    more = ("lines", "markers", "mathtext", "patch", "path", "pdf", "savefig", "scatter", "svg")
    drawn = (*figure_keys, *more, "text", "xtick", "ytick", "xaxis", "yaxis")
    default: Any = {key: rcParamsDefault[key] for key in rcParamsDefault if key.startswith(drawn)}
    return default | dict(_house())


class ShownAxes(Axes):
    """Axes of a new figure, which a notebook shows as a picture without pyplot."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        figure_of(self).savefig(picture, format="png", dpi=144, bbox_inches="tight")
        return picture.getvalue()


def check_groups(number: int, /) -> None:
    """Raise a DataError for more groups than a figure can have."""
    if number > _MOST_GROUPS:
        raise DataError(
            f"more than {_MOST_GROUPS:,} groups, which no figure can tell apart; keep fewer rows, "
            "such as those of the largest groups"
        )


def start_axes(ax: Axes | None, /, *, height_in: float = 2.6) -> Axes:
    """Return the given axes, or those of a new figure that pyplot does not manage."""
    check_groups(int(height_in / _LEAST_IN))
    if ax is not None:
        return ax
    width, usual_height = rcParams["figure.figsize"]
    figure = Figure(figsize=(width, height_in * usual_height / _HEIGHT_IN))
    return figure.add_subplot(axes_class=ShownAxes)


def figure_of(ax: Axes, /) -> Figure:
    """Return the figure that axes stand on."""
    root = ax.get_figure(root=True)
    assert root is not None  # noqa: S101  (axes without a figure cannot be drawn on)
    return root


def palette() -> list[str]:
    """Return the colors of the style, each once, without that of text."""
    colors = map(to_hex, rcParams["axes.prop_cycle"].by_key().get("color", ["C0"]))
    return list(dict.fromkeys(colors))


def color_of(place: int, /) -> str:
    """Return a color of the style by index; indices beyond the last wrap around."""
    colors = palette()
    return colors[place % len(colors)]


def shade(ax: Axes, part: float = 1.0, /) -> str:
    """Return a color between that of the background (0) and that of the labels (1) of axes."""
    back = ax.get_facecolor()
    if to_rgba(back)[3] == 0:
        back = figure_of(ax).get_facecolor()
    low, high = (np.array(to_rgba(color)[:3]) for color in (back, ax.xaxis.label.get_color()))
    return to_hex(tuple(low + part * (high - low)))
