"""Correlations that were planted are found again."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import traceana
from traceana import correlate
from traceana.page.finding import Finding
from traceana.questions.correlations import section


def truth(method: str, rho: float) -> float:
    """Coefficient of a Gaussian copula, whatever its margins; Pearson's is of normal ones."""
    return {
        "pearson": rho,
        "spearman": 6 / math.pi * math.asin(rho / 2),
        "kendall": 2 / math.pi * math.asin(rho),
    }[method]


@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.3])
def test_a_gaussian_copula_is_found_whatever_its_margins(rho: float) -> None:
    rng = np.random.default_rng(12)
    a, noise = rng.standard_normal((2, 20_000))
    b = rho * a + np.sqrt(1 - rho**2) * noise
    rows = pl.DataFrame({"a": a, "b": b, "heavy": np.exp(2 * b), "even": norm.cdf(a)})
    methods = ("pearson", "spearman", "kendall")
    for line in correlate(rows, "a", "b", method=methods).table.iter_rows(named=True):
        assert line["r"] == pytest.approx(truth(line["method"], rho), abs=0.015)
        assert line["ci_high"] - line["ci_low"] < 0.03
    ranks = correlate(rows, "even", "heavy", method=("spearman", "kendall")).table
    for line in ranks.iter_rows(named=True):
        assert line["r"] == pytest.approx(truth(line["method"], rho), abs=0.015)


def test_ties_take_nothing_from_a_rank_correlation_of_what_is_tied() -> None:
    # 2 x 2 at the medians: tau-b and rho are both 2 / pi arcsin(rho), the phi coefficient
    rng = np.random.default_rng(3)
    a, noise = rng.standard_normal((2, 40_000))
    rows = pl.DataFrame({"a": (a > 0) * 1.0, "b": (0.5 * a + np.sqrt(0.75) * noise > 0) * 1.0})
    for line in correlate(
        rows, "a", "b", method=("pearson", "spearman", "kendall")
    ).table.iter_rows(named=True):
        assert line["r"] == pytest.approx(1 / 3, abs=0.015)


def test_clusters_that_share_all_are_worth_their_number() -> None:
    rng = np.random.default_rng(8)
    of = np.repeat(np.arange(150), 40)
    a, noise = rng.standard_normal((2, 150))
    b = 0.4 * a + np.sqrt(0.84) * noise
    rows = pl.DataFrame({"a": a[of], "b": b[of], "user": of})
    for method in ("pearson", "spearman"):
        line = correlate(rows, "a", "b", method=method, cluster="user").table.row(0, named=True)
        assert line["ci_low"] < truth(method, 0.4) < line["ci_high"]
        assert line["n_effective"] == pytest.approx(150, rel=0.35)


def test_the_outcome_of_the_heading_is_stated_first(tmp_path: Path) -> None:
    # only the runtimes of failed jobs depend on GPUs
    rng = np.random.default_rng(9)
    n = 4000
    gpus = 2.0 ** rng.integers(0, 5, n)
    failed = rng.random(n) < 0.3
    noise = rng.lognormal(8, 1, n)
    jobs = pl.DataFrame(
        {
            "job_id": [f"{at}" for at in range(n)],
            "user": [f"u{at % 80}" for at in range(n)],
            "status": np.where(failed, "failed", "completed"),
            "gpus": gpus,
            "runtime_s": np.where(failed, noise / gpus, noise),
        }
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    first, *_ = section.build([traceana.open_store(tmp_path).trace("mine")]).findings
    assert isinstance(first, Finding)
    assert first.heading.startswith("mine: failed jobs that request more GPUs run shorter")
    assert first.startswith(f"{first.heading.partition(' (')[0]} (Spearman's rho -0.")
    assert not first.is_null


def test_a_correlation_that_few_users_decide_is_not_tested(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    n = 2000
    gpus = 2.0 ** rng.integers(0, 5, n)
    jobs = pl.DataFrame(
        {
            "job_id": [f"{at}" for at in range(n)],
            # half of the jobs are of one user: as many as 4 of equal size
            "user": ["u0" if at % 2 else f"u{at % 80}" for at in range(n)],
            "status": "completed",
            "gpus": gpus,
            "runtime_s": rng.lognormal(8, 1, n) * gpus,
        }
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    first, *_ = section.build([traceana.open_store(tmp_path).trace("mine")]).findings
    assert "run longer (Spearman's rho 0." in str(first)
    assert ", not tested; n = 2,000, 40 users)" in str(first)
    assert isinstance(first, Finding)
    assert first.is_description  # no main result
    few = jobs.head(12).with_columns(runtime_s=pl.Series([3.0, 1, 2, 5, 4, 9, 7, 8, 6, 11, 10, 12]))
    few = few.with_columns(gpus=pl.Series([1.0, 4, 2, 8, 2, 4, 8, 2, 4, 1, 8, 8]))
    traceana.add_table(few, trace="few", table="jobs", store=tmp_path)
    first, *_ = section.build([traceana.open_store(tmp_path).trace("few")]).findings
    assert "may run longer or shorter (Spearman's rho 0.2" in str(first)
    assert ", not tested; n = 12" in str(first)
