"""Distributions fitted to the same values, and how they print themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana.errors import DataError
from traceana.results.base import Result

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, repr=False)
class DistributionFits(Result):
    """Families fitted to the same values, as :func:`traceana.analysis.fit_distributions` does.

    Attributes
    ----------
    table
        One row a family, the best by `criterion` first.
    parameters
        [family, parameter, estimate, ci_low, ci_high], one row a parameter.
    comparisons
        One row for each family against the best.
    criterion
        "aic" or "bic".
    n_missing
        Values that were null or NaN, left out.
    confidence
        Coverage of all intervals.
    """

    table: pl.DataFrame
    parameters: pl.DataFrame
    comparisons: pl.DataFrame
    criterion: str
    n_missing: int
    confidence: float

    @property
    def best(self) -> str | None:
        """The family with the least criterion; None where nothing could be fitted."""
        first = self.table.row(0, named=True)
        return None if first[self.criterion] is None else str(first["family"])

    def params(self, family: str, /) -> dict[str, float]:
        """Return the parameters of one family by name; empty where it has no maximum.

        Raises
        ------
        DataError
            If the family was not fitted.
        """
        if family not in self.table["family"]:
            raise DataError(
                f"family {family!r} was not fitted; there is {', '.join(self.table['family'])}"
            )
        rows = self.parameters.filter(family=family).drop_nulls("estimate")
        return dict(rows.select("parameter", "estimate").iter_rows())

    def summary(self) -> str:
        """Return a short text on the result."""
        first = self.table.row(0, named=True)
        bound = first["truncated_below"]
        lines = [
            f"{first['n']:,} values, {first['n_censored']:,} of them lower bounds, "
            f"{self.n_missing:,} missing"
            + ("" if bound is None else f"; none below {bound:g} is seen")
        ]
        for row in self.table.iter_rows(named=True):
            line = f"{row['family']:12}"
            if row["log_likelihood"] is not None:
                told = ", ".join(f"{k} {v:.4g}" for k, v in self.params(row["family"]).items())
                line += f" {self.criterion} +{row['delta']:<10,.1f} ks {row['ks_statistic']:.4f}"
                if row["ks_pvalue"] is not None:
                    line += f" (p {row['ks_pvalue']:.3g})"
                line += f"  {told}"
            if row["note"] is not None:
                line += f"  [{row['note']}]"
            lines.append(line)
        return "\n".join(lines)
