"""Compute the measured part of docs/explanation/correlation.md from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import implied_n, runtime_correlations

if TYPE_CHECKING:
    from traceana.store import Store

PUBLISHED = [
    ("success", "GPU %", "0.44", "2.01e-02"),
    ("success", "CPU %", "0.64", "4.51e-07"),
    ("success", "memory", "0.35", "3.78e-05"),
    ("success", "task size", "0.04", "4.50e-01"),
    ("failure", "GPU %", "-0.14", "4.98e-01"),
    ("failure", "CPU %", "-0.11", "4.50e-01"),
    ("failure", "memory", "-0.09", "3.19e-01"),
    ("failure", "task size", "0.04", "4.50e-01"),
]
"""The analysis of PAI's tasks; "3.19e-0.1" is printed for the p-value of failure and memory."""

SHOWN = ("outcome", "x", "method", "level", "n", "n_groups", "r", "ci_low", "ci_high", "pvalue")


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    jobs = store.scan("alibaba-openb-2023", "jobs")
    levels = ("row", "group_mean", "group_mean_weighted")
    parts = ["### openb, runtime versus requested resources\n"]
    published = store.manifest("alibaba-openb-2023").failure_statuses
    for name, failure in (("published", published), ("strict", ("failed",))):
        found = runtime_correlations(jobs, failure=failure, level=levels)
        table = found.table
        if name == "strict":  # success is the same
            table = table.filter(outcome="failure")
        empty = (
            table.filter(pl.col("r").is_null())
            .select("outcome", "x", "note")
            .unique(maintain_order=True)
        )
        parts += [
            f"Failure as {name}; p adjusted over {found.n_tested} tests.\n",
            as_table(
                table.drop_nulls("r").select(*SHOWN, "pvalue_adjusted", "n_effective", "note")
            ),
            *(f"No coefficient of means of {x}, {of}: {why}.\n" for of, x, why in empty.rows()),
        ]
    implied = pl.DataFrame(
        [
            {
                "outcome": outcome,
                "feature": feature,
                "r": r,
                "p": p,
                "implied": str(implied_n(r, p)),
            }
            for outcome, feature, r, p in PUBLISHED
        ]
    )
    parts += ["### PAI: number of groups that the published r and p imply\n", as_table(implied)]
    return "\n".join(parts)
