"""Distributions, fitted families, means and ratios of runtimes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from traceana.drawing.labels import (
    Percent,
    legend_above,
    name_group,
    place_legend,
    split_lines,
    use_log_axis,
)
from traceana.drawing.registry import figure
from traceana.drawing.style import MOST_MARKS, color_of, shade, start_axes
from traceana.errors import DataError
from traceana.questions.runtimes.tables import DistributionFits
from traceana.tables.formatting import listed, size

_MOST_SIZES: Final = 6  # groups beyond which a caption states the range of their sizes
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
    counts=(pl.first("n"), "value"),
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
    panel
        "shares": distribution function. "tail": one minus the distribution function, both axes
        logarithmic, where a power law is a straight line. "quantiles": quantile-quantile plot.
    families
        Families to draw; None: the four best with parameters.
    what, unit
        Label of the values, and their unit for it.

    Examples
    --------
    >>> import numpy as np, traceana
    >>> runtimes = np.random.default_rng(1).lognormal(5, 1, size=200)
    >>> fits = traceana.fit_distributions(runtimes, families=["lognormal", "exponential"])
    >>> traceana.figures.plot_distribution_fit(fits, what="Runtime").get_ylabel()
    'Fraction at or below'
    """
    if panel not in get_args(Panel):
        raise DataError(f"panel must be one of {', '.join(get_args(Panel))}; it is {panel!r}")
    fitted = result.fitted
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


def _draw_shares(
    ax: Axes, rows: pl.DataFrame, families: list[str], what: str, unit: str, *, tail: bool
) -> None:
    share = 1 - rows["fraction_below"] if tail else rows["fraction_below"]
    band: dict[str, Any] = {"color": shade(ax, 0.5), "alpha": 0.45, "linewidth": 0, "gid": "band"}
    ax.fill_betweenx(share, rows["ci_low"], rows["ci_high"], **band)
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
        ax.yaxis.set_major_formatter(Percent())


def _draw_quantiles(
    ax: Axes, rows: pl.DataFrame, families: list[str], what: str, unit: str
) -> None:
    for name in families:
        (line,) = ax.plot(rows[name], rows["value"], gid=f"family-{name}", label=name, zorder=3)
        band: dict[str, Any] = {"color": line.get_color(), "alpha": 0.2, "linewidth": 0}
        ax.fill_between(rows[name], rows["ci_low"], rows["ci_high"], gid=f"band-{name}", **band)
    ax.axline((1, 1), (2, 2), color=shade(ax), linewidth=0.7, linestyle=":", gid="diagonal")
    use_log_axis(ax, "x", rows["value"], durations=unit == "s")
    use_log_axis(ax, "y", rows["value"], durations=unit == "s")
    ax.set_xlabel(f"Quantile of the family ({_scale(unit)})")
    ax.set_ylabel(f"{what}, quantile\n({_scale(unit)})")


def _scale(unit: str) -> str:
    return "logarithmic" if unit == "s" else f"{unit}, logarithmic"


@figure(
    "empirical-distribution",
    result="empirical_distribution",
    reading="Line: fraction of values of at most x; band: 95 % confidence interval, where known.",
)
def plot_empirical_distribution(
    result: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    x_label: str = "Value",
    heading: str = "",
    log_x: bool = True,
    durations: bool = False,
    sizes: bool = False,
) -> Axes:
    """Draw the empirical distribution function of a column, one line per group.

    Parameters
    ----------
    result
        What `empirical_distribution` returns; with ci_low and ci_high, as the quantiles of
        `fit_distributions` have, a band is drawn.
    x_label
        Label of the column, with its unit.
    heading
        Title of the figure.
    log_x
        Whether the axis of values is logarithmic; a value of 0 is at the left end.
    durations, sizes
        Whether the values are seconds, whose ticks are then 1 min, 1 h, 1 d, or bytes, whose ticks
        are 10 kB, 1 MB, 1 GB.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [60.0, 90.0, 600.0, 900.0]})
    >>> ecdf = traceana.empirical_distribution(jobs, "runtime_s")
    >>> traceana.figures.plot_empirical_distribution(ecdf, x_label="Runtime (s)").get_xlabel()
    'Runtime (s), logarithmic'
    """
    if result.is_empty():
        raise DataError("plot_empirical_distribution has nothing to draw: the result has no row")
    ax = start_axes(ax)
    for name, rows in split_lines(result, "n", "fraction_below"):
        (line,) = ax.step(rows["value"], rows["fraction_below"], where="post", label=name)
        if "ci_low" in rows.columns:
            table = rows.drop_nulls(["ci_low", "ci_high"])
            ends = (table["fraction_below"], table["ci_low"], table["ci_high"])
            gid = f"band-{name}" if name else "band"
            ax.fill_betweenx(*ends, color=line.get_color(), alpha=0.25, linewidth=0, gid=gid)
    if log_x:
        write = (lambda value: size(value).replace(".0 ", " ")) if sizes else None
        use_log_axis(ax, "x", result["value"], durations=durations, write=write)
    ax.set_ylim(0, 1)
    ax.yaxis.set_major_formatter(Percent())
    ax.set_xlabel(f"{x_label}, logarithmic" if log_x else x_label)
    ax.set(ylabel="Fraction up to this value", title=heading)
    if len(ax.get_legend_handles_labels()[1]) > 1:
        place_legend(ax)
    return ax


def describe_empirical_distribution(result: pl.DataFrame) -> str:
    """Return a sentence on the groups for the caption."""
    keys = result.columns[: result.columns.index("n")]
    sizes = result.select(*keys, "n").unique(maintain_order=True)
    if not keys or sizes.height == 1:
        return f"n = {sizes['n'].sum():,} values."
    if sizes["n"].n_unique() == 1:
        return f"n = {sizes['n'][0]:,} values each."
    if sizes.height > _MOST_SIZES:
        return f"{sizes.height} groups of {min(sizes['n']):,} to {max(sizes['n']):,} values."
    words = pl.col(keys).cast(pl.String).fill_null("not stated")
    groups = sizes.select(pl.concat_str(words, separator=", "), "n")
    named = (f"{n:,} ({name})" for name, n in groups.rows())
    return f"n = {listed(named)} values."


@figure(
    "runtime-against",
    result="mean_by_value of runtimes",
    reading="Point: one distinct value of the feature, at the mean runtime of its rows, whatever "
    "their number.",
    counts=(pl.sum("n"), "row"),
)
def plot_runtime_against(
    means: pl.DataFrame,
    /,
    *,
    ax: Axes | None = None,
    x_label: str,
    log_x: bool = False,
    log_y: bool = False,
    heading: str = "",
) -> Axes:
    """Draw mean runtime versus a feature.

    Parameters
    ----------
    means
        Rows of one group of what `mean_by_value` returns for runtimes in s.
    x_label
        Label of the feature, with its unit.
    log_x, log_y
        Whether the axis of the feature, where 0 is then at the left end, and that of runtimes are
        logarithmic.
    heading
        Title of the figure.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8, 8], "runtime_s": [60.0, 50.0, 90.0, 200.0, 99.0]})
    >>> means = traceana.mean_by_value(jobs, "gpus", "runtime_s")
    >>> traceana.figures.plot_runtime_against(means, x_label="GPUs", log_x=True).get_xlabel()
    'GPUs, logarithmic'
    """
    if means.is_empty() or not means["value"].is_unique().all():
        raise DataError("plot_runtime_against draws the means of one group, each value once")
    ax = start_axes(ax)
    look: dict[str, Any] = {"s": 9, "color": color_of(0), "linewidths": 0, "clip_on": False}
    look |= {"zorder": 3, "gid": "means", "rasterized": means.height > MOST_MARKS}
    ax.scatter(means["value"], means["mean"], **look)
    if log_x:
        use_log_axis(ax, "x", means["value"])
    else:
        ax.xaxis.set_major_formatter("{x:,.6g}")
        ax.locator_params(axis="x", nbins=4)
    if log_y:
        use_log_axis(ax, "y", means["mean"], durations=True)
    else:
        ax.set_ylim(0, 1.08 * max(means["mean"]) or None)
        ax.locator_params(axis="y", nbins=6)
        ax.yaxis.set_major_formatter("{x:,.0f}")
    ax.set(title=heading, xlabel=f"{x_label}, logarithmic" if log_x else x_label)
    ax.set_ylabel("Mean runtime (logarithmic)" if log_y else "Mean runtime (s)")
    return ax


_LINES: Final = ("-", "--", "-.", ":")
_MOST_POINTS: Final = 400
_BINS: Final = 50
_KINDS: Final = ("ecdf", "histogram")


@figure(
    "ratio-distribution",
    result="[stage, runtime_ratio]",
    reading="Runtime over the mean runtime: of its group before mapping, of all jobs with its data "
    "set after. The axis is logarithmic; 1 is the mean.",
    counts=(pl.count("runtime_ratio"), "ratio"),
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
    >>> import polars as pl, traceana
    >>> ratios = pl.DataFrame({"stage": "train", "runtime_ratio": [0.5, 0.8, 1.0, 1.7]})
    >>> traceana.figures.plot_ratio_distribution(ratios).get_ylabel()
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
        sorted_ratios = np.sort(ratios.filter(stage=stage)["runtime_ratio"].to_numpy())
        name = f"{name_group([stage])} (n = {len(sorted_ratios):,})"
        look: dict[str, Any] = {"color": color, "linestyle": line, "label": name, "gid": str(stage)}
        n = len(sorted_ratios)
        if kind == "histogram":
            counts, _ = np.histogram(sorted_ratios, edges)
            ax.stairs(counts / n, edges, linewidth=1.2, **look)
        else:
            shown = np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).astype(int))
            ax.plot(sorted_ratios[shown], (shown + 1) / n, drawstyle="steps-post", **look)
    ax.axvline(1, color=shade(ax, 0.6), linewidth=0.8, linestyle=":", zorder=0.5)
    use_log_axis(ax, "x", values)
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_formatter(Percent())
    ax.set_xlabel("Runtime ratio (logarithmic)")
    ax.set_ylabel("Fraction of jobs" + (" per bin" if kind == "histogram" else ""))
    legend_above(ax)
    return ax
