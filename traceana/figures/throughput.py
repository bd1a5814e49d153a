"""Throughput or scaling efficiency by model, batch size and GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.ticker import LogLocator, NullLocator

from traceana.errors import DataError
from traceana.figures.labels import name_lines
from traceana.figures.registry import figure
from traceana.figures.style import start_axes, use_style

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

READING: Final = (
    "Line: a model at one global batch size; one color per model. Scaling efficiency is the rate "
    "over the number of GPUs times the rate on one GPU; 1 is linear scaling. Both axes are "
    "logarithmic."
)
_LABELS: Final = {
    "samples_per_s": "Samples per second",
    "scaling_efficiency": "Scaling efficiency",
}
_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_STYLES: Final = ("-", "--", ":", "-.")
_MARKERS: Final = ("o", "s", "^", "D")


@figure("throughput", result="iteration_rates")
def plot_throughput(
    rates: pl.DataFrame, /, *, ax: Axes | None = None, measure: str = "samples_per_s"
) -> Axes:
    """Draw rates against GPUs, one line per (model, batch size).

    Parameters
    ----------
    rates
        [model, batch_size, gpus, samples_per_s, scaling_efficiency], as `iteration_rates`
        returns it.
    ax
        Axes to draw on; by default those of a new figure.
    measure
        samples_per_s or scaling_efficiency.

    Returns
    -------
    Axes
        One line per (model, batch size), labeled at its end where there is room.

    Raises
    ------
    DataError
        If the measure is another or nothing of it is known.
    """
    if measure not in _LABELS:
        raise DataError(f"measure must be one of {', '.join(_LABELS)}; it is {measure!r}")
    known = rates.drop_nulls(measure).sort("model", "batch_size", "gpus")
    if known.is_empty():
        raise DataError(f"plot_throughput has nothing to draw: no {measure} is known")
    models = known["model"].unique().sort().to_list()
    with use_style():
        ax = start_axes(ax, height_in=3.3)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        lines = []
        place: dict[object, int] = {}
        for (model, batch), cell in known.group_by("model", "batch_size", maintain_order=True):
            nth = place[model] = place.get(model, -1) + 1
            (line,) = ax.plot(
                cell["gpus"], cell[measure], color=_COLOURS[models.index(model) % len(_COLOURS)],
                linestyle=_STYLES[nth % len(_STYLES)], marker=_MARKERS[nth % len(_MARKERS)],
                markersize=2.5,
            )  # fmt: skip
            lines.append((f"{model} {batch}", line))
        counts = known["gpus"].unique().sort().to_list()
        ax.set_xticks(counts, [f"{gpus:g}" for gpus in counts])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:,g}")
        ax.yaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("GPUs")
        ax.set_ylabel(_LABELS[measure])
        name_lines(ax, lines, heading="model, batch size", margin_from=0.5)
        return ax


def describe_throughput(rates: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these rates shows."""
    most = max(rates["gpus"])
    of_most = rates.filter(gpus=most)["scaling_efficiency"].drop_nulls()
    scaled = (
        f", on {most:g} GPUs {100 * min(of_most):.0f} % to {100 * max(of_most):.0f} % of linear "
        "scaling"
        if len(of_most)
        else ""
    )
    pairs = rates.select("model", "batch_size").n_unique()
    return f"{pairs} pairs of model and batch size, {rates.height} rates{scaled}."
