"""Variants of Zeus' policy, and the jobs that groups are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import traceana
from traceana.ingesters import add_table
from traceana.questions.recurring.analyze import grouped_jobs, policy_variants
from traceana.store import open_store

if TYPE_CHECKING:
    from pathlib import Path


def test_variants_are_relative_to_the_whole_policy(tmp_path: Path) -> None:
    few = pl.col("dataset").is_in(["cifar100", "squad"])
    runs, power = (
        traceana.open_sample().scan("zeus-2023", name).filter(few).collect()
        for name in ("training_runs", "power_profiles")
    )
    power = power.filter(pl.col("gpu").is_in(["v100", "p100"]))
    for name, rows in (("training_runs", runs), ("power_profiles", power)):
        add_table(rows, trace="mine", table=name, store=tmp_path)
    found = policy_variants(open_store(tmp_path).trace("mine"), "v100")
    of = {(what, name): row for what, name, *row in found.rows()}
    assert {name for what, name in of if what == "GPU"} == {"p100", "v100"}
    assert of["beta", "2"][:3] == of["part left out", "none"][:3] == [1, 1, 1]
    assert of["part left out", "early stopping"][0] > 1
    known = found.drop_nulls("energy")
    assert (known["energy_low"] <= known["energy"] * 1.05).all()
    both = [
        traceana.sweep_recurring(runs, power, gpu_types="v100", seeds=range(5), beta=beta)
        .group_by("dataset")
        .agg(pl.col("energy_j").mean())
        .sort("dataset")["energy_j"]
        .to_numpy()
        for beta in (3, 2)
    ]
    expected = float((both[0] / both[1]).prod() ** (1 / len(both[0])))
    assert of["beta", "3"][0] == pytest.approx(expected)


def test_jobs_that_failed_are_in_no_group(tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": list("abcd"),
            "group": "g",
            "start_s": [0.0, 10.0, 20.0, 30.0],
            "end_s": [5.0, 15.0, 25.0, 35.0],
            "status": ["completed", "failed", "cancelled", None],
        }
    )
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    kept = grouped_jobs(open_store(tmp_path).trace("mine"))
    assert kept["start_s"].to_list() == [0.0, 30.0]
