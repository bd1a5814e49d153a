"""Drawn plans beside published ones: by scipy, and where they differ."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tests.questions.deadlines.plans import planted
from traceana import compare_plans
from traceana.errors import DataError


def other(plans: pl.DataFrame, jobs: pl.DataFrame, *, shift: float = 0.0) -> pl.DataFrame:
    """Plans with deadlines drawn anew, later by a share of the runtime."""
    drawn = np.random.default_rng(5).uniform(0.5, 1.5, plans.height) + shift
    return plans.with_columns(deadline_s=(jobs["submit_s"] + drawn * jobs["runtime_s"]).floor())


def test_tightness_is_compared_as_by_scipy() -> None:
    plans, jobs = planted()
    drawn = other(plans, jobs)
    table = compare_plans(plans, drawn, jobs)
    tightness = [
        ((frame["deadline_s"] - jobs["submit_s"]) / jobs["runtime_s"]).to_numpy()
        for frame in (plans, drawn)
    ]
    expected = stats.ks_2samp(*tightness)
    row = table.row(0, named=True)
    assert (row["compared"], row["n"], row["n_synthetic"]) == ("tightness", 300, 300)
    assert (row["value"], row["pvalue"]) == pytest.approx((expected.statistic, expected.pvalue))
    at_once = jobs.with_columns(
        runtime_s=pl.when(pl.int_range(pl.len()) > 0).then("runtime_s").otherwise(0)
    )
    assert compare_plans(plans, drawn, at_once)["n"][0] == 299  # without a runtime of 0
    # the rest is the same on both sides; three tests, and p = 1 stays 1
    assert table["value"].to_list()[1:] == pytest.approx([0, 0, 0])
    assert row["pvalue_adjusted"] == pytest.approx(min(3 * expected.pvalue, 1))


def test_what_differs_is_found_in_its_cluster() -> None:
    plans, jobs = planted(600)
    half = pl.int_range(pl.len()) < 300
    name = pl.when(half).then(pl.lit("a")).otherwise(pl.lit("b"))
    plans, jobs = plans.with_columns(cluster=name), jobs.with_columns(cluster=name)
    later = other(plans, jobs, shift=0.3)
    one_model = later.with_columns(
        model=pl.when(half).then("model").otherwise(pl.lit("m")),
        batch_size=pl.when(half).then("batch_size").otherwise(64),
        iterations=pl.when(half).then("iterations").otherwise(pl.col("iterations") * 2),
        deadline_s=pl.when(half).then("deadline_s").otherwise(plans["deadline_s"]),
    )
    table = compare_plans(plans, one_model, jobs, by="cluster")
    found = {(row["cluster"], row["compared"].split(" (")[0]): row for row in table.to_dicts()}
    assert found["a", "tightness"]["pvalue_adjusted"] < 0.001
    assert found["b", "tightness"]["value"] == 0
    assert found["a", "rate by"]["value"] == 0
    assert found["b", "rate by"]["value"] == pytest.approx(1, rel=0.5)
    pairs = table.filter(pl.col("compared").str.starts_with("(model"))["pvalue_adjusted"]
    assert pairs[0] == 1
    assert pairs[1] < 0.001


def test_one_pair_is_no_test_and_unlike_groups_are_refused() -> None:
    plans, jobs = planted()
    alone = plans.filter(batch_size=128)
    pairs = compare_plans(alone, alone, jobs).row(2, named=True)
    assert (pairs["value"], pairs["pvalue"], pairs["pvalue_adjusted"]) == (None, None, None)
    with pytest.raises(DataError, match="group 64 has plans in one of the two only"):
        compare_plans(plans, alone, jobs, by="batch_size")
    with pytest.raises(DataError, match="no synthetic plan has"):
        compare_plans(plans, plans.with_columns(deadline_s=pl.lit(None, pl.Float64)), jobs)
    with pytest.raises(DataError, match="by cannot name value"):
        compare_plans(plans, plans, jobs, by="value")


def test_a_longest_file_that_is_not_drawn_has_no_pairs_to_compare() -> None:
    plans, jobs = planted(30)
    name = pl.when(pl.int_range(pl.len()) < 20).then(pl.lit("a")).otherwise(pl.lit("b"))
    plans, jobs = plans.with_columns(cluster=name), jobs.with_columns(cluster=name)
    table = compare_plans(plans, plans.filter(cluster="b"), jobs)
    row = table.row(by_predicate=pl.col("compared").str.starts_with("(model"), named=True)
    assert (row["n"], row["n_synthetic"]) == (20, 0)
    assert row["value"] is row["pvalue"] is None
