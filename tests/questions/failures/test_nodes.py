"""Nodes are compared with jobs of their own kind; exactly the planted one is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import traceana
from tests.slurm_log import Planted, write_slurm_log
from traceana.questions.failures.nodes import SIGNIFICANT, _test
from traceana.questions.failures.section import _outliers


def named(found: pl.DataFrame) -> list[str]:
    return found.filter(pl.col("pvalue_adjusted") < SIGNIFICANT)["node"].to_list()


@pytest.mark.parametrize(
    ("planted", "expected"),
    [
        (Planted(jobs=12_000, bad_node=7, h100_fails=True, top_user=True, timeouts=True), ["n007"]),
        (Planted(bad_node=2, h100_fails=True), ["n002"]),  # of the type that fails more
        (Planted(h100_fails=True, timeouts=True, seed=2), []),
        (Planted(cpu_only=True, seed=3), []),
    ],
)
def test_exactly_the_planted_node_is_named(
    tmp_path: Path, planted: Planted, expected: list[str]
) -> None:
    jobs = traceana.read(write_slurm_log(tmp_path / "log.txt", planted)).jobs
    assert named(traceana.node_failures(jobs)) == expected


def test_expected_failures_are_those_at_the_rates_of_other_nodes_in_each_stratum() -> None:
    # queue a: 10 of 40 fail elsewhere, 20 jobs here; queue b: 30 of 40 elsewhere, 40 jobs here
    jobs = pl.DataFrame(
        {
            "NodeList": ["n1"] * 60 + ["n2"] * 80,
            "queue": ["a"] * 20 + ["b"] * 40 + ["a"] * 40 + ["b"] * 40,
            "status": ["failed"] * 60
            + ["failed"] * 10
            + ["completed"] * 30
            + ["failed"] * 30
            + ["completed"] * 10,
        }
    )
    found = traceana.node_failures(jobs, strata="queue").row(0, named=True)
    assert (found["n"], found["failures"], found["expected"]) == (60, 60, 5 + 30)


def test_partners_of_a_bad_node_and_user_limits_are_not_blamed() -> None:
    # n0 and n1 share every fourth job; all that n0 touches fails; n5 has all of the timeouts
    nodes = [f"n{job % 12}" if job % 4 else "n0,n1" for job in range(2400)]
    bad = ["n0" in node.split(",") or job % 10 == 9 for job, node in enumerate(nodes)]
    late = [node == "n5" for node in nodes]
    jobs = pl.DataFrame({"NodeList": nodes, "bad": bad, "late": late}).with_columns(
        status=pl.when(pl.col("bad") | pl.col("late"))
        .then(pl.lit("failed"))
        .otherwise(pl.lit("completed")),
        end_reason=pl.when("late").then(pl.lit("TIMEOUT")).otherwise(pl.lit("FAILED")),
    )
    assert "n5" not in named(traceana.node_failures(jobs))


@pytest.mark.parametrize(("every_s", "expected"), [(1.0, []), (86_400.0, ["n0"])])
def test_a_crash_that_ends_many_jobs_is_one_failure(every_s: float, expected: list[str]) -> None:
    # each of 12 jobs of 12 users ends by node n0, at once or day by day; others have one such end
    rng = np.random.default_rng(1)
    node, user = rng.integers(0, 20, 3000), rng.integers(0, 12, 3000)
    of_n0 = np.flatnonzero(node == 0)[:12]
    lost = np.concatenate([[np.flatnonzero(node == other)[0] for other in range(1, 20)], of_n0])
    reason, end = np.full(3000, "COMPLETED", dtype=object), np.arange(3000) * 600.0
    reason[lost], end[of_n0] = "NODE_FAIL", 1e6 + np.arange(12) * every_s
    jobs = pl.DataFrame(
        {
            "NodeList": [f"n{one}" for one in node],
            "user": [f"u{one}" for one in user],
            "status": np.where(reason == "COMPLETED", "completed", "failed"),
            "end_reason": pl.Series(reason, dtype=pl.String),
            "end_s": end,
        }
    )
    found = traceana.node_failures(jobs)
    assert named(found) == expected
    times = jobs.with_columns(pl.from_epoch(pl.col("end_s").cast(pl.Int64)))
    assert traceana.node_failures(times).equals(found)


def nodes_of_switches(seed: int) -> pl.DataFrame:
    """4,000 jobs of 20 users on 20 nodes; those of one switch fail by 14 percentage points more."""
    rng = np.random.default_rng(seed)
    node, user = rng.integers(0, 20, 4000), rng.integers(0, 20, 4000)
    fails = rng.random(4000) < np.where(node // 4 == 2, 0.19, 0.05)
    return pl.DataFrame(
        {
            "NodeList": [f"r{one // 4}n{one % 4}" for one in node],
            "user": [f"u{one}" for one in user],
            "job_name": rng.choice(["train", "eval"], 4000),
            "status": np.where(fails, "failed", "completed"),
        }
    )


def test_all_nodes_of_a_bad_switch_are_named() -> None:
    found = traceana.node_failures(nodes_of_switches(1))
    assert sorted(named(found)) == ["r2n0", "r2n1", "r2n2", "r2n3"]
    text = _outliers(found)
    assert " They are all of the nodes r2n*." in text


def test_a_loop_that_fails_wherever_it_runs_names_no_node_and_dilutes_no_ratio() -> None:
    jobs = nodes_of_switches(1)
    before = traceana.node_failures(jobs)
    loop = pl.DataFrame({"NodeList": ["r2n0"] * 150 + ["r0n1"] * 150}).with_columns(
        user=pl.lit("u0"), job_name=pl.lit("loop"), status=pl.lit("failed")
    )
    after = traceana.node_failures(pl.concat([jobs, loop]))
    assert sorted(named(after)) == sorted(named(before))
    ratios = (found.filter(node="r2n0")["ratio"].item() for found in (before, after))
    assert next(ratios) == pytest.approx(next(ratios))


def test_a_user_whose_jobs_fail_in_bursts_on_one_node_names_none() -> None:
    # by chance, of each user 30 failures in a row are on one node
    jobs = nodes_of_switches(2).with_columns(status=pl.lit("completed"))
    rng = np.random.default_rng(3)
    fails = rng.random(4000) < 0.05
    node = jobs["NodeList"].to_list()
    for one in range(6):
        burst = np.flatnonzero((jobs["user"] == f"u{one}").to_numpy())[:30]
        fails[burst] = True
        for place in burst:
            node[place] = f"r{one % 5}n0"
    jobs = jobs.with_columns(
        NodeList=pl.Series(node), status=np.where(fails, "failed", "completed")
    )
    assert named(traceana.node_failures(jobs)) == []


def test_nodes_are_compared_within_their_cluster() -> None:
    jobs = nodes_of_switches(2)
    east = pl.Series(np.random.default_rng(1).random(jobs.height) < 0.3)
    jobs = pl.concat([jobs, jobs.with_columns(NodeList="e" + pl.col("NodeList"))])
    jobs = jobs.with_columns(
        cluster=pl.when(pl.col("NodeList").str.starts_with("e"))
        .then(pl.lit("east"))
        .otherwise(pl.lit("west"))
    )
    jobs = jobs.with_columns(
        status=pl.when(pl.col("cluster") == "west")
        .then("status")
        .when(pl.concat([east, east]))
        .then(pl.lit("failed"))
        .otherwise(pl.lit("completed"))
    )
    assert not [node for node in named(traceana.node_failures(jobs)) if node.startswith("e")]


def test_a_log_without_failures_names_none() -> None:
    jobs = pl.DataFrame({"NodeList": ["n1", "n2", None], "status": ["completed"] * 3})
    found = traceana.node_failures(jobs)
    assert found["pvalue"].null_count() == 2
    assert found["note"].to_list() == ["no comparable job failed"] * 2


def test_runtimes_that_are_durations_are_those_in_seconds() -> None:
    row = {"NodeList": ["n1", "n2"] * 10, "status": ["failed"] * 3 + ["completed"] * 17}
    jobs = pl.DataFrame(row).with_columns(gpus=2, runtime_s=3600.0)
    durations = jobs.with_columns(runtime_s=pl.duration(seconds="runtime_s"))
    assert traceana.node_failures(durations).equals(traceana.node_failures(jobs))


def test_a_node_of_all_failures_has_no_ratio() -> None:
    jobs = pl.DataFrame(
        {
            "NodeList": ["n1"] * 200 + ["n2"] * 200 + ["n3"] * 200,
            "status": ["failed"] * 40 + ["completed"] * 560,
            "user": [f"u{place % 20}" for place in range(600)],
        }
    )
    found = traceana.node_failures(jobs)
    assert named(found) == ["n1"]
    finding = _outliers(found)
    assert "than comparable jobs: n1 (40 failures, 0 expected)." in finding
    assert finding.alert == "node n1: all the failures of comparable jobs"


def test_a_node_whose_residuals_are_rounding_has_no_design_effect() -> None:
    row = dict.fromkeys(("rest", "rest_mean", "of_jobs"), 0.0) | {"of_strata": 1e-31}
    row |= {"failures": 2.0, "expected": 0.52, "mean": 0.55, "variance": 0.55}
    found = _test(pl.DataFrame([row]), 0.95)
    # Poisson: 1 - (1 + m) exp(-m)
    assert found["pvalue"].item() == pytest.approx(1 - 1.55 * np.exp(-0.55))
    assert np.isfinite(found["ci_high"].item())


def test_names_that_are_digests_give_the_same_result(tmp_path: Path) -> None:
    path = write_slurm_log(tmp_path / "log.txt", Planted(jobs=2_000, nodes=12, bad_node=7))
    traceana.ingest(path, store=tmp_path / "store", trace="mine")
    traceana.anonymize("mine", store=tmp_path / "store", out=tmp_path / "public", key=b"k" * 16)
    both = [
        traceana.node_failures(traceana.open_store(tmp_path / one).trace("mine").jobs)
        for one in ("store", "public")
    ]
    numbers = [found.drop("node").sort("failures", "n", "expected") for found in both]
    assert numbers[0]["failures"].to_list() == numbers[1]["failures"].to_list()
    assert numbers[0]["expected"].to_list() == pytest.approx(numbers[1]["expected"].to_list())
