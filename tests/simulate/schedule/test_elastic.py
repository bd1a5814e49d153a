"""Elastic policies: the publisher's own logs, invariants of plans, and placement."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana import simulate_schedule
from traceana.errors import DataError
from traceana.simulate.schedule import elastic
from traceana.simulate.schedule.elastic import BuddyNodes, scaling_overhead_s
from traceana.store.manifest import Capacity

LOG = Path(__file__).parent / "elasticflow_figure_10.csv"
"""The publisher's trace of figure 10, with ends from the logs of their simulator."""
PROFILES = Path(__file__).parents[4] / "shared" / "published" / "elasticflow" / "throughputs_A100"
TRACES = PROFILES.parents[2] / "data" / "elasticflow-2023" / "elasticflow-traces.tar.gz"


class Edf(elastic.EarliestDeadlineFirst):
    slot_s: float = 240.0


class Flow(elastic.ElasticFlow):
    slot_s: float = 240.0


@pytest.mark.skipif(not PROFILES.is_dir(), reason="the publisher's profiles are not here")
@pytest.mark.parametrize(("policy", "column"), [(Edf, "edf_end_s"), (Flow, "elasticflow_end_s")])
def test_ends_equal_those_of_the_publishers_log(
    policy: type[elastic.ElasticFlow], column: str
) -> None:
    jobs = pl.read_csv(LOG)
    found = simulate_schedule(jobs, policy=policy, gpus=128, profiles=PROFILES)
    pairs = pl.DataFrame({"ours": found.jobs["end_s"], "log": jobs[column]}).drop_nulls("log")
    assert pairs.height > 40
    assert pairs["ours"].to_list() == pairs["log"].to_list()


@pytest.mark.skipif(not PROFILES.is_dir(), reason="the publisher's profiles are not here")
@pytest.mark.parametrize(
    ("policy", "printed"), [("edf", 0.118), ("tiresias", 0.287), ("elasticflow", 0.728)]
)
def test_figure_8a_has_the_printed_fractions(policy: str, printed: float) -> None:
    profiles = pl.concat(
        pl.read_csv(file, infer_schema=False)
        .unpivot(index="global_batch_size", variable_name="gpus", value_name="iterations_per_s")
        .select(
            pl.lit(file.stem).alias("model"),
            pl.col("global_batch_size").cast(pl.Int64).alias("batch_size"),
            pl.col("gpus").cast(pl.Int64),
            pl.col("iterations_per_s").cast(pl.Float64),
        )
        for file in sorted((PROFILES.parent / "throughputs_T4").glob("*.csv"))
    ).with_columns(pl.col("iterations_per_s").fill_nan(None))
    if policy == "elasticflow":  # the publisher's code gives BERT 16 GPUs at most
        profiles = profiles.filter((pl.col("model") != "bert") | (pl.col("gpus") <= 16))
    jobs = pl.read_csv(PROFILES.parent / "elasticVpollux_e.csv").select(
        pl.col("job_id").cast(pl.String),
        submit_s="submit_time",
        runtime_s="duration",
        gpus="num_gpu",
        deadline_s="ddl",
        model="model_name",
        batch_size="batch_size",
        iterations="iteration",
    )
    found = simulate_schedule(jobs, policy=policy, gpus=64, profiles=profiles)
    assert round(found.groups["fraction_met"].item(), 3) == printed


def _jobs(n: int, rng: np.random.Generator) -> pl.DataFrame:
    runtime = rng.lognormal(7, 1, n).round()
    submit = np.sort(rng.uniform(0, 20_000, n)).round()
    return pl.DataFrame(
        {
            "job_id": np.arange(n),
            "submit_s": submit,
            "runtime_s": runtime,
            "gpus": rng.choice([1, 2, 4, 8], n),
            "model": "m",
            "batch_size": 64,
            "deadline_s": submit + (rng.uniform(0.5, 1.5, n) * runtime).round(),
        }
    ).with_columns(iterations=(10 * pl.col("runtime_s") * pl.col("gpus") ** 0.8).floor())


@pytest.mark.parametrize("policy", ["edf", "edf_admission", "edf_elastic", "elasticflow"])
def test_elastic_schedules_are_valid(policy: str) -> None:
    jobs = _jobs(120, np.random.default_rng(1))
    found = simulate_schedule(jobs, policy=policy, gpus=32)
    assert (found.steps["gpus_used"] <= 32).all()
    ended = found.jobs.drop_nulls("end_s")
    assert (ended["end_s"] >= ended["start_s"]).all()
    assert ended.height + found.groups["n_declined"].item() == jobs.height
    assert found.jobs.equals(simulate_schedule(jobs, policy=policy, gpus=32).jobs)


@pytest.mark.parametrize("policy", ["gandiva", "themis"])
def test_a_start_takes_the_published_overhead(policy: str) -> None:
    one = pl.DataFrame({"job_id": ["a"], "submit_s": [0], "runtime_s": [100], "gpus": [8]})
    end = simulate_schedule(one, policy=policy, gpus=8).jobs["end_s"].item()
    assert end == 100 + 2 + 2 * (3 + 1)  # 2 s, and 2 (log2 g + 1) s for a new placement


def test_admission_meets_more_deadlines_than_none() -> None:
    jobs = _jobs(200, np.random.default_rng(2))
    met = {
        policy: simulate_schedule(jobs, policy=policy, gpus=16).groups["fraction_met"].item()
        for policy in ("edf", "tiresias", "gandiva", "themis", "elasticflow")
    }
    assert max(met, key=met.__getitem__) == "elasticflow"


@pytest.mark.parametrize(
    ("late_submit", "started"), [(20, [True, False, False]), (200, [True, True, False])]
)
def test_jobs_that_arrive_in_a_slot_are_admitted_together_or_not_at_all(
    late_submit: int, started: list[bool]
) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["first", "due", "late"],
            "submit_s": [0, 10, late_submit],
            "runtime_s": [1000, 1000, 1000],
            "gpus": [1, 1, 1],
            "deadline_s": [9000, 9000, late_submit + 1],
        }
    ).with_columns(model=pl.lit("m"), batch_size=64, iterations=1000)
    rates = pl.DataFrame({"model": "m", "batch_size": 64, "gpus": [1], "iterations_per_s": [1.0]})
    found = simulate_schedule(jobs, policy="elasticflow", profiles=rates, gpus=8).jobs
    assert found["start_s"].is_not_null().to_list() == started


def test_jobs_without_a_deadline_take_none_of_the_deadlines_of_others() -> None:
    jobs = _jobs(120, np.random.default_rng(3))
    due = pl.col("job_id") % 2 == 0
    mixed = jobs.with_columns(pl.when(due).then("deadline_s"))
    met = {
        each.height: simulate_schedule(each, policy="elasticflow", gpus=64).groups["fraction_met"]
        for each in (jobs.filter(due), mixed)
    }
    assert met[60].item() > 0.3
    assert met[120].item() == pytest.approx(met[60].item(), abs=0.1)


def test_policies_that_need_profiles_say_so() -> None:
    jobs = _jobs(3, np.random.default_rng(1))
    with pytest.raises(DataError, match="lack model, batch_size, iterations"):
        simulate_schedule(jobs.drop("model", "batch_size", "iterations"), policy="edf")
    other = pl.DataFrame(
        {"model": ["x"], "batch_size": [64], "gpus": [1], "iterations_per_s": [1.0]}
    )
    with pytest.raises(DataError, match="there is none for model m"):
        simulate_schedule(jobs, policy="edf", profiles=other)
    with pytest.raises(DataError, match="no policy is called 'chronus'"):
        simulate_schedule(jobs, policy="chronus")


def test_the_published_overheads() -> None:
    assert scaling_overhead_s(8, 256, cached=True, restart=True) == 7
    assert scaling_overhead_s(64, 1024, cached=False, restart=True) == 7 + 47 + 14
    assert scaling_overhead_s(1, 128, cached=False, restart=False) == 4


def test_jobs_fill_nodes_without_fragments() -> None:
    nodes = BuddyNodes(32, 8)
    expected = {0: (0, 16), 1: (16, 8), 2: (24, 4), 3: (28, 2), 4: (30, 2)}
    assert nodes.place({0: 16, 1: 8, 2: 4, 3: 2, 4: 2}) == expected
    nodes.release([1, 0, 2, 3, 4])
    assert nodes.place({5: 32}) == {5: (0, 32)}


@pytest.mark.parametrize(("nodes", "second"), [(32, 1), (64, 32), (128, 1)])
def test_only_the_publishers_cluster_of_64_nodes_has_two_switches(nodes: int, second: int) -> None:
    placed = BuddyNodes(8 * nodes, 8).place({0: 8, 1: 8})
    assert placed == {0: (0, 8), 1: (8 * second, 8)}


@pytest.mark.skipif(not TRACES.is_file(), reason="the publisher's traces are not here")
@pytest.mark.parametrize(
    ("cluster", "policy", "printed", "published"),
    [
        ("cluster05", "edf", 0.375, None),
        ("cluster05", "tiresias", 0.420, None),
        ("cluster06", "elasticflow", 0.607, None),
        ("cluster10", "elasticflow", 0.981, None),
        ("cluster10", "edf", 0.769, 0.777),
        ("cluster10", "tiresias", 0.473, 0.477),
        ("cluster01", "tiresias", 0.478, 0.493),
        ("cluster06", "edf", 0.105, 0.108),
    ],
)
def test_figure_8b_with_stated_slots_and_the_published_revision_without(
    cluster: str, policy: str, printed: float, published: float | None
) -> None:
    with tarfile.open(TRACES) as archive:
        name = next(name for name in archive.getnames() if name.endswith(f"{cluster}.csv"))
        file = archive.extractfile(name)
        assert file is not None
        jobs = pl.read_csv(file.read()).select(
            "job_id",
            "batch_size",
            cluster=pl.lit(cluster),
            submit_s="submission_time",
            runtime_s="duration",
            gpus="num_gpu",
            deadline_s="deadline",
            model="model_name",
            iterations="num_iteration",
        )
    nodes = 32 if cluster == "cluster10" else 64
    stated = {cluster: Capacity(nodes=nodes, gpus_per_node=8, slot_s=240.0)}
    found = simulate_schedule(jobs, policy=policy, capacity=stated, profiles=PROFILES).groups
    assert found["fraction_met"].item() == pytest.approx(printed, abs=0.01)
    if published is not None:  # a run of the publisher's simulator
        found = simulate_schedule(jobs, policy=policy, gpus=8 * nodes, profiles=PROFILES).groups
        assert round(found["fraction_met"].item(), 3) == published


@pytest.mark.parametrize("policy", ["edf", "edf_admission", "edf_elastic", "elasticflow"])
def test_elastic_policies_end_zero_runtimes_at_equal_times_and_leaves_out_what_never_fits(
    policy: str,
) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c", "d"],
            "submit_s": [0, 0, 0, 0],
            "runtime_s": [0, 100, 100, 100],
            "gpus": [1, 4, 4, 64],
            "deadline_s": [1e6, 1e6, 1e6, 1e6],
        }
    ).with_columns(model=pl.lit("m"), batch_size=64, iterations=10 * pl.col("runtime_s"))
    rates = {"gpus": [1, 4, 64], "iterations_per_s": [5.0, 10.0, 20.0]}
    profiles = pl.DataFrame(rates).with_columns(model=pl.lit("m"), batch_size=64)
    found = simulate_schedule(jobs, policy=policy, profiles=profiles, gpus=8)
    rigid = found.jobs.filter(pl.col("job_id").is_in(["b", "c"]))
    assert rigid["end_s"].null_count() == 0
    assert found.jobs.row(3, named=True)["start_s"] is None
    nowhere = simulate_schedule(
        jobs.with_columns(gpus=64), policy=policy, profiles=profiles, gpus=8
    )
    assert nowhere.groups["n_too_large"].item() == 4
    assert nowhere.jobs["start_s"].null_count() == 4
