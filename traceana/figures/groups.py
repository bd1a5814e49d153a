"""One row per group: a dot, its interval, and n at the right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana.errors import DataError
from traceana.figures.labels import name_columns, name_group, small_size

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Groups:
    """The groups of a result: their names, their sizes, and the columns of by."""

    names: list[str]
    counts: list[int]
    by: str

    @property
    def height_in(self) -> float:
        """Height in inches of a figure with one row per group."""
        return 0.95 + 0.24 * len(self.names)


def split_groups(result: pl.DataFrame, /) -> Groups:
    """Return the groups of a result: the columns before `n` are those of by.

    Raises
    ------
    DataError
        If there is no group.
    """
    if result.is_empty():
        raise DataError("a figure by group has nothing to draw: the result has no row")
    by = result.columns[: result.columns.index("n")]
    names = [name_group(row) for row in result.select(by).rows()]
    return Groups(names, result["n"].to_list(), name_columns(by))


def draw_rows(
    ax: Axes, groups: Groups, /, *, mean: pl.Series, low: pl.Series, high: pl.Series
) -> None:
    """Draw a dot and an interval per row, the first on top, without null intervals."""
    rows = range(len(groups.names))
    known = [row for row in rows if low[row] is not None and high[row] is not None]
    ax.hlines(
        known, [low[row] for row in known], [high[row] for row in known],
        color="#0072B2", linewidth=1.4, gid="intervals",
    )  # fmt: skip
    ax.scatter(
        mean, rows, s=16, color="#0072B2", zorder=4, clip_on=False, label="mean", gid="means"
    )
    name_rows(ax, groups)


def name_rows(ax: Axes, groups: Groups, /) -> None:
    """Name the rows, the first on top, with n at the right."""
    rows = range(len(groups.names))
    ax.set_yticks(rows, groups.names)
    ax.set_ylim(len(groups.names) - 0.5, -0.5)
    ax.set_ylabel(groups.by)
    ax.grid(visible=False, axis="y")
    for row, count in zip(rows, groups.counts, strict=True):
        ax.annotate(
            f"n = {count:,}", (1.02, row), xycoords=("axes fraction", "data"), va="center",
            fontsize=small_size(), annotation_clip=False,
        )  # fmt: skip
