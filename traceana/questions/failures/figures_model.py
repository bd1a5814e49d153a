"""Odds ratios of a model of failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceana.drawing.labels import name_tick, natural_order, small_size
from traceana.drawing.registry import figure
from traceana.drawing.scales import use_log_axis
from traceana.drawing.style import color_of, shade, start_axes
from traceana.errors import DataError

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from traceana.questions.failures.tables import FailureModel

_BEYOND: Final = 20.0
"""The axis ends at this multiple of the outermost dot, even if an interval is wider."""


@figure(
    "failure-odds",
    result="failure_model",
    reading="Dot: odds ratio of failure, all other features equal, on a logarithmic axis; bar: its "
    "95 % confidence interval; above 1 failure is more likely. n: rows.",
)
def plot_failure_odds(result: FailureModel, /, *, ax: Axes | None = None) -> Axes:
    """Draw the odds ratios of a model of failure with their intervals.

    One row per numeric feature and per level, under a heading with the reference level. A level
    without a finite odds ratio has a row with a note.

    Parameters
    ----------
    result
        What `failure_model` returns.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8] * 10,
    ...                      "status": (["completed"] * 3 + ["failed"]) * 9
    ...                      + ["failed", "completed"] * 2})
    >>> result = traceana.failure_model(jobs, features="gpus")
    >>> result.plot().get_xlabel()
    'Odds ratio (logarithmic)'
    """
    odds_ratios = result.odds_ratios
    known = odds_ratios.drop_nulls(["odds_ratio", "ci_low", "ci_high"])
    if known.is_empty():
        raise DataError("plot_failure_odds has nothing to draw: no odds ratio is finite")
    rows = _lay_out(odds_ratios)
    ax = start_axes(ax, height_in=0.7 + 0.19 * len(rows))
    low, high = _ends(known)
    use_log_axis(ax, "x", [low, 1.0, high])
    ax.axvline(1, color=shade(ax, 0.5), linewidth=0.8, zorder=1, gid="no-difference")
    for place, (_, term) in enumerate(rows):
        if term is None:
            continue
        if term["odds_ratio"] is None:
            apart = (term["note"] or "").startswith("not comparable")
            ax.annotate(
                "not comparable" if apart else "no finite odds ratio",
                (0.98, place), xycoords=("axes fraction", "data"),
                ha="right", va="center", fontsize=small_size(), fontstyle="italic",
                bbox={"facecolor": shade(ax, 0), "edgecolor": "none", "pad": 0.4},
                gid=f"none-{place}",
            )  # fmt: skip
        else:
            ax.hlines(
                place, term["ci_low"], term["ci_high"], color=color_of(0), linewidth=1.4,
                gid=f"interval-{place}",
            )  # fmt: skip
            ax.scatter(
                term["odds_ratio"], place, s=16, color=color_of(0), zorder=4, gid=f"dot-{place}"
            )
        ax.annotate(
            f"n = {term['n']:,}", (1.02, place), xycoords=("axes fraction", "data"),
            va="center", fontsize=small_size(), annotation_clip=False,
        )  # fmt: skip
    ax.set_yticks(range(len(rows)), [name_tick(name) for name, _ in rows])
    for label, (_, term) in zip(ax.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if term is None or term["level"] is None else "normal")
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("Odds ratio (logarithmic)")
    ax.set_title("Odds ratios of failure")
    return ax


def describe_failure_odds(result: FailureModel) -> str:
    """Return one sentence on the odds ratios of the figure."""
    known = result.odds_ratios.drop_nulls(["odds_ratio", "ci_low", "ci_high"])
    low, high = _ends(known)
    cut = ((known["ci_low"] < low) | (known["ci_high"] > high)).sum()
    beyond = f"; {cut} of the intervals extend beyond the figure" if cut else ""
    return f"n = {result.fit['n'].item():,} rows, {known.height} odds ratios{beyond}."


def _ends(known: pl.DataFrame) -> tuple[float, float]:
    """Return the limits of the axis."""
    nearest = min(*known["odds_ratio"], 1.0) / _BEYOND
    farthest = max(*known["odds_ratio"], 1.0) * _BEYOND
    return max(min(known["ci_low"]), nearest), min(max(known["ci_high"]), farthest)


def _lay_out(odds_ratios: pl.DataFrame) -> list[tuple[str, dict[str, Any] | None]]:
    """Return the name of each row with its term, or None for a heading."""
    rows: list[tuple[str, dict[str, Any] | None]] = []
    for (feature,), terms in odds_ratios.group_by("feature", maintain_order=True):
        of_level = {term["level"]: term for term in terms.iter_rows(named=True)}
        if None in of_level:
            rows.append((str(feature), of_level[None]))
            continue
        against = "".join(f", versus {name}" for name in terms["reference"].drop_nulls().head(1))
        rows.append((f"{feature}{against}", None))
        rows += [(level, of_level[level]) for level in natural_order(of_level)]
    return rows
