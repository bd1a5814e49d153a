"""Section on the workload of the traces: jobs, GPU-hours, sizes, and their timing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.cohorts.cohort import sample_note, task_title
from traceana.cohorts.jobs_of_tasks import from_tasks
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Table,
    Text,
    drawing,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.failures.tables import HazardRatios
from traceana.questions.runtimes.task_tables import task_gpu_hours
from traceana.questions.workload.analyze import (
    Split,
    Workload,
    clock_name,
    describe_workload,
    weekdays_and_waits,
)
from traceana.questions.workload.analyze_consumers import cpu_hours_of
from traceana.questions.workload.concentration import gpu_hours_by
from traceana.questions.workload.tables import (
    Concentration,
    GpuHours,
    Interarrivals,
    QueueingDelay,
    Seasonality,
    WorkloadOverview,
    WorkloadSummary,
)
from traceana.questions.workload.waits import adjusted_waits
from traceana.store import Trace, distinct_traces
from traceana.tables.display import key_heading
from traceana.tables.formatting import (
    days,
    hours_text,
    in_sentence,
    listed,
    p_equals,
    plural,
    share,
    three_digits,
    three_digits_range,
)

if TYPE_CHECKING:
    from traceana.tables.declare import ResultTable

_ALPHA: Final = 0.05

Found = dict["Trace", "Workload"]
_HOUR_S: Final = 3600


def draw_shared(
    frames: Mapping[str, pl.DataFrame | None],
    /,
    figure: str,
    about: str,
    key: str = "",
    **options: Any,  # noqa: ANN401  whatever the figure takes
) -> list[Drawing]:
    """Draw the frames of several traces, by title, as lines on the same axes."""
    given = {title: frame for title, frame in frames.items() if frame is not None}
    if not given:
        return []
    lines = [frame.select(pl.lit(title).alias("trace"), pl.all()) for title, frame in given.items()]
    titles = "; ".join(given)
    return [
        drawing(
            figure,
            pl.concat(lines),
            trace=None,
            key=key or figure,
            about=about,
            title=titles,
            **options,
        )
    ]


def draw_hours(loads: Found, titles: dict[Trace, str], /) -> list[Drawing]:
    """Draw submissions by hour of the day; the clock is in the name if traces differ in it."""
    clocks = {trace: clock_name(trace.manifest) for trace in loads}
    same = len(set(clocks.values())) == 1
    names = {
        trace: title if same else f"{title}, {clocks[trace] or 'own clock'}"
        for trace, title in titles.items()
    }
    clock = next(iter(clocks.values())) if same else "clock of each trace"
    return draw_shared(
        {names[trace]: load.hours for trace, load in loads.items()},
        "arrivals",
        f"Jobs submitted by hour of the day, {clock}"
        if clock
        else "Jobs submitted by hour, modulo 24, on a clock whose time of day is unknown",
        clock=clock,
    )


def draw_demand(trace: Trace, title: str, load: Workload, /) -> list[Drawing]:
    """Draw the GPU demand of one trace with its window and capacity."""
    if load.demand is None:
        return []
    manifest, seen = trace.manifest, load.observation
    what = "GPUs requested by hour"
    if (load.demand["bin_start_s"].diff() > _HOUR_S).any():
        what = "GPUs requested by year"
    if load.starts_assumed:
        what += ", if every job had started when submitted (the trace has no start times)"
    return [
        drawing(
            "gpu-demand",
            load.demand,
            trace=trace,
            title=title,
            key=f"demand-{trace.id}",
            about=what,
            starts_assumed=load.starts_assumed,
            timezone=(manifest.timezone or "UTC") if manifest.absolute_times else None,
            window=(seen.start_s, seen.end_s) if seen else (None, None),
            capacity=load.capacity,
        )
    ]


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
_GAPS: Final = ("n", "median_s", "max_s", "cv", "burstiness", "memory", "dispersion")
_GPU_HOURS: Final = ("jobs", "n_missing", "gpu_hours", "fraction_of_all")
_MOST_GROUPS: Final = 20
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


def build(traces: Sequence[Trace]) -> Content:
    """Compare the jobs of the traces; one that repeats another one is named only."""
    distinct = distinct_traces(traces)
    loads = {trace: trace.once(describe_workload) for trace in distinct}
    titles = {trace: task_title(trace) if from_tasks(trace) else trace.label for trace in distinct}

    def shared(figure: str, field: str, about: str, key: str = "", **options: object) -> Gallery:
        frames = {titles[trace]: getattr(load, field) for trace, load in loads.items()}
        return Gallery(tuple(draw_shared(frames, figure, about, key, **options)))

    arrivals = {
        trace: f"{titles[trace]} (starts; no submissions)" if load.of_starts else titles[trace]
        for trace, load in loads.items()
    }
    gaps = {arrivals[trace]: result.interarrivals for trace, result in loads.items()}
    curves = {arrivals[trace]: result.curve for trace, result in loads.items()}
    sizes = {titles[trace]: result.concentration for trace, result in loads.items()}
    lead = Gallery(
        (
            *shared("concentration", "lorenz", "GPU-hours over jobs").pictures,
            *draw_shared(curves, "interarrivals", "Times between submissions"),
        )
    )
    pictures = (
        *draw_hours(loads, arrivals),
        *shared(
            "empirical-distribution",
            "requested",
            "GPUs requested per job",
            key="gpus-requested",
            x_label="GPUs",
            heading="GPUs requested per job",
        ).pictures,
        *shared(
            "empirical-distribution",
            "waits",
            "Queueing delay: time from submission to start",
            key="wait-distribution",
            x_label="Queueing delay",
            heading="Queueing delay",
            durations=True,
        ).pictures,
        *(
            picture
            for trace, load in loads.items()
            for picture in draw_demand(trace, titles[trace], load)
        ),
    )
    top, bursts = (
        _top_finding(loads, titles),
        _burst_finding(
            # merged streams of several clusters are near to Poisson, whatever each of them is
            {name: gaps[name] for trace, name in arrivals.items() if loads[trace].by != "cluster"}
        ),
    )
    cycles = (
        _cycle_finding(titles[trace], trace, row)
        for trace, load in loads.items()
        if load.seasonality is not None
        for row in load.seasonality.iter_rows(named=True)
    )
    slower = (_wait_finding(titles[trace], trace.once(adjusted_waits)) for trace in loads)
    findings = (_size_finding(loads, titles), top, bursts, *cycles, *slower)
    return Content(
        tuple(text for text in findings if text),
        (
            *(block for trace in loads for block in _notes(trace, titles, loads[trace])),
            *_repeats(traces),
            Gallery(pictures),
            *_split_table(sizes, Concentration, _SIZES, "Concentration of GPU-hours over jobs"),
            *_split_table(gaps, Interarrivals, _GAPS, "Burstiness of submissions"),
            *_seasonality(loads, titles),
            *(
                table
                for trace in loads
                if from_tasks(trace)
                for table in _gpu_hours(trace, task_title(trace))
            ),
            *_queueing(loads, titles),
            *_adjusted_waits(loads, titles),
        ),
        top,
        lead=(lead, _overview(loads, titles)),
        limitations=_LIMITATIONS,
    )


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the submissions by weekday, and the queueing delays by group."""
    drawings = []
    for trace in traces:
        days, waits = weekdays_and_waits(trace)
        if days is not None:
            clock = clock_name(trace.manifest)
            drawings.append(
                drawing(
                    "arrivals",
                    days,
                    trace=trace,
                    key=f"arrivals-weekday-{trace.id}",
                    clock=clock,
                    about=f"Jobs submitted by weekday, {clock}",
                )
            )
        for by, delays in waits.items():
            of = by == "fraction"
            heading = f"Queueing delay by {in_sentence(key_heading(by))}"
            heading = "Queueing delay of short and long jobs" if of else heading
            note = "delay / (delay + runtime), by half of the runtimes"
            drawings.append(
                drawing(
                    "empirical-distribution",
                    delays,
                    trace=trace,
                    key=f"wait-{by}-{trace.id}",
                    about=f"{heading}: {note if of else 'time from submission to start'}",
                    x_label="Fraction of delay and runtime" if of else "Queueing delay",
                    heading=heading,
                    durations=not of,
                )
            )
    return drawings


def _overview(loads: Found, titles: dict[Trace, str]) -> Table:
    rows = []
    for trace, load in loads.items():
        gaps, sizes, delays = load.interarrivals, load.concentration, load.queueing
        rows.append(
            {"trace": titles[trace]}
            | load.summary.select("jobs", "gpu_hours", "runtime_s_median", "gpus_median").row(
                0, named=True
            )
            | {
                "fraction_of_top_1_percent": sizes
                and sizes.total["fraction_of_top_1_percent"].item(),
                "cv": gaps and _shown(gaps)["cv"].item(),
                "delay_s_median": None if delays is None else delays["median_s"].item(),
            }
        )
    frame = pl.DataFrame(rows, infer_schema_length=None)
    if not frame["gpu_hours"].sum():
        frame = frame.drop("gpu_hours", "gpus_median", "fraction_of_top_1_percent")
    return result_table(frame, WorkloadOverview, caption="Workload of each trace")


def _shown(gaps: Split) -> pl.DataFrame:
    """Return the result without survivors, if there are any."""
    return gaps.total if gaps.since is None else gaps.since


def _notes(trace: Trace, titles: dict[Trace, str], load: Workload) -> list[Block]:
    manifest, title = trace.manifest, titles[trace]
    table, of_tasks = manifest.tables["jobs"], from_tasks(trace)
    definitions = [*table.notes, *([_FROM_TASKS + sample_note(trace)] if of_tasks else [])]
    if load.observation:
        definitions.append(load.observation.describe(table.unit_noun))
    if load.survivors:
        definitions.append(_survivors(trace, load))
    definitions.append(manifest.clock_note or "")
    blocks: list[Block] = [Heading(title), Text("", tuple(definitions))]
    if load.by is None or load.by_group is None:
        return blocks
    of_gpus = bool(load.by_group["gpu_hours"].sum())
    shown = [
        name
        for name in _SUMMARY
        if name in load.by_group.columns and (of_gpus or "gpu" not in name)
    ]
    what = f"Workload by {in_sentence(key_heading(load.by))}"
    total = load.summary.select(pl.lit("all").alias(load.by), *shown)
    groups = load.by_group.select(pl.col(load.by).cast(pl.String), *shown)
    null = {load.by: "not stated"}
    caption = f"{what}. {title}"
    return [*blocks, result_table(groups, WorkloadSummary, caption=caption, null=null, total=total)]


def _repeats(traces: Sequence[Trace]) -> list[Text]:
    parts = [
        f"{repeat.label} repeats the jobs of {repeat.store.trace(repeat.manifest.repeats).label} "
        "and is not shown."
        for repeat in traces
        if repeat not in distinct_traces(traces) and repeat.manifest.repeats
    ]
    return [Text(" ".join(parts))] if parts else []


def _survivors(trace: Trace, load: Workload) -> str:
    manifest, jobs = trace.manifest, load.summary
    noun = manifest.tables["jobs"].unit_noun
    begin = jobs["first_submit_s"].item() if manifest.absolute_times else 0
    return (
        f"{load.survivors:,} of {jobs['jobs'].item():,} {noun} were submitted before the first "
        f"recorded end (day {days(load.first_end_s - begin)}). They are listed because they "
        "still existed then (survivorship bias). Figures of submissions exclude them."
    )


def _split_table(
    results: dict[str, Split | None],
    table: type[ResultTable],
    columns: tuple[str, ...],
    caption: str,
) -> list[Table]:
    """Show a result of each trace, and without survivors."""
    rows = [
        frame.select(pl.lit(name).alias("trace"), *columns)
        for title, result in results.items()
        if result is not None and ("gini" not in columns or result.total["gini"].item() is not None)
        for name, frame in ((title, result.total), (f"{title}, without survivors", result.since))
        if frame is not None
    ]
    return [result_table(pl.concat(rows), table, caption=caption)] if rows else []


def _queueing(loads: Found, titles: dict[Trace, str]) -> list[Block]:
    queueing = {titles[trace]: load.queueing for trace, load in loads.items()}
    unknown = [title for title, curve in queueing.items() if curve is None]
    blocks: list[Block] = []
    if len(unknown) < len(queueing):
        rows = [
            curve.select(pl.lit(title).alias("trace"), *_QUEUEING)
            for title, curve in queueing.items()
            if curve is not None
        ]
        caption = "Queueing delay: time from submission to start, of the jobs that started"
        blocks.append(result_table(pl.concat(rows), QueueingDelay, caption=caption))
        blocks += [
            result_table(
                delays.select(by, *_QUEUEING),
                QueueingDelay,
                caption=f"Queueing delay by {in_sentence(key_heading(by))}. {titles[trace]}",
                headings={by: key_heading(by)},
                null={by: "not stated"},
            )
            for trace, load in loads.items()
            for by, delays in load.queueing_by.items()
        ]
    if unknown:
        blocks.append(
            Text(f"Without start times the queueing delay is not known: {'; '.join(unknown)}.")
        )
    return blocks


def _gpu_hours(trace: Trace, title: str) -> list[Table]:
    """Return the GPU-hours by status and by user, and the number of tasks per job."""
    rows = trace.once(task_gpu_hours)
    note = "instances without a start or an end are excluded"
    tables = [
        result_table(
            gpu_hours_by(rows, by).head(_MOST_GROUPS),
            GpuHours,
            columns=(by, *_GPU_HOURS, *(("failed", "cancelled") if by == "user" else ())),
            headings={"jobs": "Tasks", by: key_heading(by)},
            caption=f"GPU-hours of tasks by {by}, most first; {note}. {title}",
            null={by: "not stated"},
        )
        for by in ("status", "user")
        if by in rows.columns
    ]
    each = rows.group_by("job_id").len("tasks")["tasks"].value_counts().sort("tasks")
    jobs = each.select(
        pl.col("tasks").cast(pl.Int64),
        jobs=pl.col("count").cast(pl.Int64),
        fraction_of_all=pl.col("count") / pl.col("count").sum(),
    ).head(_MOST_GROUPS)
    headings = {"tasks": "Tasks per job", "fraction_of_all": "Of all jobs"}
    caption = f"Jobs by their number of tasks. {title}"
    return [*tables, result_table(jobs, GpuHours, caption=caption, headings=headings)]


def _seasonality(loads: Found, titles: dict[Trace, str]) -> list[Block]:
    rows = [
        load.seasonality.select(pl.lit(titles[trace]).alias("trace"), pl.all())
        for trace, load in loads.items()
        if load.seasonality is not None
    ]
    caption = "Tests of daily and weekly seasonality of submissions"
    return [result_table(pl.concat(rows), Seasonality, caption=caption)] if rows else []


def _cycle_finding(title: str, trace: Trace, row: dict[str, Any]) -> str:
    """State whether submissions depend on the hour, or the day, of a cycle."""
    if row["cycle"] == "week" and clock_name(trace.manifest) is None:
        return ""
    clock = clock_name(trace.manifest)
    what = "hour of the day" if clock else "hour modulo 24"
    what = "day of the week" if row["cycle"] == "week" else what
    counted = (
        f"{p_equals(row['pvalue'])}; n = {row['n']:,} in {plural(row['n_cycles'], row['cycle'])}"
    )
    if row["pvalue"] >= _ALPHA:
        return f"{title}: no dependence of submissions on the {what} is found ({counted})."
    return (
        f"{title}: submissions depend on the {what}: the mean counts deviate by "
        f"{share(row['amplitude'])} (standard deviation over mean; {counted})."
    )


def _adjusted_waits(loads: Found, titles: dict[Trace, str]) -> list[Block]:
    return [
        result_table(
            fit.drop("cause", "log_hazard", "std_error"),
            HazardRatios,
            caption="Hazard ratios of the start of GPU jobs, all other features equal (Cox; "
            "pending jobs censored; intervals over blocks of days or users, whichever is wider). "
            f"Below 1: longer waits. {titles[trace]}",
            null={"level": "", "reference": ""},
        )
        for trace in loads
        if (fit := trace.once(adjusted_waits)) is not None
    ]


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
    parts = [
        f"{_term(row)} {three_digits(row['hazard_ratio'])} (95 % CI "
        f"{three_digits_range(row['ci_low'], row['ci_high'])})"
        for row in clear.iter_rows(named=True)
    ]
    return (
        f"{title}: hazard ratio of the start of waiting GPU jobs, the other features equal (below "
        f"1: longer waits): {'; '.join(parts)}. n = {n:,}."
    )


def _term(row: dict[str, Any]) -> str:
    if row["level"] is None:
        return str(row["feature"])
    return f"{row['feature']} {row['level']} versus {row['reference']}"


def _size_finding(loads: Found, titles: dict[Trace, str]) -> str:
    parts = []
    for trace, load in loads.items():
        row = load.summary.row(0, named=True)
        hours = row["gpu_hours"]
        size = "GPU-hours not recorded" if hours is None else f"{hours_text(hours)} GPU-hours"
        if not hours and (of_cpus := trace.once(cpu_hours_of)):
            size = f"{hours_text(of_cpus)} CPU-hours"
        elif row["gpus_median"] is not None:
            size += f", median {_gpus(row['gpus_median'])}"
        parts.append(f"{titles[trace]}: {plural(row['jobs'], 'job')}, {size}")
    return f"{'; '.join(parts)}."


def _gpus(number: float) -> str:
    return "1 GPU" if number == 1 else f"{number:,.3g} GPUs"


_FEWEST_JOBS = 100  # below, 1 % of the jobs is less than one


def _top_finding(loads: Found, titles: dict[Trace, str]) -> str:
    parts, short = [], []
    for trace, load in loads.items():
        if load.concentration is None or load.concentration.total["gini"].item() is None:
            continue
        total, since = load.concentration.total, load.concentration.since
        if total["n"].item() < _FEWEST_JOBS:
            continue
        top = f"n = {total['n'].item():,}"
        for other in () if since is None else since["fraction_of_top_1_percent"].drop_nulls():
            top += (
                f"; {share(other)} without the {load.survivors:,} that started before the first "
                "recorded end"
            )
        part = share(total["fraction_of_top_1_percent"].item())
        parts.append(f"{part} in {titles[trace]} ({top})")
        short.append(f"{part} ({trace.label})")
    if not parts:
        return ""
    return Finding(
        f"Of the GPU-hours, the largest 1 % of the GPU jobs use {listed(parts)}.",
        heading=f"The largest 1 % of GPU jobs use {listed(short)} of the GPU-hours",
    )


def _burst_finding(gaps: dict[str, Split | None]) -> str:
    parts = [
        f"{three_digits(cv)} in {title} (n = {_shown(curve)['n'].item():,})"
        for title, curve in gaps.items()
        if curve is not None and (cv := _shown(curve)["cv"].item()) is not None
    ]
    if not parts:
        return ""
    return (
        f"The coefficient of variation (CV) of times between submissions is {'; '.join(parts)}. "
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
