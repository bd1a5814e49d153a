"""Nodes that are drained together are found to the hour; nights, packing and outages are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.questions.trends.logs import BEGIN_S, DAY_S, sessions, with_outage
from traceana import add_table, open_store
from traceana.questions.trends import section
from traceana.questions.trends.capacity import trends_of
from traceana.store import Trace

_NODES = 20


def _stored(jobs: pl.DataFrame, folder: Path) -> Trace:
    jobs = jobs.with_columns(job_id=pl.format("j{}", pl.int_range(pl.len())))
    named = "\n".join(f'{name} = "{name}"' for name in jobs.columns if name != "node")
    mapping = f'[trace]\nkeep = ["node"]\n[jobs]\n{named}\n'
    add_table(jobs, trace="mine", table="jobs", store=folder, mapping=mapping)
    return open_store(folder).trace("mine")


def _on_nodes(jobs: pl.DataFrame, drained: tuple[float, float] | None = None) -> pl.DataFrame:
    """Place jobs on nodes at random; those of even numbers run none within some time."""
    rng = np.random.default_rng(3)
    node = rng.integers(0, _NODES, jobs.height)
    if drained is not None:
        start, end = (jobs[name].to_numpy() for name in ("start_s", "end_s"))
        node |= (start < drained[1]) & (end > drained[0])
    return jobs.with_columns(node=pl.Series([f"n{one:02d}" for one in node]))


def test_half_of_the_nodes_drained_for_two_days_are_named(tmp_path: Path) -> None:
    drained = (BEGIN_S + 30.5 * DAY_S, BEGIN_S + 32.5 * DAY_S)
    jobs = _on_nodes(sessions(2), drained)
    trace = _stored(jobs, tmp_path)
    [row] = trends_of(trace).idle_nodes.rows(named=True)
    assert row["nodes"].split(", ") == [f"n{one:02d}" for one in range(0, _NODES, 2)]
    assert (row["n"], row["n_nodes"], row["lasts"]) == (10, _NODES, False)
    even = jobs.filter(pl.col("node").is_in(row["nodes"].split(", ")))
    before = even.filter(pl.col("start_s") < drained[0])["end_s"].to_numpy().max()
    after = even.filter(pl.col("start_s") > drained[0])["start_s"].to_numpy().min()
    # each of them ran its last job before the latest of these ends
    assert (row["start_s"], row["end_s"]) == (before, after)
    window = jobs["end_s"].to_numpy().max() - jobs["submit_s"].to_numpy().min()
    hours = float(even.select(pl.col("runtime_s").sum()).item()) / 3600
    lasted = after - before
    assert row["gpu_hours_lost"] == pytest.approx(hours * lasted / (window - lasted))
    found = next(one for one in section.build([trace]).findings if "ran no job" in one)
    assert found.alert.startswith("mine: drained or down: 10 of 20 nodes ran no job from 2026-04-0")  # type: ignore[attr-defined]


def test_an_outage_of_all_nodes_and_a_clean_log_have_none(tmp_path: Path) -> None:
    clean = sessions(2)
    assert trends_of(_stored(_on_nodes(clean), tmp_path / "a")).idle_nodes.is_empty()
    dark = with_outage(clean, BEGIN_S + 23.4 * DAY_S, 40)
    found = trends_of(_stored(_on_nodes(dark), tmp_path / "b"))
    assert (found.outages.height, found.idle_nodes.height) == (1, 0)


@pytest.mark.parametrize("taken_over", [True, False])
def test_nodes_are_idle_without_jobs_unless_others_take_these_over(
    tmp_path: Path, *, taken_over: bool
) -> None:
    """In 30 h even nodes run none: their jobs run on odd ones, or half of all jobs are missing."""
    within = (BEGIN_S + 30.5 * DAY_S, BEGIN_S + 31.75 * DAY_S)
    jobs = _on_nodes(sessions(2), within)
    if not taken_over:
        both = _on_nodes(sessions(2))["node"].str.slice(1).cast(pl.Int64) % 2 == 0
        inside = (pl.col("start_s") < within[1]) & (pl.col("end_s") > within[0])
        jobs = jobs.filter(~(inside & both))
    assert trends_of(_stored(jobs, tmp_path)).idle_nodes.height == taken_over


def test_a_node_that_is_gone_is_an_event_that_lasts(tmp_path: Path) -> None:
    jobs = _on_nodes(sessions(2, users=20))
    gone = (pl.col("node") == "n07") & (pl.col("end_s") > BEGIN_S + 30 * DAY_S)
    [row] = trends_of(_stored(jobs.filter(~gone), tmp_path)).idle_nodes.rows(named=True)
    assert (row["nodes"], row["lasts"], row["n"]) == ("n07", True, 1)


def test_a_node_that_is_idle_longer_than_any_is_named_though_its_own_gaps_are_few(
    tmp_path: Path,
) -> None:
    # users run three jobs in a row on a node; n07 is drained for five days
    jobs, within = sessions(3), (BEGIN_S + 30.5 * DAY_S, BEGIN_S + 35.5 * DAY_S)
    node = np.random.default_rng(3).integers(0, _NODES, jobs.height // 3 + 1).repeat(3)
    named = pl.Series([f"n{one:02d}" for one in node[: jobs.height]])
    is_drained = (named == "n07") & (jobs["start_s"] < within[1]) & (jobs["end_s"] > within[0])
    elsewhere = pl.select(pl.when(is_drained).then(pl.lit("n08")).otherwise(named)).to_series()
    clean = trends_of(_stored(jobs.with_columns(node=named), tmp_path / "a"))
    assert clean.idle_nodes.is_empty()
    found = trends_of(_stored(jobs.with_columns(node=elsewhere), tmp_path / "b"))
    assert found.idle_nodes["nodes"].to_list() == ["n07"]


def test_nodes_that_are_filled_in_their_order_are_idle_by_chance(tmp_path: Path) -> None:
    jobs = sessions(2, per_day=100).sort("start_s")
    free, nodes = np.zeros(200), list[str]()
    for start, end in jobs.select("start_s", "end_s").iter_rows():
        place = int(np.argmax(free <= start))
        free[place] = end
        nodes.append(f"n{place:02d}")
    placed = jobs.with_columns(node=pl.Series(nodes))
    assert trends_of(_stored(placed, tmp_path)).idle_nodes.is_empty()


def test_nodes_are_no_idle_capacity_before_they_came_and_after_they_went(tmp_path: Path) -> None:
    # always busy, so that a node has few gaps; n1 is gone after 16 of 28 days, n2 and n3 are new
    rng = np.random.default_rng(5)
    parts = []
    for node, (first, last) in enumerate(((0, 28), (0, 16), (14, 28), (14, 28), (0, 28), (0, 28))):
        runtime = rng.lognormal(8.5, 1, 1000)
        end = BEGIN_S + first * DAY_S + np.cumsum(runtime)
        jobs = pl.DataFrame({"start_s": end - runtime, "end_s": end, "runtime_s": runtime})
        jobs = jobs.filter(pl.col("end_s") < BEGIN_S + last * DAY_S)
        parts.append(jobs.with_columns(submit_s="start_s", node=pl.lit(f"n{node}")))
    every = pl.concat(parts).with_columns(gpus=8.0, cpus=16.0, status=pl.lit("completed"))
    trace = _stored(every, tmp_path)
    found = trends_of(trace)
    rows = found.idle_nodes.select("nodes", "is_first", "lasts").rows()
    assert rows == [("n2, n3", True, False), ("n1", False, True)]
    assert found.capacity is not None
    whole = found.capacity.row(0, named=True)
    assert whole["gpu_hours"] == pytest.approx(8 * 24 * (3 * 28 + 16 + 2 * 14), rel=0.02)
    assert (whole["allocated"], whole["down"]) == (pytest.approx(1, abs=0.02), None)
    assert found.cpus is not None
    assert found.cpus[1] == pytest.approx(1, abs=0.02)
    assert found.trends["utilization"].to_numpy().min() > 0.85
    new, gone, *_ = section.build([trace]).findings
    assert "; they may be new (n2 and n3)." in new
    assert "drained or down: node n1 ran no job from" in gone.alert  # type: ignore[attr-defined]
    assert not new.alert  # type: ignore[attr-defined]
