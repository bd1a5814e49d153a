"""Energy saved relative to the default, by data set and GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl
from matplotlib.ticker import PercentFormatter

from traceana.drawing.labels import name_tick
from traceana.drawing.registry import figure
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_WIDE: Final = 0.64
"""Fraction of a row over which its GPUs are placed."""


@figure(
    "energy-saved",
    result="energy saved, such as summarize_recurring",
    reading="Mark: energy saved relative to the default; line: 95 % interval, often shorter than "
    "the mark. Left of 0: more energy used.",
)
def plot_energy_saved(summary: pl.DataFrame, /, *, ax: Axes | None = None) -> Axes:
    """Draw the energy saved, one row per data set and one mark per GPU.

    Data sets in alphabetical order from the top, GPUs in each from the top.

    Parameters
    ----------
    summary
        What `summarize_recurring` returns, of at most six GPUs. A null has no mark; a null bound no
        line.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.figures import plot_energy_saved
    >>> summary = pl.DataFrame({"gpu": "V100", "dataset": ["cifar100"], "energy_saved": 0.2,
    ...                         "energy_saved_ci_low": 0.15, "energy_saved_ci_high": 0.25})
    >>> plot_energy_saved(summary).get_xlabel()
    'Energy saved'
    """
    known = summary.drop_nulls("energy_saved")
    gpus = known["gpu"].unique().sort().to_list()
    if not 0 < len(gpus) <= len(_MARKERS):
        raise DataError(f"plot_energy_saved draws one to six GPUs, not {len(gpus)}")
    datasets = known["dataset"].unique().sort().to_list()
    ax = start_axes(ax, height_in=0.9 + 0.36 * len(datasets))
    for place, gpu in enumerate(gpus):
        color = color_of(place)
        shift = _WIDE * ((place + 0.5) / len(gpus) - 0.5)
        rows = known.filter(gpu=gpu).with_columns(
            row=pl.col("dataset").replace_strict(
                datasets, range(len(datasets)), return_dtype=pl.Float64
            )
            + shift
        )
        bounded = rows.drop_nulls("energy_saved_ci_low")
        ax.hlines(
            bounded["row"], bounded["energy_saved_ci_low"], bounded["energy_saved_ci_high"],
            color=color, linewidth=1.1, linestyle="-", gid=gpu,
        )  # fmt: skip
        ax.plot(
            rows["energy_saved"], rows["row"], marker=_MARKERS[place], markersize=3.4,
            color=color, linestyle="none", label=gpu,
        )  # fmt: skip
    ax.axvline(0, color=shade(ax), linewidth=0.8, linestyle="--", zorder=0.5)
    ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %", decimals=0))
    ax.set_yticks(range(len(datasets)), [name_tick(one) for one in datasets])
    ax.set_ylim(len(datasets) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("Energy saved")
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=4, borderaxespad=0.2, handletextpad=0.2
    )
    return ax


def describe_energy_saved(summary: pl.DataFrame) -> str:
    """Return one sentence on what the figure of these savings shows."""
    known = summary.drop_nulls("energy_saved")
    return (
        f"{known['dataset'].n_unique()} data sets on {known['gpu'].n_unique()} GPUs: "
        f"{100 * min(known['energy_saved']):.1f} % to {100 * max(known['energy_saved']):.1f} %."
    )
