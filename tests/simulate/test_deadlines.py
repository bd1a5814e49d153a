"""Plans drawn by the published rules: their law, and that they repeat."""

from __future__ import annotations

from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from traceana import deadline_rules, iteration_rates, synthesize_deadlines
from traceana.errors import DataError
from traceana.simulate.deadlines.simulate import published_rates
from traceana.store import Store


def jobs_of(n: int, *, gpus: float = 1.0, runtime_s: float = 1000.0) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "job_id": [str(i) for i in range(n)],
            "cluster": ["c"] * n,
            "submit_s": np.arange(n, dtype=float),
            "runtime_s": [runtime_s] * n,
            "gpus": [gpus] * n,
        }
    )


def drawn(_: np.random.Generator, n: int, *, value: float) -> np.typing.NDArray[np.float64]:
    return np.full(n, value)


def test_same_seed_same_plans() -> None:
    jobs = jobs_of(50)
    assert synthesize_deadlines(jobs, rng=3).equals(synthesize_deadlines(jobs.lazy(), rng=3))
    assert not synthesize_deadlines(jobs, rng=3).equals(synthesize_deadlines(jobs, rng=4))
    assert synthesize_deadlines(jobs).equals(synthesize_deadlines(jobs, rng=1))


def test_draws_follow_the_rules() -> None:
    jobs = jobs_of(14_000, runtime_s=50_000.0)
    plans = synthesize_deadlines(jobs, rng=1)
    counts = plans.group_by("model", "batch_size").len()
    assert counts.height == 14
    assert stats.chisquare(counts["len"]).pvalue > 0.001
    tightness = (plans["deadline_s"] - jobs["submit_s"]) / 50_000
    assert stats.kstest(tightness, stats.uniform(0.5, 1).cdf).pvalue > 0.001
    rate = plans.join(published_rates().filter(gpus=1.0), on=["model", "batch_size"])
    assert rate["iterations"].equals((rate["iterations_per_s"] * 50_000).floor().cast(pl.Int64))


def test_a_pair_that_is_not_offered_at_the_gpus_is_not_drawn() -> None:
    rates = pl.DataFrame(
        {
            "model": ["a", "a", "b"],
            "batch_size": [8, 8, 8],
            "gpus": [1.0, 4.0, 1.0],
            "iterations_per_s": [1.0, 3.0, 9.0],
        }
    )
    on_four = synthesize_deadlines(jobs_of(200, gpus=4.0), rates=rates)
    assert set(on_four["model"]) == {"a"}
    assert set(on_four["iterations"]) == {3000}
    # the rate's logarithm is linear in that of the GPUs: 2 is half-way from 1 to 4
    between = synthesize_deadlines(jobs_of(50, gpus=2.0), rates=rates)
    assert set(between["iterations"]) == {int(1000 * 3**0.5)}
    half = synthesize_deadlines(jobs_of(200, gpus=0.5), rates=rates)
    assert set(half["iterations"]) == {500, 4500}
    more = synthesize_deadlines(jobs_of(50, gpus=16.0), rates=rates)
    assert set(more["iterations"]) == {3000}


@settings(max_examples=30, deadline=None)
@given(
    runtime=st.lists(st.none() | st.floats(0, 1e7), min_size=1, max_size=20),
    gpus=st.sampled_from([0.0, 0.25, 1.0, 3.0, 64.0, 500.0]),
    seed=st.integers(0, 2**32),
)
def test_any_job_has_one_plan_within_the_bounds_or_none(
    runtime: list[float | None], gpus: float, seed: int
) -> None:
    jobs = jobs_of(len(runtime), gpus=gpus).with_columns(
        runtime_s=pl.Series(runtime, dtype=pl.Float64)
    )
    plans = synthesize_deadlines(jobs, rng=seed)
    expected = jobs.filter(pl.col("runtime_s") > 0, pl.col("gpus") > 0)
    assert plans["job_id"].to_list() == expected["job_id"].to_list()
    left = plans["deadline_s"] - expected["submit_s"]
    assert (left <= 1.5 * expected["runtime_s"]).all()
    assert (left > 0.5 * expected["runtime_s"] - 1).all()
    assert (plans["iterations"] >= 1).all()


def test_agree_with_the_published_files(real_store: Store) -> None:
    plans = real_store.scan("elasticflow-2023", "training_plans").collect()
    jobs = real_store.scan("elasticflow-2023", "jobs").collect()
    drawn = synthesize_deadlines(jobs, rng=7)
    rates = iteration_rates(plans, jobs)
    kept = rates.select("model", "batch_size", "gpus", "iterations_per_s")
    assert published_rates().drop("iterations_per_s").equals(kept.drop("iterations_per_s"))
    assert published_rates()["iterations_per_s"].to_numpy() == pytest.approx(
        kept["iterations_per_s"].to_numpy(), rel=1e-8
    )
    rules = deadline_rules(drawn, jobs)
    assert rules["value"][0] == 1
    assert (rules["pvalue_adjusted"].drop_nulls() > 0.001).all()
    both = [
        frame.join(jobs, on=["cluster", "job_id"]).select(
            (pl.col("deadline_s") - pl.col("submit_s")) / pl.col("runtime_s")
        )
        for frame in (plans, drawn)
    ]
    assert stats.ks_2samp(*(frame.to_series().to_numpy() for frame in both)).pvalue > 0.001


def test_mistakes_are_told_in_one_line() -> None:
    with pytest.raises(DataError, match="column gpus is missing"):
        synthesize_deadlines(jobs_of(2).drop("gpus"))
    with pytest.raises(DataError, match="submit_s must be finite and not negative"):
        synthesize_deadlines(jobs_of(2).with_columns(submit_s=-1.0))
    with pytest.raises(DataError, match="occurs twice"):
        synthesize_deadlines(pl.concat([jobs_of(2), jobs_of(1)]))
    with pytest.raises(DataError, match="iterations_per_s and gpus above 0"):
        synthesize_deadlines(jobs_of(2), rates=published_rates().clear())
    rates = pl.DataFrame(
        {"model": ["a", "b"], "batch_size": [1, 1], "gpus": [1.0, 4.0], "iterations_per_s": 2.0}
    )
    with pytest.raises(DataError, match="no model at 2 GPUs; they have rows for 1, 4"):
        synthesize_deadlines(jobs_of(1, gpus=2.0), rates=rates)
    with pytest.raises(DataError, match=r"batch_size, gpus\) once"):
        synthesize_deadlines(jobs_of(2), rates=pl.concat([rates, rates]))
    with pytest.raises(DataError, match="rng must be a whole number from 0 on"):
        synthesize_deadlines(jobs_of(2), rng=-1)
    with pytest.raises(DataError, match=r"expected a .* frame, got list"):
        synthesize_deadlines([1])  # type: ignore[arg-type]
    for wrong in (-1.0, 1e300, np.nan):
        with pytest.raises(DataError, match="distribution must return 2 numbers from 0 to"):
            synthesize_deadlines(jobs_of(2), distribution=partial(drawn, value=wrong))
    assert synthesize_deadlines(jobs_of(0)).height == 0


def test_a_pair_is_offered_from_its_own_smallest_to_its_own_largest_count() -> None:
    rates = pl.DataFrame(
        [("a", 8, gpus, gpus) for gpus in (1.0, 2.0, 8.0)]
        + [("b", 8, gpus, 10 * gpus) for gpus in (2.0, 4.0)],
        schema=["model", "batch_size", "gpus", "iterations_per_s"],
        orient="row",
    )
    for gpus, models in ((1.0, {"a"}), (2.0, {"a", "b"}), (4.0, {"a", "b"}), (5.0, {"a"})):
        plans = synthesize_deadlines(jobs_of(60, gpus=gpus), rates=rates)
        assert set(plans["model"]) == models, gpus


@pytest.mark.parametrize("column", ["iterations_per_s", "gpus"])
def test_rates_are_above_0(column: str) -> None:
    rates = pl.DataFrame(
        {"model": "a", "batch_size": 1, "gpus": [1.0, 4.0], "iterations_per_s": [2.0, 3.0]}
    )
    wrong = rates.with_columns(pl.Series(column, [0.0, 1.0]))
    with pytest.raises(DataError, match="iterations_per_s and gpus above 0"):
        synthesize_deadlines(jobs_of(2), rates=wrong)


def test_a_tightness_is_at_most_a_million() -> None:
    jobs = jobs_of(2, runtime_s=10.0)
    plans = synthesize_deadlines(jobs, distribution=partial(drawn, value=1e6))
    assert plans["deadline_s"].to_list() == [1e7, 1e7 + 1]
    with pytest.raises(DataError, match=r"2 numbers from 0 to 1e\+06"):
        synthesize_deadlines(jobs, distribution=partial(drawn, value=1e6 + 1))


def test_a_job_has_one_iteration_or_more_and_at_most_a_quadrillion() -> None:
    for rate, iterations in ((0.0005, 1), (0.0011, 1), (0.0021, 2), (1e12, 10**15)):
        rates = pl.DataFrame(
            {"model": "a", "batch_size": 8, "gpus": [1.0], "iterations_per_s": [rate]}
        )
        plans = synthesize_deadlines(jobs_of(1), rates=rates)
        assert plans["iterations"].item() == pytest.approx(iterations, rel=1e-12)
    with pytest.raises(DataError, match=r"more than 1e\+15 iterations"):
        synthesize_deadlines(jobs_of(1), rates=rates.with_columns(iterations_per_s=1.001e12))
