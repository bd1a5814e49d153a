"""The house style, axes to draw on, and the colors of what is drawn."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib import rc_context, rc_params_from_file, rcParams, rcParamsDefault
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes

WIDTH_IN: Final = 3.6
"""Width of a figure in inches: one column of print, or a phone's screen."""
MOST_MARKS: Final = 500
"""Marks of a scatter from which on they are an image, and the figure stays small."""


def use_style(*, alone: bool = False) -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws and saves in the house style.

    Parameters the user has set, in a matplotlibrc or with a style such as dark_background, stay
    as they are, unless the house style is to be `alone`, as on the report's page.
    """
    house = _house()
    if alone:
        return rc_context(_complete())
    return rc_context({key: house[key] for key in house if rcParams[key] == rcParamsDefault[key]})


@cache
def _house() -> dict[str, Any]:
    with as_file(files("traceana.figures") / "traceana.mplstyle") as path:
        return dict(rc_params_from_file(path, use_default_template=False))


@cache
def _complete() -> dict[str, Any]:
    figure_keys = ("axes", "errorbar", "figure", "font", "grid", "hatch", "image", "legend")
    more = ("lines", "markers", "mathtext", "patch", "path", "pdf", "savefig", "scatter", "svg")
    drawn = (*figure_keys, *more, "text", "xtick", "ytick", "xaxis", "yaxis")
    default = {key: rcParamsDefault[key] for key in rcParamsDefault if key.startswith(drawn)}
    return {**default, **_house()}


def start_axes(ax: Axes | None, /, *, height_in: float = 2.6) -> Axes:
    """Return the axes given, or those of a new figure, which is in nobody's global list."""
    if ax is not None:
        return ax
    return Figure(figsize=(WIDTH_IN, height_in)).add_subplot()


def palette() -> list[str]:
    """Return the colors of the style, each once, without that of text."""
    colors = map(to_hex, rcParams["axes.prop_cycle"].by_key().get("color", ["C0"]))
    return list(dict.fromkeys(colors))


def shade(ax: Axes, part: float = 1.0, /) -> str:
    """Return a color between that of the background (0) and that of the labels (1) of axes."""
    root = ax.get_figure(root=True)
    back = ax.get_facecolor()
    if to_rgba(back)[3] == 0 and root is not None:
        back = root.get_facecolor()
    low, high = (np.array(to_rgba(color)[:3]) for color in (back, ax.xaxis.label.get_color()))
    return to_hex(tuple(low + part * (high - low)))
