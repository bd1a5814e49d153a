"""Distributions of runtimes group by group: the best family of each, and pairs compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import compare_distributions, fit_distributions
from traceana.report.blocks import Column, make_table, notes, words
from traceana.results.formatting import count, in_sentence, pvalue, ratio, ratio_range, three_digits

if TYPE_CHECKING:
    from traceana.report.blocks import Table

_RESAMPLES: Final = 49
_SEED: Final = 1


def tell_groups(
    groups: pl.DataFrame, bound: float | None, by: str, heading: str, name: str, /
) -> Table:
    """Tell the best family of each group; `bound` is that of all, None where there is none."""
    rows = []
    for (group,), own in groups.sort(by).group_by(by, maintain_order=True):
        fits = fit_distributions(own["runtime_s"], truncated_below=bound, criterion="bic")
        first = fits.table.row(0, named=True)
        second = fits.table.row(1, named=True)
        against = fits.comparisons.filter(family=second["family"])
        rows.append(
            {
                "group": group,
                "n": own.height,
                "best": fits.best,
                "distance": first["ks_statistic"],
                "second": second["family"] if second["bic"] is not None else None,
                "delta": second["delta"],
                "pvalue": against["pvalue_adjusted"].item() if against.height else None,
                "note": first["note"] if fits.best is None else None,
            }
        )
    schema = {
        "group": pl.String, "n": pl.Int64, "best": pl.String, "distance": pl.Float64,
        "second": pl.String, "delta": pl.Float64, "pvalue": pl.Float64, "note": pl.String,
    }  # fmt: skip
    table = pl.DataFrame(rows, schema=schema)
    return make_table(
        table,
        [
            words(heading, "group"),
            Column("n", "n", count),
            words("Best by BIC", "best", null="none"),
            Column("Distance", "distance", ratio),
            words("Next", "second", null="none"),
            Column("BIC above the best", "delta", three_digits),
            Column("adjusted p", "pvalue", pvalue),
            *notes(table),
        ],
        caption=f"The best family by {in_sentence(heading)}"
        + (", under the bound of all" if bound is not None else "")
        + "; adjusted p is Vuong's, of the best against the next, over the families of the row. "
        f"{name}",
    )


def tell_pairs(groups: pl.DataFrame, by: str, heading: str, name: str, /) -> Table:
    """Compare the groups' distributions, pair by pair."""
    other = f"{by}_other"
    table = compare_distributions(groups, "runtime_s", by, resamples=_RESAMPLES, rng=_SEED)
    return make_table(
        table,
        [
            words("First", by),
            words("Second", other),
            Column("n of first", "n", count),
            Column("n of second", "n_other", count),
            Column("Distance", "ks_distance", ratio),
            Column("95 % interval", ("ks_low", "ks_high"), ratio_range),
            Column("adjusted p", "ks_pvalue_adjusted", pvalue),
            Column("First is longer", "superiority", ratio),
            Column("95 % interval", ("superiority_low", "superiority_high"), ratio_range),
            Column("adjusted p", "superiority_pvalue_adjusted", pvalue),
            *notes(table),
        ],
        caption=f"Pairs of groups by {in_sentence(heading)}: the largest gap between their shares "
        f"(interval of {_RESAMPLES} resamples, seed {_SEED}), and the chance that a runtime of the "
        "first is the longer (Brunner and Munzel); p adjusted (Benjamini and Hochberg) over both "
        f"tests of all pairs. {name}",
        folded=True,
    )
