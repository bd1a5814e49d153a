"""Measure how often intervals of correlations cover and tests of no correlation reject.

    python docs/scripts/error_rates_correlation.py [REPETITIONS]

All data is made up, from seeds. With 1000 repetitions it takes a few minutes.
"""

import sys

import numpy as np
import polars as pl
from findings import as_table, write_measured

from traceana import correlate
from traceana.stats import adjust_pvalues, correlation, correlation_pvalue, fisher_interval
from traceana.stats.correlation import METHODS, kendall_pvalue

RHO = 0.5


def truth(method: str, rho: float, *, lognormal: bool) -> float:
    """The coefficient of the population: of normal values, or both their exponentials."""
    if method == "spearman":
        return 6 / np.pi * np.arcsin(rho / 2)
    if method == "kendall":
        return 2 / np.pi * np.arcsin(rho)
    return np.expm1(rho) / np.expm1(1) if lognormal else rho


def independent(repetitions: int) -> pl.DataFrame:
    rng, lines = np.random.default_rng(1), []
    for lognormal in (False, True):
        for n in (30, 300):
            for method in METHODS:
                covered, rejected = [], []
                for rho in (0.0, RHO):
                    for _ in range(repetitions):
                        x, e = rng.standard_normal((2, n))
                        y = rho * x + np.sqrt(1 - rho**2) * e
                        if lognormal:
                            x, y = np.exp(x), np.exp(y)
                        r = correlation(x, y, method=method)
                        if rho:
                            low, high = fisher_interval(r, n, method=method)
                            covered.append(low <= truth(method, rho, lognormal=lognormal) <= high)
                        else:
                            p = correlation_pvalue(r, n, method=method)
                            p = kendall_pvalue(x, y) if method == "kendall" else p
                            rejected.append(p < 0.05)
                lines.append(
                    {
                        "values": "lognormal" if lognormal else "normal",
                        "n": n,
                        "method": method,
                        "covered": float(np.mean(covered)),
                        "rejected": float(np.mean(rejected)),
                    }
                )
    return pl.DataFrame(lines)


def clustered_rows(rng: np.random.Generator, n: int, rho: float, sigma: float) -> pl.DataFrame:
    """Clusters of 8 rows on average; 0.4 of each variance is the cluster's own."""
    size = rng.geometric(1 / 8, n)
    of = np.repeat(np.arange(n), size)

    def pairs(count: int) -> np.ndarray:
        x, e = rng.standard_normal((2, count))
        return np.stack([x, rho * x + np.sqrt(1 - rho**2) * e])

    x, y = np.sqrt(0.4) * pairs(n)[:, of] + np.sqrt(0.6) * pairs(len(of))
    steps = np.round(8 * np.exp(x))  # few distinct, of very different numbers of rows
    if sigma:
        x, y = (np.exp(sigma * part) for part in (x, y))
    return pl.DataFrame({"c": of, "x": x, "steps": steps, "y": y})


def clustered(repetitions: int) -> pl.DataFrame:
    rng, lines = np.random.default_rng(2), []
    for sigma, shape in ((0, "normal"), (0.5, "lognormal, 0.5"), (1, "lognormal, 1")):
        for n in (15, 30, 100):
            found = {}
            for rho in (0.0, RHO):
                for _ in range(repetitions):
                    rows = clustered_rows(rng, n, rho, sigma)
                    asked = {"method": ["pearson", "spearman"], "adjust": "none"}
                    drawn = {"cluster": "c", "resamples": 499, "rng": rng}
                    over_rows = correlate(rows, "x", "y", **asked, **drawn).table
                    means = {"level": ["group_mean", "group_mean_weighted"]}
                    over_means = correlate(rows, "steps", "y", **asked, **drawn, **means).table
                    naive = correlate(rows, "x", "y", **asked).table
                    for line in pl.concat([over_rows, over_means]).iter_rows(named=True):
                        key = (line["level"], line["method"])
                        found.setdefault((*key, rho), []).append(line)
                    for line in naive.iter_rows(named=True):
                        found.setdefault(("row, naive", line["method"], rho), []).append(line)
            for level, method in dict.fromkeys(key[:2] for key in found):
                there = found[level, method, RHO]
                # the exact moment of both exponentials: (e^(rho s^2) - 1) / (e^(s^2) - 1)
                exact = truth(method, RHO, lognormal=False)
                if sigma and method == "pearson":
                    exact = np.expm1(RHO * sigma**2) / np.expm1(sigma**2)
                covered = [
                    line["ci_low"] <= exact <= line["ci_high"]
                    for line in there
                    if line["ci_low"] is not None
                ]
                null = [line["pvalue"] for line in found[level, method, 0.0]]
                rejected = [p < 0.05 for p in null if p is not None]
                lines.append(
                    {
                        "values": shape,
                        "clusters": n,
                        "level": level,
                        "method": method,
                        # of group means the population's coefficient depends on who is grouped
                        "covered": float(np.mean(covered)) if level.startswith("row") else None,
                        "rejected": float(np.mean(rejected)),
                    }
                )
    return pl.DataFrame(lines)


def false_discoveries(repetitions: int) -> pl.DataFrame:
    """The share of false ones among rejections, of 20 tests of which 15 are of no correlation."""
    rng, lines = np.random.default_rng(3), []
    for method in ("none", "fdr_bh", "fdr_by", "holm", "bonferroni"):
        shares, any_false = [], []
        for _ in range(repetitions):
            y = rng.standard_normal(60)
            slopes = np.where(np.arange(20) < 15, 0, 0.5)[:, None]
            x = slopes * y + rng.standard_normal((20, 60))
            r = [correlation(row, y, method="pearson") for row in x]
            p = [correlation_pvalue(one, 60, method="pearson") for one in r]
            rejected = adjust_pvalues(p, method=method) < 0.05
            false = rejected[:15].sum()
            shares.append(false / max(rejected.sum(), 1))
            any_false.append(false > 0)
        lines.append(
            {
                "adjust": method,
                "false among rejections": float(np.mean(shares)),
                "any false": float(np.mean(any_false)),
            }
        )
    return pl.DataFrame(lines)


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    text = (
        f"{repetitions:,} repetitions each; a share of 0.95 is then uncertain by "
        f"{2 * np.sqrt(0.05 * 0.95 / repetitions):.3f} (two standard errors).\n\n"
        f"### Independent rows\n\n{as_table(independent(repetitions))}\n"
        f"### Rows in clusters\n\n{as_table(clustered(repetitions))}\n"
        f"### Families of 20 tests, 15 of them of nothing\n\n"
        f"{as_table(false_discoveries(repetitions))}"
    )
    write_measured("error-rates.md", text, name="correlation")
    print(text)


if __name__ == "__main__":
    main()
