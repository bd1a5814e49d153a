"""Tightness of deadlines, and throughput by model, batch size and GPUs."""

from __future__ import annotations

from typing import Final

import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from traceana.drawing import labels
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes

_STEP: Final = 0.36
_LABELS: Final = {"samples_per_s": "Samples per second", "scaling_efficiency": "Scaling efficiency"}
_STYLES: Final = ("-", "--", ":", "-.")
_MARKERS: Final = ("o", "s", "^", "D")


@figure(
    "deadline-tightness",
    result="deadline_tightness by cluster, with the kind of plans",
    reading="Tightness: time from submission to deadline over the runtime at the requested GPUs. "
    "Thin line: 5 % to 95 %; thick: 25 % to 75 %; dot: median. Left of the dashed line a deadline "
    "can be met with more GPUs only; the percentage is the fraction to the right of it. Plans "
    "marked synthetic are drawn for the same jobs by the rules of the published ones.",
    counts=(pl.n_unique("cluster"), "cluster"),
)
def plot_deadline_tightness(tightness: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw quantiles of tightness, one line per cluster and kind of plans.

    Parameters
    ----------
    tightness
        What `deadline_tightness` returns by cluster; with a column `plans` for one or two kinds of
        plans.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"cluster": "c1", "job_id": ["a", "b"], "submit_s": 0, "gpus": 1,
    ...                      "runtime_s": [100, 150]})
    >>> plans = traceana.synthesize_deadlines(jobs)
    >>> tightness = traceana.deadline_tightness(plans, jobs, by="cluster")
    >>> traceana.figures.plot_deadline_tightness(tightness).get_xlabel()
    '(Deadline - submission) / runtime'
    """
    if "plans" not in tightness.columns:
        tightness = tightness.with_columns(plans=pl.lit("plans"))
    kinds = tightness["plans"].unique(maintain_order=True).to_list()
    clusters = labels.natural_order(tightness["cluster"].unique())
    ax = start_axes(ax, height_in=0.9 + 0.27 * len(clusters))
    for place, kind in enumerate(kinds):
        color, rows = color_of(place), tightness.filter(plans=kind)
        at = [
            clusters.index(cluster) + _STEP * (place - (len(kinds) - 1) / 2)
            for cluster in rows["cluster"]
        ]
        for ends, width in ((("p05", "p95"), 0.9), (("p25", "p75"), 3.2)):
            low, high = (rows[f"tightness_{end}"] for end in ends)
            ax.hlines(at, low, high, color=color, linewidth=width, linestyle="-")
        ax.scatter(
            rows["tightness_median"],
            at,
            s=11,
            facecolors=shade(ax, 0),
            edgecolors=color,
            linewidths=0.9,
            zorder=4,
            label=kind,
            gid=f"{kind}-medians",
        )
        for row, share in zip(at, rows["fraction_met"], strict=True):
            look = {"xycoords": ("axes fraction", "data"), "annotation_clip": False, "color": color}
            size = labels.small_size() - 1.5
            labels.write_beside(ax, f"{100 * share:.0f} %", (1, row), (2, 0), **look, fontsize=size)
    ax.axvline(1, color=shade(ax), linewidth=0.8, linestyle="--", zorder=0.5)
    labels.name_rows(ax, clusters, below=0.4)
    ax.set_xlabel("(Deadline - submission) / runtime")
    labels.legend_above(ax, ncols=2, handletextpad=0.1)
    return ax


@figure(
    "throughput",
    result="iteration_rates",
    reading="Line: a model at one global batch size; one color per model. Scaling efficiency is "
    "the rate over the number of GPUs times the rate on one GPU; 1 is linear scaling. Both axes "
    "are logarithmic.",
    counts=(pl.len(), "rate"),
)
def plot_throughput(
    rates: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "samples_per_s"
) -> Axes:
    """Draw throughput against GPUs, one line per model and batch size.

    Parameters
    ----------
    measure
        "samples_per_s" or "scaling_efficiency".

    Examples
    --------
    >>> import polars as pl, traceana
    >>> rates = pl.DataFrame({"model": "vgg16", "batch_size": 64, "gpus": [1.0, 2.0],
    ...                       "samples_per_s": [192.3, 341.5], "scaling_efficiency": [1.0, 0.89]})
    >>> traceana.figures.plot_throughput(rates).get_xlabel()
    'GPUs'
    """
    table = rates.drop_nulls(measure).sort("model", "batch_size", "gpus")
    models = table["model"].unique().sort().to_list()
    ax = start_axes(ax, height_in=3.3)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    lines = []
    place: dict[object, int] = {}
    for (model, batch), cell in table.group_by("model", "batch_size", maintain_order=True):
        nth = place[model] = place.get(model, -1) + 1
        (line,) = ax.plot(
            cell["gpus"],
            cell[measure],
            color=color_of(models.index(model)),
            linestyle=_STYLES[nth % len(_STYLES)],
            marker=_MARKERS[nth % len(_MARKERS)],
            markersize=2.5,
        )
        lines.append((f"{model} {batch}", line))
    counts = table["gpus"].unique().sort().to_list()
    ax.set_xticks(counts, [f"{gpus:g}" for gpus in counts])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:,g}")
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="GPUs", ylabel=_LABELS[measure])
    labels.name_lines(ax, lines, heading="model, batch size", margin_from=0.5)
    return ax
