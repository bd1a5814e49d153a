"""Result tables of correlations, and the results of correlate and implied_n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import polars as pl

from traceana.tables.declare import ResultTable, count, interval, number, p_value, text
from traceana.tables.result import Result


class Correlations(ResultTable):
    """Correlations of one family."""

    x = text("x", "first column")
    y = text("y", "second column")
    method = text("Method", "pearson, spearman or kendall")
    level = text("Level", "what a point is: row, group_mean or group_mean_weighted")
    n = count("Rows", "rows with both values")
    n_groups = count("Points", "distinct x; null at level row")
    r = number("r", "the coefficient", display="correlation")
    ci_low, ci_high = interval("Confidence interval", display="correlation")
    pvalue = p_value("p", "p-value of no correlation")
    pvalue_adjusted = p_value("Adjusted p", "p-value adjusted over the family")
    pvalue_t = p_value("p, Student's t", "p-value of independent normal points, as published")
    n_carrying = count("Rows that carry r", "fewest rows (up to 5 %) without which r halves")
    r_without = number("r without them", "r without these rows", display="correlation")
    n_effective = number(
        "Effective n",
        "independent points with an interval of the same width; of group means their (Kish) number",
        display="seconds",
    )
    n_clusters = count("Clusters", "clusters of the rows; null without clusters")
    n_missing = count("Missing", "rows without one of the values")
    n_excluded = count(
        "Excluded", "rows with another status; only of `runtime_correlations`", optional=True
    )
    note = text("Note", "why a value is null, or what limits it")


class MeansByValue(ResultTable):
    """Mean of a column at each distinct value of another."""

    value = number("Value", "value of x", display="plain")
    n = count("Rows", "rows with this value")
    mean = number("Mean", "mean of y over these rows")


class JointCounts(ResultTable):
    """Rows in bins of two columns; both ends of a bin of zeros are 0."""

    x_low = number("x", "lower end of the bin of x", display="plain")
    x_high = number("x, upper end", "upper end of the bin of x", display="plain")
    y_low = number("y", "lower end of the bin of y", display="plain")
    y_high = number("y, upper end", "upper end of the bin of y", display="plain")
    n = count("Rows", "rows in the bin")


@dataclass(frozen=True, repr=False, eq=False)
class CorrelationResult(Result):
    """Correlations of one family, as :func:`traceana.correlate` returns them.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8, 8], "runtime_s": [60, 50, 90, 200, 150]})
    >>> traceana.correlate(jobs, "gpus", "runtime_s").n_tested
    1
    """

    table: Annotated[pl.DataFrame, Correlations]
    """One row per correlation."""
    drawn_by = "plot_correlations"

    def _drawn(self) -> pl.DataFrame:
        names = [name for name in ("y", "method", "level") if self.table[name].n_unique() > 1]
        series = pl.concat_str(names, separator=", ") if names else pl.lit(None, pl.String)
        by = [name for name in self.table.columns if name not in Correlations.columns()]
        key = [pl.col(name).cast(pl.String).fill_null("not stated") for name in (*by, "x")]
        rows = self.table.with_columns(feature=pl.concat_str(key, separator=", "), outcome=series)
        return rows.with_columns(group=pl.lit(None, pl.String))

    @property
    def n_tested(self) -> int:
        """Number of correlations with a p-value, which are the tests of the family."""
        return int(self.table["pvalue"].count())

    summarized = (
        (
            "table",
            "x",
            "y",
            "method",
            "level",
            "n",
            "r",
            "ci_low",
            "ci_high",
            "pvalue_adjusted",
            "note",
        ),
    )


@dataclass(frozen=True)
class ImpliedN:
    """Numbers of points at which a printed r and p belong to one test."""

    low: int | None
    high: int | None
    """Smallest and largest such number; every integer between is one too. `low` is None if there is
    none, and `high` also if there is no largest."""
    note: str | None
    """Why a bound is None; None if both are known."""

    def __str__(self) -> str:
        """Return the range as text."""
        if self.low is None:
            return f"no n: {self.note}"
        if self.high is None:
            return f"n of {self.low:,} or more: {self.note}"
        is_one = self.low == self.high
        return f"n = {self.low:,}" if is_one else f"n from {self.low:,} to {self.high:,}"
