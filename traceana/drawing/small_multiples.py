"""Several figures as panels of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from traceana.drawing.registry import figure, get_figure
from traceana.drawing.style import WIDTH_IN
from traceana.errors import DataError


class Panel(Protocol):
    """What one panel shows: the id of its figure, what that takes, and its options."""

    @property
    def figure(self) -> str:
        """Id of the figure."""

    @property
    def result(self) -> Any:  # noqa: ANN401  whatever the figure takes
        """What it takes."""

    @property
    def options(self) -> dict[str, Any]:
        """Its options."""


@figure(
    "small-multiples",
    result="several results, each for one panel",
    reading="Each panel is read as the figure of its kind.",
)
def plot_small_multiples(
    panels: Sequence[Panel],
    /,
    *,
    ax: Axes | None = None,
    columns: int = 1,
    heights_in: Sequence[float] = (),
    share_x: bool = False,
) -> Axes:
    """Draw several figures as panels of one.

    Returned are the axes of the first panel; the others are in its figure.

    Parameters
    ----------
    panels
        Each with the id of a figure, its result and its options.
    columns
        Panels in a row.
    heights_in
        Height of each row in inches; by default 2.
    share_x
        Whether all panels have the horizontal axis of the widest, labeled at the bottom only.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> from types import SimpleNamespace
    >>> from traceana.figures import plot_small_multiples
    >>> jobs = pl.DataFrame({"start_s": [0, 1800], "end_s": [3600, 7200], "gpus": [4, 8]})
    >>> demand = traceana.gpu_demand(jobs)
    >>> panel = SimpleNamespace(figure="gpu-demand", result=demand, options={})
    >>> len(plot_small_multiples([panel, panel], columns=2).figure.axes)
    2
    """
    if not panels or ax is not None:
        raise DataError("small multiples need at least one panel and a figure of their own")
    rows = math.ceil(len(panels) / columns)
    heights = list(heights_in) or [2.0] * rows
    drawn = Figure(figsize=(WIDTH_IN * max(1.0, 0.62 * columns), sum(heights)))
    grid = drawn.add_gridspec(rows, columns, height_ratios=heights)
    axes = []
    for place, panel in enumerate(panels):
        axes.append(drawn.add_subplot(grid[divmod(place, columns)]))
        get_figure(panel.figure).plot(panel.result, ax=axes[-1], **panel.options)
        for artist in axes[-1].findobj(lambda one: one.get_gid() is not None) if place else ():
            artist.set_gid(f"{artist.get_gid()}-{place + 1}")  # ids within an SVG are unique
    for one in axes:
        if one.get_ylabel() == one.get_title(loc="left"):
            one.set_ylabel("")
    if share_x:
        ends = [one.get_xlim() for one in axes]
        widest = max(
            axes, key=lambda one: np.ptp(one.xaxis.get_transform().transform(one.get_xlim()))
        )
        ticks = FixedLocator([*widest.get_xticks()])  # of a narrower panel they would overlap
        for place, one in enumerate(axes):
            one.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))
            one.xaxis.set_major_locator(ticks)
            if place + columns < len(axes):
                one.set_xlabel("")
    return axes[0]


def describe_small_multiples(panels: Sequence[Panel]) -> str:
    """Return what the first panel shows, and how many panels there are."""
    first = get_figure(panels[0].figure).describe(panels[0].result)
    return first if len(panels) == 1 else f"{len(panels)} panels; the first: {first}"
