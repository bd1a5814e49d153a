"""Measure how often intervals of outcomes cover where rows come in clusters, on made-up tables.

    python docs/scripts/error_rates_clusters.py

Writes the part on rows in clusters of docs/explanation/error-rates.md. Seeded; takes some minutes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from error_rates_outcomes import holds, shares
from findings import write_measured
from scipy.special import expit, logit
from scipy.stats import norm

from traceana import (
    cumulative_incidence,
    failure_odds,
    failure_rates,
    kaplan_meier,
    runtime_by,
)

if TYPE_CHECKING:
    from error_rates_outcomes import Checks, Sample

SAMPLES = 200
ROWS = 400
FAILED, MEAN, AT = 0.2, 10.0, 0.3
RATES = {"failed": 1.0, "completed": 2.0, "running": 1.0}
CASES = ((20, 0.3), (60, 0.3), (60, 0.0), (200, 0.3))


def make_rows(random: np.random.Generator, clusters: int, share: float) -> dict[str, np.ndarray]:
    """Clusters of very unlike sizes, and scores of which they have that share of the variance."""
    size = random.pareto(1.5, clusters) + 0.2
    cluster = random.choice(clusters, ROWS, p=size / size.sum())
    own, common = random.standard_normal((4, ROWS)), random.standard_normal((4, clusters))
    scores = np.sqrt(1 - share) * own + np.sqrt(share) * common[:, cluster]
    return {"cluster": cluster, "scores": scores}


def rows_in_clusters(clusters: int, share: float, cluster: str | None) -> Sample:
    ended = 1 - np.exp(-(RATES["failed"] + RATES["completed"]) * AT)

    def sample(random: np.random.Generator) -> Checks:
        made = make_rows(random, clusters, share)
        first, scores = made["scores"][0], made["scores"][1:]
        of = {"cluster": made["cluster"]}
        group = random.integers(0, 2, clusters)[made["cluster"]]
        stratum = random.integers(0, 3, ROWS)
        chance = expit(logit(np.array([0.2, 0.4, 0.6]))[stratum] + np.log(2) * group)
        words = np.array(["completed", "failed"])
        jobs = pl.DataFrame(
            of
            | {"status": words[(norm.cdf(first) < FAILED).astype(int)], "runtime_s": MEAN + first}
        )
        groups = pl.DataFrame(
            of | {"g": group, "s": stratum, "status": words[(norm.cdf(first) < chance).astype(int)]}
        )
        times = -norm.logsf(scores) / np.array(list(RATES.values()))[:, None]
        status = np.array(list(RATES))[times.argmin(axis=0)]
        ends = pl.DataFrame(of | {"runtime_s": times.min(axis=0), "status": status})
        curve = cumulative_incidence(ends, cluster=cluster).curves.filter(event="failed")
        whole = kaplan_meier(ends, cluster=cluster)
        by_then = pl.col("time_s") <= AT
        odds = failure_odds(groups, "g", strata="s", cluster=cluster).row(0, named=True)
        return {
            "`failure_rates`": holds(
                failure_rates(jobs, (), cluster=cluster).row(0, named=True), FAILED
            ),
            "`runtime_by`": holds(runtime_by(jobs, (), cluster=cluster).row(0, named=True), MEAN),
            "`cumulative_incidence`": holds(curve.filter(by_then).row(-1, named=True), ended / 3),
            "`kaplan_meier`": holds(whole.curves.filter(by_then).row(-1, named=True), 1 - ended),
            "median runtime": holds(whole.groups.row(0, named=True), np.log(2) / 3),
            "`failure_odds`": holds(odds, 2.0 if odds["g"] == 1 else 0.5),
        }

    return sample


def main() -> None:
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    columns, lines = [], {}
    for seed, (clusters, share) in enumerate(CASES):
        columns.append(f"{clusters} clusters, {100 * share:g} % of the variance")
        found = [
            shares(rows_in_clusters(clusters, share, cluster), seed, samples)
            for cluster in ("cluster", None)
        ]
        for name in found[0]:
            cells = " / ".join(f"{100 * each[name][0]:.1f}" for each in found)
            lines.setdefault(name, []).append(cells)
        print(columns[-1], {name: line[-1] for name, line in lines.items()}, flush=True)
    head = " | ".join(["95 % intervals cover (%), with / without `cluster`", *columns])
    body = "\n".join(f"| {name} | {' | '.join(line)} |" for name, line in lines.items())
    write_measured(
        "error-rates.md",
        f"{samples:,} samples of {ROWS} rows each: two standard errors of 95 % are "
        f"{200 * np.sqrt(0.95 * 0.05 / samples):.1f} points.\n\n| {head} |\n"
        f"|{' --- |' * (len(columns) + 1)}\n{body}",
        name="outcomes in clusters",
    )


if __name__ == "__main__":
    main()
