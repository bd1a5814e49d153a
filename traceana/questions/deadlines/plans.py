"""Results on training plans that claims and sections share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana import simulate
from traceana.cohorts.jobs_of_tasks import from_tasks, jobs_of_tasks
from traceana.questions.deadlines.agreement import compare_plans
from traceana.questions.deadlines.draws import replay_published_draws
from traceana.questions.deadlines.rates import iteration_rates
from traceana.questions.deadlines.rules import deadline_rules
from traceana.questions.deadlines.tightness import deadline_tightness

if TYPE_CHECKING:
    from traceana.store import Trace


PLANS_NEEDS: Final = (
    {
        "training_plans": ("model", "batch_size", "iterations", "deadline_s"),
        "jobs": ("submit_s", "runtime_s", "gpus"),
    },
)
"""What a trace needs for deadlines."""
JOBS_NEEDS: Final = (
    {"jobs": ("submit_s", "runtime_s", "gpus")},
    {"jobs": ("submit_s",), "tasks": ("gpus",), "instances": ("start_s", "end_s")},
)
"""What a trace needs for synthetic deadlines."""
SEED: Final = 0
MAX_JOBS: Final = 100_000
"""Jobs that the report schedules: the first."""


def _tables(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame]:
    plans, jobs = (trace.scan(table).collect() for table in ("training_plans", "jobs"))
    return plans, jobs


def _jobs(trace: Trace) -> pl.LazyFrame:
    """Return the jobs of a trace, with the runtimes and GPUs of their instances if need be."""
    if from_tasks(trace):
        return trace.once(jobs_of_tasks).lazy().drop("start_s", "gpu_type")
    columns = ("job_id", "cluster", "submit_s", "runtime_s", "gpus")
    return trace.scan("jobs").select(columns)


def rules(trace: Trace, /) -> pl.DataFrame:
    """Return the tests of the rules that the deadlines of a trace follow."""
    found = trace.once(draws)
    return deadline_rules(*_tables(trace), draws=found)


def rates(trace: Trace, /) -> pl.DataFrame:
    """Return the iteration rates behind the plans of a trace."""
    return iteration_rates(*_tables(trace))


def draws(trace: Trace, /) -> pl.DataFrame:
    """Return the models of plans as draws of one seeded sequence."""
    return replay_published_draws(trace.scan("training_plans"))


def synthetic(trace: Trace, /) -> pl.DataFrame:
    """Return synthetic plans of the jobs of a trace."""
    return simulate.synthesize_deadlines(_jobs(trace), rng=SEED)


def tightness(trace: Trace, /) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tightness by kind of plans and cluster, and of all plans of the trace."""
    plans, jobs = _tables(trace)
    kinds = {"published": plans}
    if trace.manifest.tables["training_plans"].generated:
        kinds["synthetic"] = trace.once(synthetic)
    by_cluster = [
        deadline_tightness(each, jobs, by="cluster").select(pl.lit(kind).alias("plans"), pl.all())
        for kind, each in kinds.items()
    ]
    return pl.concat(by_cluster), deadline_tightness(plans, jobs)


def missed_deadlines(trace: Trace, /) -> pl.DataFrame:
    """Return the deadlines that the first jobs of a trace miss under scheduling policies.

    Deadlines are those of the trace, or synthetic ones. Clusters have so many GPUs that jobs use
    80 % of them.
    """
    jobs = _jobs(trace).sort("submit_s", "job_id").head(MAX_JOBS)
    if trace.manifest.has("training_plans"):
        return simulate.simulate_deadlines(jobs, plans=trace.scan("training_plans"))
    return simulate.simulate_deadlines(jobs, plans=trace.once(synthetic))


def agreement(trace: Trace, /) -> pl.DataFrame:
    """Return the comparison of synthetic plans with those of the trace."""
    plans, jobs = _tables(trace)
    return compare_plans(plans, trace.once(synthetic), jobs)
