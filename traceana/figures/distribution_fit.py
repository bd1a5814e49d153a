"""How runtimes are distributed beside fitted families: shares, tail, quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from traceana.errors import DataError
from traceana.figures.registry import figure
from traceana.figures.scales import use_log_axis
from traceana.figures.style import WIDTH_IN, start_axes, use_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Panel = Literal["shares", "tail", "quantiles"]
"""Share at or below each value; share above it, where few are left; quantile against quantile."""

READING: Final = (
    "Black: the values, or the line where values and family agree; band: the 95 % interval of "
    "each of their quantiles, each for itself, values taken as independent (for many values too "
    "narrow to be seen); coloured: fitted families, above the bound of the fit where there is "
    "one. A family that leaves the band differs from the values, at that place, by more than "
    "chance would make it."
)
_FAR: Final = 1e6
_OTHERS: Final = ("n", "share_below", "value", "ci_low", "ci_high")


@figure("distribution-fit", result="fitted_quantiles")
def plot_distribution_fit(
    quantiles: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    panel: Panel = "shares",
    what: str = "Value",
    unit: str = "s",
) -> Axes:
    """Draw values beside fitted families.

    Parameters
    ----------
    quantiles
        [n, share_below, value, ci_low, ci_high, *families], as `fitted_quantiles` returns it; up
        to six families.
    ax
        Axes to draw on; by default those of a new figure.
    panel
        "shares": the share at or below each value. "tail": the share above it, both axes
        logarithmic, where a power law is a straight line. "quantiles": the values' quantiles
        against each family's, where a fit is the diagonal.
    what
        What one of the values is.
    unit
        Its unit.

    Raises
    ------
    DataError
        If there is no such panel, no value or no family.
    """
    families = [name for name in quantiles.columns if name not in _OTHERS]
    if panel not in get_args(Panel):
        raise DataError(f"panel must be one of {', '.join(get_args(Panel))}; it is {panel!r}")
    if quantiles.is_empty() or not families:
        raise DataError("plot_distribution_fit draws values beside a family; one is missing")
    # an end that is not known lies beyond all values, and so beyond the figure
    rows = quantiles.with_columns(
        pl.col("ci_low").fill_null(pl.col("value").min() / _FAR),
        pl.col("ci_high").fill_null(pl.col("value").max() * _FAR),
    )
    with use_style():
        ax = start_axes(ax)
        if panel == "quantiles":
            _draw_quantiles(ax, rows, families, what, unit)
        else:
            _draw_shares(ax, rows, families, f"{what} ({unit}, logarithmic)", tail=panel == "tail")
        ax.legend(loc="lower left" if panel == "tail" else "upper left")
        return ax


def draw_distribution_fit(quantiles: pl.DataFrame, *, unit: str = "s") -> Figure:
    """Draw all three panels beside each other."""
    panels = get_args(Panel)
    with use_style():
        figure = Figure(figsize=(WIDTH_IN * len(panels), 2.6))
        for place, panel in enumerate(panels, start=1):
            ax = figure.add_subplot(1, len(panels), place)
            plot_distribution_fit(quantiles, ax=ax, panel=panel, unit=unit)
        return figure


def describe_distribution_fit(quantiles: pl.DataFrame) -> str:
    """Say in one sentence what the figure of these quantiles shows."""
    families = [name for name in quantiles.columns if name not in _OTHERS]
    return f"n = {quantiles['n'][0]:,} values; {', '.join(families)}."


def _draw_shares(
    ax: Axes, rows: pl.DataFrame, families: list[str], x_label: str, *, tail: bool
) -> None:
    share = 1 - rows["share_below"] if tail else rows["share_below"]
    ax.fill_betweenx(
        share, rows["ci_low"], rows["ci_high"], color="#8A8A8A", alpha=0.45, linewidth=0,
        gid="band",
    )  # fmt: skip
    ax.plot(rows["value"], share, color="#000000", linestyle="-", gid="values", label="values")
    for name in families:
        ax.plot(rows[name], share, gid=f"family-{name}", label=name, linewidth=1.1)
    use_log_axis(ax, "x", rows["value"])
    ax.set_xlabel(x_label)
    if tail:
        use_log_axis(ax, "y", share)
        ax.set_ylabel("Share above (logarithmic)")
    else:
        ax.set_ylim(0, 1)
        ax.set_ylabel("Share at or below")
        ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))


def _draw_quantiles(
    ax: Axes, rows: pl.DataFrame, families: list[str], what: str, unit: str
) -> None:
    for name in families:
        (line,) = ax.plot(rows[name], rows["value"], gid=f"family-{name}", label=name, zorder=3)
        ax.fill_between(
            rows[name], rows["ci_low"], rows["ci_high"], color=line.get_color(), alpha=0.2,
            linewidth=0, gid=f"band-{name}",
        )  # fmt: skip
    ax.axline((1, 1), (2, 2), color="#000000", linewidth=0.7, linestyle=":", gid="diagonal")
    use_log_axis(ax, "x", rows["value"])
    use_log_axis(ax, "y", rows["value"])
    ax.set_xlabel(f"Quantile of the family ({unit}, logarithmic)")
    ax.set_ylabel(f"{what}, quantile\n({unit}, logarithmic)")
