"""Correlations, and how they print themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana.results.base import Result

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, repr=False)
class CorrelationResult(Result):
    """Correlations of one family, as :func:`traceana.analysis.correlate` finds them.

    Attributes
    ----------
    table
        One row a correlation.
    by
        Columns that the rows were grouped by.
    adjust
        How p was adjusted over the family.
    confidence
        Coverage of the intervals.
    cluster
        Columns that name what was drawn whole; empty where rows or groups count as independent.
    """

    table: pl.DataFrame
    by: tuple[str, ...]
    adjust: str
    confidence: float
    cluster: tuple[str, ...]

    @property
    def n_tested(self) -> int:
        """Number of tests in the family: the correlations that have a p-value."""
        return int(self.table["pvalue"].count())

    def summary(self) -> str:
        """Return a short text on the result."""
        unit = f"clusters of {', '.join(self.cluster)}" if self.cluster else "rows or groups"
        several = "" if self.table.height == 1 else "s"
        tests = "test" if self.n_tested == 1 else "tests"
        head = (
            f"{self.table.height:,} correlation{several}, {self.confidence:.0%} intervals, "
            f"{unit} taken as independent; p adjusted ({self.adjust}) over "
            f"{self.n_tested:,} {tests}"
        )
        lines = [head]
        for row in self.table.iter_rows(named=True):
            where = ", ".join(f"{name} {row[name]}" for name in self.by)
            points = f"{row['n']:,} rows"
            if row["n_groups"] is not None:
                points += f", {row['n_groups']:,} groups"
            found = "none" if row["r"] is None else f"{row['r']:+.3f}"
            if row["ci_low"] is not None:
                found += f" [{row['ci_low']:+.3f}, {row['ci_high']:+.3f}]"
            if row["pvalue_adjusted"] is not None:
                points += f", adjusted p {row['pvalue_adjusted']:.2g}"
            lines.append(
                f"{f'{where}: ' if where else ''}{row['x']} and {row['y']}, {row['method']}, "
                f"{row['level']}: {found} ({points})" + (f"; {row['note']}" if row["note"] else "")
            )
        return "\n".join(lines)
