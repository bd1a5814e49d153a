"""Compute the measured part of docs/explanation/distributions.md from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import compare_distributions, fit_distributions, tail_index

if TYPE_CHECKING:
    from traceana import DistributionFits
    from traceana.store import Store

RESAMPLES = 19  # few, so that this page is made in seconds: no p is below 1 / 20


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    itp = store.scan("microsoft-itp-2021", "jobs").collect()
    openb = store.scan("alibaba-openb-2023", "jobs").collect().drop_nulls("runtime_s")
    return "\n".join(
        [bound(itp), families(itp), clusters(itp), tails(itp, openb), pods(openb), ratios(openb)]
    )


def bound(itp: pl.DataFrame) -> str:
    least = itp.group_by("cluster").agg(pl.len(), pl.col("runtime_s").min()).sort("cluster")
    runtime = itp["runtime_s"]
    low = runtime.min()
    counts = ((runtime - low) // 60).value_counts().sort("runtime_s").head(10)["count"]
    at_bound = (least["runtime_s"] == low).sum()
    return (
        f"### ITP: bound of the runtimes\n\nThe shortest runtime is {low:g} s, in {at_bound} of "
        f"{least.height} clusters. Jobs in each of the next ten minutes: "
        f"{', '.join(map(str, counts))}.\n\n"
        + as_table(least.rename({"len": "jobs", "runtime_s": "min runtime_s"}), digits=4)
    )


def told(fits: DistributionFits) -> pl.DataFrame:
    """One row a family, its parameters as text."""
    parameters = [
        ", ".join(f"{name} {value:.4g}" for name, value in fits.params(family).items())
        for family in fits.table["family"]
    ]
    return fits.table.select(
        "family", pl.Series("parameters", parameters), "delta", "ks_statistic", "ks_pvalue",
        "share_above_bound",
    )  # fmt: skip


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
        + as_table(told(whole).drop("ks_pvalue", "share_above_bound"), digits=4)
    )


def ceiling(pvalues: pl.Series) -> float:
    """A round number above all of them."""
    return next(10.0**-k for k in range(20, -1, -1) if (pvalues < 10.0**-k).all())


def clusters(itp: pl.DataFrame) -> str:
    rows, low = [], itp["runtime_s"].min()
    for (name,), jobs in itp.group_by("cluster", maintain_order=True):
        runtime = jobs["runtime_s"]
        fits = fit_distributions(runtime, truncated_below=low, criterion="bic", resamples=0)
        first, second = fits.table.head(2).to_dicts()
        rows.append(
            {
                "cluster": name,
                "jobs": jobs.height,
                "within 10 % of the median": (abs(runtime / runtime.median() - 1) < 0.1).mean(),
                "best": first["family"],
                "ks": first["ks_statistic"],
                "next": second["family"],
                "BIC difference": second["delta"],
                "adjusted p": fits.comparisons["pvalue_adjusted"][0],
            }
        )
    return "### ITP: best family by cluster, with the common bound\n\n" + as_table(
        pl.DataFrame(rows).sort("cluster")
    )


def tails(itp: pl.DataFrame, openb: pl.DataFrame) -> str:
    parts = []
    for name, runtime in (("ITP", itp["runtime_s"]), ("openb", openb["runtime_s"])):
        n = len(runtime)
        table = tail_index(runtime, k=[int(n**0.5), n // 50, n // 20, n // 10])
        parts.append(
            table.select(pl.lit(name).alias("trace"), pl.exclude("n", "n_missing", "note"))
        )
    return "### Tail index by number of largest values\n\n" + as_table(pl.concat(parts))


def pods(openb: pl.DataFrame) -> str:
    last = openb["end_s"].max()
    running = openb["status"] == "running"
    still = running & (openb["end_s"] == last)
    treatments = {
        "every deletion is an end": None,
        "running pods deleted at the last second are censored": still,
        "every running pod is censored": running,
    }
    rows = []
    for treatment, cut in treatments.items():
        fits = fit_distributions(
            openb["runtime_s"], observed=None if cut is None else ~cut, rng=1, resamples=RESAMPLES
        )
        first, second = fits.table.head(2).to_dicts()
        rows.append(
            {
                "treatment": treatment,
                "censored": first["n_censored"],
                "best": first["family"],
                "parameters": told(fits)["parameters"][0],
                "ks": first["ks_statistic"],
                "p": first["ks_pvalue"],
                "next": second["family"],
                "AIC difference": second["delta"],
            }
        )
    return (
        f"### openb: {openb.height:,} pods that started\n\n{running.sum():,} of them have the "
        f"phase Running and a deletion, {still.sum()} of them at the trace's last second.\n\n"
        + as_table(pl.DataFrame(rows))
    )


def ratios(openb: pl.DataFrame) -> str:
    frame = openb.with_columns(
        runtime_ratio=pl.col("runtime_s") / pl.col("runtime_s").mean().over("qos", "status")
    ).filter(pl.col("status") != "running")
    large = frame.filter(pl.len().over("qos", "status") >= 30).with_columns(
        group=pl.format("{} {}", "qos", "status")
    )
    fits = [
        fit_distributions(group["runtime_ratio"], resamples=0).table.select(
            pl.lit(name[0]).alias("group"), "family", "n", "ks_statistic"
        )[0]
        for name, group in large.group_by("group", maintain_order=True)
    ]
    pairs = compare_distributions(large, "runtime_ratio", "group", resamples=199, rng=1)
    return (
        "### openb: runtime ratio by quality of service and status\n\nGroups of at least "
        "30 pods that are not running; the best family by AIC.\n\n"
        + as_table(pl.concat(fits).sort("group"))
        + "\n"
        + as_table(
            pairs.select(
                "group", "group_other", "ks_distance", "ks_low", "ks_high", "superiority",
                "superiority_low", "superiority_high", "ks_pvalue_adjusted",
                "superiority_pvalue_adjusted",
            )
        )
    )  # fmt: skip
