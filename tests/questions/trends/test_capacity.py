"""GPUs that are there, by type and node, against hours by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from tests.questions.trends.logs import DAY_S
from traceana import (
    add_table,
    cluster_utilization,
    open_store,
    read,
)
from traceana.cli.limits import limited_store
from traceana.cohorts.observation import nodes_seen
from traceana.errors import DataError
from traceana.questions.trends.capacity import trends_of


def test_gpus_are_allocated_down_or_idle() -> None:
    jobs = pl.DataFrame({"start_s": [0.0], "end_s": [DAY_S], "gpus": [4.0]})
    machines = pl.DataFrame({"machine_id": ["a", "b"], "gpus": [8.0, 8.0]})
    # two faults of one machine overlap: 12 h of 8 GPUs are down once
    faults = pl.DataFrame(
        {
            "machine_id": ["a", "a"],
            "start_s": [DAY_S, DAY_S + 3600],
            "end_s": [DAY_S + 43_200, DAY_S + 7200],
        }
    )
    found = cluster_utilization(
        jobs, machines=machines, faults=faults, period="day", window=(0.0, 2 * DAY_S)
    )
    assert found["period"].to_list() == ["all", "day 1", "day 2"]
    assert found["allocated"].to_list() == pytest.approx([0.125, 0.25, 0])
    assert found["down"].to_list() == pytest.approx([0.125, 0, 0.25])
    assert found["idle"].to_list() == pytest.approx([0.75, 0.75, 0.75])
    with pytest.raises(DataError, match="unknown: pass gpus"):
        cluster_utilization(jobs)


@pytest.mark.parametrize("column", ["NodeList", "node"])
def test_gpus_by_type_are_those_in_use_on_the_nodes_seen(tmp_path: Path, column: str) -> None:
    # node a has 8 GPUs in use at a time, though no job has more than 4; b is of another type
    jobs = pl.DataFrame(
        {
            "job_id": ["1", "2", "3", "4"],
            "start_s": [0.0, 3600.0, 7200.0, 0.0],
            "end_s": [7200.0, 10_800.0, 10_800.0, 3600.0],
            "runtime_s": [7200.0, 7200.0, 3600.0, 3600.0],
            "gpus": [4.0, 4.0, 4.0, 2.0],
            "gpu_type": ["A", "A", "A", "B"],
            column: ["a", "a", "a", "b"],
            "status": "completed",
        }
    )
    store = tmp_path / "store"
    named = "\n".join(f'{name} = "{name}"' for name in jobs.columns if name != column)
    mapping = f'[trace]\nkeep = ["{column}"]\n[jobs]\n{named}\n'
    add_table(jobs, trace="mine", table="jobs", store=store, mapping=mapping)
    trace = open_store(store).trace("mine")
    assert nodes_seen(trace).select("machine_id", "gpu_type", "gpus").rows() == [
        ("a", "A", 8.0),
        ("b", "B", 2.0),
    ]
    found = trends_of(trace)
    assert found.capacity is not None
    whole = found.capacity.filter(period="all").select("gpu_type", "gpus", "allocated")
    assert whole.rows() == [
        ("all", 10, pytest.approx((8 + 8 + 4 + 2) / 30)),
        ("A", 8, pytest.approx(20 / 24)),
        ("B", 2, pytest.approx(2 / 6)),
    ]
    with limited_store(open_store(store), since=None, until=None, where=None, gpus=20) as place:
        stated = trends_of(place.trace("mine"))
    assert stated.capacity is not None
    assert stated.capacity.select("gpus", "allocated").row(0) == (20, pytest.approx(22 / 60))
    assert stated.capacity_source == "as stated"


def test_nodes_that_have_slices_and_whole_gpus_are_of_no_type(tmp_path: Path) -> None:
    jobs = pl.DataFrame(
        {
            "start_s": [0.0, 3600.0, 0.0, 3600.0],
            "runtime_s": 3600.0,
            "gpus": [4.0, 1 / 7, 4.0, 1 / 7],
            "gpu_type": ["A100", "1g.5gb", "A100", "1g.5gb"],
            "node": ["a", "a", "b", "b"],
        }
    )
    mapping = '[trace]\nkeep = ["node"]\n[jobs]\n' + "\n".join(
        f'{name} = "{name}"' for name in jobs.columns if name != "node"
    )
    add_table(jobs, trace="mine", table="jobs", store=tmp_path, mapping=mapping)
    trace = open_store(tmp_path).trace("mine")
    assert nodes_seen(trace)["gpu_type"].to_list() == [None, None]
    capacity = trends_of(trace).capacity
    assert capacity is not None
    assert capacity["gpu_type"].unique().to_list() == ["all"]


def test_the_hour_that_occurs_twice_adds_no_gpus_to_a_node(tmp_path: Path) -> None:
    """Jobs of 8 GPUs for half an hour each, in a row on a node, over the end of summer time.

    In local time those of 00:00 to 01:00 and of 01:00 to 02:00 UTC have the same times.
    """
    first = datetime(2026, 10, 24, 22, tzinfo=UTC)  # 0:00 in Berlin on the 25th
    zone, rows = ZoneInfo("Europe/Berlin"), []
    for half_hour in range(12):
        start, end = (first + timedelta(minutes=30 * at) for at in (half_hour, half_hour + 1))
        local = [time.astimezone(zone).strftime("%Y-%m-%dT%H:%M:%S") for time in (start, end)]
        rows.append(f"{half_hour}|a|COMPLETED|{local[0]}|{local[0]}|{local[1]}|gres/gpu=8|n1")
    heading = "JobID|User|State|Submit|Start|End|AllocTRES|NodeList"
    (tmp_path / "sacct.txt").write_text("\n".join([heading, *rows]))
    trace = read(tmp_path / "sacct.txt", timezone="Europe/Berlin")
    assert nodes_seen(trace)["gpus"].to_list() == [8.0]


@pytest.mark.parametrize("unit_s", [1.0, 36.0, 60.0])
def test_rounded_durations_add_no_gpus_to_a_node(tmp_path: Path, unit_s: float) -> None:
    # jobs of 8 GPUs in a row on a node of 8: a duration that is rounded up overlaps the next job
    runtime = np.random.default_rng(1).lognormal(7, 1, 200)
    end = np.cumsum(runtime)
    jobs = pl.DataFrame({"start_s": end - runtime, "runtime_s": runtime}).with_columns(
        (pl.col("runtime_s") / unit_s).ceil() * unit_s, gpus=8.0, node=pl.lit("a")
    )
    mapping = (
        '[trace]\nkeep = ["node"]\n[jobs]\nstart_s = "start_s"\nruntime_s = "runtime_s"\n'
        'gpus = "gpus"\n'
    )
    add_table(jobs, trace="mine", table="jobs", store=tmp_path, mapping=mapping)
    assert nodes_seen(open_store(tmp_path).trace("mine"))["gpus"].to_list() == [8.0]
