"""Compute the part of the appendix on distributions from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import fit_distributions, tail_index

if TYPE_CHECKING:
    from traceana import DistributionFits
    from traceana.store import Store

RESAMPLES = 19  # few, so that this page is made in seconds: no p is below 1 / 20


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    itp = store.scan("microsoft-itp-2021", "jobs").collect()
    openb = store.scan("alibaba-openb-2023", "jobs").collect().drop_nulls("runtime_s")
    return "\n".join([families(itp), tails(itp, openb)])


def told(fits: DistributionFits) -> pl.DataFrame:
    """One row a family, its parameters as text."""
    parameters = [
        ", ".join(f"{name} {value:.4g}" for name, value in fits.params(family).items())
        for family in fits.table["family"]
    ]
    return fits.table.select(
        "family",
        pl.Series("parameters", parameters),
        "delta",
        "ks_statistic",
        "ks_pvalue",
        "fraction_above_bound",
    )


def families(itp: pl.DataFrame) -> str:
    runtime = itp["runtime_s"]
    within = fit_distributions(runtime, truncated_below="min", criterion="bic", resamples=0)
    p = fit_distributions(
        runtime, truncated_below="min", families=[str(within.best)], resamples=RESAMPLES, rng=1
    )
    whole = fit_distributions(runtime, criterion="bic", resamples=0)
    others = within.comparisons.select(
        "family", "test", "log_likelihood_ratio", "mean_ratio", "ci_low", "ci_high", "statistic"
    )
    return (
        "### ITP: six families with the bound\n\n"
        + as_table(told(within).drop("ks_pvalue"), digits=4)
        + f"\nFor {within.best}, p of the distance is {p.table['ks_pvalue'].item():g}, the minimum "
        f"with {RESAMPLES} refits. Log-likelihood ratios of {within.best} to the others, all with "
        f"adjusted p below {ceiling(within.comparisons['pvalue_adjusted']):g}:\n\n"
        + as_table(others)
        + "\n### ITP: six families without the bound\n\n"
        + as_table(told(whole).drop("ks_pvalue", "fraction_above_bound"), digits=4)
    )


def ceiling(pvalues: pl.Series) -> float:
    """A round number above all of them."""
    return next(10.0**-k for k in range(20, -1, -1) if (pvalues < 10.0**-k).all())


def tails(itp: pl.DataFrame, openb: pl.DataFrame) -> str:
    parts = []
    for name, runtime in (("ITP", itp["runtime_s"]), ("openb", openb["runtime_s"])):
        n = len(runtime)
        table = tail_index(runtime, k=[int(n**0.5), n // 50, n // 20, n // 10])
        parts.append(
            table.select(pl.lit(name).alias("trace"), pl.exclude("n", "n_missing", "note"))
        )
    return "### Tail index by number of largest values\n\n" + as_table(pl.concat(parts))
