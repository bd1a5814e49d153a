"""Timelines begin and end when the operations do, and a viewer can open the file."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import polars as pl
import pytest

from tests.generator.operations import sample_operations
from tests.simulate.operations.generate import generate
from traceana import operation_timeline, replay_operations, write_timeline
from traceana.errors import DataError
from traceana.simulate import MicroBatches


def test_a_timeline_ends_with_the_steps() -> None:
    operations, times = generate(stages=3, noise=0.3, steps=4)
    timeline = operation_timeline(operations, steps=[30, 10])
    assert timeline["step"].unique().to_list() == [10, 30]
    ends = timeline.group_by("scenario", "step").agg(pl.col("end_s").max())
    ideal = replay_operations(operations).step_s_ideal
    for scenario, step, end in ends.rows():
        expected = times if scenario == "measured" else ideal
        assert end == pytest.approx(expected[step // 10])
    assert timeline.filter(scenario="measured").height == operations.height / 2
    assert (timeline["end_s"] >= timeline["begin_s"]).all()
    # a measured transfer waits from its start until it begins
    joined = timeline.filter(scenario="measured").join(
        operations.rename({"worker_id": "worker"}), on=["step", "worker", "kind", "sequence"]
    )
    start = joined["begin_s"] - joined["waiting_s"]
    offset = joined["step"] * 100.0  # a step begins each 1,000 s
    assert ((start - (joined["start_s"] - offset)).abs() < 1e-9).all()


def test_the_file_is_in_the_trace_event_format(tmp_path: Path) -> None:
    timeline = operation_timeline(sample_operations(), steps=[0, 1])
    path = write_timeline(timeline, tmp_path / "steps.json.gz")
    plain = write_timeline(timeline.to_pandas(), tmp_path / "steps.json")
    content = json.loads(gzip.decompress(path.read_bytes()))
    assert content == json.loads(plain.read_text())
    events = content["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == timeline.height
    assert {event["ph"] for event in events} == {"X", "M"}
    named = {(e["pid"], e.get("tid")) for e in events if e["name"].endswith("_name")}
    assert {(e["pid"], e["tid"]) for e in complete} | {(e["pid"], None) for e in complete} == named
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert processes[:2] == ["data-parallel rank 0, measured", "data-parallel rank 0, ideal"]
    # operations of a stream follow one another without overlap, else a viewer nests them
    streams: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in complete:
        streams.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    for spans in streams.values():
        assert all(a + length <= b for (a, length), (b, _) in itertools.pairwise(spans))
    # to the microsecond they are as long as the operations
    total = float((timeline["end_s"] - timeline["begin_s"]).to_numpy().sum())
    assert sum(event["dur"] for event in complete) == pytest.approx(
        total * 1e6, abs=timeline.height
    )


def test_what_cannot_be_shown_or_written_is_refused(tmp_path: Path) -> None:
    operations = sample_operations()
    with pytest.raises(DataError, match="no step is 7; found 0, 1, 2, 3, 4"):
        operation_timeline(operations, steps=[7])
    with pytest.raises(DataError, match="at least one step"):
        operation_timeline(operations, steps=[])
    with pytest.raises(DataError, match="it has other operations"):
        operation_timeline(operations, ideal=MicroBatches(2))
    timeline = operation_timeline(operations, steps=[0])
    with pytest.raises(DataError, match=r"the ending must be \.json or \.json\.gz"):
        write_timeline(timeline, tmp_path / "steps.txt")
    with pytest.raises(DataError, match="cannot be written"):
        write_timeline(timeline, tmp_path / "no" / "folder" / "steps.json")
    with pytest.raises(DataError, match="write_timeline: column scenario"):
        write_timeline(operations, tmp_path / "steps.json")


def test_the_synthetic_job_is_replayed_without_an_error() -> None:
    result = replay_operations(sample_operations())
    assert result.replay_error < 1e-12
    assert result.step_s_original == pytest.approx(result.step_s_measured, rel=1e-12)
