"""Distribution of runtime ratios before and after groups are mapped to workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.drawing.registry import figure
from traceana.drawing.scales import use_log_axis
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES: Final = ("-", "--", "-.", ":")
_MOST_POINTS: Final = 400
_BINS: Final = 50
_KINDS: Final = ("ecdf", "histogram")


@figure(
    "ratio-distribution",
    result="[stage, runtime_ratio]",
    reading="Runtime over the mean runtime: of its group before mapping, of all jobs with its data "
    "set after. The axis is logarithmic; 1 is the mean.",
)
def plot_ratio_distribution(
    ratios: pl.DataFrame, /, *, ax: Axes | None = None, kind: str = "ecdf"
) -> Axes:
    """Draw the distribution of runtime ratios, one line per stage.

    Parameters
    ----------
    ratios
        [stage, runtime_ratio], one row per job and stage: at most four stages, ratios above 0.
    kind
        "ecdf": fraction of jobs up to each ratio. "histogram": fraction of jobs per bin.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_ratio_distribution
    >>> ratios = pl.DataFrame({"stage": "train", "runtime_ratio": [0.5, 0.8, 1.0, 1.7]})
    >>> plot_ratio_distribution(ratios).get_ylabel()
    'Fraction of jobs'
    """
    if kind not in _KINDS:
        raise DataError(f"kind must be one of {', '.join(_KINDS)}; it is {kind!r}")
    stages = ratios["stage"].unique(maintain_order=True).to_list()
    if not 0 < len(stages) <= len(_LINES):
        raise DataError(f"plot_ratio_distribution draws one to four stages, not {len(stages)}")
    values = ratios["runtime_ratio"].to_numpy()
    if not (values > 0).all():
        raise DataError("plot_ratio_distribution draws ratios above 0; leave out the others")
    ax = start_axes(ax)
    low, high = values.min() / 1.0001, values.max() * 1.0001
    edges = np.geomspace(low, high, _BINS + 1)
    for place, stage in enumerate(stages):
        color, line = color_of(place), _LINES[place]
        own = np.sort(ratios.filter(stage=stage)["runtime_ratio"].to_numpy())
        name = f"{stage} (n = {len(own):,})"
        if kind == "histogram":
            counts, _ = np.histogram(own, edges)
            ax.stairs(counts / len(own), edges, color=color, linestyle=line, label=name,
                      linewidth=1.2, gid=str(stage))  # fmt: skip
            continue
        shown = np.unique(np.linspace(0, len(own) - 1, min(len(own), _MOST_POINTS)).astype(int))
        ax.plot(own[shown], (shown + 1) / len(own), drawstyle="steps-post", color=color,
                linestyle=line, label=name, gid=str(stage))  # fmt: skip
    ax.axvline(1, color=shade(ax, 0.6), linewidth=0.8, linestyle=":", zorder=0.5)
    use_log_axis(ax, "x", values)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("Runtime ratio (logarithmic)")
    ax.set_ylabel("Fraction of jobs" + (" per bin" if kind == "histogram" else ""))
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    return ax


def describe_ratio_distribution(ratios: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these ratios shows."""
    parts = ratios.group_by("stage", maintain_order=True).agg(
        n=pl.len(), median=pl.col("runtime_ratio").median()
    )
    texts = (f"{stage} {median:.2f} (n = {n:,})" for stage, n, median in parts.iter_rows())
    return f"Median ratio: {'; '.join(texts)}."
