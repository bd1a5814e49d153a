"""Compute the part of the appendix on variation from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import match_cov_rows, summarize_cov_pooled

if TYPE_CHECKING:
    from traceana.store import Store

TRACE = "alibaba-minibatch-2020"
_CUT_AT_S = 19_990
"""Time of the last column of the CoV table."""


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    cov = store.scan(TRACE, "cov_samples").collect()
    samples = store.scan(TRACE, "worker_samples").collect()
    return "\n".join([pooled(cov), rows(samples, cov)])


def pooled(cov: pl.DataFrame) -> str:
    row = summarize_cov_pooled(cov, cut_at=_CUT_AT_S).row(0, named=True)
    table = pl.DataFrame(
        [
            {
                "quantile": name,
                "CoV": row[name],
                "ci_low": row[f"{name}_ci_low"],
                "ci_high": row[f"{name}_ci_high"],
            }
            for name in ("p05", "p25", "median", "p75", "p95")
        ]
    )
    shares = ", ".join(
        f"{row[f'fraction_above_{name}']:.1%} above {limit}"
        for name, limit in (("0_1", 0.1), ("0_5", 0.5), ("1", 1))
    )
    return (
        "### All jobs of the table\n\n"
        f"{row['n']:,} samples of {row['n_jobs']} jobs; intervals with jobs as clusters.\n\n"
        f"{as_table(table)}\nOf the samples, {shares}; the largest is {row['max']:.3f}.\n\n"
        f"{row['n_right_truncated']} jobs reach the last column and are censored there. "
        f"Quartiles of the lengths (Kaplan-Meier): {row['length_p25']:.0f}, "
        f"{row['length_median']:.0f} and {row['length_p75']:.0f} samples.\n"
    )


def rows(samples: pl.DataFrame, cov: pl.DataFrame) -> str:
    matches = match_cov_rows(samples, cov)
    table = matches.select(
        job="job_id",
        ddof="ddof",
        row="cov_job_id",
        overlap="overlap",
        largest="max_abs_difference",
        within_rounding="fraction_within_rounding",
    )
    return f"### The four job files in the table\n\n{as_table(table)}\n{verdict(matches)}"


def verdict(matches: pl.DataFrame) -> str:
    found = matches.filter(pl.col("fraction_within_rounding") > 0.99)
    of = found["job_id"].to_list()
    same = matches.filter(pl.col("job_id").is_in(of), pl.col("ddof") == 0)
    within = (found["fraction_within_rounding"] * found["overlap"]).round().sum()
    by_population = (same["fraction_within_rounding"] * same["overlap"]).round().sum()
    others = sorted(set(matches["job_id"]) - set(of))
    return (
        f"{', '.join(of)} are rows of the table under ddof "
        f"{' and '.join(str(ddof) for ddof in found['ddof'].unique().sort())}: rounding explains "
        f"{within:,.0f} of {found['overlap'].sum():,} differences. Under ddof 0 it explains "
        f"{by_population:,.0f} of {same['overlap'].sum():,}. {', '.join(others)}: no row is within "
        "rounding at more than a few samples.\n"
    )
