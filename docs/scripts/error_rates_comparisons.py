"""Measure comparisons, tails and correlations in clusters, and blocks of time, on made-up tables.

    python docs/scripts/error_rates_comparisons.py [SAMPLES]

Writes the parts on comparisons in clusters and on blocks of time of
docs/explanation/error-rates.md. Seeded; takes half an hour if SAMPLES is not given.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from error_rates_outcomes import holds, shares
from findings import write_measured
from scipy.signal import lfilter
from scipy.stats import norm

from traceana import (
    compare_distributions,
    compare_runtimes,
    correlate,
    failure_rates,
    kaplan_meier,
    tail_index,
)
from traceana.stats.time_blocks import time_blocks

if TYPE_CHECKING:
    from error_rates_outcomes import Checks, Sample

SAMPLES = 2000
ROWS = 400
SIZES = [(clusters, sizes) for sizes in ("Pareto", "equal") for clusters in (5, 10, 30, 60)]
SHARE = 0.3
"""Fraction of the variance that clusters, or days, have."""
TAIL = 1.5
RHO = 0.5
SHIFT = 0.5
A_DAY, FAILED = 40, 0.2
DAY_S = 86_400


def in_clusters(clusters: int, sizes: str) -> Sample:
    """Two groups, a tail and two correlated values, in clusters of equal or Pareto sizes."""

    def scores(random: np.random.Generator, of: np.ndarray) -> np.ndarray:
        own, common = random.standard_normal(ROWS), random.standard_normal(clusters)
        return np.sqrt(1 - SHARE) * own + np.sqrt(SHARE) * common[of]

    def sample(random: np.random.Generator) -> Checks:
        weight = random.pareto(1.5, clusters) + 0.2 if sizes == "Pareto" else np.ones(clusters)
        of = random.choice(clusters, ROWS, p=weight / weight.sum())
        of[:2] = 0, 1  # rows of a single cluster are refused
        group = random.integers(0, 2, clusters)[of]
        x, e = scores(random, of), scores(random, of)
        y = RHO * x + np.sqrt(1 - RHO**2) * e
        values = pl.DataFrame({"x": x, "e": e, "y": y, "s": x + SHIFT * group})
        rows = values.select(pl.all(), pl.Series("c", of), pl.Series("g", group))
        positive = rows.with_columns(pl.col("x", "s").exp())  # ranks stay
        checks: Checks = {}
        compared, ranked = dict.fromkeys(("x", "s")), dict.fromkeys(("x", "s"))
        if group.min() != group.max():
            for value in ("x", "s"):
                pair = compare_distributions(positive, value, "g", cluster="c")
                ranks = compare_runtimes(positive, "g", runtime=value, cluster="c").pairs
                compared[value], ranked[value] = pair.row(0, named=True), ranks.row(0, named=True)
        for value, above, distance in (("x", 0.0, 0.0), ("s", SHIFT, 2 * norm.cdf(SHIFT / 2) - 1)):
            about = f", {SHIFT} sd apart" if above else ", equal groups"
            row, pair = ranked[value], compared[value]
            truth = norm.cdf(-above / np.sqrt(2))  # of group 0 against 1
            checks[f"superiority{about}"] = row and holds(row, truth)
            checks[f"KS distance{about}"] = pair and holds(pair, distance, "ks_low")
        for name, of, p in (
            ("superiority", ranked, "pvalue"),
            ("KS distance", compared, "ks_pvalue"),
        ):
            pvalue = of["x"] and of["x"][p]
            checks[f"{name} rejects"] = None if pvalue is None else pvalue < 0.05
        tail = tail_index(norm.sf(x) ** (-1 / TAIL), cluster=of).row(0, named=True)
        checks["tail index"] = holds(tail, TAIL)
        options = {"method": ["pearson", "spearman"], "cluster": "c", "resamples": 299}
        null = correlate(rows, "x", "e", **options, rng=random).table
        apart = correlate(rows, "x", "y", **options, rng=random).table
        exact = (RHO, 6 / np.pi * np.arcsin(RHO / 2))
        for at, name in enumerate(("Pearson's r", "Spearman's rho")):
            checks[name] = holds(apart.row(at, named=True), exact[at])
            pvalue = null["pvalue"][at]
            checks[f"{name} rejects"] = None if pvalue is None else pvalue < 0.05
        return checks

    return sample


def by_days(days: int, persistence: float) -> Sample:
    """Jobs of days that are alike, the more so the nearer they are: in blocks, and as rows."""

    def sample(random: np.random.Generator) -> Checks:
        shock = random.standard_normal((2, days + 200)) * np.sqrt(1 - persistence**2)
        day = lfilter([1], [1, -persistence], shock)[:, 200:]
        of = np.sort(random.integers(0, days, days * A_DAY))
        own = random.standard_normal((2, len(of)))
        first, second = np.sqrt(1 - SHARE) * own + np.sqrt(SHARE) * day[:, of]
        words = np.array(["completed", "failed"])
        failed = norm.cdf(first) < FAILED
        rows = pl.DataFrame({"runtime_s": np.exp(second), "status": words[failed.astype(int)]})
        times = (of + random.random(len(of))) * DAY_S
        lengths = [
            time_blocks(times, values) for values in (rows["runtime_s"], failed.astype(float))
        ]
        blocks = max(lengths, key=lambda one: one.length_s)
        rows = rows.with_columns(block=pl.Series(blocks.code))
        checks: Checks = {}
        for about, cluster in (("blocks", "block"), ("rows as independent", None)):
            rate = failure_rates(rows, (), cluster=cluster).row(0, named=True)
            median = kaplan_meier(rows, cluster=cluster).quantiles.filter(quantile=0.5)
            covers = {
                f"failure rate, {about}": holds(rate, FAILED),
                f"median runtime, {about}": holds(median.row(0, named=True), 1.0),
            }
            checks |= covers
            if cluster:  # the page prints the note beside the interval
                checks |= {
                    f"{name}, no note": None if any(one.note for one in lengths) else covers[name]
                    for name in covers
                }
        return checks

    return sample


def table(samples: dict[str, Sample], count: int, first: str) -> str:
    lines: dict[str, list[str]] = {}
    for seed, (column, sample) in enumerate(samples.items()):
        for name, (value, missing) in shares(sample, seed, count).items():
            none = f" ({100 * missing:.0f} % none)" if missing > 0.005 else ""
            cell = "none" if missing > 0.9 else f"{100 * value:.1f}{none}"
            lines.setdefault(name, []).append(cell)
        print(column, {name: line[-1] for name, line in lines.items()}, flush=True)
    head = f"| {first} | {' | '.join(samples)} |\n|{' --- |' * (len(samples) + 1)}\n"
    order = sorted(lines, key=lambda name: name.endswith("rejects"))
    return head + "\n".join(f"| {name} | {' | '.join(lines[name])} |" for name in order)


def main() -> None:
    warnings.simplefilter("ignore")  # means of no samples
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    logs = {f"{days} days, {r:g}": by_days(days, r) for days in (90, 30) for r in (0, 0.5, 0.8)}
    text = table(logs, count, "95 % intervals cover (%)")
    write_measured(
        "error-rates.md",
        f"{count:,} logs with {A_DAY} jobs a day; days have {100 * SHARE:.0f} % of the variance, "
        "and the correlation of a day with the next is that of the column. No note: of those in "
        f"which the report prints none.\n\n{text}",
        name="blocks of time",
    )
    clusters = {f"{n} {sizes}": in_clusters(n, sizes) for n, sizes in SIZES}
    text = table(clusters, count, "cover, or reject where nothing differs (%)")
    write_measured(
        "error-rates.md",
        f"{count:,} samples of {ROWS} rows each; clusters have {100 * SHARE:.0f} % of the "
        f"variance, and each is in one group.\n\n{text}",
        name="comparisons in clusters",
    )


if __name__ == "__main__":
    main()
