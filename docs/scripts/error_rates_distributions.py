"""Measure how often intervals of distributions cover and their tests reject where they should not.

    python docs/scripts/error_rates_distributions.py [SAMPLES]

All values are made up, from seeds; the part of the page on error rates is written. Takes some
minutes with 1000 samples.
"""

import sys

import numpy as np
import polars as pl
from findings import as_table, write_measured

from traceana import fit_distributions, tail_index
from traceana.stats.distributions.families import FAMILIES
from traceana.stats.distributions.likelihood import Sample, fit_family, make_sample, vuong_test
from traceana.stats.permutation import ks_interval
from traceana.stats.ranks import placements, superiority

SAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
RESAMPLES = 39  # p is then at most 0.05 in 2 of 40 by chance
# location (logarithm of the scale) and logarithm of width or shape; shares below the bound and cut
TRUTH = {name: np.array([9.0, 0.2][: len(FAMILIES[name].parameters)]) for name in FAMILIES}
SETTINGS = ("complete", "bound known", "bound estimated", "censored", "bound known, censored")


def draw(
    name: str, n: int, setting: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray | None, float | str | None]:
    """Values of a family, a fifth of it below a bound or about a third of them censored."""
    family, theta = FAMILIES[name], TRUTH[name]
    bounded = "bound" in setting
    share = np.log(0.8) if bounded else 0.0
    x = np.exp(family.quantile(share - rng.exponential(size=n), theta))
    cut = None
    if "censored" in setting:
        limit = np.exp(family.quantile(share - 2 * rng.exponential(size=n), theta))
        cut, x = limit < x, np.minimum(x, limit)
    known = float(np.exp(family.quantile(np.array([share]), theta)[0])) if bounded else None
    return x, cut, "min" if setting == "bound estimated" else known


def goodness() -> str:
    rows = []
    for name in FAMILIES:
        row: dict[str, object] = {"truth and fit": name}
        for setting in SETTINGS:
            rng = np.random.default_rng(1)
            count = max(SAMPLES // 2, 1)
            rejected = 0
            for sample in range(count):
                x, cut, bound = draw(name, 100, setting, rng)
                fits = fit_distributions(
                    x,
                    families=[name],
                    observed=None if cut is None else ~cut,
                    truncated_below=bound,
                    resamples=RESAMPLES,
                    rng=sample,
                )
                rejected += fits.table["ks_pvalue"].item() <= 0.05
            row[setting] = rejected / count
        rows.append(row)
    return (
        "### Goodness of fit: rejected at 5 %\n\n"
        f"{SAMPLES // 2} samples of 100 values each, {RESAMPLES} refits per p.\n\n"
        + as_table(pl.DataFrame(rows), percent=True)
    )


def vuong() -> str:
    rows = [equally_close(first, second) for first, second in PAIRS]
    rows += [
        {"pair": f"{first} and {second}", "truth": "exponential"} | exponential((first, second))
        for first, second in (
            *((name, "exponential") for name in ("weibull", "gamma", "lomax")),
            ("weibull", "gamma"),
        )
    ]
    return "### Likelihood-ratio tests: rejected at 5 %\n\n" + as_table(
        pl.DataFrame(rows), percent=True
    )


PAIRS = (
    ("lognormal", "gamma"),
    ("lognormal", "weibull"),
    ("lomax", "loglogistic"),
    ("lognormal", "exponential"),
)
SIZES = (200, 2000)
GRID = 40_000  # quantiles of each that stand for all its values


def equally_close(first: str, second: str) -> dict[str, object]:
    """A mixture of the two between which neither fits better, found by halving."""
    share = (np.arange(GRID) + 0.5) / GRID
    points = [FAMILIES[name].quantile(np.log(share), TRUTH[name]) for name in (first, second)]
    low, high = 0.0, 1.0
    for _ in range(40):
        weight = (low + high) / 2
        y = np.concatenate(points)
        order = np.argsort(y)
        weights = np.repeat([weight, 1 - weight], GRID)[order] * 2
        sample = Sample(
            y[order], weights, np.zeros(2 * GRID), None, 0.0, np.full(2 * GRID, -np.inf)
        )
        fits = [fit_family(FAMILIES[name], sample) for name in (first, second)]
        if fits[0].log_likelihood > fits[1].log_likelihood:
            high = weight
        else:
            low = weight
    row: dict[str, object] = {
        "pair": f"{first} and {second}",
        "truth": f"equally far from both: {100 * weight:.0f} % {first}",
    }
    rng = np.random.default_rng(3)
    for n in SIZES:
        pvalues = []
        for _ in range(SAMPLES):
            of_first = rng.random(n) < weight
            logs = -rng.exponential(size=n)
            drawn = [FAMILIES[name].quantile(logs, TRUTH[name]) for name in (first, second)]
            pvalues.append(pvalue(np.where(of_first, *drawn), (first, second)))
        row[f"n = {n}"] = float((np.array(pvalues) < 0.05).mean())
    return row


def exponential(pair: tuple[str, str]) -> dict[str, float]:
    rng = np.random.default_rng(4)
    return {
        f"n = {n}": float(
            np.mean([pvalue(np.log(rng.exponential(size=n)), pair) < 0.05 for _ in range(SAMPLES)])
        )
        for n in SIZES
    }


def pvalue(y: np.ndarray, names: tuple[str, str]) -> float:
    sample = make_sample(y, np.zeros(len(y), bool), None)
    better, other = (fit_family(FAMILIES[name], sample) for name in names)
    found = vuong_test(better, other, sample, names=names, confidence=0.95).pvalue
    return 1.0 if found is None else found


def tails() -> str:
    draws = {
        "Pareto, 1.5": lambda rng, n: rng.pareto(1.5, n) + 1,
        "four fifths uniform below 1, the rest Pareto, 1.5": lambda rng, n: np.where(
            rng.random(n) < 0.8, rng.random(n), rng.pareto(1.5, n) + 1
        ),
        "Lomax, 1.5": lambda rng, n: rng.pareto(1.5, n),
        "log-logistic, 1.5": lambda rng, n: np.exp(rng.logistic(0, 1 / 1.5, n)),
    }
    rows = []
    for name, draw_values in draws.items():
        row: dict[str, object] = {"values, index": name}
        for n in (1000, 20_000):
            rng = np.random.default_rng(5)
            for label, k in (("root of n", None), ("n / 10", n // 10)):
                found = pl.concat([tail_index(draw_values(rng, n), k=k) for _ in range(SAMPLES)])
                inside = (found["ci_low"] <= 1.5) & (found["ci_high"] >= 1.5)
                row[f"n = {n:,}, k = {label}"] = inside.mean()
        rows.append(row)
    return "### Tail index: covered by intervals of 95 %\n\n" + as_table(
        pl.DataFrame(rows), percent=True
    )


def two_groups() -> str:
    return "### Two groups: covered by intervals of 95 %\n\n" + as_table(
        pl.DataFrame(pair_intervals()), percent=True
    )


def pair_intervals() -> list[dict[str, object]]:
    """Normal pairs, whose distance and superiority are known; ranks do not see the scale."""
    grid = np.linspace(-20, 20, 100_001)
    from scipy.stats import norm  # noqa: PLC0415

    rows = []
    for label, mean, std in (
        ("the same", 0.0, 1.0),
        ("shifted by 0.3 sd", 0.3, 1.0),
        ("shifted by 1 sd", 1.0, 1.0),
        ("three times the sd", 0.0, 3.0),
    ):
        distance = np.abs(norm.cdf(grid) - norm.cdf(grid, mean, std)).max()
        larger = norm.cdf(-mean / np.hypot(1, std))
        row: dict[str, object] = {"the other group is": label}
        for n, m in ((40, 60), (300, 500)):
            rng = np.random.default_rng(7)
            hits = np.zeros(2)
            count = max(SAMPLES // 2, 1)
            for _ in range(count):
                x, y = rng.normal(size=n), rng.normal(mean, std, m)
                low, high = ks_interval(x, y, confidence=0.95, resamples=199, rng=rng)
                side = np.repeat([0, 1], [n, m])
                placed = placements(np.concatenate([x, y]), side)
                other = superiority(side, placed, None, 0, 1, confidence=0.95)
                hits += (low <= distance <= high), (other.ci_low <= larger <= other.ci_high)
            row[f"distance, n = {n}, {m}"], row[f"superiority, n = {n}, {m}"] = hits / count
        rows.append(row)
    return rows


if __name__ == "__main__":
    uncertain = 2 * np.sqrt(0.95 * 0.05 / SAMPLES)
    head = (
        f"In percent, of {SAMPLES} samples each unless stated otherwise: 95 or 5 % are then "
        f"uncertain by {100 * uncertain:.1f} points (two standard errors).\n"
    )
    text = "\n".join([head, goodness(), vuong(), tails(), two_groups()])
    write_measured("error-rates.md", text, name="distributions")
