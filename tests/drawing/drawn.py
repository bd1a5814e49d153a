"""What stands on axes, by the name it was drawn under."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import Collection


def line(ax: Axes, gid: str) -> np.ndarray:
    """Points of the one line of that name."""
    (found,) = (part for part in ax.lines if part.get_gid() == gid)
    return np.asarray(found.get_xydata(), dtype=float)


def collection(ax: Axes, gid: str) -> Any:
    """The one collection of that name."""
    (found,) = (part for part in ax.collections if part.get_gid() == gid)
    assert isinstance(found, Collection)
    return found


def points(ax: Axes, gid: str) -> np.ndarray:
    """Points of the one scatter of that name."""
    return np.asarray(collection(ax, gid).get_offsets(), dtype=float)


def texts(ax: Axes) -> list[str]:
    """Every annotation, in the order it was written."""
    return [text.get_text() for text in ax.texts]


def legend(ax: Axes) -> list[str]:
    """Every line of the legend."""
    found = ax.get_legend()
    return [] if found is None else [text.get_text() for text in found.get_texts()]
