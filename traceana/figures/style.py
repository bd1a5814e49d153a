"""The one style sheet, and axes to draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib import style
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes

WIDTH_IN: Final = 3.6
"""Width of a figure in inches: one column of print, or a phone's screen."""
MOST_MARKS: Final = 500
"""Marks of a scatter from which on they are an image, and the figure stays small."""


def use_style() -> AbstractContextManager[None]:
    """Return a context in which matplotlib draws and saves in the house's style."""
    return style.context("traceana.figures.traceana")


def start_axes(ax: Axes | None, /, *, height_in: float = 2.6) -> Axes:
    """Return the axes given, or those of a new figure, which is in nobody's global list."""
    if ax is not None:
        return ax
    return Figure(figsize=(WIDTH_IN, height_in)).add_subplot()
