"""Section on the workload of the traces: jobs, GPU-hours, sizes, and their timing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from traceana.cohorts.cohort import sample_note, task_title
from traceana.cohorts.tasks import from_tasks
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Table,
    Text,
    captioned,
    drawing,
    result_table,
    traces_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.failures.tables import HazardRatios
from traceana.questions.runtimes.ratio import task_gpu_hours
from traceana.questions.workload.analyze import (
    Split,
    Workload,
    adjusted_waits,
    clock_name,
    describe_workload,
    task_counts,
    weekdays_and_waits,
)
from traceana.questions.workload.analyze_consumers import cpu_hours_of
from traceana.questions.workload.summary import gpu_hours_by
from traceana.questions.workload.tables import (
    Concentration,
    GpuHours,
    Interarrivals,
    QueueingDelay,
    Seasonality,
    WorkloadOverview,
    WorkloadSummary,
)
from traceana.store import Trace, distinct_traces
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    days,
    hours_text,
    in_sentence,
    listed,
    p_equals,
    plain,
    plural,
    share,
    three_digits,
    three_digits_range,
)

_ALPHA: Final = 0.05
_HOUR_S: Final = 3600
_MOST_GROUPS: Final = 20
_CONCENTRATED: Final = 0.1
"""Fraction of the GPU-hours in the largest 1 % of the jobs from which that may lead the page."""
_FEWEST_JOBS: Final = 100  # below, 1 % of the jobs is less than one
_SUMMARY: Final = (
    "jobs",
    "gpu_hours",
    "jobs_without_gpu_hours",
    "n_truncated",
    "n_censored",
    "runtime_s_median",
    "runtime_s_p95",
    "gpus_median",
    "gpus_max",
)
_SIZES: Final = (
    "n",
    "n_missing",
    "gini",
    "fraction_of_top_1_percent",
    "fraction_of_top_10_percent",
    "fraction_of_lower_half",
)
_GAPS: Final = ("n", "median_s", "max_s", "cv", "burstiness", "memory")
_TASK_COUNTS: Final = {
    "tasks-by-user": ("Tasks per user: distribution over users", "Tasks of a user"),
    "instances-by-task": (
        "Instances by size of their task: distribution over instances",
        "Instances of the task",
    ),
}
_GPU_HOURS: Final = ("jobs", "n_missing", "gpu_hours", "fraction_of_all")
_QUEUEING: Final = (
    "jobs",
    "n",
    "n_no_start",
    "fraction_zero",
    "mean_s",
    "median_s",
    "p90_s",
    "p99_s",
    "p99_pending_s",
    "max_s",
)
_FROM_TASKS: Final = (
    "A job starts with the first start of its tasks and ends with the last end of its instances; "
    "its GPUs are those of its instances, averaged over its runtime (`drop`, see task runtimes)."
)
_LIMITATIONS: Final = (
    "A few very long jobs decide the concentration, and in a longer window it would be larger. "
    "It is over GPU jobs: those that requested GPUs and have a runtime; traces are not added up."
)
_FINE_BELOW: Final = 1000.0
"""GPUs below which a median has three digits; a larger one is whole."""
_BEFORE_ENDS: Final = "started before the first recorded end"


class _Load(NamedTuple):
    trace: Trace
    title: str
    results: Workload

    @property
    def arrivals(self) -> str:
        """The title of results on submissions."""
        return f"{self.title} (starts; no submissions)" if self.results.of_starts else self.title

    @property
    def gaps(self) -> pl.DataFrame | None:
        """The times between submissions, without survivors if there are any."""
        split = self.results.interarrivals
        if split is None:
            return None
        return split.total if split.since is None else split.since


def build(traces: Sequence[Trace]) -> Content:
    """Compare the jobs of the traces; one that repeats another one is named only."""
    loads = [
        _Load(
            trace,
            task_title(trace) if from_tasks(trace) else trace.label,
            trace.once(describe_workload),
        )
        for trace in distinct_traces(traces)
    ]
    of_jobs = {load.title: load.results for load in loads}
    of_arrivals = {load.arrivals: load.results for load in loads}
    findings = (
        _size_finding(loads),
        _top_finding(loads),
        _burst_finding(loads),
        *(text for load in loads for text in _cycle_findings(load)),
        *(_wait_finding(load.title, load.trace.once(adjusted_waits)) for load in loads),
    )
    lead = (
        *_shared(of_jobs, "lorenz", "concentration", "GPU-hours over jobs"),
        *_shared(of_arrivals, "curve", "interarrivals", "Times between submissions"),
    )
    figure, requested, waits = "empirical-distribution", "GPUs requested per job", "Queueing delay"
    sizes = {"key": "gpu-requests", "x_label": "GPUs"}
    delays = {"key": "wait-distribution", "x_label": waits, "heading": waits, "durations": True}
    pictures = (
        *_hours(loads),
        *_shared(of_jobs, "requested", figure, requested, **sizes, heading=requested),
        *_shared(of_jobs, "waits", figure, f"{waits}: time from submission to start", **delays),
        *(picture for load in loads for picture in _demand(load)),
    )
    return Content(
        tuple(text for text in findings if text),
        (
            *(block for load in loads for block in _notes(load)),
            Gallery(pictures),
            *_tables(loads),
        ),
        lead=(Gallery(lead), _overview(loads)),
        limitations=_LIMITATIONS,
    )


def _tables(loads: list[_Load]) -> Iterator[Block]:
    yield from traces_table(
        _split({load.title: load.results.concentration for load in loads}),
        Concentration,
        caption="Concentration of GPU-hours over jobs",
        columns=_SIZES,
    )
    yield from traces_table(
        _split({load.arrivals: load.results.interarrivals for load in loads}),
        Interarrivals,
        caption="Burstiness of submissions",
        columns=_GAPS,
    )
    caption = "Tests of daily and weekly seasonality of submissions"
    seasons = {load.title: load.results.seasonality for load in loads}
    yield from traces_table(seasons, Seasonality, caption=caption)
    for load in loads:
        if from_tasks(load.trace):
            yield from captioned(_gpu_hours(load), load.title)
    yield from _queueing(loads)
    for load in loads:
        yield from captioned(_adjusted_waits(load), load.title)


def _shared(
    loads: dict[str, Workload],
    field: str,
    figure: str,
    about: str,
    **options: Any,  # noqa: ANN401  of the figure
) -> list[Drawing]:
    """Draw a result of several traces, by title, as lines on the same axes."""
    given = {
        title: frame for title, load in loads.items() if (frame := getattr(load, field)) is not None
    }
    if not given:
        return []
    lines = [frame.select(pl.lit(title).alias("trace"), pl.all()) for title, frame in given.items()]
    shown = {"key": figure, **options}
    return [
        drawing(figure, pl.concat(lines), trace=None, about=about, title="; ".join(given), **shown)
    ]


def _hours(loads: list[_Load]) -> list[Drawing]:
    """Draw submissions by hour of the day; the clock is in the name if traces differ in it."""
    clocks = [clock_name(load.trace.manifest) for load in loads]
    same = len(set(clocks)) == 1
    named = {
        load.arrivals if same else f"{load.arrivals}, {clock or 'own clock'}": load.results
        for load, clock in zip(loads, clocks, strict=True)
    }
    clock = clocks[0] if same else "clock of each trace"
    about = "Jobs submitted by hour, modulo 24, on a clock whose time of day is unknown"
    about = f"Jobs submitted by hour of the day, {clock}" if clock else about
    return _shared(named, "hours", "arrivals", about, clock=clock)


def _demand(load: _Load) -> list[Drawing]:
    """Draw the GPU demand of one trace with its window and capacity."""
    demand, seen, manifest = load.results.demand, load.results.observation, load.trace.manifest
    if demand is None:
        return []
    is_hourly = not (demand["bin_start_s"].diff() > _HOUR_S).any()
    what = f"GPUs requested by {'hour' if is_hourly else 'year'}"
    if load.results.starts_assumed:
        what += ", if every job had started when submitted (the trace has no start times)"
    return [
        drawing(
            "gpu-demand",
            demand,
            trace=load.trace,
            title=load.title,
            key=f"demand-{load.trace.id}",
            about=what,
            starts_assumed=load.results.starts_assumed,
            timezone=(manifest.timezone or "UTC") if manifest.absolute_times else None,
            window=(seen.start_s, seen.end_s) if seen else (None, None),
            capacity=load.results.capacity,
        )
    ]


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the submissions by weekday, and the queueing delays by group."""
    drawings = []
    for trace in traces:
        days, waits = weekdays_and_waits(trace)
        if days is not None:
            clock, key = clock_name(trace.manifest), f"arrivals-weekday-{trace.id}"
            about = f"Jobs submitted by weekday, {clock}"
            drawings.append(
                drawing("arrivals", days, trace=trace, key=key, clock=clock, about=about)
            )
        for by, delays in waits.items():
            heading = f"Queueing delay by {in_sentence(key_heading(by))}"
            about = f"{heading}: time from submission to start"
            look: dict[str, Any] = {"x_label": "Queueing delay", "durations": True}
            if by == "fraction":
                heading = "Queueing delay of short and long jobs"
                about = f"{heading}: delay / (delay + runtime), by half of the runtimes"
                look = {"x_label": "Fraction of delay and runtime", "durations": False}
            of = ("empirical-distribution", delays, trace, f"wait-{by}-{trace.id}", about)
            drawings.append(drawing(*of, heading=heading, **look))
        for name, curve in task_counts(trace).items():
            about, x_label = _TASK_COUNTS[name]
            of = ("empirical-distribution", curve, trace, f"{name}-{trace.id}", about)
            drawings.append(drawing(*of, x_label=x_label, heading=about.partition(":")[0]))
    return drawings


def _overview(loads: list[_Load]) -> Table:
    rows = []
    for load in loads:
        sizes, delays = load.results.concentration, load.results.queueing
        row = load.results.summary.row(0, named=True)
        top = sizes and sizes.total["fraction_of_top_1_percent"].item()
        row |= {"trace": load.title, "fraction_of_top_1_percent": top}
        row["cv"] = None if load.gaps is None else load.gaps["cv"].item()
        row["delay_s_median"] = None if delays is None else delays["median_s"].item()
        rows.append({name: row[name] for name in WorkloadOverview.columns()})
    frame = pl.DataFrame(rows, infer_schema_length=None)
    if not frame["gpu_hours"].sum():
        frame = frame.drop("gpu_hours", "gpus_median", "fraction_of_top_1_percent")
    return result_table(frame, WorkloadOverview, caption="Workload of each trace")


def _notes(load: _Load) -> list[Block]:
    trace, results = load.trace, load.results
    table = trace.manifest.tables["jobs"]
    definitions = [
        *table.notes,
        _FROM_TASKS + sample_note(trace) if from_tasks(trace) else "",
        results.observation.describe(table.unit_noun) if results.observation else "",
        _survivors(load) if results.survivors else "",
        _reckoned(load),
        trace.manifest.clock_note or "",
    ]
    blocks: list[Block] = [Heading(load.title), Text("", tuple(filter(None, definitions)))]
    by, groups = results.by, results.by_group
    if by is None or groups is None:
        return blocks
    of_gpus = bool(groups["gpu_hours"].sum())
    shown = [name for name in _SUMMARY if name in groups.columns and (of_gpus or "gpu" not in name)]
    summary = result_table(
        groups.select(pl.col(by).cast(pl.String), *shown),
        WorkloadSummary,
        caption=f"Workload by {in_sentence(key_heading(by))}",
        total=results.summary.select(pl.lit("all").alias(by), *shown),
    )
    return [*blocks, *captioned([summary], load.title)]


def _reckoned(load: _Load) -> str:
    """Return which jobs run to or from an end of the window, as a sentence; else nothing."""
    note = load.results.reckoned
    if not note:
        return ""
    return f"GPU-hours: {re.sub('[0-9]+', lambda n: f'{int(n[0]):,}', note)}."


def _survivors(load: _Load) -> str:
    manifest, row = load.trace.manifest, load.results.summary.row(0, named=True)
    before, why = "observation window", "were not over"
    if not manifest.lists_from_window:
        begin = row["first_submit_s"] if manifest.absolute_times else 0
        before = f"first recorded end (day {days(load.results.first_end_s - begin)})"
        why = "still existed"
    return (
        f"{load.results.survivors:,} of {row['jobs']:,} {manifest.tables['jobs'].unit_noun} were "
        f"submitted before the {before}. They are listed because they {why} then (survivorship "
        "bias). Figures of submissions exclude them."
    )


def _split(results: dict[str, Split | None]) -> dict[str, pl.DataFrame | None]:
    """Return a result of each trace, and without survivors; of none without GPU-hours."""
    return {
        name: frame
        for title, result in results.items()
        if result is not None
        if "gini" not in result.total.columns or result.total["gini"].item() is not None
        for name, frame in ((title, result.total), (f"{title}, without survivors", result.since))
    }


def _queueing(loads: list[_Load]) -> list[Block]:
    unknown = [load.title for load in loads if load.results.queueing is None]
    caption = "Queueing delay: time from submission to start, of the jobs that started"
    queueing = {load.title: load.results.queueing for load in loads}
    blocks: list[Block] = [
        *traces_table(queueing, QueueingDelay, caption=caption, columns=_QUEUEING),
        *(
            block
            for load in loads
            for by, delays in load.results.queueing_by.items()
            for block in captioned([_delays_by(by, delays)], load.title)
        ),
    ]
    if unknown:
        blocks.append(
            Text(f"Without start times the queueing delay is not known: {'; '.join(unknown)}.")
        )
    return blocks


def _delays_by(by: str, delays: pl.DataFrame) -> Table:
    caption = f"Queueing delay by {in_sentence(key_heading(by))}"
    return result_table(delays.select(by, *_QUEUEING), QueueingDelay, caption=caption)


def _gpu_hours(load: _Load) -> list[Table]:
    """Return the GPU-hours by status and by user, and the number of tasks per job."""
    rows = load.trace.once(task_gpu_hours)
    note = "instances without a start or an end are excluded"
    tables = [
        result_table(
            gpu_hours_by(rows, by).head(_MOST_GROUPS),
            GpuHours,
            columns=(by, *_GPU_HOURS, *(("failed", "cancelled") if by == "user" else ())),
            headings={"jobs": "Tasks"},
            caption=f"GPU-hours of tasks by {by}, most first; {note}",
        )
        for by in ("status", "user")
        if by in rows.columns
    ]
    each = rows.group_by("job_id").len("tasks")["tasks"].value_counts(name="jobs").sort("tasks")
    jobs = each.cast(pl.Int64).with_columns(fraction_of_all=pl.col("jobs") / pl.col("jobs").sum())
    headings = {"tasks": "Tasks per job", "fraction_of_all": "Of all jobs"}
    caption = "Jobs by their number of tasks"
    jobs = jobs.head(_MOST_GROUPS)
    return [*tables, result_table(jobs, GpuHours, caption=caption, headings=headings)]


def _cycle_findings(load: _Load) -> Iterator[str]:
    """State whether submissions have one time, or depend on the hour, or the day, of a cycle."""
    if load.gaps is not None and load.gaps["max_s"].max() == 0:
        yield f"{load.title}: all {load.gaps['jobs'].sum():,} jobs have the same submission time."
    clock, seasons = clock_name(load.trace.manifest), load.results.seasonality
    for row in () if seasons is None else seasons.iter_rows(named=True):
        what = "hour of the day" if clock else "hour modulo 24"
        if row["cycle"] == "week":
            if clock is None:
                continue
            what = "day of the week"
        cycles = plural(row["n_cycles"], row["cycle"])
        counted = f"{p_equals(row['pvalue'])}; n = {row['n']:,} in {cycles}"
        if row["pvalue"] >= _ALPHA:
            yield f"{load.title}: no dependence of submissions on the {what} is found ({counted})."
        else:
            yield (
                f"{load.title}: submissions depend on the {what}: the mean counts deviate by "
                f"{share(row['amplitude'])} (standard deviation over mean; {counted})."
            )


def _adjusted_waits(load: _Load) -> list[Table]:
    fit = load.trace.once(adjusted_waits)
    if fit is None:
        return []
    table = result_table(
        fit.drop("cause", "log_hazard", "std_error"),
        HazardRatios,
        caption="Hazard ratios of the start of GPU jobs, all other features equal (Cox; "
        "pending jobs censored; intervals over blocks of days or users, whichever is wider). "
        "Below 1: longer waits",
        null={"level": "", "reference": ""},
    )
    return [table]


def _wait_finding(title: str, fit: pl.DataFrame | None) -> str:
    """State the features on which waits depend, where intervals have their level."""
    if fit is None:
        return ""
    table = fit.drop_nulls(["hazard_ratio", "pvalue"])  # weeks have no test
    if not table.height or table["note"].count():
        return ""
    clear = table.filter(pl.col("pvalue_adjusted") < _ALPHA)
    n = table.row(0, named=True)["n"]  # of the first feature, a number: all jobs
    if clear.is_empty():
        names = listed([*map(in_sentence, table["feature"].unique(maintain_order=True))])
        return f"{title}: waits of GPU jobs depend significantly on none of {names} (n = {n:,})."
    parts = []
    for row in clear.iter_rows(named=True):
        versus = "" if row["level"] is None else f" {row['level']} versus {row['reference']}"
        interval = three_digits_range(row["ci_low"], row["ci_high"])
        ratio = three_digits(row["hazard_ratio"])
        parts.append(f"{row['feature']}{versus} {ratio} (95 % CI {interval})")
    return (
        f"{title}: hazard ratio of the start of waiting GPU jobs, the other features equal (below "
        f"1: longer waits): {'; '.join(parts)}. n = {n:,}."
    )


def _size_finding(loads: list[_Load]) -> str:
    parts = []
    for load in loads:
        row = load.results.summary.row(0, named=True)
        hours, gpus = row["gpu_hours"], row["gpus_median"]
        size = "GPU-hours not recorded" if hours is None else f"{hours_text(hours)} GPU-hours"
        if not hours and (of_cpus := load.trace.once(cpu_hours_of)):
            size = f"{hours_text(of_cpus)} CPU-hours"
        elif gpus is not None:
            if row["gpus_mean"]:
                size += f" ({three_digits(row['gpus_mean'])} GPUs in use on average)"
            number = f"{gpus:.3g}" if gpus < _FINE_BELOW else plain(gpus)
            size += f", median {'1 GPU' if gpus == 1 else f'{number} GPUs'}"
        parts.append(f"{load.title}: {plural(row['jobs'], 'job')}, {size}")
    reckoned = [_reckoned(load) for load in loads if len(loads) == 1]
    return " ".join(filter(None, [f"{'; '.join(parts)}.", *reckoned]))


def _top_finding(loads: list[_Load]) -> str:
    parts, numbers, most = [], [], 0.0
    for load in loads:
        sizes = load.results.concentration
        if sizes is None or sizes.total["gini"].item() is None:
            continue
        row = sizes.total.row(0, named=True)
        if row["n"] < _FEWEST_JOBS:
            continue
        top = f"n = {row['n']:,}"
        for other in () if sizes.since is None else sizes.since["fraction_of_top_1_percent"]:
            if other is not None and share(other) != share(row["fraction_of_top_1_percent"]):
                listed_from = load.trace.manifest.lists_from_window
                since = "were submitted before the window" if listed_from else _BEFORE_ENDS
                top += f"; {share(other)} without the {load.results.survivors:,} that {since}"
        most = max(most, row["fraction_of_top_1_percent"])
        parts.append(f"{share(row['fraction_of_top_1_percent'])} ({load.trace.label})")
        is_only = len(loads) == 1 and load.title == load.trace.label
        numbers.append(top if is_only else f"{load.title}: {top}")
    if not parts:
        return ""
    heading = f"The largest 1 % of GPU jobs use {listed(parts)} of the GPU-hours"
    text = f"{heading} ({'; '.join(numbers)})."
    return Finding(text, heading=heading, is_description=most < _CONCENTRATED)


def _burst_finding(loads: list[_Load]) -> str:
    parts = []
    for load in loads:  # merged streams of clusters are near to Poisson, whatever each of them is
        if load.gaps is not None and load.results.by != "cluster":
            cv, n = load.gaps.select("cv", "n").row(0)
            parts += [] if cv is None else [f"{three_digits(cv)} in {load.arrivals} (n = {n:,})"]
    if not parts:
        return ""
    return (
        f"The coefficient of variation (CoV) of times between submissions is {'; '.join(parts)}. "
        "In a Poisson process it is 1."
    )


SECTION = Section(
    "workload",
    "Workload",
    10,
    build,
    needs=({"jobs": ()},),
    figures=("arrivals", "interarrivals", "gpu-demand", "concentration", "empirical-distribution"),
    shares="times",
    more=draw_more,
    part="Workload",
    question="When are jobs submitted, what do they request, and who uses the GPUs?",
)
