"""Measure how often intervals of correlations cover and tests of no correlation reject.

    python docs/scripts/error_rates_correlation.py [REPETITIONS]

All data is made up, from seeds. With 2000 repetitions it takes about half an hour.
"""

import sys

import numpy as np
import polars as pl
from findings import as_table, write_measured

from traceana import correlate
from traceana.stats import permutation
from traceana.stats.correlation import METHODS, correlation, correlation_pvalue
from traceana.stats.multiplicity import adjust_pvalues

RHO = 0.5
RESAMPLES = 299
AT_ONCE = 100  # samples in one frame, told apart by a column: one call is then for all of them


def truth(method: str, sigma: float) -> float:
    """The coefficient of the population: of normal values, or both exp(sigma times them)."""
    if method == "spearman":
        return 6 / np.pi * np.arcsin(RHO / 2)
    if method == "kendall":
        return 2 / np.pi * np.arcsin(RHO)
    return np.expm1(RHO * sigma**2) / np.expm1(sigma**2) if sigma else RHO


def covers(table: pl.DataFrame, exact: float) -> float:
    """Share of intervals that hold the exact value."""
    found = table.drop_nulls("ci_low")
    return ((found["ci_low"] <= exact) & (found["ci_high"] >= exact)).mean()


def rejects(table: pl.DataFrame) -> float:
    return (table["pvalue"].drop_nulls() < 0.05).mean()


def batches(repetitions: int) -> list[int]:
    whole, rest = divmod(repetitions, AT_ONCE)
    return [AT_ONCE] * whole + [rest] * bool(rest)


def independent(repetitions: int) -> pl.DataFrame:
    rng, lines = np.random.default_rng(1), []
    for sigma, shape in ((0, "normal"), (0.5, "lognormal, 0.5"), (1, "lognormal, 1")):
        for n in (30, 300):
            found: dict[float, list[pl.DataFrame]] = {0.0: [], RHO: []}
            for rho, tables in found.items():
                for count in batches(repetitions):
                    x, e = rng.standard_normal((2, count * n))
                    y = rho * x + np.sqrt(1 - rho**2) * e
                    if sigma:
                        x, y = np.exp(sigma * x), np.exp(sigma * y)
                    rows = pl.DataFrame({"sample": np.repeat(np.arange(count), n), "x": x, "y": y})
                    tables.append(correlate(rows, "x", "y", by="sample", method=METHODS).table)
            nothing, there = (pl.concat(tables) for tables in found.values())
            lines += [
                {
                    "values": shape,
                    "n": n,
                    "method": method,
                    "covered": covers(there.filter(method=method), truth(method, sigma)),
                    "rejected": rejects(nothing.filter(method=method)),
                }
                for method in METHODS
            ]
    return pl.DataFrame(lines)


def clustered_rows(rng: np.random.Generator, n: int, rho: float, sigma: float) -> pl.DataFrame:
    """Clusters of 8 rows on average; 0.4 of each variance is the cluster's own."""
    size = rng.geometric(1 / 8, n)
    of = np.repeat(np.arange(n), size)

    def pairs(count: int) -> np.ndarray:
        x, e = rng.standard_normal((2, count))
        return np.stack([x, rho * x + np.sqrt(1 - rho**2) * e])

    x, y = np.sqrt(0.4) * pairs(n)[:, of] + np.sqrt(0.6) * pairs(len(of))
    if sigma:
        x, y = (np.exp(sigma * part) for part in (x, y))
    return pl.DataFrame({"c": of, "x": x, "y": y})


ALIKE = {"normal": 0, "lognormal, 0.5": 0.5, "lognormal, 1": 1}


def clustered(repetitions: int, shapes: dict[str, float], seed: int) -> pl.DataFrame:
    rng, lines = np.random.default_rng(seed), []
    for shape, sigma in shapes.items():
        for n in (15, 30, 100):
            found: dict[float, list[pl.DataFrame]] = {0.0: [], RHO: []}
            for rho, tables in found.items():
                for count in batches(repetitions):
                    samples = (clustered_rows(rng, n, rho, sigma) for _ in range(count))
                    rows = pl.concat(
                        one.with_columns(sample=pl.lit(at)) for at, one in enumerate(samples)
                    )
                    asked = {"method": ["pearson", "spearman"], "adjust": "none", "by": "sample"}
                    drawn = {"cluster": "c", "resamples": RESAMPLES, "rng": rng}
                    tables.append(correlate(rows, "x", "y", **asked, **drawn).table)
                    naive = correlate(rows, "x", "y", **asked).table
                    tables.append(naive.with_columns(level=pl.lit("row, naive")))
            nothing, there = (pl.concat(tables) for tables in found.values())
            for (level, method), null in nothing.group_by("level", "method", maintain_order=True):
                mine = there.filter(level=level, method=method)
                lines.append(
                    {
                        "values": shape,
                        "clusters": n,
                        "level": level,
                        "method": method,
                        "covered": covers(mine, truth(method, sigma)),
                        "rejected": rejects(null),
                    }
                )
            print(pl.DataFrame(lines[-4:]), flush=True)
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
                "false discovery rate": float(np.mean(shares)),
                "any false rejection": float(np.mean(any_false)),
            }
        )
    return pl.DataFrame(lines)


def wide(
    table: pl.DataFrame, keys: list[str], shown: dict[str, tuple[str, str, str]]
) -> pl.DataFrame:
    """One line per situation: the columns shown, each of a level, a method and a measure."""
    cells = [
        table.filter(level=level, method=method).select(*keys, pl.col(measure).alias(name))
        for name, (level, method, measure) in shown.items()
    ]
    found = cells[0]
    for cell in cells[1:]:
        found = found.join(cell, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return found


COVERED = {
    "r covered": ("row", "pearson", "covered"),
    "rho covered": ("row", "spearman", "covered"),
}
REJECTED = {
    "r rejected": ("row", "pearson", "rejected"),
    "rho rejected": ("row", "spearman", "rejected"),
}
NAIVE = {
    "r rejected, rows as independent": ("row, naive", "pearson", "rejected"),
    "rho rejected, rows as independent": ("row, naive", "spearman", "rejected"),
}


def by_method(table: pl.DataFrame) -> pl.DataFrame:
    """One line per situation: each method's coverage and rejections."""
    wide = table.pivot("method", index=["values", "n"], values=["covered", "rejected"])
    methods = table["method"].unique(maintain_order=True)
    measures = [(measure, method) for measure in ("covered", "rejected") for method in methods]
    return wide.select(
        "values",
        "n",
        *(
            pl.col(f"{measure}_{method}").alias(f"{method} {measure}")
            for measure, method in measures
        ),
    )


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    # tests keep their level with fewer resamples
    permutation._SIDE, permutation._RESAMPLES, permutation._SIGNS = 20, 400, 899
    clusters = ["values", "clusters"]
    alike = clustered(repetitions, ALIKE, 2)
    text = (
        f"In percent, of {repetitions:,} repetitions each: the standard error of 95 or 5 % is "
        f"{100 * np.sqrt(0.05 * 0.95 / repetitions):.1f} points. {RESAMPLES} resamples of "
        "clusters.\n\n"
        f"### Independent rows\n\n{as_table(by_method(independent(repetitions)), percent=True)}\n"
        "### Correlations of rows in clusters\n\n"
        f"{as_table(wide(alike, clusters, COVERED | REJECTED | NAIVE), percent=True)}\n"
        f"### Families of 20 tests, 15 without a correlation\n\n"
        f"{as_table(false_discoveries(repetitions), percent=True)}"
    )
    write_measured("error-rates.md", text, name="correlation")


if __name__ == "__main__":
    main()
