"""Empirical distribution beside fitted families: distribution function, tail, quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from traceana.drawing.registry import figure
from traceana.drawing.scales import use_log_axis
from traceana.drawing.style import WIDTH_IN, shade, start_axes, use_style
from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from traceana.questions.runtimes.tables import DistributionFits

Panel = Literal["shares", "tail", "quantiles"]
"""Distribution function; upper tail; quantile-quantile plot."""
_TITLES: Final[dict[Panel, str]] = {
    "shares": "distribution function",
    "tail": "upper tail",
    "quantiles": "quantile-quantile plot",
}
_FAR: Final = 1e6
_DRAWN: Final = 4


@figure(
    "distribution-fit",
    result="fit_distributions",
    reading="Black: empirical distribution of the values; gray band: pointwise 95 % confidence "
    "interval of its quantiles, values treated as independent (narrower than the line for many "
    "values); colored: fitted families, above the bound of the fit if there is one.",
)
def plot_distribution_fit(
    result: DistributionFits,
    /,
    *,
    ax: Axes | None = None,
    panel: Panel = "shares",
    families: Sequence[str] | None = None,
    what: str = "Value",
    unit: str = "s",
) -> Axes:
    """Draw the empirical distribution beside fitted families.

    Parameters
    ----------
    result
        What `fit_distributions` returns.
    panel
        "shares": distribution function. "tail": one minus the distribution function, both axes
        logarithmic, where a power law is a straight line. "quantiles": quantile-quantile plot.
    families
        Families to draw; None: the four best with parameters.
    what
        Label of the values.
    unit
        Unit of the values, for the label.

    Examples
    --------
    >>> import numpy as np, traceana
    >>> from traceana.figures import plot_distribution_fit
    >>> runtimes = np.random.default_rng(1).lognormal(5, 1, size=200)
    >>> fits = traceana.fit_distributions(runtimes, families=["lognormal", "exponential"])
    >>> plot_distribution_fit(fits, what="Runtime").get_ylabel()
    'Fraction at or below'
    """
    if panel not in get_args(Panel):
        raise DataError(f"panel must be one of {', '.join(get_args(Panel))}; it is {panel!r}")
    fitted = fitted_families(result)
    families = list(fitted[:_DRAWN] if families is None else families)
    if result.quantiles is None or not families or not {*families} <= {*fitted}:
        raise DataError(
            "plot_distribution_fit needs values and families with parameters; these "
            f"are {', '.join(fitted) or 'none'}"
        )
    quantiles = result.quantiles
    # an unknown end lies beyond all values, and so beyond the figure
    rows = quantiles.with_columns(
        pl.col("ci_low").fill_null(pl.col("value").min() / _FAR),
        pl.col("ci_high").fill_null(pl.col("value").max() * _FAR),
    )
    ax = start_axes(ax)
    if panel == "quantiles":
        _draw_quantiles(ax, rows, families, what, unit)
    else:
        _draw_shares(ax, rows, families, what, unit, tail=panel == "tail")
    ax.set_title(f"{what}: {_TITLES[panel]}")
    ax.legend(loc="lower left" if panel == "tail" else "upper left")
    return ax


def draw_distribution_fit(result: DistributionFits, *, unit: str = "s") -> Figure:
    """Draw the three panels of a distribution fit side by side.

    Examples
    --------
    >>> import numpy as np, traceana
    >>> from traceana.figures import draw_distribution_fit
    >>> runtimes = np.random.default_rng(1).lognormal(5, 1, size=200)
    >>> fits = traceana.fit_distributions(runtimes, families=["lognormal", "exponential"])
    >>> len(draw_distribution_fit(fits).axes)
    3
    """
    panels = get_args(Panel)
    with use_style():
        figure = Figure(figsize=(WIDTH_IN * len(panels), 2.6))
        for place, panel in enumerate(panels, start=1):
            ax = figure.add_subplot(1, len(panels), place)
            plot_distribution_fit(result, ax=ax, panel=panel, unit=unit)
        return figure


def describe_distribution_fit(result: DistributionFits) -> str:
    """Return one sentence on the values and the families of the figure."""
    families = ", ".join(fitted_families(result)[:_DRAWN])
    return f"n = {result.table['n'][0]:,} values; {families}."


def fitted_families(result: DistributionFits, /) -> list[str]:
    """Return the families with parameters, the best first."""
    return [name for name in result.table["family"] if result.params(name)]


def _draw_shares(
    ax: Axes, rows: pl.DataFrame, families: list[str], what: str, unit: str, *, tail: bool
) -> None:
    share = 1 - rows["share_below"] if tail else rows["share_below"]
    ax.fill_betweenx(
        share, rows["ci_low"], rows["ci_high"], color=shade(ax, 0.5), alpha=0.45, linewidth=0,
        gid="band",
    )  # fmt: skip
    ax.plot(rows["value"], share, color=shade(ax), linestyle="-", gid="values", label="values")
    for name in families:
        ax.plot(rows[name], share, gid=f"family-{name}", label=name, linewidth=1.1)
    use_log_axis(ax, "x", rows["value"], durations=unit == "s")
    ax.set_xlabel(f"{what} ({_scale(unit)})")
    if tail:
        use_log_axis(ax, "y", share)
        ax.set_ylabel("Fraction above (logarithmic)")
    else:
        ax.set_ylim(0, 1)
        ax.set_ylabel("Fraction at or below")
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
    ax.axline((1, 1), (2, 2), color=shade(ax), linewidth=0.7, linestyle=":", gid="diagonal")
    use_log_axis(ax, "x", rows["value"], durations=unit == "s")
    use_log_axis(ax, "y", rows["value"], durations=unit == "s")
    ax.set_xlabel(f"Quantile of the family ({_scale(unit)})")
    ax.set_ylabel(f"{what}, quantile\n({_scale(unit)})")


def _scale(unit: str) -> str:
    return "logarithmic" if unit == "s" else f"{unit}, logarithmic"
