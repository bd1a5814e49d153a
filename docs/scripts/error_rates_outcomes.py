"""Measure how often intervals of outcomes cover and tests reject, on made-up tables.

    python docs/scripts/error_rates_outcomes.py

Writes the part on outcomes of docs/explanation/error-rates.md. Seeded; takes some minutes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Checks = dict[str, bool | None]
    Sample = Callable[[np.random.Generator], Checks]

SAMPLES = 1000
WORDS = np.array(["completed", "failed"])


def holds(row: dict[str, float | None], truth: float, low: str = "ci_low") -> bool | None:
    """Return whether an interval holds the truth; None where there is no interval."""
    high = low.replace("low", "high")
    if row[low] is None or row[high] is None:
        return None
    return row[low] <= truth <= row[high]


def shares(sample: Sample, seed: int, samples: int = SAMPLES) -> dict[str, tuple[float, float]]:
    """Share of samples in which each check holds, and share in which it could not be made."""
    random = np.random.default_rng(seed)
    found = [sample(random) for _ in range(samples)]
    result = {}
    for name in found[0]:
        made = [one[name] for one in found if one[name] is not None]
        result[name] = (np.mean(made), 1 - len(made) / samples)
    return result


def alike(random: np.random.Generator, n: int, clusters: int, share: float) -> tuple:
    """Normal scores of rows and their clusters, which have that share of the variance."""
    cluster = random.integers(0, clusters, n)
    own, common = random.standard_normal(n), random.standard_normal(clusters)
    return np.sqrt(1 - share) * own + np.sqrt(share) * common[cluster], cluster


def groups_of(random: np.random.Generator, cluster: np.ndarray, k: int, kind: str) -> np.ndarray:
    """Groups of rows: each cluster in one group, or across all."""
    if kind == "within":
        return random.integers(0, k, cluster.max() + 1)[cluster]
    return random.integers(0, k, len(cluster))


def rates(p: float, n: int) -> Sample:
    def sample(random: np.random.Generator) -> Checks:
        frame = pl.DataFrame({"status": WORDS[(random.random(n) < p).astype(int)]})
        return {"rate": holds(failure_rates(frame, ()).row(0, named=True), p)}

    return sample


def means(sigma: float, n: int) -> Sample:
    def sample(random: np.random.Generator) -> Checks:
        frame = pl.DataFrame({"runtime_s": random.lognormal(0, sigma, n)})
        return {"mean": holds(runtime_by(frame, ()).row(0, named=True), np.exp(sigma**2 / 2))}

    return sample


def epsilon_squared(k: int, shift: float) -> float:
    """Share of the ranks' variance between k equal normal groups, each `shift` on from the last."""
    place = shift * np.arange(k)
    chance = norm.cdf((place[:, None] - place) / np.sqrt(2)).mean(axis=1)
    return float(12 * ((chance - 0.5) ** 2).mean())


def ranks(
    n: int, k: int, shift: float, *, sigma: float = 2.0, clusters: int = 0, kind: str = "across"
) -> Sample:
    truth, chance = epsilon_squared(k, shift), norm.cdf(-shift / np.sqrt(2))

    def sample(random: np.random.Generator) -> Checks:
        z, cluster = alike(random, n, clusters or n, 0.5 if clusters else 0.0)
        group = groups_of(random, cluster, k, kind)
        frame = pl.DataFrame(
            {"g": group, "c": cluster, "runtime_s": np.exp(sigma * (z + shift * group))}
        )
        found = compare_runtimes(frame, "g", cluster="c" if clusters else None)
        test, pair, median = (
            part.row(0, named=True) for part in (found.test, found.pairs, found.groups)
        )
        checks: Checks = {
            "epsilon squared": holds(test, truth),
            "superiority": holds(pair, chance),
            "median": holds(median, 1.0),
        }
        if not shift:
            checks["rank ANOVA"] = test["pvalue"] < 0.05
            checks["any pair, Holm"] = bool((found.pairs["pvalue_adjusted"] < 0.05).any())
        return checks

    return sample


def tables(n: int, p: Iterable[float], *, clusters: int = 0, kind: str = "across") -> Sample:
    chance = np.array(list(p))
    rate = chance.mean()
    truth = np.sqrt(((chance - rate) ** 2).mean() / (rate * (1 - rate)))

    def sample(random: np.random.Generator) -> Checks:
        z, cluster = alike(random, n, clusters or n, 0.3 if clusters else 0.0)
        group = groups_of(random, cluster, len(chance), kind)
        failed = norm.cdf(z) < chance[group]
        frame = pl.DataFrame({"g": group, "c": cluster, "status": WORDS[failed.astype(int)]})
        row = outcome_association(frame, "g", cluster="c" if clusters else None).row(0, named=True)
        checks: Checks = {"Cramer's V": holds(row, truth)}
        if truth < 1e-9:
            checks["chi-square"] = None if row["pvalue"] is None else row["pvalue"] < 0.05
        return checks

    return sample


def logistic(n: int, *, clusters: int = 0) -> Sample:
    """CPUs of the row, memory of its cluster; failure by the first alone."""

    def sample(random: np.random.Generator) -> Checks:
        z, cluster = alike(random, n, clusters or n, 0.3 if clusters else 0.0)
        cpus = random.integers(1, 9, n).astype(float)
        memory = random.lognormal(3, 1, cluster.max() + 1)[cluster]
        # of rows alike in z, each has its own chance still
        failed = norm.cdf(z) < expit(logit(0.2) + 0.1 * cpus)
        frame = pl.DataFrame(
            {
                "c": cluster,
                "cpus": cpus,
                "memory": np.log2(memory),
                "status": WORDS[failed.astype(int)],
            }
        )
        model = failure_model(frame, features=("cpus", "memory"), cluster="c" if clusters else None)
        first, second = model.odds_ratios.rows(named=True)
        return {
            "odds ratio of the row": holds(first, np.exp(0.1)),
            "odds ratio of the cluster": holds(second, 1.0),
            "test of the latter": second["pvalue"] < 0.05,
        }

    return sample


def strata(n: int, ratio: float) -> Sample:
    def sample(random: np.random.Generator) -> Checks:
        stratum = random.integers(0, 4, n)
        group = (random.random(n) < np.array([0.2, 0.4, 0.6, 0.8])[stratum]).astype(int)
        base = logit(np.array([0.1, 0.2, 0.4, 0.6]))[stratum]
        failed = random.random(n) < expit(base + np.log(ratio) * group)
        frame = pl.DataFrame({"g": group, "s": stratum, "status": WORDS[failed.astype(int)]})
        row = failure_odds(frame, "g", strata="s").row(0, named=True)
        truth = ratio if row["g"] == 1 else 1 / ratio
        return {
            "pooled odds ratio": holds(row, truth),
            "crude odds ratio, for contrast": holds(row, truth, "crude_ci_low"),
            "homogeneity": row["pvalue_homogeneity"] < 0.05,
            **({"no difference": row["pvalue"] < 0.05} if ratio == 1 else {}),
        }

    return sample


def ends(n: int) -> Sample:
    """Failure at rate 1, completion at 2, both cut off at rates of 1; looked at after 0.3."""
    at, failure, completion, cut = 0.3, 1.0, 2.0, 1.0
    ended = 1 - np.exp(-(failure + completion) * at)

    def last(curves: pl.DataFrame) -> dict[str, float | None] | None:
        seen = curves.filter(pl.col("time_s") <= at)
        return seen.row(-1, named=True) if seen.height else None

    def sample(random: np.random.Generator) -> Checks:
        times = random.exponential(1 / np.array([failure, completion, cut])[:, None], (3, n))
        status = np.array(["failed", "completed", "running"])[times.argmin(axis=0)]
        frame = pl.DataFrame({"runtime_s": times.min(axis=0), "status": status})
        curves = cumulative_incidence(frame).curves
        one, whole = last(curves.filter(event="failed")), kaplan_meier(frame)
        survival, median = last(whole.curves), whole.groups.row(0, named=True)
        return {
            "incidence": one and holds(one, ended * failure / (failure + completion)),
            "survival": survival and holds(survival, 1 - ended),
            "median": holds(median, np.log(2) / (failure + completion)),
        }

    return sample


def cases() -> Iterator[tuple[str, Sample]]:
    for p, n in ((0.05, 50), (0.3, 200), (0.93, 1000)):
        yield "`failure_rates`, rate 0.05, 0.3, 0.93, n 50, 200, 1,000", rates(p, n)
    for sigma in (0.5, 1.0, 2.0):
        for n in (30, 300, 10_000):
            yield f"`runtime_by`, lognormal of sigma {sigma:g}, n 30, 300, 10,000", means(sigma, n)
    across = {"clusters": 60, "kind": "across"}
    within = {"clusters": 60, "kind": "within"}
    for name, options in (
        ("rows independent", {}),
        ("60 clusters across groups", across),
        ("60 clusters, each in one group", within),
        ("20 clusters, each in one group", {"clusters": 20, "kind": "within"}),
    ):
        for shift in (0.0, 0.3, 1.0):
            title = f"`compare_runtimes`, 3 groups, n 600, shift 0, 0.3, 1 sd, {name}"
            yield title, ranks(600, 3, shift, **options)
    for shift in (0.0, 0.5):
        yield "`compare_runtimes`, 2 groups, n 40, shift 0, 0.5 sd", ranks(40, 2, shift)
    for name, options in (
        ("rows independent", {}),
        ("60 clusters across groups", across),
        ("60 clusters, each in one group", within),
    ):
        for p in ((0.2, 0.2, 0.2), (0.1, 0.2, 0.3), (0.05, 0.2, 0.6)):
            title = "`outcome_association`, n 600, failing 20/20/20, 10/20/30, 5/20/60 %"
            yield f"{title}, {name}", tables(600, p, **options)
    yield "`outcome_association`, n 60, failing 5/5/5 %", tables(60, (0.05,) * 3)
    title = "`failure_model`, n 1,000, rows independent, 60, 20 clusters"
    for clusters in ({}, {"clusters": 60}, {"clusters": 20}):
        yield title, logistic(1000, **clusters)
    for ratio in (1.0, 2.0):
        yield "`failure_odds`, 4 strata, n 800, ratio 1, 2", strata(800, ratio)
    for n in (30, 100, 1000):
        yield "`cumulative_incidence` and `kaplan_meier`, n 30, 100, 1,000", ends(n)


TESTS = (
    "rank ANOVA",
    "any pair, Holm",
    "chi-square",
    "test of the latter",
    "no difference",
    "homogeneity",
)


def main() -> None:
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    cells: dict[str, dict[str, list[str]]] = {}
    for seed, (title, sample) in enumerate(cases()):
        print(title, flush=True)
        for name, (share, missing) in shares(sample, seed, samples).items():
            none = f" (none in {100 * missing:.0f} %)" if missing > 0.005 else ""
            values = cells.setdefault(title, {}).setdefault(name, [])
            values.append(f"{100 * share:.1f}{none}")
    lines = []
    for title, found in cells.items():
        parts: dict[bool, list[str]] = {False: [], True: []}
        for name, values in found.items():
            parts[name in TESTS].append(f"{name} {', '.join(values)}")
        lines.append(f"| {title} | {'; '.join(parts[False])} | {'; '.join(parts[True])} |")
    error = 100 * np.sqrt(0.95 * 0.05 / samples)
    write_measured(
        "error-rates.md",
        f"{samples:,} samples each: the standard error of 95 % or 5 % is {error:.1f} points. "
        "Values are in the order of the first column; tests only without a difference.\n\n"
        "| situation | intervals that cover (%) | tests that reject (%) |\n| --- | --- | --- |\n"
        + "\n".join(lines),
        name="outcomes",
    )


if __name__ == "__main__":
    main()
