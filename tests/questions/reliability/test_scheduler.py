"""Faults of machines from a scheduler: node failures of jobs, and node events of Slurm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import traceana
from traceana.errors import DataError
from traceana.ingesters import ingest
from traceana.page.finding import Finding
from traceana.questions.reliability import section
from traceana.store import open_store

_SACCT = """\
JobID|State|Submit|Start|End|NNodes|NodeList
1|NODE_FAIL|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|1|n1
2|NODE_FAIL|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|1|n1
3|NODE_FAIL|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-03T09:00:30|4|n[2-5]
4|TIMEOUT|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-03T09:00:30|1|n1
5|BOOT_FAIL|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-04T09:00:30|1|n1
"""
_MAPPING = '[trace]\nkeep = ["NodeList"]\n[jobs]\n' + "".join(
    f'{name} = "{name}"\n'
    for name in (
        "job_id",
        "gpu_type",
        "gpus",
        "submit_s",
        "start_s",
        "end_s",
        "runtime_s",
        "status",
        "end_reason",
    )
)
_EVENTS = """\
Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User
hpc||2026-03-01T00:00:00|Unknown||Cluster Registered TRES|
hpc|n1|2026-03-02T10:00:00|2026-03-02T12:00:00|DOWN*|Not responding|slurm(64030)
hpc|n2|2026-03-03T10:00:00|2026-03-05T12:00:00|DRAIN|bad "GPU" 3|root(0)
hpc|n2|2026-03-08T10:00:00|Unknown|DRAIN|ECC|root(0)
"""


def test_node_failures_of_a_slurm_log_are_faults(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(_SACCT)
    jobs = traceana.read(tmp_path / "sacct.txt").jobs
    faults = traceana.faults_of_jobs(jobs)
    first = 1_772_442_030.0  # 2026-03-02 09:00:30
    assert faults.rows() == [
        ("n1", first, "NODE_FAIL", 2),
        ("n2,n3,n4,n5", first + 86_400, "NODE_FAIL", 1),
        ("n1", first + 2 * 86_400, "BOOT_FAIL", 1),
    ]
    result = traceana.machine_reliability(faults, end=None, by="class", total_machines=10)
    assert result.overall["n"].item() == 3
    stored = traceana.add_table(faults, trace="mine", table="faults", store=tmp_path / "store")
    assert stored.entries[0].rows_kept == 3
    with pytest.raises(DataError, match="column NodeList is missing"):
        traceana.faults_of_jobs(
            pl.DataFrame({"end_reason": ["a"], "end_s": [1.0], "status": "failed"})
        )


def test_a_job_on_several_nodes_fails_by_the_one_that_ended_other_jobs_then() -> None:
    faults = traceana.faults_of_jobs(
        pl.DataFrame(
            {
                "NodeList": ["n1", "n1,n2", "n2,n3", "n3,n4"],
                "end_s": [50.0, 50.0, 50.0, 90.0],
                "end_reason": "NODE_FAIL",
                "status": "failed",
            }
        )
    )
    assert faults.rows() == [
        ("n1", 50.0, "NODE_FAIL", 2),
        ("n2,n3", 50.0, "NODE_FAIL", 1),
        ("n3,n4", 90.0, "NODE_FAIL", 1),
    ]
    result = traceana.machine_reliability(faults, end=None, total_machines=10, window=(0, 864_000))
    assert result.machines.select("machine_id", "n").rows() == [("n1", 1)]
    assert result.overall["rate"].item() == 1000 * 3 / 100


def test_jobs_that_a_machine_ends_within_minutes_are_one_fault() -> None:
    ends = [50.0, 80.0, 370.0, 900.0, 80.0]
    faults = traceana.faults_of_jobs(
        pl.DataFrame(
            {
                "NodeList": ["n1", "n1", "n1", "n1", "n1,n2"],
                "end_s": ends,
                "end_reason": "NODE_FAIL",
                "status": "failed",
            }
        )
    )
    assert faults.rows() == [("n1", 50.0, "NODE_FAIL", 4), ("n1", 900.0, "NODE_FAIL", 1)]


def test_faults_of_other_machines_in_between_make_no_fault_longer() -> None:
    ends = [200.0 * place for place in range(6)]
    jobs = {"NodeList": ["n1", "n2"] * 3, "end_s": ends, "end_reason": "NODE_FAIL"}
    faults = traceana.faults_of_jobs(pl.DataFrame(jobs).with_columns(status=pl.lit("failed")))
    assert faults["start_s"].to_list() == ends


def test_a_report_on_a_slurm_log_shows_its_node_failures(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(_SACCT)
    content = section.build([traceana.read(tmp_path / "sacct.txt")])
    assert "n = 3 faults of 5 machines" in content.findings[0]


def test_node_events_of_slurm_need_no_mapping(tmp_path: Path) -> None:
    (tmp_path / "events.txt").write_text(_EVENTS)
    ledger = ingest(tmp_path / "events.txt", trace="mine", store=tmp_path)
    assert ledger.entries[0].rejected == {"machine_id|nullability": 1}  # of the whole cluster
    found = open_store(tmp_path).scan("mine", "faults").collect()
    assert found.drop("start_s", "end_s", "level").rows() == [
        ("n1", 7200.0, "DOWN*", "Not responding"),
        ("n2", 50 * 3600.0, "DRAIN", 'bad "GPU" 3'),
        ("n2", None, "DRAIN", "ECC"),
    ]


@pytest.mark.parametrize("times", [1.0, 4.0])
def test_a_type_whose_nodes_fail_more_often_in_use_is_named(tmp_path: Path, times: float) -> None:
    """Nodes with v100 GPUs are in use for half of the time, others always; 40 faults in all."""
    rng, n, begin = np.random.default_rng(2), 2000, 1_772_409_600.0
    node = rng.integers(0, 40, n)
    start = begin + rng.uniform(0, 60, n) * 86_400
    hours = np.where(node < 20, 10.0, 20.0)
    chance = np.where(node < 20, 10 * times, 20.0)
    lost = rng.choice(n, 40, replace=False, p=chance / chance.sum())
    jobs = pl.DataFrame(
        {
            "job_id": [f"j{job}" for job in range(n)],
            "NodeList": [f"n{one}" for one in node],
            "gpu_type": np.where(node < 20, "v100", "h100"),
            "gpus": 8.0,
            "submit_s": start,
            "start_s": start,
            "end_s": start + hours * 3600,
            "runtime_s": hours * 3600,
            "status": np.where(np.isin(np.arange(n), lost), "failed", "completed"),
            "end_reason": np.where(np.isin(np.arange(n), lost), "NODE_FAIL", "COMPLETED"),
        }
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path, mapping=_MAPPING)
    content = section.build([open_store(tmp_path).trace("mine")])
    named = [one for one in content.findings if "per hour in use as others" in one]
    assert len(named) == (times > 1)
    for one in named:
        assert one.startswith("mine: nodes with v100 GPUs fail ")
        assert isinstance(one, Finding)
        assert one.alert
