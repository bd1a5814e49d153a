"""What was free while jobs waited is as planted, job by job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from traceana import add_table, open_store
from traceana.page.finding import Finding
from traceana.questions.scheduling import section_what_if
from traceana.questions.workload import section_waiting
from traceana.questions.workload.waiting import POINTS, describe_waiting, overtaking
from traceana.store import Trace

HOUR_S = 3600.0


def job(submit: float, start: float, end: float, gpus: int, node: str, **other: Any) -> Any:
    times = {"submit_s": submit * HOUR_S, "start_s": start * HOUR_S, "end_s": end * HOUR_S}
    row = {"queue": "a", "user": "ann", "cpus": gpus, "status": "completed"}
    row |= {"cluster": "west"} | other
    return times | row | {"gpus": gpus, "node": node}


def stored(jobs: list[Any], folder: Path) -> Trace:
    """Each node is full of GPUs and CPUs at first, so that its size is seen."""
    nodes = (("n1", "a"), ("n2", "a"), ("n3", "b"))
    full = [job(0, 0, 10, 8, node, queue=queue, cpus=16, cluster="west") for node, queue in nodes]
    frame = pl.DataFrame([*full, *jobs]).with_columns(
        job_id=pl.format("j{}", pl.int_range(pl.len())),
        runtime_s=pl.col("end_s") - pl.col("start_s"),
    )
    named = "\n".join(f'{name} = "{name}"' for name in frame.columns if name != "node")
    mapping = f'[trace]\nkeep = ["node"]\n[jobs]\n{named}\n'
    add_table(frame, trace="mine", table="jobs", store=folder, mapping=mapping)
    return open_store(folder).trace("mine")


BUSY_B = job(20, 20, 40, 8, "n3", queue="b")
"""Queue b's node is full while the others wait."""
LAST = job(21, 30, 31, 8, "n1")
WAITING = {
    "few": [job(20, 20, 30, 6, "n1"), job(20, 20, 30, 6, "n2"), BUSY_B, LAST],
    "spread": [job(20, 20, 30, 4, "n1"), job(20, 20, 30, 4, "n2"), BUSY_B, LAST],
    "other": [job(20, 20, 30, 8, "n1"), job(20, 20, 30, 8, "n2"), LAST],
    "spread, though a node of b is free": [
        job(20, 20, 30, 4, "n1"),
        job(20, 20, 30, 4, "n2"),
        LAST,
    ],
    "cpus": [
        job(20, 20, 30, 1, "n1", cpus=15, user="eva"),
        job(20, 20, 30, 1, "n2", cpus=15, user="eva"),
        BUSY_B,
        job(21, 30, 31, 2, "n1", cpus=4),
    ],
    "open": [LAST],
}


@pytest.mark.parametrize("reason", WAITING)
def test_the_reason_is_the_planted_one(reason: str, tmp_path: Path) -> None:
    waiting = describe_waiting(stored(WAITING[reason], tmp_path))
    assert waiting is not None
    assert (waiting.jobs, waiting.hours) == (1, 9.0)
    assert waiting.points["reason"].value_counts().rows() == [(reason.partition(",")[0], POINTS)]


def test_nodes_of_another_cluster_are_not_free(tmp_path: Path) -> None:
    jobs = [one | {"cluster": "west"} for one in WAITING["few"]]
    other = [job(0, 0, 10, 8, node, cluster="east") for node in ("e1", "e2")]
    waiting = describe_waiting(stored([*jobs, *other], tmp_path))
    assert waiting is not None
    assert waiting.points["reason"].value_counts().rows() == [("few", POINTS)]


def test_waits_of_seconds_are_not_stated(tmp_path: Path) -> None:
    jobs = [job(20 + at, 20 + at + 1 / 120, 21 + at, 8, "n1") for at in range(20)]  # 30 s each
    trace = stored(jobs, tmp_path / "seconds")
    assert describe_waiting(trace) is None
    assert not section_waiting.build([trace]).findings
    short = [*jobs, job(50, 50.02, 60, 8, "n1")]  # 72 s of 60 h
    assert not section_waiting.build([stored(short, tmp_path / "short")]).findings


def test_an_earlier_job_that_waits_is_seen_and_so_is_who_overtakes_it(tmp_path: Path) -> None:
    # 8 GPUs wait for n1 from 21 to 30; 2 GPUs wait from 22 to 25 and start before
    jobs = [job(20, 20, 30, 2, "n1"), job(20, 20, 30, 2, "n2"), BUSY_B]
    trace = stored([*jobs, LAST, job(22, 25, 26, 2, "n2")], tmp_path)
    waiting = describe_waiting(trace)
    assert waiting is not None
    fractions = dict(waiting.points["reason"].value_counts(normalize=True).iter_rows())
    assert fractions == {"spread": pytest.approx(9 / 12), "behind": pytest.approx(3 / 12)}
    assert overtaking(trace) == pytest.approx(1 / 8)


def test_the_page_names_reason_queue_and_who_holds_the_cpus(tmp_path: Path) -> None:
    [text] = section_waiting.build([stored(WAITING["cpus"], tmp_path / "cpus")]).findings
    assert (
        "100 % of the hours that jobs waited, enough GPUs were free, but with too few free CPUs"
        in text
    )
    assert "are mostly those of eva (100 %)" in text
    [found] = section_waiting.build([stored(WAITING["other"], tmp_path / "other")]).findings
    assert "but too few on nodes of their queue and GPU type (mostly queue a" in found
    assert isinstance(found, Finding)
    assert found.alert.startswith("mine: in 100 % of the hours that jobs waited, enough GPUs")


def test_a_log_in_which_later_jobs_start_first_is_not_that_of_fifo(tmp_path: Path) -> None:
    jobs = []
    for day in range(20):  # the small job starts first, since it fits; the last one waits long
        at = 20.0 + 24 * day
        jobs += [job(at, at, at + 8, 4, "n1")]
        jobs += [job(at, at, at + 8, 8, node) for node in ("n2", "n3")]
        jobs += [job(at + 1, at + 8, at + 12, 8, "n1"), job(at + 2, at + 3, at + 4, 1, "n1")]
        jobs += [job(at + 2, at + 12, at + 13, 8, "n2")]
    [text] = section_what_if.build([stored(jobs, tmp_path)]).findings
    assert "; 16 % of them started before an earlier job" in text
    assert "so the log cannot tell" in text
