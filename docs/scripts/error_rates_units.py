"""Measure intervals and tests where rows of one user and of one day are alike, on made-up logs.

    python docs/scripts/error_rates_units.py [LOGS]

Writes the part on users and days of docs/explanation/error-rates.md. Seeded; takes half an hour
if LOGS is not given.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from error_rates_comparisons import A_DAY, DAY_S, FAILED, table
from error_rates_outcomes import holds
from findings import write_measured
from scipy.signal import lfilter
from scipy.stats import norm

from traceana import (
    compare_runtimes,
    failure_model,
    failure_rates,
    kaplan_meier,
    outcome_association,
)
from traceana.cohorts.cohort import Cohort, _with_blocks

if TYPE_CHECKING:
    from error_rates_outcomes import Checks, Sample

LOGS = 400
CASES = (
    ((10, "equal"), 30, 0.0, (0.0, 0.3)),
    ((30, "Pareto"), 90, 0.0, (0.0, 0.3)),
    ((60, "equal"), 90, 0.5, (0.0, 0.3)),
    ((30, "Pareto"), 90, 0.0, (0.1, 0.2)),
    ((60, "equal"), 90, 0.5, (0.1, 0.2)),
    ((60, "Pareto"), 200, 0.8, (0.1, 0.2)),
    ((60, "equal"), 90, 0.0, (0.15, 0.15)),
    ((30, "Pareto"), 90, 0.0, (0.2, 0.1)),
    ((60, "equal"), 90, 0.0, (0.3, 0.0)),
    ((60, "equal"), 90, 0.0, (0.0, 0.0)),
)
"""Users and their sizes, days, their autocorrelation, and the variance of users and of days."""


def by_users_and_days(
    users: tuple[int, str], days: int, persistence: float, variance: tuple[float, float]
) -> Sample:
    """Jobs that are alike by user and by day; each user prefers one of two types of GPU."""
    n_users, sizes = users
    of_user, of_day = np.sqrt(variance)

    def sample(random: np.random.Generator) -> Checks:
        n = days * A_DAY
        weight = random.pareto(1.5, n_users) + 0.2 if sizes == "Pareto" else np.ones(n_users)
        user = random.choice(n_users, n, p=weight / weight.sum())
        day = np.sort(random.integers(0, days, n))
        shock = random.standard_normal((2, days + 200)) * np.sqrt(1 - persistence**2)
        level = lfilter([1], [1, -persistence], shock)[:, 200:]
        own, common = random.standard_normal((2, n)), random.standard_normal((2, n_users))
        scores = np.sqrt(1 - sum(variance)) * own + of_user * common[:, user]
        runtime, fails = scores + of_day * level[:, day]
        taste = random.beta(0.5, 0.5, n_users)[user]
        rows = pl.DataFrame(
            {
                "user": user,
                "gpu_type": np.where(random.random(n) < taste, "A", "B"),
                "runtime_s": np.exp(runtime),
                "duration_s": np.exp(runtime),
                "status": np.where(norm.cdf(fails) < FAILED, "failed", "completed"),
            }
        )
        times = pl.Series((day + random.random(n)) * DAY_S)
        rows, cluster, block_s, _ = _with_blocks(rows, times, "user")
        nothing: Any = None
        cohort = Cohort(nothing, "", "jobs", rows, cluster, "gpu_type", (), block_s=block_s)
        rate = cohort.over_units(failure_rates, rows, ())
        median = cohort.over_units(kaplan_meier, rows, status=None).quantiles.filter(quantile=0.5)
        types = cohort.over_units(compare_runtimes, rows, "gpu_type")
        model = cohort.over_units(failure_model, rows, features="gpu_type").odds_ratios
        model = model.drop_nulls("odds_ratio")
        chi = cohort.over_units(outcome_association, rows, "gpu_type")
        tests = {"rank ANOVA": types.test, "chi-squared": chi, "odds ratio": model}
        pvalues = {name: found["pvalue"].item() for name, found in tests.items()}
        return {
            "failure rate": holds(rate.row(0, named=True), FAILED),
            "median runtime": holds(median.row(0, named=True), 1.0),
            "superiority of a GPU type": holds(types.pairs.row(0, named=True), 0.5),
            "odds ratio of a GPU type": holds(model.row(0, named=True), 1.0),
            "failure rate, over users alone": holds(
                failure_rates(rows, (), cluster="user").row(0, named=True), FAILED
            ),
            "users and days are units": len(cohort.unit_columns) == 2,
        } | {f"{name} rejects": None if p is None else p < 0.05 for name, p in pvalues.items()}

    return sample


def main() -> None:
    warnings.simplefilter("ignore")  # means of no samples
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else LOGS
    samples = {}
    for (users, sizes), days, r, (of_users, of_days) in CASES:
        name = f"{users} {sizes}, {days} d, {r:g}: {100 * of_users:.0f} + {100 * of_days:.0f} %"
        samples[name] = by_users_and_days((users, sizes), days, r, (of_users, of_days))
    text = table(samples, logs, "cover, or reject where types do not differ (%)")
    write_measured(
        "error-rates.md",
        f"{logs:,} logs with {A_DAY} jobs a day. Columns: users and their sizes, days, correlation "
        "of a day with the next, variance of users and of days. Two standard errors of 95 % are "
        f"{200 * (0.95 * 0.05 / logs) ** 0.5:.1f} points.\n\n{text}",
        name="users and days",
    )


if __name__ == "__main__":
    main()
