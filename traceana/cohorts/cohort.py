"""Cohorts (jobs, or tasks with the runtimes of their instances) for outcome analyses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.groups import MOST_GROUPS
from traceana.cohorts.observation import Observation, observe
from traceana.cohorts.tasks import sample_jobs, sampled_rows, task_owners, task_times

if TYPE_CHECKING:
    from traceana.store import Trace
    from traceana.store.manifest import Manifest

COHORT_NEEDS: Final = (
    {"jobs": ("status", "runtime_s")},
    {"tasks": ("status",), "instances": ("start_s", "end_s")},
)
"""What a trace needs for a cohort: jobs with runtimes, or tasks and their instances."""
GROUPINGS: Final = ("gpu_type", "qos", "queue", "cluster")
"""Columns of few values by which rows are grouped, in the order of preference."""


@dataclass(frozen=True)
class Cohort:
    """Rows with status and runtime_s, and what a reader must know of them."""

    trace: Trace
    title: str
    """The trace, and its title with the fraction that was sampled, if any."""
    noun: str
    """What a row is, in the plural."""
    rows: pl.DataFrame
    """[status, runtime_s, duration_s, entry_s, observed, gpus, cpus, memory_gib, ...]."""
    cluster: str | None
    """Column of the independent unit; None if the trace has none."""
    by: str | None
    """Column of few values by which rows are grouped first, such as the GPU type; None if there is
    none."""
    about: str
    """What the rows are and where their runtime is from."""
    sampled: str = ""
    """The sample that they are, as a sentence; empty if they are all rows."""
    from_tasks: bool = False
    """Whether the rows are tasks whose runtimes are those of their instances."""
    observation: Observation | None = None
    """What the trace's window cuts off; None for tasks."""

    @property
    def fails(self) -> bool:
        """Whether a row has status failed."""
        return "failed" in self.rows["status"].cast(pl.String)

    @property
    def independence(self) -> str:
        """Which rows are treated as independent, as a sentence."""
        if self.cluster is None:
            return (
                "The trace has no user column, so rows are treated as independent. Confidence "
                "intervals are therefore likely too narrow."
            )
        units = self.rows[self.cluster].n_unique()
        return (
            f"Confidence intervals treat the {units:,} values of `{self.cluster}` as independent, "
            "not the rows; a row without a value counts as its own unit."
        )


def form_cohort(trace: Trace, /, *, end_imputation: str = "drop") -> Cohort:
    """Return the cohort of a trace: its jobs if they have runtimes, else its tasks."""
    manifest = trace.manifest
    of_jobs, of_tasks = (all(manifest.has(*one) for one in needs.items()) for needs in COHORT_NEEDS)
    if of_jobs or not of_tasks:
        return trace.cached(("cohort of jobs",), lambda: _jobs(trace), on_disk=False)
    if end_imputation != "drop":  # one section only
        return _tasks(trace, end_imputation)
    return trace.cached(("cohort of tasks",), lambda: _tasks(trace, "drop"), on_disk=False)


def task_title(trace: Trace, /) -> str:
    """Return the title of a trace, with the fraction of its tasks or jobs that was sampled."""
    sample = trace.once(sample_jobs)
    title = trace.label
    if sample is None:
        return title
    return f"{title}, a sample of {100 * sample.fraction:.1f} % of its {sample.noun}"


def sample_note(trace: Trace, /) -> str:
    """Return a sentence on the sample of a trace's jobs; empty if all are analyzed."""
    sample = trace.once(sample_jobs)
    return "" if sample is None else f" All results are from a sample: {sample.description}."


def _tasks(trace: Trace, end_imputation: str) -> Cohort:
    tasks = task_times(trace, end_imputation)
    manifest = trace.manifest
    owners = trace.once(task_owners)
    unit = manifest.independent_unit or "user"
    rows = tasks.hstack(owners.select(unit)) if unit in owners.columns else tasks
    rows, cluster = _with_unit(rows, unit)
    known = rows["runtime_s"].count()
    note = sample_note(trace)
    return Cohort(
        trace,
        task_title(trace),
        manifest.tables["tasks"].unit_noun,
        _with_requested(rows.drop("job_id")).with_columns(
            duration_s="runtime_s", entry_s=pl.lit(0.0), observed=pl.lit(value=True)
        ),
        cluster,
        _grouping(rows),
        "The runtime of a task is the last end of its instances minus their first start; missing "
        f"ends are treated by `{end_imputation}` (see task runtimes): {known:,} of "
        f"{rows.height:,} tasks have one.{note}",
        note,
        from_tasks=True,
    )


def _jobs(trace: Trace) -> Cohort:
    manifest = trace.manifest
    # no analysis of a cohort uses the names of each job
    there = trace.scan("jobs").collect_schema().names()
    used = [name for name in there if name not in ("job_name", "inst_id", "array_id")]
    jobs = sampled_rows(trace, "jobs", *used).collect()
    rows, observation = observe(jobs, manifest)
    note = sample_note(trace)
    table = manifest.tables["jobs"]
    rows, cluster = _with_unit(rows, manifest.independent_unit or "user")
    return Cohort(
        trace,
        task_title(trace),
        table.unit_noun,
        _with_requested(rows),
        cluster,
        _grouping(rows),
        " ".join(
            (*table.notes, _definition(manifest), observation.describe(table.unit_noun), note[1:])
        ).strip(),
        note,
        observation=observation,
    )


def _definition(manifest: Manifest) -> str:
    """Return the trace's definition of a failure; empty if it is the status failed."""
    if {*manifest.failure_statuses} == {"failed"}:
        return ""
    return f"Published definition, used where it is named: {manifest.failure_definition}"


def _with_unit(rows: pl.DataFrame, unit: str) -> tuple[pl.DataFrame, str | None]:
    """Fill missing values of the independent unit with the job; None if it has no values."""
    if unit not in rows.columns or not rows[unit].count():
        return rows, None
    filled = pl.col(unit).cast(pl.String)
    if rows[unit].null_count():
        filled = pl.coalesce(filled, pl.format("job {}", "job_id"))
    named = rows.select(filled.alias(unit))[unit]
    # numbers in the order of the names: ranked and grouped far faster than text
    return rows.with_columns(named.cast(pl.Enum(named.unique().sort()))), unit


def _grouping(rows: pl.DataFrame) -> str | None:
    """Return the first candidate with at least two, and few, values."""
    for name in GROUPINGS:
        if name in rows.columns and 2 <= rows[name].drop_nulls().n_unique() <= MOST_GROUPS:
            return name
    return None


def _with_requested(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the GPUs requested as categories, all fractions of one GPU taken together."""
    gpus = pl.col("gpus")
    name = (
        pl.when((gpus > 0) & (gpus < 1))
        .then(pl.lit("fraction of one"))
        .otherwise(gpus.cast(pl.String).str.strip_suffix(".0"))
    )
    named = rows.with_columns(gpus_requested=name)
    order = (
        named.select("gpus", "gpus_requested")
        .drop_nulls("gpus")
        .unique()
        .sort("gpus")["gpus_requested"]
        .unique(maintain_order=True)
        .to_list()
    )
    return named.with_columns(pl.col("gpus_requested").cast(pl.Enum(order)))
