"""What was asked of the clusters: jobs, GPU-hours, runtimes and sizes, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis import workload_summary
from traceana.report.blocks import Block, Column, Content, Heading, Text, make_table, words
from traceana.report.section import Section
from traceana.report.sections.workload_shape import build_shape
from traceana.results.formatting import count, days, hours, plain, plural, seconds

if TYPE_CHECKING:
    from traceana.report.context import Context

_JOBS = ("microsoft-itp-2021", "elasticflow-2023", "alibaba-pai-2020", "alibaba-openb-2023")
_REPEATED = ("elasticflow-2023",)
_NOTES = {
    "elasticflow-2023": "These are the jobs of the ITP trace again: their numbers are not to be "
    "added to it.",
    "alibaba-openb-2023": "A pod that was never scheduled has no runtime; one that was still "
    "running at its last record counts with the time until it was removed.",
    "alibaba-pai-2020": "The jobs table says when a job was submitted and when it ended; launch "
    "and GPUs stand with its tasks. So there is no runtime here, and none is assumed.",
}
_SUMMARY = [
    Column("Jobs", "jobs", count),
    Column("Jobs with runtime", "jobs_with_runtime", count),
    Column("GPU-hours", "gpu_hours", hours),
    Column("Jobs without GPU-hours", "jobs_without_gpu_hours", count),
    Column("Mean runtime (s)", "runtime_s_mean", seconds),
    Column("25 % (s)", "runtime_s_p25", seconds),
    Column("Median (s)", "runtime_s_median", seconds),
    Column("75 % (s)", "runtime_s_p75", seconds),
    Column("95 % (s)", "runtime_s_p95", seconds),
    Column("99 % (s)", "runtime_s_p99", seconds),
    Column("GPUs: median", "gpus_median", plain),
    Column("GPUs: 95 %", "gpus_p95", plain),
    Column("GPUs: most", "gpus_max", plain),
    Column("Submissions (days)", ("first_submit_s", "last_submit_s"), days),
]


def build(session: Context) -> Content:
    """Summarise the jobs of each trace, by cluster where there are several."""
    findings: list[str] = []
    held: list[str] = []
    blocks: list[Block] = [
        Text(
            "GPU-hours are summed over jobs whose GPUs and runtime are both known; the others are "
            "counted beside. Each trace stands for itself. Percentages name quantiles."
        )
    ]
    for trace in _JOBS:
        blocks.append(Heading(session.title(trace)))
        if not session.has(trace, "jobs"):
            blocks.append(session.absent(trace, "jobs", what="Workload summary"))
            continue
        jobs, frame = session.scan(trace, "jobs"), session.frame(trace, "jobs")
        total = workload_summary(frame).with_columns(cluster=pl.lit("all"))
        what, by_cluster = "Workload", total.clear()
        several = jobs.select(pl.col("cluster").n_unique() > 1).collect().item()
        if several:
            what, by_cluster = "Workload by cluster", workload_summary(frame, by="cluster")
        if trace in _NOTES:
            blocks.append(Text(_NOTES[trace]))
        blocks.append(
            make_table(
                by_cluster,
                [words("Cluster", "cluster"), *_SUMMARY],
                caption=f"{what}. {session.title(trace)}",
                total=total,
                folded=trace in _REPEATED,
            )
        )
        if trace not in _REPEATED:
            shape = build_shape(session, trace, jobs, several_clusters=several)
            findings.append(_finding(session.title(trace), total.row(0, named=True)))
            findings += shape.findings
            held += [shape.headline] if shape.headline else []
            blocks += shape.blocks
    headline = f"Of all GPU-hours, the largest 1 % of jobs hold {' and '.join(held)}."
    return Content(tuple(findings), tuple(blocks), headline if held else "")


def _finding(name: str, total: dict[str, float | None]) -> str:
    jobs = plural(int(total["jobs"] or 0), "job")
    if total["gpu_hours"] is None or total["runtime_s_median"] is None:
        return f"{name}: {jobs}; its jobs table gives no GPU-hours."
    without = int(total["jobs_without_gpu_hours"] or 0)
    but = f" ({plural(without, 'job')} left out, GPUs or runtime unknown)" if without else ""
    return (
        f"{name}: {jobs}, {hours(total['gpu_hours'])} GPU-hours{but}; median runtime "
        f"{seconds(total['runtime_s_median'])} s, mean {seconds(total['runtime_s_mean'] or 0)} s."
    )


SECTION = Section(
    "workload",
    "Workload",
    50,
    build,
    figures=("arrivals", "interarrivals", "gpu-demand", "concentration"),
)
