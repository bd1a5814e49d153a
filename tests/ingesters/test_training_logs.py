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
from traceana import replay_operations, worker_slowdown
from traceana.errors import DataError, SourceError
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

OLD_SAMPLES = """\
[INFO] [config.py:1064:print]   train_batch_size ............. 48
[Rank 0] step=20, skipped=17, lr=[5e-05], mom=[(0.9, 0.999)]
[INFO] [timer.py:198:stop] 0/20, RunningAvgSamplesPerSec=90.5, CurrSamplesPerSec=96.0, MemAllocated=1GB
[INFO] [timer.py:198:stop] 0/30, RunningAvgSamplesPerSec=90.5, CurrSamplesPerSec=192.0, MemAllocated=1GB
"""  # noqa: E501
PROGRESS = """\
Epoch 0: :  0%| | 1/9 [00:02<, global_step=0.000, train_step_timing in s=9.500]\r\
Epoch 0: :  0%| | 2/9 [00:02<, global_step=1.000, train_step_timing in s=5.500]\r"""


def read(files: Path, store: Path, **options: Any) -> tuple[pl.DataFrame, TableEntry]:
    entry, *_ = ingest(files, store=store, **options).entries
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
        (OLD_SAMPLES, [("all", 20, 0.5), ("all", 30, 0.25)]),
        (NEMO, [("all", 9, 5.43)]),
        (PROGRESS, [("all", 0, 9.5), ("all", 1, 5.5)]),
        (SAMPLES + MEGATRON, [("all", 10, 0.8124), ("all", 20, 1.6248)]),
    ],
    ids=["megatron", "launcher", "samples", "timers", "pipeline", "older", "nemo", "bar", "both"],
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


BY_RANK = """\
 [2026-03-02 08:00:00] iteration       10/     500 | elapsed time per iteration (ms): 812.4 |
times across ranks (ms):
  forward-backward:
     rank  0: 780.10
     rank  1: 781.20
  forward-compute:
     rank  0: 201.10
     rank  1: 302.20
  backward-compute:
     rank  0: 400.00
     rank  1: 400.50
"""


def test_timers_of_each_rank(write: Write, tmp_path: Path) -> None:
    rows, entry = read(write("run7.log", BY_RANK) / "run7.log", tmp_path / "store")
    assert not entry.rejected
    assert rows.select("worker_id", "step", "batch_time").rows() == [
        ("0", 10, pytest.approx(0.6011)),
        ("1", 10, pytest.approx(0.7027)),
    ]
    operations = Store(tmp_path / "store").scan("run7", "operations").collect()
    slow = operations.filter(worker_id="1").select("kind", "duration_s", "start_s", "dp_rank")
    assert slow.rows() == [
        ("forward-backward", pytest.approx(0.7812), None, None),
        ("forward-compute", pytest.approx(0.3022), None, None),
        ("backward-compute", pytest.approx(0.4005), None, None),
    ]
    with pytest.raises(DataError, match=r"column dp_rank has 6 null|'forward-backward' is unknown"):
        replay_operations(operations)


def test_timers_without_ranks_leave_the_step_time(write: Write, tmp_path: Path) -> None:
    log = BY_RANK.replace("times across ranks (ms):", "(min, max) time across ranks (ms):")
    rows, _ = read(write("run7.log", log) / "run7.log", tmp_path / "store")
    assert rows.select("worker_id", "batch_time").rows() == [("all", 0.8124)]


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


def kineto(
    rank: int | None,
    events: list[dict[str, Any]] = EVENTS,
    groups: dict[str, list[int]] | None = None,
    **options: Any,
) -> str:
    listed = [{"pg_desc": name, "ranks": ranks} for name, ranks in (groups or {}).items()]
    job = {"backend": "nccl", "rank": rank, "world_size": 2, "pg_config": listed}
    content = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "A GPU"}],
        "distributedInfo": {} if rank is None else job,
        "traceEvents": events,
        "traceName": "x.json",
    }
    return json.dumps(content, **options)


def test_profiler_traces_of_two_ranks(write: Write, tmp_path: Path) -> None:
    no_json = kineto(0).replace("A GPU", r"C:\GPU")  # what is before the events is not read
    write("job9/n1_41.1772438400.pt.trace.json", no_json)
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


class Kernels:
    """Kernels of two steps of a rank, each launched by a call of the runtime."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def add(self, name: str, launch: float, ts: float, dur: float, **args: Any) -> None:
        number = {"correlation": len(self.events)}
        call = event("cudaLaunchKernel", "cuda_runtime", launch, 1)
        self.events += [call | {"args": number}]
        self.events += [event(name, "kernel", ts, dur) | {"args": args | number}]

    def step(self, begin: float, factor: float, last: float) -> None:
        """Run a step of a data-parallel job, whose slowest rank takes `last` for its passes."""
        self.events.append(event(f"ProfilerStep#{int(begin / 1e4)}", "user_annotation", begin, 1e4))
        self.add("gemm", begin + 10, begin + 100, 600 * factor)
        self.add("gemm", begin + 20, begin + 100 + 600 * factor, 400 * factor)
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        self.events.append(event(name, "cpu_op", begin + 50, 30))
        self.add("gemm", begin + 55, begin + 100 + 1000 * factor, 2000 * factor)
        ready = 3000 * factor
        args = {"Collective name": "allreduce", "Process Group Description": "default_pg"}
        name = "ncclDevKernel_AllReduce_Sum_f32"
        self.add(name, begin + 60, begin + 100 + ready, last + 200 - ready, **args)
        self.add("norm", begin + 90, begin + 300 + last, 5)  # after the passes: of none of them
        self.events.append(event("Optimizer.step#AdamW.step", "user_annotation", begin + 100, 50))
        self.add("adam", begin + 110, begin + 305 + last, 300)


def test_operations_of_profiler_traces(write: Write, tmp_path: Path) -> None:
    for rank, factor in enumerate((1.0, 1.5)):
        kernels = Kernels()
        for step in range(2):
            kernels.step(1e4 * step, factor, 4500)
        files = write(f"job9/n{rank}_1.17{rank}.pt.trace.json", kineto(rank, kernels.events))
    read(files / "job9", tmp_path / "store")
    operations = Store(tmp_path / "store").scan("job9", "operations").collect()
    slow = operations.filter(step=1, worker_id="1").sort("start_s")
    assert slow.select("dp_rank", "stage", "kind", "duration_s").rows() == [
        (1, 0, "forward-compute", pytest.approx(1500e-6)),
        (1, 0, "backward-compute", pytest.approx(3000e-6)),
        (1, 0, "separate-grads-all-reduce", pytest.approx(200e-6)),
        (1, 0, "optimizer", pytest.approx(300e-6)),
    ]
    result = replay_operations(operations)
    assert result.step_s_original == pytest.approx([5000e-6] * 2)
    assert result.replay_error < 1e-9
    found = worker_slowdown(operations)
    assert found.workers["worker"][0] == "1"
    assert found.m_w == pytest.approx(1)


SENDS = {"Collective name": "send", "Process Group Description": "mesh_pp"}
GROUPS = {"default_pg": [0, 1, 2, 3], "mesh_pp": [1, 3], "mesh_dp": [2, 3], "mesh_tp": [3]}


def pipeline(**of_send: Any) -> list[dict[str, Any]]:
    kernels = Kernels()
    kernels.step(0, 1, 3000)
    kernels.add("ncclDevKernel_SendRecv", 15, 90, 10, **SENDS, **of_send)
    return kernels.events


@pytest.mark.parametrize(
    ("rank", "groups", "place", "kind"),
    [
        (3, GROUPS, (1, 1), "backward-send"),
        (3, {"MODEL_PARALLEL": [3]}, (0, None), None),
        (None, {}, (None, None), None),
    ],
    ids=["groups", "no pipeline group", "no rank"],
)
def test_places_in_the_pipeline_are_those_of_the_process_groups(
    *,
    rank: int | None,
    groups: dict[str, list[int]],
    place: tuple[int | None, int | None],
    kind: str | None,
    write: Write,
    tmp_path: Path,
) -> None:
    text = kineto(rank, pipeline(**{"Dst Rank": 1}), groups)
    read(write("j/trace.json", text) / "j", tmp_path / "store")
    operations = Store(tmp_path / "store").scan("j", "operations").collect()
    assert operations.select("dp_rank", "stage").unique().rows() == [place]
    assert (kind in operations["kind"].to_list()) == (kind is not None)
    # a transfer is between two passes
    passes = 2 if kind else 1
    assert operations.filter(kind="forward-compute").height == passes


def test_a_profile_without_gpu_has_step_times(write: Write, tmp_path: Path) -> None:
    cpu = [one for one in EVENTS if one.get("cat") in ("cpu_op", "user_annotation")]
    rows, _ = read(write("j/trace.json", kineto(0, cpu)) / "j", tmp_path / "store")
    assert rows.sort("step").select("batch_time", "compute_s").rows() == [
        (0.001, None),
        (0.0005, None),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (kineto(0, EVENTS[:3]), "no ProfilerStep in it"),
        (kineto(0).replace("ProfilerStep#", f"ProfilerStep#{10**22}"), "no ProfilerStep in it"),
        (kineto(0)[:-60], "it ends within an event"),
    ],
)
def test_unusable_profiles(text: str, said: str, write: Write, tmp_path: Path) -> None:
    file = write("a.json", text) / "a.json"
    with pytest.raises(SourceError, match=said):
        ingest(file, reader="kineto", store=tmp_path / "store")


def test_more_kernels_than_memory_should_hold_are_an_error(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traceana.ingesters.readers.kineto._MOST_LAUNCHES", 3)
    file = write("a.json", kineto(0, pipeline(), {"pp": [0, 1]})) / "a.json"
    with pytest.raises(SourceError, match="more than 3 kernels and their launches"):
        ingest(file, reader="kineto", store=tmp_path / "store")


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.sampled_from("kn")), max_size=8),
    st.integers(1, 20),
)
def test_busy_times_are_those_of_a_grid(kernels: list[tuple[int, int, str]], cut: int) -> None:
    """A time grid, moment by moment, is the other way to compute the same."""
    found = _Activities()
    for step, (begin, length) in enumerate([(0, cut), (cut, 40 - cut)]):
        step_event = event(f"ProfilerStep#{step}", "user_annotation", begin, length)
        found.add(step_event, begin, begin + length)
    for begin, length, kind in kernels:
        kernel = event("ncclKernel" if kind == "n" else "gemm", "kernel", begin, length)
        found.add(kernel, begin, begin + length)
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
        ("2", "n2", 10, 2.0),
        ("0", "n1", 10, 1.25),
        ("1", "n1", 10, 1.0),
    ]
    manifest = Store(tmp_path / "store").manifest("run7")
    assert manifest.tables["worker_samples"].units == {"batch_time": "relative"}


def test_straggler_reports_as_the_examples_of_nvrx_print_them(write: Write, tmp_path: Path) -> None:
    text = """=== GPUs perf scores. Report from rank 0 ===
GPU relative perf scores: {0: 0.8, 1: 0.5}
GPU individual perf scores: {0: 0.98, 1: 0.97}
GPU relative perf scores: {0: 1.0, 1: nan}
"""
    rows, entry = read(write("run7.log", text) / "run7.log", tmp_path / "store")
    assert entry.rows_rejected == 1
    assert rows.select("worker_id", "step", "batch_time").rows() == [
        ("0", 0, 1.25),
        ("1", 0, 2.0),
        ("0", 1, 1.0),
    ]


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
        ("0", None, 300, 1.0),
        ("1", None, 300, 2.0),
        ("0", "n1", 1, 1.25),
    ]
