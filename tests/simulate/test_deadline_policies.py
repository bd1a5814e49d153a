"""Scheduling by hand, by Lindley's recursion, by all orders, and inputs of other kinds."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import polars as pl
import pytest

from traceana import deadline_tightness, simulate_deadlines, synthesize_deadlines
from traceana.errors import DataError
from traceana.simulate.deadlines.simulate import start_times

JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c"],
        "submit_s": [0.0, 1.0, 2.0],
        "runtime_s": [10.0, 8.0, 2.0],
        "gpus": [1.0, 1.0, 1.0],
        "deadline_s": [10.0, 25.0, 13.0],
    }
)


def test_three_jobs_by_hand() -> None:
    # one GPU: fifo ends at 10, 18, 20; the others end c at 12 and b at 20
    found = simulate_deadlines(JOBS, capacity=1)
    assert found.select("policy", "n_missed").rows() == [
        ("fifo", 1),
        ("sjf", 0),
        ("edf", 0),
        ("least_slack", 0),
    ]
    both = simulate_deadlines(JOBS, capacity=2, policies=["fifo"])
    assert both["n_missed"].item() == 0


def test_first_in_first_out_is_lindleys_recursion() -> None:
    rng = np.random.default_rng(1)
    submit = np.cumsum(rng.exponential(1.0, 500))
    runtime = rng.exponential(0.9, 500)
    start = start_times(submit, runtime, np.ones(500), submit, 1.0)
    wait = [0.0]
    for gap, before in zip(np.diff(submit), runtime[:-1], strict=True):
        wait.append(max(0.0, wait[-1] + before - gap))
    np.testing.assert_allclose(start - submit, wait, atol=1e-9)


def test_earliest_deadline_first_has_the_least_lateness_of_all_orders() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        runtime, deadline = rng.uniform(1, 5, 5), rng.uniform(1, 15, 5)
        zeros, ones = np.zeros(5), np.ones(5)
        start = start_times(zeros, runtime, ones, deadline, 1.0)
        ends = [np.cumsum(runtime[list(order)]) for order in permutations(range(5))]
        late = [
            (end - deadline[list(order)]).max()
            for order, end in zip(permutations(range(5)), ends, strict=True)
        ]
        assert (start + runtime - deadline).max() == pytest.approx(min(late))


def test_capacity_is_never_exceeded_and_gangs_start_whole() -> None:
    rng = np.random.default_rng(3)
    submit, runtime = np.sort(rng.uniform(0, 100, 200)), rng.exponential(5, 200)
    gpus = rng.integers(1, 9, 200).astype(float)
    start = start_times(submit, runtime, gpus, runtime, 8.0)
    assert (start >= submit).all()
    for moment in start:
        assert gpus[(start <= moment) & (moment < start + runtime)].sum() <= 8


def test_clusters_have_their_own_gpus() -> None:
    two = pl.concat([JOBS.with_columns(cluster=pl.lit(name)) for name in ("x", "y")])
    found = simulate_deadlines(two, capacity=1, policies=["fifo", "edf"])
    assert found.select("cluster", "policy", "n", "n_missed").rows() == [
        ("x", "fifo", 3, 1),
        ("x", "edf", 3, 0),
        ("y", "fifo", 3, 1),
        ("y", "edf", 3, 0),
    ]
    # 2 + 1 GPU-seconds between 0 and 2 s at a load of .8: 1.9 GPUs
    assert simulate_deadlines(JOBS, policies=["fifo"])["capacity"].item() == 2
    large = JOBS.with_columns(gpus=pl.Series([1.0, 1.0, 4.0]))
    row = simulate_deadlines(large, capacity=2, policies=["fifo"]).row(0, named=True)
    assert (row["n"], row["n_excluded"]) == (2, 1)


def test_own_policies_plans_and_frames_of_other_engines() -> None:
    def longest_first(jobs: pl.DataFrame) -> pl.Series:
        return -jobs["runtime_s"]

    found = simulate_deadlines(JOBS.to_pandas(), policies=[longest_first], capacity=1)
    assert found.select("policy", "n_missed").row(0) == ("longest_first", 1)
    plans = synthesize_deadlines(JOBS, tightness=(1, 1), distribution="triangular")
    assert (
        deadline_tightness(plans, JOBS.with_columns(cluster=pl.lit("all")))["fraction_met"][0] == 1
    )
    missed = simulate_deadlines(JOBS.drop("deadline_s"), plans=plans, policies=["fifo"], capacity=1)
    assert missed["n_missed"].item() == 2
    with pytest.raises(DataError, match="column deadline_s is missing"):
        simulate_deadlines(JOBS.drop("deadline_s"))
    for wrong, line in (
        ({"capacity": 0}, "capacity must be"),
        ({"capacity": 1e308}, "capacity must be"),
        ({"policies": ["x"]}, "no policy is called 'x'"),
        ({"policies": []}, "one or more"),
        ({"policies": [lambda jobs: jobs["gpus"].head(1)]}, "must return 3 ranks"),
    ):
        with pytest.raises(DataError, match=line):
            simulate_deadlines(JOBS, **wrong)


@pytest.mark.parametrize(
    ("distribution", "median"), [("uniform", 2.5), ("triangular", 2.5), ("loguniform", 2.0)]
)
def test_the_law_of_tightness(distribution: str, median: float) -> None:
    jobs = pl.DataFrame({"job_id": np.arange(4000), "submit_s": 0, "runtime_s": 1e6, "gpus": 1})
    plans = synthesize_deadlines(jobs, tightness=(1, 4), distribution=distribution)
    tightness = (plans["deadline_s"] / 1e6).to_numpy()
    assert 1 <= tightness.min() < tightness.max() <= 4
    assert np.median(tightness) == pytest.approx(median, rel=0.04)
    own = synthesize_deadlines(jobs, distribution=lambda _, n: np.full(n, 3.0))
    assert set(own["deadline_s"]) == {3e6}


def test_keys_of_any_type_and_numbers_of_any_size() -> None:
    jobs = JOBS.with_columns(cluster=pl.Series(["x", "", None], dtype=pl.Categorical))
    plans = synthesize_deadlines(jobs)
    assert plans["cluster"].to_list() == ["x", "all", "all"]
    empty = jobs.with_columns(job_id=pl.Series(["a", "", None]))
    assert synthesize_deadlines(empty).height == 1
    of_categories = plans.with_columns(pl.col("model", "cluster").cast(pl.Categorical))
    assert deadline_tightness(of_categories, jobs, by="model")["n"].sum() == 3
    huge = JOBS.with_columns(runtime_s=pl.lit(1e300))
    with pytest.raises(DataError, match=r"jobs: column runtime_s must be finite, 1e\+15 at most"):
        synthesize_deadlines(huge)
    for wrong in ((1, 0), (-1, 2), (1,), (0, float("inf")), "x"):
        with pytest.raises(DataError, match="tightness must be two numbers"):
            synthesize_deadlines(JOBS, tightness=wrong)  # type: ignore[arg-type]
    for odd in ("x", None, [[1], [1, 2]], 1):
        with pytest.raises(DataError, match="distribution must return 3 numbers"):
            synthesize_deadlines(JOBS, distribution=lambda _g, _n, odd=odd: odd)  # type: ignore[misc]
    with pytest.raises(DataError, match="distribution must be uniform"):
        synthesize_deadlines(JOBS, distribution="normal")
    # one column may have two parts
    assert simulate_deadlines(JOBS, deadline="submit_s")["n"][0] == 3
    with pytest.raises(DataError, match="whole numbers"):
        deadline_tightness(plans.with_columns(iterations=pl.lit(1e20)), jobs)


def test_a_cluster_of_one_job_and_capacities_at_their_limits() -> None:
    one = simulate_deadlines(JOBS[:1], policies=["fifo"], capacity=1e12).row(0, named=True)
    assert (one["n"], one["n_missed"], one["fraction_missed"]) == (1, 0, 0)
    for wrong in (0, -1, 1e12 + 1, np.nan):
        with pytest.raises(DataError, match="capacity must be GPUs above 0"):
            simulate_deadlines(JOBS, capacity=wrong)
    # a job of all GPUs fits, and a larger one is left out
    wide = JOBS.with_columns(gpus=pl.Series([2.0, 1.0, 2.5]))
    found = simulate_deadlines(wide, policies=["fifo"], capacity=2).row(0, named=True)
    assert (found["n"], found["n_excluded"]) == (2, 1)


def test_a_cluster_in_which_no_job_fits_has_no_share() -> None:
    wide = JOBS.with_columns(gpus=5.0)
    row = simulate_deadlines(wide, policies=["fifo"], capacity=2).row(0, named=True)
    assert (row["n"], row["n_excluded"], row["fraction_missed"], row["ci_low"]) == (
        0,
        3,
        None,
        None,
    )


def test_plans_are_of_jobs_with_a_runtime_and_tightness_may_be_0() -> None:
    some = JOBS.with_columns(runtime_s=pl.Series([0.0, 1.0, 0.5]))
    assert synthesize_deadlines(some)["job_id"].to_list() == ["b", "c"]
    assert synthesize_deadlines(JOBS, tightness=(0, 0))["deadline_s"].to_list() == [0, 1, 2]
    small = synthesize_deadlines(JOBS, tightness=(0.5, 0.5), distribution="loguniform")
    assert small["deadline_s"].to_list() == [5, 5, 3]
    with pytest.raises(DataError, match="tightness must be two numbers, above 0"):
        synthesize_deadlines(JOBS, tightness=(0, 1), distribution="loguniform")


def test_capacity_is_the_work_by_the_span_and_the_load() -> None:
    # half a GPU-second in half a second, and one in half a second
    for gpus, capacity in ((1, 2), (2, 3)):
        two = JOBS[:2].with_columns(submit_s=pl.Series([0.0, 0.5]), gpus=pl.lit(gpus))
        assert simulate_deadlines(two, policies=["fifo"])["capacity"].item() == capacity
    none = JOBS.with_columns(runtime_s=pl.Series([0.0, 8.0, 2.0]))
    found = simulate_deadlines(none, capacity=1, policies=["fifo"])
    assert found.select("n", "n_excluded").rows() == [(2, 1)]
