"""What is done about missing ends, what that does to runtimes, and whether it can be true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.runtimes.capacity import check_capacity
from traceana.analysis.runtimes.tasks import MISSING_END, apply_policy
from traceana.derived.tasks import task_records, task_sample
from traceana.report.blocks import Block, Column, Content, Points, Table, Text, make_table, words
from traceana.report.section import Section
from traceana.report.sections.populations import pai_name
from traceana.results.formatting import count, hours, plain, seconds, share, three_digits

if TYPE_CHECKING:
    from traceana.analysis.runtimes.records import Records
    from traceana.derived.job_sample import JobSample
    from traceana.report.context import Context

TRACE = "alibaba-pai-2020"
_TABLES = ("tasks", "instances", "machines")
_POLICIES = {
    "drop_task": "a task of which any instance lacks its start or its end has no runtime.",
    "drop": "instances that lack their start or their end take no part.",
    "task": "where an instance's end is missing, its task's own end stands for it, unless that "
    "lies before the start of an instance without an end.",
    "running": "instances without an end run to the trace's end where their task's last status "
    "is running; of other tasks they take no part.",
    "trace_end": "all instances without an end run to the trace's end.",
}


def build(session: Context) -> Content:
    """Show every policy on missing ends side by side."""
    for table in _TABLES:
        if not session.has(TRACE, table):
            return Content((), (session.absent(TRACE, table, what="Task runtimes"),))
    name = pai_name(session)
    records = session.once(task_records, TRACE)
    check, scaled = _scale(
        check_capacity(records, session.frame(TRACE, "machines")),
        records,
        session.once(task_sample, TRACE),
    )
    by_type = _by_type(records)
    blocks: tuple[Block, ...] = (
        Text(
            "A task's runtime is the last end of its instances minus their first start; where "
            "ends were lost it depends on what stands for them. An instance without a start takes "
            "no part under any policy. GPU-hours are the GPUs that each instance asks for times "
            "the time that it took part; capacity is all machines' GPUs over the trace's span. A "
            "policy that asks for more than that cannot be true of the trace as a whole; one that "
            "asks for less may still lack what was lost. Runtime ratios and runtimes by "
            f"outcome, below, are of `drop`; competing ends are of `running`.{scaled}"
        ),
        Points(
            "The policies",
            tuple(f"`{policy}`: {_POLICIES[policy]}" for policy in MISSING_END),
        ),
        _capacity_table(check, name),
        make_table(
            by_type,
            [
                words("Outcome", "outcome"),
                words("GPU type", "gpu_type"),
                *(
                    Column(f"`{policy}`", (f"mean {policy}", f"n {policy}"), _mean_and_n)
                    for policy in MISSING_END
                ),
            ],
            caption="Mean runtime in s, and the tasks that it is taken over, by policy; success is "
            f"completed, failure every other status. {name}",
        ),
        _lost_table(records, name),
    )
    return Content(tuple(_findings(check, name)), blocks)


def _scale(
    check: pl.DataFrame, records: Records, sample: JobSample | None
) -> tuple[pl.DataFrame, str]:
    """Take the GPU-hours of a sample for those of all tasks, and say so and how surely."""
    if sample is None:
        return check, ""
    summed = ("gpu_hours", "gpu_hours_gang", "share_of_capacity")
    gpu_s = pl.col("gpus") * pl.col("instance_s")
    asked = records.tasks.select("job_id").with_columns(
        apply_policy(records, policy).select(gpu_s.alias(policy))[policy] for policy in MISSING_END
    )
    errors = sample.relative_errors(asked).values()
    off = max((1.96 * error for error in errors if error is not None), default=None)
    told = (
        f" All here is of a sample: {sample.told}. Its GPU-hours stand multiplied by "
        f"{three_digits(1 / sample.share)}, all tasks over those drawn, for those of the trace."
    )
    if off:
        told += (
            f" That leaves them unsure by {share(off)} at most (95 %), as far as the sample shows: "
            "of rare and very large jobs it may have too few."
        )
    return check.with_columns(pl.col(summed) / sample.share), told


def _capacity_table(check: pl.DataFrame, name: str) -> Table:
    return make_table(
        check,
        [
            words("Missing ends", "missing_end"),
            Column("Tasks with a runtime", "tasks_with_runtime", count),
            Column("Mean (s)", "mean_s", seconds),
            Column("Median (s)", "median_s", seconds),
            Column("Instances taking part", "instances_used", count),
            Column("GPU-hours", "gpu_hours", hours),
            Column("Held as a gang", "gpu_hours_gang", hours),
            Column("Capacity (GPU-hours)", "capacity_gpu_hours", hours),
            Column("Of capacity", "share_of_capacity", share),
            Column("Tasks stating no GPUs", "tasks_without_gpus", count),
        ],
        caption="GPU-hours asked for under each policy against capacity. Held as a gang: all "
        f"instances of a task from its first start to its last end. {name}",
    )


def _lost_table(records: Records, name: str) -> Table:
    n = pl.col("n_instances")
    lost = (
        records.tasks.group_by("status")
        .agg(
            tasks=pl.len(),
            without_instances=(n == 0).sum(),
            instances=n.sum(),
            no_start=1 - pl.col("n_start").sum() / n.sum(),
            no_end=1 - pl.col("n_end").sum() / n.sum(),
        )
        .with_columns(pl.col("no_start", "no_end").fill_nan(None))
        .sort("tasks", "status", descending=True)
    )
    return make_table(
        lost,
        [
            words("Status of the task", "status"),
            Column("Tasks", "tasks", count),
            Column("Without any instance", "without_instances", count),
            Column("Instances", "instances", count),
            Column("Start missing", "no_start", share),
            Column("End missing", "no_end", share),
        ],
        caption=f"Whose starts and ends are missing. {name}",
    )


def _by_type(records: Records) -> pl.DataFrame:
    runtime = pl.col("runtime_s")
    outcome = pl.when(status="completed").then(pl.lit("success")).otherwise(pl.lit("failure"))
    keys = ("outcome", "gpu_type")
    tables = [
        apply_policy(records, policy)
        .with_columns(outcome=outcome)
        .group_by(keys)
        .agg(runtime.mean().alias(f"mean {policy}"), runtime.count().alias(f"n {policy}"))
        for policy in MISSING_END
    ]
    joined, *others = tables
    for table in others:
        joined = joined.join(table, on=keys, how="left", nulls_equal=True)
    return joined.sort(keys, descending=(True, False), nulls_last=True)


def _mean_and_n(mean: float, n: int) -> str:
    return f"{seconds(mean)} ({n:,})"


def _findings(check: pl.DataFrame, name: str) -> list[str]:
    shares = dict(check.select("missing_end", "share_of_capacity").iter_rows())
    if shares["drop"] is None:
        return []
    first, *_ = check.rows(named=True)
    told = (
        f"{name}: tasks ask for {share(shares['drop'])} of the GPU-hours that "
        f"{plain(first['machine_gpus'])} GPUs could have given where instances without an end take "
        f"no part, and for {_times(shares['trace_end'])} if all of them ran to the trace's end"
    )
    false = [policy for policy in MISSING_END if shares[policy] > 1]
    if not false:
        return [f"{told}."]
    return [f"{told}. No policy that asks for more can be true as a whole: {', '.join(false)}."]


def _times(shares: float) -> str:
    return (
        f"{plain(round(shares, 1))} times as much as they could give"
        if shares > 1
        else share(shares)
    )


SECTION = Section("task-runtimes", "Task runtimes", 60, build, of_tasks=True)
