"""Crude, stratified and adjusted odds side by side, and groups that cannot be compared."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from traceana import failure_model
from traceana.questions.failures.analyze import fit_failure_model
from traceana.store import Store

WORDS = np.array(["completed", "failed"])


def test_8_gpu_pods_are_not_compared_with_1_gpu_pods(real_store: Store) -> None:
    published = ("failed", "cancelled", "running", "pending", "unknown")
    for failure in (None, published):
        model, _ = fit_failure_model(real_store.trace("alibaba-openb-2023"), failure)
        assert model is not None
        row = model.odds_ratios.filter(level="8").row(0, named=True)
        assert row["odds_ratio"] is None
        assert row["note"].startswith("not comparable: no common support in CPUs doubled (6 to 6.9")
    # with the published definition, by hand: crude .25, within QoS classes 1.50
    assert row["crude_odds_ratio"] == pytest.approx(0.25, abs=0.01)
    assert row["stratified_odds_ratio"] == pytest.approx(1.5, abs=0.05)


def test_numeric_features_have_a_crude_and_a_stratified_odds_ratio() -> None:
    # the group raises the number and the risk; within groups the number changes nothing
    rng = np.random.default_rng(5)
    group = rng.random(6000) < 0.5
    number = rng.normal(2.0 * group, 1)
    risk = np.where(group, 0.6, 0.2)
    frame = pl.DataFrame(
        {
            "group": np.where(group, "a", "b"),
            "number": number,
            "status": WORDS[(rng.random(6000) < risk).astype(int)],
        }
    )
    model = failure_model(frame, features=("group", "number"))
    row = model.odds_ratios.filter(feature="number").row(0, named=True)
    assert row["crude_ci_low"] > 1.3
    assert row["stratified_ci_low"] < 1 < row["stratified_ci_high"]
    # one number and one category: the stratified model is the adjusted one
    assert row["stratified_odds_ratio"] == pytest.approx(row["odds_ratio"])
    pvalues = model.odds_ratios["pvalue"].sort().to_list()
    holm = [2 * pvalues[0], max(2 * pvalues[0], pvalues[1])]
    assert model.odds_ratios["pvalue_adjusted"].sort().to_list() == pytest.approx(holm)
