"""Compute the part of the appendix on correlation from a store."""

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

SHOWN = ("outcome", "x", "method", "n", "r", "ci_low", "ci_high")


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    jobs = store.scan("alibaba-openb-2023", "jobs")
    failure = store.manifest("alibaba-openb-2023").failure_statuses
    found = runtime_correlations(jobs, failure=failure, level=("row",))
    shown = found.table.drop_nulls("r").select(*SHOWN, "pvalue_adjusted")
    parts = [
        "### openb, runtime versus requested resources\n",
        f"Failure as published; p adjusted over {found.n_tested} tests.\n",
        as_table(shown),
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
