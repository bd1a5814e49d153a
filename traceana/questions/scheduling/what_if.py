"""What-ifs of the schedule of a trace: other policies, more GPUs, deadlines."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any, Final

import polars as pl

from traceana.cohorts.observation import capacity_of, window_of
from traceana.simulate.placement.cluster import POLICIES
from traceana.simulate.placement.simulate import Workload, sweep_placement
from traceana.simulate.schedule.capacity import ALL, GroupCapacity, implied_rates
from traceana.simulate.schedule.simulate import read_schedule_jobs, recorded_waits, sweep_schedules
from traceana.simulate.schedule.tables import ScheduleGroups
from traceana.store import Trace
from traceana.tables.declare import schema_of

NEEDED: Final = {"jobs": ("submit_s", "runtime_s", "gpus")}
"""Tables and columns of a trace whose jobs can be scheduled."""
PLANNED: Final = {"training_plans": ("model", "batch_size", "iterations", "deadline_s")}
MOST_JOBS: Final = 20_000
"""Most jobs on the page: the first submitted are scheduled, a random sample is placed."""
MOST_PLANNED: Final = 500
"""Most jobs of a group whose deadlines are simulated on the page."""
MORE: Final = "+10%"
WAITS: Final = ("fifo", "easy")
"""Policies whose waits are on the page."""
DEADLINE_POLICIES: Final = ("edf", "tiresias", "gandiva", "themis", "elasticflow")


def waits_by_policy(trace: Trace, /) -> pl.DataFrame:
    """Return waits under FIFO and EASY, also with more GPUs, and the recorded ones."""
    jobs = trace.once(jobs_to_schedule, MOST_JOBS)[0]
    how = cluster_of(trace)
    runs = [
        sweep_schedules(jobs, {name: name for name in WAITS}, **how),
        sweep_schedules(jobs, {f"{name}, GPUs {MORE}": name for name in WAITS}, gpus=MORE, **how),
    ]
    recorded = recorded_waits(jobs)
    return pl.concat([*([recorded] if recorded is not None else []), *runs])


def jobs_to_schedule(trace: Trace, most: int | None, /) -> tuple[pl.DataFrame, int, int]:
    """Return the first jobs; how many still run, and how many with GPUs have no known runtime."""
    jobs = trace.scan("jobs").sort("submit_s", maintain_order=True).slice(0, most).collect()
    lacks = pl.col("runtime_s").is_null() & (pl.col("gpus") > 0)
    window = trace.once(window_of)
    runs = 0
    if window and trace.has("jobs", ("status", "start_s")):
        held = (window[1] - pl.col("start_s")).clip(0)
        running = lacks & (pl.col("status").cast(pl.String) == "running") & held.is_not_null()
        runs = int(jobs.select(running.sum()).item())
        jobs = jobs.with_columns(runtime_s=pl.when(running).then(held).otherwise("runtime_s"))
    return jobs, runs, int(jobs.select(lacks.sum()).item())


def deadlines_by_policy(trace: Trace, /) -> pl.DataFrame:
    """Return the deadlines met by policy, of groups with few jobs."""
    sizes = _planned(trace)["group"].value_counts()
    few = sizes.filter(pl.col("count") <= MOST_PLANNED)["group"].sort()
    rows = [trace.once(deadlines_met, name, each) for name in DEADLINE_POLICIES for each in few]
    return pl.concat([pl.DataFrame(schema=schema_of(ScheduleGroups)), *rows])


def deadlines_met(trace: Trace, policy: str, group: str, /) -> pl.DataFrame:
    """Return the deadlines of a group that a policy meets, as one row of a sweep."""
    rows = _planned(trace).filter(group=group)
    if rows.is_empty():
        return pl.DataFrame(schema=schema_of(ScheduleGroups))
    profiles = trace.once(rates_of_all)
    return sweep_schedules(
        rows, {policy: policy}, group="group", profiles=profiles, **cluster_of(trace)
    )


def _planned(trace: Trace) -> pl.DataFrame:
    """Return the jobs with their groups and plans, which each policy schedules."""

    def read() -> pl.DataFrame:
        return read_schedule_jobs(trace.jobs, plans=trace.table("training_plans"))

    return trace.cached(("planned jobs",), read, on_disk=False).drop("row", "known")


def cluster_of(trace: Trace, /) -> dict[str, Any]:
    """Return what states the GPUs of a trace, as options of a simulation; nodes seen are ALL's."""
    seen, capacity = capacity_of(trace), dict[str, Any](trace.manifest.capacity)
    machines = trace.table("machines") if trace.has("machines", ("gpus",)) else None
    if machines is None and not capacity and seen is not None:
        clusters = trace.scan("jobs").select(pl.col("^cluster$").n_unique()).collect()
        if not clusters.width or clusters.item() == 1:
            most = math.ceil(seen.machines["gpus"].max())
            capacity = {ALL: GroupCapacity(math.ceil(seen.gpus - 0.01), most, "nodes seen")}
    return {"machines": machines, "capacity": capacity}


def rates_of_all(trace: Trace, /) -> pl.DataFrame:
    """Return the throughputs that the plans of all jobs imply."""
    return implied_rates(_planned(trace))


SEEDS: Final = (1, 2)
"""Seeds with ties by name; ties at random take the first."""
NEEDED_TO_PLACE: Final = {"jobs": ("gpus",), "machines": ("gpus",)}
"""Tables and columns of a trace whose jobs can be placed."""
MARGIN: Final = 0.5
"""Percentage points of the GPUs by which policies differ beyond the noise of seeds."""


def placement_runs(trace: Trace, /) -> pl.DataFrame:
    """Simulate the placement of a trace's jobs under every policy, with both rules of ties."""
    # a random policy has no ties
    at_random = [trace.once(placed_at_random, name) for name in POLICIES if name != "random"]
    return pl.concat([trace.once(placed_by_name), *at_random])


def placed_by_name(trace: Trace, /) -> pl.DataFrame:
    """Simulate the placement under every policy, with ties by name."""
    return sweep_placement(*_to_place(trace), policies={n: n for n in POLICIES}, seeds=SEEDS)


def placed_at_random(trace: Trace, policy: str, /) -> pl.DataFrame:
    """Simulate the placement under one policy, with ties at random."""
    return sweep_placement(
        *_to_place(trace), policies={policy: policy}, seeds=SEEDS[:1], ties=("random",)
    )


def _to_place(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame]:
    jobs, machines = (trace.table(table) for table in NEEDED_TO_PLACE)
    return jobs.sample(MOST_JOBS, seed=1) if jobs.height > MOST_JOBS else jobs, machines


def count_unplaceable(trace: Trace, /) -> int:
    """Return how many jobs of a trace fit on none of its machines, even if all are empty."""
    return Workload(trace.table("jobs"), trace.table("machines")).count_unplaceable()


def reversed_pairs(summary: pl.DataFrame, /) -> list[tuple[str, str]]:
    """Return pairs of policies whose order depends on the rule of ties."""
    rows = summary.filter(arrived=100).select("ties", "policy", "allocated").rows()
    of = {(ties, policy): allocated for ties, policy, allocated in rows}
    policies = [policy for ties, policy in of if ties == "random"]
    return [
        (first, second)
        for first, second in permutations(policies, 2)
        if of["name", first] - of["name", second] > MARGIN
        and of["random", second] - of["random", first] > MARGIN
    ]
