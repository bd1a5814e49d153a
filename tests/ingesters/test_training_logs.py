"""Training logs, traces of the PyTorch profiler and straggler reports become worker samples."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingesters.conftest import Write
from traceana.errors import SourceError
from traceana.ingesters import ingest
from traceana.ingesters.readers.kineto import _Activities
from traceana.store import Store, TableEntry

MEGATRON = (
    "using world size: 8, data-parallel size: 2\n"
    " > training ...\n"
    " [2026-03-02 08:00:00] iteration       10/     500 | consumed samples:         2560 "
    "| elapsed time per iteration (ms): 812.4 | learning rate: 1.500E-04 | global batch "
    "size:   256 | lm loss: 9.1E+00 |\n"
    "time (ms) | forward-backward: 700.0\n"
    " [2026-03-02 08:00:08] iteration       20/     500 | consumed samples:         5120 "
    "| elapsed time per iteration (ms): 1624.8/1218.6 | learning rate: 1.500E-04 | "
    "global batch size:   256 | lm loss: 8.7E+00 |\n"
    " iteration       30/     500 | consumed samples:         7680 | elapsed time per "
    "iteration (ms): nan | learning rate: 1.500E-04 |\n"
)
LABELED = (
    "[default0]: [2026-03-02 08:00:00] iteration 1/ 5 | elapsed time per iteration (ms): "
    "100.0 |\n"
    "[default1]: [2026-03-02 08:00:01] iteration 1/ 5 | elapsed time per iteration (ms): "
    "150.0 |\n"
)
SAMPLES = (
    "  train_batch_size ............. 64\n"
    "[2026-03-02 08:00:01,722] [INFO] [timer.py:260:stop] "
    "epoch=0/micro_step=3/global_step=3, RunningAvgSamplesPerSec=74.6, "
    "CurrSamplesPerSec=128.0, MemAllocated=4.75GB, MaxMemAllocated=15.59GB\n"
)
TIMERS = (
    "[2026-03-02 08:00:01,722] [INFO] [logging.py:96:log_dist] [Rank 0] step=3, "
    "skipped=0, lr=[1e-07], mom=[(0.9, 0.999)]\n"
    "[2026-03-02 08:00:01,723] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | "
    "fwd_microstep: 38.9 | bwd_microstep: 12.4 | step_microstep: 8.4\n"
    "[2026-03-02 08:00:01,723] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd: "
    "3000.0 | bwd: 6000.0 | bwd_inner: 5000.0 | bwd_allreduce: 1000.0 | step: 500.0\n"
)
PIPELINE = "steps: 200 loss: 5.5508 lm loss: 5.5103 iter time (s): 0.936 samples/sec: 136.706\n"
NEMO = (
    "Training epoch 0, iteration 9/99 | lr: 0.0003 | global_batch_size: 8 | global_step: 9 | "
    "reduced_train_loss: 9.6 | train_step_timing in s: 5.43\n"
)


def read(files: Path, store: Path, **options: Any) -> tuple[pl.DataFrame, TableEntry]:
    (entry,) = ingest(files, store=store, **options).entries
    assert entry.rows_read == entry.rows_kept + entry.rows_rejected
    return Store(store).scan(entry.trace, "worker_samples").collect(), entry


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (MEGATRON, [("all", 10, 0.8124), ("all", 20, 1.6248)]),
        (LABELED, [("0", 1, 0.1), ("1", 1, 0.15)]),
        (SAMPLES, [("all", 3, 0.5)]),
        (TIMERS, [("0", 3, 9.5)]),
        (PIPELINE, [("all", 200, 0.936)]),
        (NEMO, [("all", 9, 5.43)]),
        (SAMPLES + MEGATRON, [("all", 10, 0.8124), ("all", 20, 1.6248)]),
    ],
    ids=["megatron", "launcher", "samples", "timers", "pipeline", "nemo", "both"],
)
def test_step_times_of_logs(
    log: str, expected: list[tuple[str, int, float]], write: Write, tmp_path: Path
) -> None:
    rows, entry = read(write("run7.log", log) / "run7.log", tmp_path / "store")
    assert rows["job_id"].unique().to_list() == ["run7"]
    assert rows.select("worker_id", "step", "batch_time").rows() == [
        (worker, step, pytest.approx(seconds)) for worker, step, seconds in expected
    ]
    assert rows["time_s"].null_count() == rows.height
    assert entry.rejected == ({"step_s|not_a_number": 1} if MEGATRON in log else {})


def test_a_log_without_step_times_says_what_it_lacks(write: Write, tmp_path: Path) -> None:
    file = write("a.log", "hello\n") / "a.log"
    with pytest.raises(SourceError, match=r"no step time in its first 4 MiB, such as"):
        ingest(file, reader="training-log", store=tmp_path / "store")


def event(name: str, cat: str, ts: float, dur: float) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 7, "ts": ts, "dur": dur}


EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
    event("aten::mm", "cpu_op", 10, 5),
    event("void gemm_kernel<float>(int)", "kernel", 100, 300),
    event("elementwise", "kernel", 300, 200),  # on another stream: 100 at once
    event("ncclDevKernel_AllReduce_Sum_bf16", "kernel", 450, 250),  # 50 of it hidden
    event("Memcpy HtoD", "gpu_memcpy", 750, 50),
    event("ProfilerStep#4", "gpu_user_annotation", 100, 700),
    event("gemm", "kernel", 950, 100),  # half in either step
    event("ProfilerStep#5", "user_annotation", 1000, 500),
    event("ProfilerStep#4", "user_annotation", 0, 1000),
]


def kineto(rank: int, events: list[dict[str, Any]] = EVENTS, **options: Any) -> str:
    content = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "A GPU"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
        "traceEvents": events,
        "traceName": "x.json",
    }
    return json.dumps(content, **options)


def test_profiler_traces_of_two_ranks(write: Write, tmp_path: Path) -> None:
    write("job9/n1_41.1772438400.pt.trace.json", kineto(0))
    minified = kineto(1, separators=(",", ":")).encode()
    files = write("job9/n2_42.1772438400.pt.trace.json.gz", gzip.compress(minified))
    rows, entry = read(files / "job9", tmp_path / "store")
    assert not entry.rejected
    names = ("job_id", "worker_id", "host", "step", "batch_time")
    kept = ("step_s", "communication_s", "idle_s")
    first, second = rows.filter(worker_id="0").sort("step").select(*names, *kept).rows()
    us = 1e-6
    assert first == pytest.approx(
        ("job9", "0", "n1", 4, 450 * us, 1000 * us, 250 * us, 300 * us), abs=1e-12
    )
    assert second == pytest.approx(
        ("job9", "0", "n1", 5, 50 * us, 500 * us, 0.0, 450 * us), abs=1e-12
    )
    assert rows.filter(worker_id="1")["host"].unique().to_list() == ["n2"]


def test_a_profile_without_gpu_has_step_times(write: Write, tmp_path: Path) -> None:
    cpu = [one for one in EVENTS if one.get("cat") in ("cpu_op", "user_annotation")]
    rows, _ = read(write("j/trace.json", kineto(0, cpu)) / "j", tmp_path / "store")
    assert rows.sort("step").select("batch_time", "compute_s").rows() == [
        (0.001, None), (0.0005, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (kineto(0, EVENTS[:3]), "no ProfilerStep in it"),
        (kineto(0)[:-60], "it ends within an event"),
    ],
)
def test_unusable_profiles(text: str, said: str, write: Write, tmp_path: Path) -> None:
    file = write("a.json", text) / "a.json"
    with pytest.raises(SourceError, match=said):
        ingest(file, reader="kineto", store=tmp_path / "store")


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.sampled_from("kn")), max_size=8),
    st.integers(1, 20),
)
def test_busy_times_are_those_of_a_grid(kernels: list[tuple[int, int, str]], cut: int) -> None:
    """A time grid, moment by moment, is the other way to compute the same."""
    found = _Activities()
    for step, (begin, length) in enumerate([(0, cut), (cut, 40 - cut)]):
        found.add(event(f"ProfilerStep#{step}", "user_annotation", begin, length))
    for begin, length, kind in kernels:
        found.add(event("ncclKernel" if kind == "n" else "gemm", "kernel", begin, length))
    for codes, letters in (((0,), "k"), ((1,), "n"), ((0, 1, 2), "kn")):
        busy = {
            moment
            for begin, length, kind in kernels
            for moment in range(begin, begin + length)
            if kind in letters
        }
        expected = [len(busy & {*range(cut)}), len(busy & {*range(cut, 40)})]
        assert (found.busy(codes) * 1e6).tolist() == pytest.approx(expected)


NVRX = """ iteration       10/     500 | elapsed time per iteration (ms): 812.4 |
GPU relative performance:
 Worst performing 2/3 ranks:
  Rank=2 Node=n2 Score=0.50
  Rank=0 Node=n1 Score=0.80
 Best performing 2/3 ranks:
  Rank=1 Node=n1 Score=1.00
  Rank=0 Node=n1 Score=0.80

GPU individual performance:
 Worst performing 2/3 ranks:
  Rank=2 Node=n2 Score=0.98
"""


def test_straggler_reports_are_relative_times(write: Write, tmp_path: Path) -> None:
    rows, entry = read(write("run7.log", NVRX) / "run7.log", tmp_path / "store")
    assert (entry.rows_kept, entry.rows_rejected, entry.rows_not_applicable) == (3, 0, 2)
    assert rows.select("worker_id", "host", "step", "batch_time").rows() == [
        ("2", "n2", 10, 2.0), ("0", "n1", 10, 1.25), ("1", "n1", 10, 1.0),
    ]  # fmt: skip
    manifest = Store(tmp_path / "store").manifest("run7")
    assert manifest.tables["worker_samples"].units == {"batch_time": "relative"}


def test_straggler_reports_as_json_lines(write: Write, tmp_path: Path) -> None:
    lines = [
        {"iteration": 300, "performance_data": {"relative_scores": {"0": 1.0, "1": 0.5}}},
        {"gpu_relative_perf_scores": {"0": 0.8}, "rank_to_node": {"0": "n1"}},
        {"other": 1},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    rows, entry = read(write("job_5.jsonl", text) / "job_5.jsonl", tmp_path / "store")
    assert entry.rejected == {"no_scores": 1}
    assert rows.select("worker_id", "host", "step", "batch_time").rows() == [
        ("0", None, 300, 1.0), ("1", None, 300, 2.0), ("0", "n1", 1, 1.25),
    ]  # fmt: skip
