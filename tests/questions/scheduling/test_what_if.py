"""What-ifs of the schedule: jobs that still run when last seen hold their GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

import traceana
from traceana.questions.scheduling.section_what_if import build
from traceana.questions.scheduling.what_if import jobs_to_schedule, waits_by_policy
from traceana.questions.trends.capacity import gpus_allocated
from traceana.questions.workload.analyze import describe_workload

if TYPE_CHECKING:
    from pathlib import Path


def test_running_jobs_hold_their_gpus_until_the_end_of_the_window(tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c", "d"],
            "submit_s": [0.0, 10.0, 20.0, 30.0],
            "start_s": [0.0, None, 20.0, None],
            "end_s": [None, None, 1000.0, None],
            "runtime_s": [None, None, 980.0, None],
            "gpus": [1.0, 1.0, 1.0, 1.0],
            "status": ["running", "pending", "completed", "pending"],
        }
    )
    machines = pl.DataFrame({"machine_id": ["m"], "gpus": [1.0]})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    traceana.add_table(machines, trace="mine", table="machines", store=tmp_path)
    trace = traceana.open_store(tmp_path).trace("mine")
    known, running, lacking = jobs_to_schedule(trace, 100)
    assert known["runtime_s"].to_list() == [1000.0, None, 980.0, None]
    assert (running, lacking) == (1, 2)
    # on one GPU the third job starts when the first one is seen for the last time
    fifo = waits_by_policy(trace).row(by_predicate=pl.col("policy") == "fifo", named=True)
    assert (fifo["jobs"], fifo["wait_s_mean"]) == (2, 490.0)
    [finding] = build([trace]).findings
    text = getattr(finding, "text", finding)
    assert "Running jobs (n = 1) hold" in text
    assert "without a runtime (n = 2) are left out" in text


def test_the_gpus_are_those_of_the_other_sections(tmp_path: Path) -> None:
    # two nodes of 8 GPUs, never in use at once: the largest demand is of 8
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"],
            "submit_s": [0.0, 100.0],
            "start_s": [0.0, 100.0],
            "end_s": [100.0, 200.0],
            "runtime_s": [100.0] * 2,
            "gpus": [8.0] * 2,
            "node": ["m", "n"],
        }
    )
    keeps = "\n".join(f'{name} = "{name}"' for name in jobs.columns if name != "node")
    mapping = f'[trace]\nkeep = ["node"]\n[jobs]\n{keeps}\n'
    machines = pl.DataFrame({"machine_id": ["m", "n", "o"], "gpus": [8.0] * 3})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path, mapping=mapping)
    for source, gpus in (("nodes seen", 16), ("machines", 24)):
        if source == "machines":
            traceana.add_table(machines, trace="mine", table="machines", store=tmp_path)
        trace = traceana.open_store(tmp_path).trace("mine")
        rows = waits_by_policy(trace).filter(pl.col("policy") == "fifo")
        assert rows.select("gpus", "capacity").row(0) == (gpus, source)
        allocated = gpus_allocated(trace)
        assert allocated is not None
        assert allocated["gpus"][0] == describe_workload(trace).capacity == gpus


def test_the_heading_starts_from_the_policy_that_the_log_resembles(tmp_path: Path) -> None:
    # the third job waits behind the second, though it would end before the second can start
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_s": [0.0, 0.0, 0.0],
            "start_s": [0.0, 100.0, 200.0],
            "end_s": [100.0, 200.0, 300.0],
            "runtime_s": [100.0] * 3,
            "gpus": [8.0, 10.0, 2.0],
        }
    )
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    [finding] = build([traceana.open_store(tmp_path).trace("mine")]).findings
    assert finding == (
        "mine: GPU jobs would wait 1.67 min on average under fifo and 33.3 s under easy "
        "(backfilling), and with 10 % more GPUs 1.67 min and 33.3 s (simulated; n = 3). They "
        "waited 1.67 min."
    )
    assert getattr(finding, "heading", "") == (
        "mine: GPU jobs would wait 1.67 min under fifo, 33.3 s under easy, 1.67 min under fifo "
        "with 10 % more GPUs"
    )


def test_no_wait_is_no_main_result(tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_s": [0.0, 200.0], "runtime_s": [100.0, 100.0]}
    ).with_columns(gpus=8.0)
    machines = pl.DataFrame({"machine_id": ["m"], "gpus": [8.0]})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    traceana.add_table(machines, trace="mine", table="machines", store=tmp_path)
    [finding] = build([traceana.open_store(tmp_path).trace("mine")]).findings
    assert finding.startswith("mine: GPU jobs would wait 0 s on average under fifo and 0 s under")
    assert getattr(finding, "is_null", False)


def test_waits_are_closer_to_no_policy_where_both_give_the_same(tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"],
            "submit_s": [0.0, 0.0],
            "start_s": [0.0, 120.0],
            "end_s": [100.0, 220.0],
            "runtime_s": [100.0] * 2,
            "gpus": [8.0, 8.0],
        }
    )
    machines = pl.DataFrame({"machine_id": ["m"], "gpus": [8.0]})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    traceana.add_table(machines, trace="mine", table="machines", store=tmp_path)
    [finding] = build([traceana.open_store(tmp_path).trace("mine")]).findings
    text = getattr(finding, "text", finding)
    assert "50 s on average under fifo and 50 s under easy" in text
    assert text.endswith("They waited 1 min.")


@pytest.mark.parametrize("wait_s", [400.0, 40_000.0])
def test_waits_that_the_simulation_has_not_are_no_reason_against_gpus(
    tmp_path: Path, wait_s: float
) -> None:
    # two jobs at a time fit on 16 GPUs, but each waits until the one before it has ended
    jobs = pl.DataFrame({"job_id": ["a", "b", "c"], "submit_s": [0.0] * 3}).with_columns(
        start_s=wait_s * pl.int_range(3), runtime_s=wait_s, gpus=8.0
    )
    machines = pl.DataFrame({"machine_id": ["m", "n"], "gpus": [8.0] * 2})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    traceana.add_table(machines, trace="mine", table="machines", store=tmp_path)
    [finding] = build([traceana.open_store(tmp_path).trace("mine")]).findings
    assert getattr(finding, "heading", "").endswith("does not reproduce the recorded waits")
    assert getattr(finding, "certainty", "") == "cannot tell"
    assert "Waits for a GPU type" in finding
