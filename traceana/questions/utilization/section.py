"""Utilization: used versus requested resources, idle and shared GPUs, allocation of capacity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from traceana.cohorts.cohort import MOST_GROUPS, sample_note, task_title
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Picture,
    Text,
    captioned,
    drawing,
    join_parts,
    result_table,
    small_multiples,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.utilization.analyze import (
    BIN_S,
    REQUESTED_NEEDS,
    UtilizationTables,
    analyze_utilization,
    requested_used,
)
from traceana.questions.utilization.gpu_samples import (
    SHOWN_GROUPS,
    analyze_gpu_samples,
    idle_at_begin,
    unlike_gpus,
)
from traceana.questions.utilization.tables import (
    AllocationSummary,
    GpuSharing,
    IdleGpuHours,
    MachineUtilization,
    RequestedUsed,
    SampledUsage,
    Utilization,
)
from traceana.store import Trace, distinct_traces
from traceana.tables.formatting import (
    count,
    duration,
    fraction_range,
    hours,
    in_sentence,
    listed,
    plain,
    share,
)
from traceana.tables.formatting import interval as interval_text

_RESOURCES: Final = {
    "gpus": ("GPUs", "GPU"),
    "cpus": ("CPU cores", "CPU"),
    "memory_gib": ("Memory (GiB)", "memory"),
    "gpu_memory_gib_mean": ("GPU memory (GiB)", "GPU memory"),
}
_CURVES: Final = {
    "unused": (
        "Requested and not used",
        "Fraction of the machine",
        "Requested minus used resources of the instances that use less than they request",
    ),
    "network": (
        "Network input and output",
        "Data, mean of an instance",
        "Network input and output of instances",
    ),
    "machine-cpu": (
        "CPU time of machines",
        "CPU time (%)",
        "CPU time of machines by kind, mean over an instance's life",
    ),
}
"""By key: heading, label of the x axis, and what a figure shows."""
_PANEL_IN: Final = 1.8
_FINDING: Final = {"gpus": "GPUs", "cpus": "CPU cores", "memory_gib": "memory"}
_KEYS: Final = {"user": "user", "task_name": "task role", "gpu_type": "GPU type"}
_OPENING: Final = (
    "Use is the mean over the life of an instance; a request is that of its task for each "
    "instance. Repeated rows of an instance count once (the last; of its times those of a "
    "completed attempt). Idle GPU-hours are the GPUs that an instance requests minus the GPUs that "
    "it uses, at least 0, times its runtime. Unused are those of instances that use less than 1 % "
    "of a GPU. GPU memory is not requested. An instance holds the GPUs that its task requests for "
    "each instance from its own start to its own end; these are allocated. Intervals of ratios of "
    "sums use linearization over users (jobs, within users or where no user is recorded)."
)
_LIMITATIONS: Final = (
    "All machines count as available all the time. Instances without times are not counted, "
    "so allocation is too low. It exceeds 100 % where instances run on machines without a row, or "
    "requests are not reserved. Quantiles and shared GPUs have no intervals."
)


def build(traces: Sequence[Trace]) -> Content:
    """Show the utilization of each trace."""
    return join_parts(_OPENING, ((task_title(trace), _trace(trace)) for trace in traces))


def _trace(trace: Trace) -> Content:
    utilization = trace.once(analyze_utilization)
    counted = (
        f"{utilization.n_rows:,} rows of usage belong to {utilization.n_instances:,} instances."
        f"{sample_note(trace)}"
    )
    groups = [name for name in utilization.used if name]
    first = "gpu_type" if "gpu_type" in groups else ""
    others = [name for name in utilization.used if name != first]
    blocks: list[Block] = [
        Text(counted),
        *(_used(utilization.used[name], name) for name in others),
    ]
    summary = utilization.allocation_summary
    for frame, table, what in (
        (utilization.idle, IdleGpuHours, "Idle GPU-hours by GPU type"),
        (utilization.by_size, IdleGpuHours, "GPU-hours by GPUs requested"),
        (utilization.shared, GpuSharing, "GPUs with several instances at once"),
        (summary, AllocationSummary, "Allocation rate over time"),
        (utilization.machines, MachineUtilization, "Use of machines, weighted by time"),
    ):
        if frame is not None:
            blocks.append(result_table(frame, table, caption=what, folded=True))
    pictures = tuple(_pictures(utilization, trace))
    lead = (Gallery(pictures), _used(utilization.used[first], first))
    return Content(_findings(utilization), tuple(blocks), lead, _LIMITATIONS).of(task_title(trace))


def _used(table: pl.DataFrame, by: str) -> Block:
    within = f" by {_KEYS[by]}" if by else ""
    many = table[by].n_unique() if by else 0
    most = f" The {MOST_GROUPS} with the most GPU-hours are shown." if many >= MOST_GROUPS else ""
    labels = {name: label for name, (label, _) in _RESOURCES.items()}
    named = table.with_columns(
        pl.col("resource").replace(labels), *([pl.col(by).cast(pl.String)] if by else [])
    )
    what = f"Used versus requested resources{within}: quantiles of use divided by request."
    headings, caption = {"task_name": "Task role"}, f"{what}{most}"
    return result_table(named, Utilization, caption=caption, headings=headings)


def _pictures(tables: UtilizationTables, trace: Trace) -> Iterator[Picture | Drawing]:
    def distribution(
        curve: pl.DataFrame, key: str, about: str, x: str, heading: str, *, sizes: bool = False
    ) -> Drawing:
        options: dict[str, Any] = {"x_label": x, "heading": heading, "sizes": sizes}
        of = ("empirical-distribution", curve, trace, f"{key}-{trace.id}", about)
        return drawing(*of, **options)

    panels = []
    for resource, curve in tables.curves.items():
        label, name = _RESOURCES[resource]
        what, key = f"Requested and used {name}", f"requested-used-{resource}"
        panels.append(distribution(curve, key, f"{what} of instances", label, what))
    yield from small_multiples(
        panels,
        key=f"requested-used-{trace.id}",
        about="Requested and used resources of instances",
        heights_in=[_PANEL_IN] * len(panels),
    ).pictures
    if tables.allocation is not None:
        what, key = "Allocation rate by GPU type", f"allocation-{trace.id}"
        about = f"{what}, in bins of {BIN_S / 3600:.0f} h"
        yield drawing("allocation-rate", tables.allocation, trace, key, about, heading=what)
    names = {name: of for name, (_, of) in _RESOURCES.items()}
    unused = tables.unused
    if unused is not None:
        unused = unused.with_columns(pl.col("resource").replace(names))
    drawn = (unused, tables.network, tables.machine_cpu)
    for (key, (heading, x, about)), rows in zip(_CURVES.items(), drawn, strict=True):
        if rows is not None:
            yield distribution(rows, key, about, x, heading, sizes=key == "network")


def _findings(tables: UtilizationTables) -> tuple[str, ...]:
    findings: list[str] = []
    rows = {row["resource"]: row for row in tables.used[""].iter_rows(named=True)}
    stated = {
        of: rows[name]
        for name, of in _FINDING.items()
        if name in rows and rows[name]["used_of_requested"] is not None
    }
    if stated:
        n = max(row["n"] for row in rows.values())
        uses = [f"{_effect(row, 'used_of_requested')} of the {of}" for of, row in stated.items()]
        text = f"instances use {uses[0]} that they request (n = {n:,} instances)."
        if uses[1:]:
            text += f" They use {listed(uses[1:])}."
        of, used = next((of, row) for of, row in stated.items() if row["used_of_requested"])
        heading = f"{share(used['used_of_requested'])} of the requested {of} are used"
        findings.append(Finding(text, heading=heading))
    if tables.idle is not None and tables.idle.height:
        row = tables.idle.row(-1, named=True)
        if row["fraction_idle"] is not None:
            heading = f"{share(row['fraction_idle'])} of the requested GPU-hours are idle"
            unused = _effect(row, "fraction_unused", "unused_")
            text = (
                f"{heading} ({_limits(row)}; of {hours(row['gpu_hours'])} GPU-hours; n = "
                f"{row['n']:,} instances). {unused} are of instances that use less than 1 % of a "
                "GPU."
            )
            cost = row["idle_gpu_hours"]
            finding = Finding(text, cost_gpu_h=cost, certainty="estimated", heading=heading)
            findings.insert(0, finding)
    if tables.allocation_summary is not None:
        is_all = pl.col("gpu_type") == "all"
        of_all = tables.allocation_summary.row(by_predicate=is_all, named=True)
        findings.append(
            f"{share(of_all['mean'])} of the {plain(of_all['capacity_gpus'])} GPUs of all "
            f"machines were allocated on average, at most {share(of_all['max'])} "
            f"(n = {of_all['bins']:,} bins of {duration(BIN_S)}). Instances without times are not "
            "counted, so this is too low."
        )
    return tuple(findings)


def _effect(row: dict[str, Any], name: str, prefix: str = "") -> str:
    """Write a fraction with its interval."""
    return f"{share(row[name])} ({_limits(row, prefix)})"


def _limits(row: dict[str, Any], prefix: str = "") -> str:
    low, high = row[f"{prefix}ci_low"], row[f"{prefix}ci_high"]
    return "no interval" if low is None else f"95 % CI {fraction_range(low, high)}"


SECTION = Section(
    "utilization",
    "Utilization",
    55,
    build,
    needs=({"instance_usage": (), "tasks": ("status",), "instances": ("start_s", "end_s")},),
    figures=("allocation-rate", "small-multiples", "empirical-distribution"),
    shares="times",
    part="Utilization",
    question="How much of the requested resources and of the capacity is used?",
)


def build_requested(traces: Sequence[Trace]) -> Content:
    """Show what the jobs of each trace used of their requests."""
    headlines, findings = list[str](), list[str]()
    drawings, blocks = list[Drawing](), list[Block]()
    for trace in distinct_traces(traces):
        title, (rows, curves) = task_title(trace), trace.once(requested_used)
        if not rows["n"].sum():
            continue
        headline, each = _requested_findings(rows, title)
        headlines.append(headline)
        findings += each
        note = sample_note(trace).strip()
        blocks += [Text(note)] if note else []
        about = "Use over request of jobs"
        key = f"requested-used-jobs-{trace.id}"
        labels = {"title": title, "x_label": "Used over requested", "heading": about}
        drawings.append(drawing("empirical-distribution", curves, trace, key, about, **labels))
        caption = "Used over requested resources"
        blocks += captioned([result_table(rows, RequestedUsed, caption=caption)], title)
    if not headlines:
        return Content()
    return Content(
        tuple(headlines if len(headlines) > 1 else findings),
        tuple(blocks),
        lead=(Gallery(tuple(drawings[:2])),),
        limitations="Memory used is the largest that the scheduler sampled, so it can be too low. "
        "Jobs without a recorded use are excluded.",
    )


def _requested_findings(rows: pl.DataFrame, title: str) -> tuple[str, list[str]]:
    """Return one sentence on all resources, and one on each with its interval."""
    with_rows = rows.filter(pl.col("n") > 0).rows(named=True)
    names = [in_sentence(row["resource"].partition(" (")[0]) for row in with_rows]
    medians, each = list[str](), list[str]()
    counts = [row["n"] for row in with_rows]
    for row, name in zip(with_rows, names, strict=True):
        interval = interval_text(row, fraction_range)
        median = f"{share(row['median'])} of the {name}"
        medians.append(f"{median} ({interval.rstrip('; ')})" if interval else median)
        unit = row["resource"].partition(" (")[2].rstrip(")")
        low, high = share(row["p25"]), share(row["p75"])
        quartiles = f"quartiles {low} and {high}; " if low != high else ""
        each.append(
            f"{title}: the median job used {median} that it requested ({interval}{quartiles}"
            f"n = {row['n']:,}); "
            f"{count(row['unused_hours'])} {unit} were unused."
        )
    n = " to ".join(f"{number:,}" for number in sorted({min(counts), max(counts)}))
    text = f"{title}: the median job used {listed(medians)} that it requested (n = {n})."
    held = [place for place, name in enumerate(names) if name != "time limit"] or [0]
    least = min(held, key=lambda place: float(with_rows[place]["median"]))
    median = share(with_rows[least]["median"])
    heading = f"{title}: the median job used {median} of the {names[least]} that it requested"
    each.insert(0, Finding(each.pop(least), heading=heading))
    return Finding(text, heading=heading), each


REQUESTED_USED = Section(
    "requested-used",
    "Requested and used resources of jobs",
    60,
    build_requested,
    needs=REQUESTED_NEEDS,
    figures=("empirical-distribution",),
    part="Utilization",
    question="How much of the CPU time, memory, GPUs and time that jobs request do they use?",
)


_OWNERS: Final = {"user": "user", "job_id": "job"}
_MOSTLY: Final = 0.5
_FEWEST_BEGINS: Final = 10
_NOTED: Final = 0.05
_COSTLY: Final = 0.1
"""Jobs that begin idle, and what of their GPU-hours is then lost, to be stated and as an alert."""
_UNLIKE: Final = 3
"""GPUs that differ from others and are named."""


def build_gpu_samples(traces: Sequence[Trace]) -> Content:
    """Show the sampled usage of the GPUs of each trace."""
    findings, blocks = list[str](), list[Block]()
    for trace in traces:
        result = trace.once(analyze_gpu_samples)
        row = result[""].row(0, named=True)
        if row["utilization_mean"] is None:
            continue
        sentence = (
            f"{trace.label}: {share(row['fraction_idle'])} of {hours(row['gpu_hours'])} sampled "
            f"GPU-hours were idle (utilization below 1 %); the mean utilization was "
            f"{share(row['utilization_mean'])} (n = {row['n']:,} samples of {row['gpus']:,} GPUs)."
        )
        heading = f"{trace.label}: {share(row['fraction_idle'])} of the sampled GPU-hours were idle"
        findings.append(Finding(sentence, heading=heading))
        for by in [by for by in _OWNERS if by in result][:1]:
            prefix = f"{trace.label}: "
            if row["n_ambiguous"]:
                prefix += "among samples of known jobs, "
            findings += _idlest(prefix, _OWNERS[by], by, result[by].drop_nulls(by).head(1))
        findings += [*_begins_idle(trace), *_unlike(trace)]
        tables = [result_table(result[""], SampledUsage, caption="Sampled use of GPUs")]
        for by, owner in _OWNERS.items():
            if by in result:
                most = f"{SHOWN_GROUPS} with the most idle GPU-hours at most"
                caption = f"Sampled use of GPUs by {owner} ({most})"
                null = {"user": "no job, or not known", "job_id": ""}
                each = (result[by], SampledUsage)
                folded = by == "job_id"
                tables.append(result_table(*each, folded=folded, null=null, caption=caption))
        blocks += captioned(tables, trace.label)
    return Content(
        tuple(findings),
        tuple(blocks),
        limitations="A GPU is idle if no kernel ran; one kernel that uses a part of it counts as "
        "in use. A sample of a machine with several jobs at once, or with one on part of its "
        "GPUs, is assigned to none, unless the monitor records the job.",
    )


def _idlest(title: str, owner: str, by: str, first: pl.DataFrame) -> Iterator[Finding]:
    """State whose GPUs were idle longest, as an alert where they mostly were."""
    for row in first.filter(pl.col("idle_gpu_hours") > 0).rows(named=True):
        part, held = share(row["fraction_idle"]), hours(row["gpu_hours"])
        alert = f"{title}{owner} {row[by]} left {part} of {held} GPU-hours idle"
        yield Finding(
            f"{title}{owner} {row[by]} had the most idle GPU-hours, "
            f"{hours(row['idle_gpu_hours'])}, which are {part} of their {held} sampled ones.",
            cost_gpu_h=row["idle_gpu_hours"],
            alert=alert if row["fraction_idle"] > _MOSTLY else "",
        )


def _begins_idle(trace: Trace) -> Iterator[Finding]:
    """State how long jobs leave all their GPUs idle before they first use one."""
    jobs = trace.once(idle_at_begin)
    waited = jobs.filter(pl.col("begin_s") > 0)
    lost, idle, held = (float(jobs[name].sum()) for name in ("begin_h", "idle_h", "gpu_h"))
    if waited.height < _FEWEST_BEGINS or lost < _NOTED * held:
        return
    heading = f"{trace.label}: {waited.height:,} of {jobs.height:,} jobs that used their GPUs left "
    heading += "them idle when they began"
    usual = duration(float(np.median(waited["begin_s"])))
    yield Finding(
        f"{heading}, for {usual} until the first use (median): {hours(lost)} of their "
        f"{hours(idle)} idle GPU-hours.",
        effect=lost / held,
        n=jobs.height,
        cost_gpu_h=lost,
        cost_jobs=waited.height,
        alert=f"{heading}: {hours(lost)} GPU-hours" if lost >= _COSTLY * held else "",
        heading=heading,
    )


def _unlike(trace: Trace) -> Iterator[Finding]:
    """State the GPUs that are idle beside others in use."""
    for row in unlike_gpus(trace.frame("gpu_samples")).head(_UNLIKE).rows(named=True):
        text = f"{trace.label}: GPU {row['gpu']} of {row['machine_id']} was idle in all samples"
        yield Finding(
            f"{text} (n = {row['n']:,}); the GPUs beside it were in use {share(row['others'])} of "
            "the time (median).",
            cost_gpu_h=row["idle_gpu_hours"] * row["others"],
            n=row["n"],
            heading=text,
            machine=row["machine_id"],
        )


GPU_SAMPLES = Section(
    "gpu-samples",
    "Sampled use of GPUs",
    70,
    build_gpu_samples,
    needs=({"gpu_samples": ("utilization",)},),
    part="Utilization",
    question="How much of the GPU time was idle, and whose was it?",
)
