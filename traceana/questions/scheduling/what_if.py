"""What-ifs of the schedule of a trace: other policies, more GPUs, deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.simulate.schedule.profiles import implied_rates
from traceana.simulate.schedule.simulate import read_schedule_jobs
from traceana.simulate.schedule.sweep import recorded_waits, sweep_schedules
from traceana.simulate.schedule.tables import ScheduleGroups
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from traceana.store import Trace

NEEDED: Final = {"jobs": ("submit_s", "runtime_s", "gpus")}
"""Tables and columns of a trace whose jobs can be scheduled."""
PLANNED: Final = {"training_plans": ("model", "batch_size", "iterations", "deadline_s")}
MOST_JOBS: Final = 20_000
"""Jobs to schedule on the page: the first submitted."""
MOST_PLANNED: Final = 500
"""Most jobs of a group whose deadlines are simulated on the page."""
MORE: Final = "+10%"
DEADLINE_POLICIES: Final = ("edf", "tiresias", "gandiva", "themis", "elasticflow")


def waits_by_policy(trace: Trace, /) -> pl.DataFrame:
    """Return waits under FIFO and EASY, and under EASY with more GPUs, and the recorded ones."""
    jobs = trace.scan("jobs").sort("submit_s", maintain_order=True).head(MOST_JOBS).collect()
    how = _how(trace)
    runs = [
        sweep_schedules(jobs, {"fifo": "fifo", "easy": "easy"}, **how),
        sweep_schedules(jobs, {f"easy, GPUs {MORE}": "easy"}, gpus=MORE, **how),
    ]
    recorded = recorded_waits(jobs)
    return pl.concat([*([recorded] if recorded is not None else []), *runs])


def deadlines_by_policy(trace: Trace, /) -> pl.DataFrame:
    """Return the deadlines met by policy, of groups with few jobs."""
    jobs, plans = trace.jobs, trace.table("training_plans")
    groups = read_schedule_jobs(jobs).get_column("group")
    few = groups.value_counts().filter(pl.col("count") <= MOST_PLANNED)["group"]
    known = jobs.filter(groups.is_in(few.implode()))
    if known.is_empty():
        return pl.DataFrame(schema=schema_of(ScheduleGroups))
    policies = {name: name for name in DEADLINE_POLICIES}
    rates = _rates(jobs, plans)
    return sweep_schedules(known, policies, plans=plans, profiles=rates, **_how(trace))


def _how(trace: Trace) -> dict[str, Any]:
    machines = trace.table("machines") if trace.has("machines", ("gpus",)) else None
    return {"machines": machines, "capacity": trace.manifest.capacity}


def _rates(jobs: pl.DataFrame, plans: pl.DataFrame) -> pl.DataFrame:
    return implied_rates(read_schedule_jobs(jobs, plans=plans))
