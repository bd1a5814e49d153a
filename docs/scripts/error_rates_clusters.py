"""Measure intervals and tests of outcomes where rows come in clusters, on made-up tables.

    python docs/scripts/error_rates_clusters.py [SAMPLES]

Writes the part on rows in clusters of docs/explanation/error-rates.md. Seeded; takes an hour
if SAMPLES is not given.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from error_rates_outcomes import holds, shares
from findings import write_measured
from scipy.special import expit, logit
from scipy.stats import norm

from traceana import (
    compare_runtimes,
    cumulative_incidence,
    failure_model,
    failure_odds,
    failure_rates,
    kaplan_meier,
    outcome_association,
    runtime_by,
)
from traceana.errors import DataError

if TYPE_CHECKING:
    from error_rates_outcomes import Checks, Sample

MANY, FEW = 2000, 200
MEASURED_OFTEN = (
    *((clusters, "Pareto") for clusters in (10, 30, 60)),
    *((clusters, "equal") for clusters in (5, 10, 30, 60)),
)
"""Numbers of clusters and their sizes that are measured on many samples, others on few."""
ROWS = 400
FAILED, MEAN, AT = 0.2, 10.0, 0.3
RATES = {"failed": 1.0, "completed": 2.0, "running": 1.0}
CASES = (
    *((clusters, 0.3, "Pareto") for clusters in (5, 10, 30, 60, 200)),
    *((clusters, 0.3, "equal") for clusters in (5, 10, 30, 60)),
    (60, 0.0, "Pareto"),
)
TESTS = (
    "rank ANOVA, `compare_runtimes`",
    "chi-squared, `outcome_association`",
    "odds ratio, `failure_model`",
)


def make_rows(
    random: np.random.Generator, clusters: int, share: float, sizes: str
) -> tuple[np.ndarray, np.ndarray]:
    """Clusters of equal or Pareto sizes, and scores of which they have a share of the variance."""
    size = random.pareto(1.5, clusters) + 0.2 if sizes == "Pareto" else np.ones(clusters)
    cluster = random.choice(clusters, ROWS, p=size / size.sum())
    own, common = random.standard_normal((4, ROWS)), random.standard_normal((4, clusters))
    return cluster, np.sqrt(1 - share) * own + np.sqrt(share) * common[:, cluster]


def rows_in_clusters(clusters: int, share: float, sizes: str, cluster: str | None) -> Sample:
    total = RATES["failed"] + RATES["completed"]
    ended = 1 - np.exp(-total * AT)

    def sample(random: np.random.Generator) -> Checks:
        of, all_scores = make_rows(random, clusters, share, sizes)
        first, scores = all_scores[0], all_scores[1:]
        group = random.integers(0, 2, clusters)[of]
        stratum = random.integers(0, 3, ROWS)
        chance = expit(logit(np.array([0.2, 0.4, 0.6]))[stratum] + np.log(2) * group)
        words = np.array(["completed", "failed"])
        jobs = pl.DataFrame(
            {
                "cluster": of,
                "g": group,
                "runtime_s": np.exp(first),
                "mean": MEAN + first,
                "status": words[(norm.cdf(first) < FAILED).astype(int)],
            }
        )
        strata = words[(norm.cdf(first) < chance).astype(int)]
        groups = pl.DataFrame({"cluster": of, "g": group, "s": stratum, "status": strata})
        times = -norm.logsf(scores) / np.array(list(RATES.values()))[:, None]
        status = np.array(list(RATES))[times.argmin(axis=0)]
        ends = pl.DataFrame({"cluster": of, "runtime_s": times.min(axis=0), "status": status})
        curve = cumulative_incidence(ends, cluster=cluster).curves.filter(event="failed")
        whole = kaplan_meier(ends, cluster=cluster, quantiles=(0.5, 0.9, 0.95), horizon_s=AT)
        by_then = pl.col("time_s") <= AT
        checks: Checks = {
            "`failure_rates`": holds(
                failure_rates(jobs, (), cluster=cluster).row(0, named=True), FAILED
            ),
            "`runtime_by`": holds(
                runtime_by(jobs, (), runtime="mean", cluster=cluster).row(0, named=True), MEAN
            ),
            "`cumulative_incidence`": holds(curve.filter(by_then).row(-1, named=True), ended / 3),
            "`kaplan_meier`": holds(whole.curves.filter(by_then).row(-1, named=True), 1 - ended),
            "restricted mean": holds(
                whole.groups.row(0, named=True), ended / total, "restricted_ci_low"
            ),
        }
        for row in whole.quantiles.iter_rows(named=True):
            truth = -np.log(1 - row["quantile"]) / total
            checks[f"{100 * row['quantile']:g} % quantile"] = holds(row, truth)
        if group.min() == group.max():
            checks |= dict.fromkeys(("`failure_odds`", "superiority", "Cramér's V", *TESTS))
            return checks
        odds = failure_odds(groups, "g", strata="s", cluster=cluster).row(0, named=True)
        compared = compare_runtimes(jobs, "g", cluster=cluster)
        test = compared.test.row(0, named=True)
        table = outcome_association(jobs, "g", cluster=cluster).row(0, named=True)
        checks |= {
            "`failure_odds`": holds(odds, 2.0 if odds["g"] == 1 else 0.5),
            "superiority": holds(compared.pairs.row(0, named=True), 0.5),
            "Cramér's V": holds(table, 0.0),
            TESTS[0]: None if test["pvalue"] is None else test["pvalue"] < 0.05,
            TESTS[1]: None if table["pvalue"] is None else table["pvalue"] < 0.05,
        }
        try:
            p = failure_model(jobs, features="g", cluster=cluster).odds_ratios["pvalue"].item()
        except DataError:  # a group of which no row failed
            p = None
        return checks | {TESTS[2]: None if p is None else p < 0.05}

    return sample


def main() -> None:
    warnings.simplefilter("ignore")  # means of no samples
    columns, counts, lines = [], [], {}
    settings = [(*case, "cluster") for case in CASES] + [(60, 0.3, "Pareto", None)]
    for seed, setting in enumerate(settings):
        clusters, share, sizes, cluster = setting
        often = (clusters, sizes) in MEASURED_OFTEN and share and cluster
        samples = int(sys.argv[1]) if len(sys.argv) > 1 else MANY if often else FEW
        named = f"{clusters} {sizes}" + ("" if share else ", 0 %")
        named = named if cluster else f"{named}, no `cluster`"
        columns.append(named)
        counts.append(f"{samples:,}")
        found = shares(rows_in_clusters(*setting), seed, samples)
        for name, (value, missing) in found.items():
            none = f" ({100 * missing:.0f} % none)" if missing > 0.005 else ""
            cell = "none" if missing > 0.9 else f"{100 * value:.1f}{none}"
            lines.setdefault(name, []).append(cell)
        print(columns[-1], {name: line[-1] for name, line in lines.items()}, flush=True)

    def table(head: str, tests: bool) -> str:
        body = "\n".join(
            f"| {name} | {' | '.join(line)} |"
            for name, line in lines.items()
            if (name in TESTS) is tests
        )
        top = f"| {head} | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}\n"
        return f"{top}| samples | {' | '.join(counts)} |\n{body}"

    write_measured(
        "error-rates.md",
        f"Samples of {ROWS} rows each, by number of clusters and their sizes; clusters have 30 % "
        f"of the variance. Two standard errors of 95 % are 1.0 points with {MANY:,} samples, and "
        f"3.1 with {FEW}.\n\n"
        f"{table('95 % intervals cover (%)', False)}\n\n{table('tests at 5 % reject (%)', True)}",
        name="outcomes in clusters",
    )


if __name__ == "__main__":
    main()
