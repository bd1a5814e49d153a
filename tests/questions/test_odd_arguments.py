"""Arguments of any kind are one clear line, in functions whose tests do not try them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import traceana as analysis
from tests.questions.energy.zeus_tables import RUNS as TRAINED
from traceana import simulate
from traceana.errors import DataError, TraceanaError

if TYPE_CHECKING:
    from collections.abc import Callable

JOBS = pl.DataFrame(
    {
        "cluster": "c1",
        "job_id": [f"j{i}" for i in range(12)],
        "node": ["n1", "n2"] * 6,
        "submit_s": [10.0 * i for i in range(12)],
        "start_s": [10.0 * i for i in range(12)],
        "end_s": [10.0 * i + 50 + i for i in range(12)],
        "runtime_s": [50.0 + i for i in range(12)],
        "gpus": [1.0, 2.0, 4.0] * 4,
        "gpus_used": [0.5] * 12,
        "status": ["completed", "failed", "completed"] * 4,
        "deadline_s": [200.0 + 7 * i**2 for i in range(12)],
        "model": ["vgg16", "bert"] * 6,
        "batch_size": 64,
        "iterations": range(100, 112),
    }
)
PLANS = JOBS.select("cluster", "job_id", "model", "batch_size", "iterations", "deadline_s")
SHORT = JOBS.select("node", "gpus", "gpus_used", "runtime_s", "status")
MACHINES = pl.DataFrame({"gpus": [8.0]})
FRAMES: dict[str, tuple[Callable[[Any], pl.DataFrame], pl.DataFrame]] = {
    "allocation_rate": (
        lambda f: analysis.allocation_rate(f, MACHINES),
        analysis.gpu_demand(JOBS),
    ),
    "compare_plans": (lambda f: analysis.compare_plans(f, PLANS, JOBS), PLANS),
    "deadline_rules": (lambda f: analysis.deadline_rules(f, JOBS), PLANS),
    "deadline_tightness": (lambda f: analysis.deadline_tightness(f, JOBS), PLANS),
    "failure_correlations": (
        lambda f: analysis.failure_correlations(f, resamples=100).table,
        SHORT,
    ),
    "gpu_sharing": (lambda f: analysis.gpu_sharing(f, device="node"), JOBS),
    "idle_gpu_hours": (analysis.idle_gpu_hours, SHORT),
    "iteration_rates": (lambda f: analysis.iteration_rates(f, JOBS), PLANS),
    "simulate_deadlines": (lambda f: simulate.simulate_deadlines(f, policies=["edf"]), JOBS),
    "synthesize_deadlines": (simulate.synthesize_deadlines, JOBS),
    "utilization": (lambda f: analysis.utilization(f, by="node"), SHORT),
}
ROW = pl.int_range(pl.len())
FAULTS: dict[str, Callable[[str], pl.Expr]] = {
    "null": lambda name: pl.lit(None).alias(name),
    "NaN": lambda name: pl.lit(float("nan")).alias(name),
    "infinite": lambda name: pl.when(ROW == 0).then(float("inf")).otherwise(ROW).alias(name),
    "the least there is": lambda name: pl.lit(5e-324).alias(name),
    "constant": lambda name: pl.col(name).first(),
    "long text": lambda name: pl.lit("x" * 10**5).alias(name),
    "64 bits": (pl.lit(2**64 - 1, pl.UInt64) - ROW.cast(pl.UInt64)).alias,
    "truth": (ROW % 2 == 0).alias,
    "duration": lambda name: pl.duration(seconds=ROW).alias(name),
    "categories": lambda name: pl.col(name).cast(pl.String).cast(pl.Categorical),
    "enum": lambda name: pl.format("{}", ROW).cast(pl.Enum(list(map(str, range(12))))).alias(name),
    "lists": lambda name: pl.concat_list(ROW).alias(name),
}


def is_sound(function: Callable[[Any], pl.DataFrame], frame: Any) -> bool:
    """Return whether there was a result, without NaN; anything else is one short line."""
    with warnings.catch_warnings(action="error"):
        try:
            result = function(frame)
        except DataError as error:
            refusal = str(error)
        else:
            refusal = ""
    if refusal:
        assert "\n" not in refusal
        assert 20 < len(refusal) < 1100
        return False
    for column in result.select(pl.selectors.float()):
        assert not column.is_nan().any(), column
        assert column.name in JOBS.columns or not column.is_infinite().any(), column
    return True


@pytest.mark.parametrize("name", FRAMES)
def test_an_odd_frame_is_one_line_or_a_sound_result(name: str) -> None:
    function, frame = FRAMES[name]
    assert is_sound(function, frame)
    for column in frame.columns:
        for fault in FAULTS.values():
            is_sound(function, frame.with_columns(fault(column)))
    for rows in (frame.clear(), *map(frame.head, (1, 2, 3)), pd.DataFrame(), pl.DataFrame()):
        is_sound(function, rows)
    for unread in (
        pl.scan_parquet("nowhere/x.parquet"),
        frame.lazy().with_columns(pl.lit("x").cast(pl.Int64).alias(frame.columns[0])),
        pd.concat([frame.to_pandas()] * 2, axis=1),
        frame.to_pandas().set_axis(pd.MultiIndex.from_product([["a"], frame.columns]), axis=1),
    ):
        assert not is_sound(function, unread)


@pytest.mark.parametrize("name", FRAMES)
def test_every_engine_gives_the_same_values(name: str) -> None:
    function, frame = FRAMES[name]
    for other in (
        frame.to_pandas().convert_dtypes(),
        duckdb.connect().from_arrow(frame.to_arrow()),
    ):
        assert_frame_equal(function(other), function(frame))


def test_identifiers_of_64_bits_are_joined() -> None:
    ids = pl.Series([2**64 - 1, 2**64 - 2], dtype=pl.UInt64)
    tasks = JOBS.head(2).with_columns(job_id=ids, task_name=pl.lit("t"), gpu_type=pl.lit("t4"))
    tasks = tasks.with_columns(cpus=1.0, memory_gib=1.0, n_instances=1)
    instances = tasks.select("job_id", "task_name", "start_s", "end_s")
    for frame in (instances, instances.to_arrow()):
        assert analysis.task_runtimes(tasks, frame)["runtime_s"].to_list() == [50.0, 51.0]


ODD = (object(), [[1]], np.array([1, 2]), 10**400, float("nan"), "", (), b"x", 1j, pl.col("x"))
SAMPLES = pl.DataFrame(
    {
        "job_id": "a",
        "time_s": [0, 0, 9, 9],
        "worker_id": ["0", "1"] * 2,
        "batch_time": [1.0, 2.0] * 2,
    }
)
VALUES = np.arange(1.0, 30)
RUNS: dict[str, Any] = {"dataset": "cifar100", "network": "n", "batch_size": 1}
OPTIONS: dict[str, Callable[[Any], object]] = {
    "adjust": lambda x: analysis.compare_runtimes(JOBS, "node", adjust=x),
    "cluster": lambda x: analysis.correlate(JOBS, "gpus", "runtime_s", cluster=x),
    "clusters": lambda x: simulate.compare_clusters({"c": x}),
    "controllers": lambda x: simulate.replay_batching(SAMPLES, controllers=x),
    "criterion": lambda x: analysis.fit_distributions(VALUES, criterion=x),
    "device": lambda x: analysis.gpu_sharing(JOBS, device=x),
    "families": lambda x: analysis.fit_distributions(VALUES, families=x),
    "gain": simulate.implied_throughput_ratio,
    "k": lambda x: analysis.tail_index(VALUES, k=x),
    "levels": simulate.sweep_batching,
    "max_batch": lambda x: simulate.simulate_batching(
        [(0.0, 1.0)] * 2, controller="uniform", max_batch=x
    ),
    "min_recurrences": lambda x: analysis.recurring_groups(JOBS, by="node", min_recurrences=x),
    "overheads_s": lambda x: simulate.sweep_batching({"c": [1]}, overheads_s=x),
    "policies": lambda x: simulate.simulate_deadlines(JOBS, policies=x),
    "resamples": lambda x: analysis.compare_distributions(JOBS, "gpus", "node", resamples=x),
    "target": lambda x: simulate.sample_training_path(TRAINED, **{**RUNS, "target": x}),
    "truncated_below": lambda x: analysis.fit_distributions(VALUES, truncated_below=x),
}


ARRAYS = tuple((name, "[1 2]") for name in ("clusters", "k", "overheads_s"))


@pytest.mark.parametrize("name", OPTIONS)
def test_an_odd_option_is_one_line(name: str) -> None:
    for odd in ODD:
        if (name, str(odd)) in (("cluster", "()"), ("k", "()"), ("times_s", "()"), *ARRAYS):
            continue  # none is fine there, or an array
        with warnings.catch_warnings(action="error"), pytest.raises(TraceanaError) as refusal:
            OPTIONS[name](odd)
        assert "\n" not in str(refusal.value)


def test_more_resamples_than_a_lifetime_are_refused() -> None:
    for most in (10**6 + 1, 10**30):
        with pytest.raises(DataError, match="resamples must be a whole number from 1 to 1,000,000"):
            analysis.compare_distributions(JOBS, "gpus", "node", resamples=most)
        with pytest.raises(DataError, match="resamples must be a whole number from 0 to 1,000,000"):
            analysis.fit_distributions(VALUES, resamples=most)
