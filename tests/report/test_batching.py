"""The section on dynamic batching against the simulator, one by one."""

from __future__ import annotations

import polars as pl
import pytest

from tests.report.reader import Element, number, read_table, section
from traceana import detect_stragglers
from traceana.simulate import published_gains, replay_batching, sweep_batching
from traceana.store import Store


def test_the_tables_are_the_replay(page: Element, store: Store) -> None:
    part = section(page, "batching")
    samples = store.scan("alibaba-minibatch-2020", "worker_samples").collect()
    replay = replay_batching(samples, episodes=detect_stragglers(samples).episodes)
    jobs = {
        row["Job"]: row for row in read_table(part, "Speedup over uniform batch sizes of recorded")
    }
    for job, controller, speedup in replay.jobs.select(
        "job_id", "controller", "speedup_iterations"
    ).rows():
        heading = {"proportional": "Proportional", "oracle": "Oracle"}.get(controller)
        if heading:
            assert number(jobs[job][heading]) == pytest.approx(speedup, abs=0.000501)
    costs = read_table(part, "Relative cost of straggler episodes")
    found = replay.episodes.filter(controller="uniform")
    assert len(costs) == found.height > 0
    expected = sorted(found.select(pl.col("cost_fraction") * 100).to_series().to_list())
    shown = sorted(number(row["Uniform"]) for row in costs)
    assert shown == pytest.approx(expected, abs=0.0501)


def test_sweep_and_gains_are_those_computed(page: Element) -> None:
    part = section(page, "batching")
    rows = read_table(part, "Speedup over uniform batch sizes, mean of 10 seeds")
    sweep = sweep_batching({"6/6/4/32": (6, 6, 4, 32)}, overheads_s=[0.1], noise_cvs=[0.1])
    for row in rows:
        if (row["Cores"], row["Overhead (s)"], row["Noise (CoV)"]) == ("6/6/4/32", "0.1", "0.1"):
            for heading, name in (("Static", "static"), ("OmniLearn", "omnilearn")):
                mean = float(str(sweep.filter(controller=name)["speedup"].mean()))
                assert number(row[heading]) == pytest.approx(mean, abs=0.000501)
    gains = read_table(part, "Throughput ratios that the published speedups imply")
    assert [row["Claim"] for row in gains] == published_gains()["id"].to_list()
    assert gains[0]["Maximum speedup"] == "3.250"


def test_without_recorded_workers_none_is_simulated(zeus_page: Element) -> None:
    captions = [each.text for each in zeus_page.all("figcaption")]
    assert captions
    for what in ("Speedup by heterogeneity", "Uniform, static and dynamic batching"):
        assert not any(what in text for text in captions)
