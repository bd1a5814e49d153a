"""Nodes that fail more often than the rest."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from statsmodels.stats.contingency_tables import StratifiedTable

import traceana


def jobs_of(rng: np.random.Generator, *, bad: bool, n: int = 6000) -> pl.DataFrame:
    """Users differ in failure and in where they run; node 7 is bad or not."""
    user = rng.integers(0, 20, n)
    node = (user // 2 + rng.integers(0, 10, n)) % 20
    rate = 0.05 + 0.02 * user + (0.2 if bad else 0.0) * (node == 7)
    failed = rng.random(n) < rate
    return pl.DataFrame({"user": user, "node": node, "failed": failed}).with_columns(
        status=pl.when("failed").then(pl.lit("failed")).otherwise(pl.lit("completed"))
    )


def test_odds_ratio_and_test_are_those_of_statsmodels() -> None:
    jobs = jobs_of(np.random.default_rng(1), bad=True)
    found = traceana.failure_outliers(jobs, "node", strata="user").filter(node=7)
    tables = [
        [
            [
                len(own.filter((pl.col("node") == 7) == here, failed=failed))
                for failed in (True, False)
            ]
            for here in (True, False)
        ]
        for own in jobs.partition_by("user")
        if 0 < len(own.filter(node=7)) < len(own)
    ]
    expected = StratifiedTable([np.array(table, float) for table in tables])
    assert found["odds_ratio"].item() == pytest.approx(expected.oddsratio_pooled)
    assert found["pvalue"].item() == pytest.approx(expected.test_null_odds(correction=False).pvalue)


def test_the_planted_node_is_found_and_users_explain_the_others() -> None:
    jobs = jobs_of(np.random.default_rng(2), bad=True)
    found = traceana.failure_outliers(jobs, "node", strata="user")
    more = found.filter(pl.col("pvalue_adjusted") < 0.05, pl.col("odds_ratio") > 1)
    assert more["node"].to_list() == [7]
    assert more["pvalue_adjusted"].item() < 1e-6
    naive = traceana.failure_outliers(jobs, "node")
    assert (naive["pvalue_adjusted"] < 0.05).sum() > 3  # nodes of users who fail often


def test_no_node_is_found_where_none_is_bad() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(60):
        found = traceana.failure_outliers(jobs_of(rng, bad=False), "node", strata="user")
        hits += (found["pvalue_adjusted"] < 0.05).any()
    assert hits <= 7  # binomial(60, .05): 7 or more in 3 %


def test_few_expected_failures_are_not_tested() -> None:
    jobs = pl.DataFrame(
        {"node": ["a"] * 4 + ["b"] * 100, "status": ["failed"] * 4 + ["failed", "completed"] * 50}
    )
    found = traceana.failure_outliers(jobs, "node")
    notes = dict(found.select("node", "note").iter_rows())
    assert notes["a"] == "fewer than 5 expected failures"
    assert found.filter(node="a")["pvalue"].item() is None
    five = pl.DataFrame({"node": ["a"] * 10 + ["b"] * 90, "status": ["failed", "completed"] * 50})
    assert traceana.failure_outliers(five, "node")["expected"].to_list() == [5, 45]
    assert traceana.failure_outliers(five, "node")["pvalue"].to_list() == [1, 1]


def test_rows_without_a_node_are_left_out() -> None:
    jobs = pl.DataFrame({"node": [None, "a"], "status": ["failed", "failed"]})
    assert traceana.failure_outliers(jobs, "node")["n"].to_list() == [1]


def test_a_confidence_beyond_one_is_refused() -> None:
    jobs = jobs_of(np.random.default_rng(1), bad=False, n=100)
    with pytest.raises(traceana.errors.DataError, match="confidence must lie between 0 and 1"):
        traceana.failure_outliers(jobs, "node", confidence=2)
