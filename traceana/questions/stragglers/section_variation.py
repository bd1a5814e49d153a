"""Variation across the workers of a job, and which attribute of the workers explains it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Text,
    captioned,
    drawing,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Needs, Section
from traceana.questions.stragglers import analyze as workers
from traceana.questions.stragglers.cov import iteration_cov
from traceana.questions.stragglers.tables import (
    AttributeGroups,
    AttributeResult,
    CovMatch,
    CovPooled,
    CovSeries,
    CovSummary,
    StragglerAttributes,
)
from traceana.store import Trace
from traceana.store.frames import collect
from traceana.tables.formatting import (
    count,
    listed,
    plural,
    share,
    three_digits,
    three_digits_range,
)

_MAX_DRAWN: Final = 2
_MAX_LINES: Final = 7
_FEW: Final = ("n", "median", "median_ci_low", "median_ci_high", "p95", "max", "fraction_above_0_5")
_PUBLISHED: Final = ("job_id", *_FEW, "effective_n", "right_truncated")
_COLUMNS: Final = (
    *(name for name in CovSummary.columns() if name != "n_missing"),
    "median_ci_low",
    "median_ci_high",
)
_SAMPLED: Final[Needs] = {"worker_samples": ("batch_time",)}
_TABLED: Final[Needs] = {"cov_samples": ("cov",)}
_IS_ROW: Final = 0.99
"""Fraction of differences within rounding from which a job is a row of the table."""
_OPENING: Final = (
    "The coefficient of variation (CoV) at a time step is the standard deviation across workers "
    "divided by their mean. With ddof 0 the variance divides by the number of workers n, with "
    "ddof 1 by n - 1. Time steps with fewer than two workers are excluded."
)
_LIMITATIONS: Final = (
    "Time steps are autocorrelated: the 95 % confidence interval of a median (Woodruff) uses the "
    "effective number of time steps, and below 20 there is none. It assumes a stationary job and "
    "is too narrow for a job that drifts."
)


def build(traces: Sequence[Trace]) -> Content:
    """CoV by job, the published CoV table, and the match of the two."""
    by_job = {  # without jobs whose workers move as one
        trace: trace.once(workers.cov_by_job).join(workers.synchronized(trace), "job_id", "anti")
        for trace in traces
        if _has(trace, _SAMPLED)
    }
    parts = [_computed(trace.label, rows) for trace, rows in by_job.items()]
    parts.sort(key=lambda part: not part.findings)
    for trace in traces:
        if _has(trace, _TABLED):
            parts += [_published(trace), *([_match_jobs(trace)] if trace in by_job else [])]
    computed = {trace: rows for trace, rows in by_job.items() if rows["median"].count()}
    shown = [trace for trace in traces if trace in computed or trace not in by_job]
    findings = tuple(chain.from_iterable(part.findings for part in parts))
    blocks = chain.from_iterable(part.blocks for part in parts)
    curves = chain.from_iterable(map(_draw_curves, shown))
    pictures = (*map(_draw_cov, shown[:_MAX_DRAWN]), *islice(curves, 2 * _MAX_DRAWN))
    lead: tuple[Block, ...] = (Gallery(pictures),) if pictures else ()
    return Content(findings, (Text(_OPENING), *blocks), lead, _LIMITATIONS)


def _has(trace: Trace, needs: Needs) -> bool:
    ((table, columns),) = needs.items()
    return trace.manifest.has(table, columns)


def _computed(name: str, rows: pl.DataFrame) -> Content:
    """Table of the CoV of each job, with the median CoV of the jobs where it is least and most."""
    if not rows["median"].count():
        why = "no time step has two workers with times of their own; there is no CoV."
        return Content(blocks=(Text(f"{name}: {why}"),))
    columns = ["job_id", "ddof", *_COLUMNS, "effective_n", "note"]
    caption = "CoV of mini-batch time across workers, by job"
    table = result_table(rows, CovSeries, columns=columns, caption=caption)
    by_median = rows.filter(ddof=0).drop_nulls("median").sort("median").rows(named=True)
    low, high = by_median[0], by_median[-1]
    median, steps = three_digits(low["median"]), f"n = {low['n']:,} time steps)"
    largest = f"maximum {three_digits(high['max'])}; n = {high['n']:,}"
    finding = "the median CoV across workers (ddof 0) "
    if len(by_median) == 1:
        finding += f"of {low['job_id']} is {median} ({largest} time steps)."
    else:
        finding += (
            f"is lowest in {low['job_id']} ({median}; {steps}. It is highest in {high['job_id']} "
            f"({three_digits(high['median'])}, {largest}), of {plural(len(by_median), 'job')}."
        )
    differ = f"workers of {high['job_id']} differ by {share(high['median'])} of their mean time"
    return Content((Finding(finding, heading=differ),), (table,)).of(name)


def _draw_cov(trace: Trace) -> Drawing:
    """Draw the distributions over the time steps of each job, in front of the published ones."""
    published = workers.cov_samples(trace) if _has(trace, _TABLED) else None
    options: dict[str, Any] = {"ddof": 0, "published": published}
    if _has(trace, _SAMPLED) or published is None:
        cov = _cov(trace)
    else:
        cov, options = published, {"ddof": None, "published": None}
    key, about = picture_key("cov-ecdf", trace), "Distribution of CoV by job"
    return drawing("cov-ecdf", cov, trace, key, about, **options)


def _cov(trace: Trace) -> pl.DataFrame:
    samples = workers.worker_rows(trace).to_native()
    return iteration_cov(samples, ddof=0, time=workers.clock(trace))


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the distributions of mini-batch time, and the published CoV as published."""
    pictures = []
    for trace in traces:
        if _has(trace, _SAMPLED):
            pictures += draw_distributions(trace, workers.worker_samples(trace))[:1]
        if _has(trace, _TABLED):
            cov, key = workers.cov_samples(trace), picture_key("published-ecdf", trace)
            about = "Distribution of the published CoV"
            pictures.append(drawing("cov-ecdf", cov, trace, key, about))
    return pictures


def draw_distributions(trace: Trace, samples: pl.DataFrame, /) -> list[Drawing]:
    """Draw the distributions of mini-batch time, and of CoV, of the first jobs."""
    jobs, unit = samples["job_id"].unique(maintain_order=True), workers.batch_time_unit(trace)
    few = jobs.head(_MAX_LINES)
    some = f" (first {len(few)} of {len(jobs)} jobs)" if len(few) < len(jobs) else ""
    scale = "; the times of each job have their own scale" if unit == "relative" else ""
    shown = samples.filter(samples["job_id"].is_in(few.implode()))
    about = f"Distribution of mini-batch time by job{some}{scale}"
    cov = iteration_cov(samples, ddof=0, time=workers.clock(trace))
    of_time, of_cov = (picture_key(kind, trace) for kind in ("batch-time-ecdf", "cov-ecdf"))
    return [
        drawing("batch-time-ecdf", shown, trace, of_time, about, unit=unit),
        drawing("cov-ecdf", cov, trace, of_cov, "Distribution of CoV by job", ddof=0),
    ]


def _draw_curves(trace: Trace) -> list[Drawing]:
    """Draw the CoV of the first jobs against time, and that of the publisher's example jobs."""
    curves = []
    if _has(trace, _SAMPLED):
        covs = _cov(trace)
        few = covs["job_id"].unique(maintain_order=True).head(_MAX_LINES)
        shown = covs.filter(pl.col("job_id").is_in(few.implode()))
        about = f"CoV across the workers of {listed(few)}"
        curves.append(drawing("cov", shown, trace, picture_key("cov", trace), about, ddof=0))
    if _has(trace, _TABLED):
        examples = trace.manifest.tables["cov_samples"].example_jobs
        shown = workers.cov_samples(trace).filter(pl.col("job_id").is_in(examples))
        about = "Published CoV of the jobs in the publisher's figure"
        key = picture_key("published", trace)
        curves.append(drawing("cov", shown, trace, key, about, ddof=None))
    return [curve for curve in curves if curve.result.height]


def _published(trace: Trace) -> Content:
    """Summarize the published table over all jobs, and by job."""
    jobs, overall = trace.once(workers.published_cov)
    n_workers = trace.manifest.tables["cov_samples"].workers_per_job
    medians = jobs["median"].drop_nulls().to_numpy()
    once = "Published CoV, each time step of each job counted once"
    shown: dict[str, Any] = {"columns": ["job_id", *_COLUMNS], "headings": {"job_id": "Jobs"}}
    every, by_job = overall.with_columns(job_id=pl.lit("all")), "Published CoV by job"
    blocks: tuple[Block, ...] = (
        Heading("Published CoV table"),
        Text(
            "The publisher computed these values; the file does not state ddof. The confidence "
            "interval over all jobs (Woodruff) has jobs as clusters."
            f"{_lengths(overall.row(0, named=True))}"
        ),
        result_table(every, CovPooled, caption=once, **shown),
        result_table(jobs, CovSeries, columns=_PUBLISHED, caption=by_job, folded=True),
    )
    if not len(medians):
        return Content((), blocks)
    finding = (
        f"in the published CoV table ({plural(jobs.height, 'job')}, "
        f"{overall['n'].item():,} values) the medians by job range from "
        f"{three_digits_range(medians.min(), medians.max())}. Of all values, "
        f"{share(overall['fraction_above_0_5'].item())} exceed 0.5."
    )
    largest = overall["max"].item()
    if largest is not None and n_workers is not None:
        bound = math.sqrt(n_workers - 1)  # of values with ddof 0
        some = "all values may have ddof 0" if largest <= bound else "some values have another ddof"
        finding += (
            f" With ddof 0 a CoV of {n_workers} workers is at most {bound:g}. The largest is "
            f"{three_digits(largest)}, so {some}."
        )
    return Content((finding,), blocks).of(trace.label)


def _lengths(overall: dict[str, Any]) -> str:
    """Return how many jobs are truncated, and the median length."""
    n, median = overall["n_right_truncated"], overall["length_median"]
    if n is None:
        return ""
    of = f"{n} of {plural(overall['n_jobs'], 'job')}"
    length = "exceeds the table" if median is None else f"is {count(median)} samples (Kaplan-Meier)"
    return f" {of} reach the last column and are right-truncated; the median length {length}."


def _match_jobs(trace: Trace) -> Content:
    """Table of the best matches under both ddof."""
    matches = trace.once(workers.cov_matches)
    if matches.is_empty():
        return Content()
    caption = "Best match of each job in the published CoV table"
    columns = [name for name in CovMatch.columns() if name != "first_time_s"]
    blocks = (
        Heading("Match of these jobs to the published CoV table"),
        Text(
            "Each job's CoV is compared with every row of the table at every shift. The table "
            "shows the best match for each ddof. Worker times are integers, so rounding explains "
            "differences up to a known bound. If a job is a row of the table, nearly all "
            "differences are within that bound under the right ddof, and few under the other."
        ),
        result_table(matches.drop_nulls("overlap"), CovMatch, columns=columns, caption=caption),
    )
    jobs = plural(matches["job_id"].n_unique(), "job")
    rows = matches.filter(pl.col("fraction_within_rounding") >= _IS_ROW).sort("job_id")
    finding = f"none of {jobs} with worker times is a row of the CoV table."
    if rows.height:
        named = ", ".join(
            f"{row['job_id']} is {row['cov_job_id']} (ddof {row['ddof']}, "
            f"{row['fraction_within_rounding'] * row['overlap']:,.0f} of {row['overlap']:,} "
            "differences within rounding)"
            for row in rows.iter_rows(named=True)
        )
        are = f"{rows['job_id'].n_unique()} are rows of the published CoV table"
        finding = f"of {jobs} with worker times, {are}: {named}."
    return Content((finding,), blocks).of(trace.label)


SECTION = Section(
    "variation",
    "Variation between workers",
    20,
    build,
    needs=(_SAMPLED, _TABLED),
    unless=workers.PIPELINE,
    figures=("cov-ecdf", "batch-time-ecdf", "cov"),
    more=draw_more,
    part="Stragglers",
    question="How much do mini-batch times vary between the workers of a job?",
)


_COSTLY: Final = 0.01  # fraction of a job's time from which a group of workers is an alert
_BEYOND_CHANCE: Final = 0.05
_MAX_FILES: Final = 12
_ANSWER: Final = ("group", "n_workers", "gain", "explained", "explained_by_chance", "explains")
_FIRST: Final = ("job_id", "attribute", *_ANSWER)
_ATTRIBUTES_LIMITATIONS: Final = (
    "Gains hold if every step waits for its slowest worker. Which attribute is tested depends on "
    "what the trace names: without hosts or stages each worker is a group by itself."
)
_DEFINITIONS: Final = (
    "The workers of a job are grouped by each attribute that the data have (such as host, rack or "
    "pipeline stage); each worker is a group by itself. Time gained: the fraction of the job's "
    "time saved if the workers of a group took at most the median of the others in the same step, "
    "if every step waited for its slowest worker. Explained: the same, as a fraction of the time "
    "that the job takes above its median worker, of what lasts over blocks of steps (systematic); "
    "the rest is random variation, which no group explains. It may exceed 100 %. By chance: the "
    "most that the group explains in 20 shuffles of times between the workers of each step. An "
    "attribute explains the slowness if its slowest group explains at least 50 percentage points "
    "more than by chance; of several, the one with the smallest group is taken. p: permutation "
    "test of the variance between groups; it cannot be small with few workers."
)


_TENTHS: Final = 10
_BECAME: Final = 1.05
_STEADILY: Final = 0.9
"""Ratio of the last tenth's slowness to the first one's, and rank correlation over the tenths."""


def build_attributes(traces: Sequence[Trace]) -> Content:
    """The group that explains most of each job, and a figure of the job that gains most."""
    results = {trace: trace.once(workers.attributes_of_jobs) for trace in traces}
    results = {trace: result for trace, result in results.items() if result.attributes.height}
    if not results:
        return Content()
    findings = tuple(
        _finding(result.attributes.sort(*workers.JOB_ORDER), trace).of(trace.label)
        for trace, result in results.items()
    )
    blocks = (
        block
        for trace, result in results.items()
        for block in captioned(_details(result), trace.label)
    )
    lead = _lead(traces, results)
    return Content(findings, (Text(_DEFINITIONS), *blocks), lead, _ATTRIBUTES_LIMITATIONS)


def _details(result: AttributeResult) -> tuple[Block, ...]:
    chance = pl.col("explained_by_chance").fill_null(0)
    lasting = pl.col("systematic").fill_null(1) >= _BEYOND_CHANCE  # else all is noise
    by_chance = result.attributes.filter(lasting).select("job_id", "attribute", chance=chance)
    groups = result.groups.join(by_chance, on=["job_id", "attribute"])
    beyond = pl.col("explained") - pl.col("chance") >= _BEYOND_CHANCE
    attributes, costly = (
        frame.sort(*workers.JOB_ORDER, maintain_order=True)
        for frame in (result.attributes, groups.filter(beyond).drop("chance"))
    )
    caption = "Groups that explain at least 5 percentage points of the slowdown more than by chance"
    caused = [result_table(costly, AttributeGroups, caption=caption, folded=True)]
    columns = (*_FIRST, *(name for name in attributes.columns if name not in _FIRST))
    caption = "What explains slow jobs"
    return (
        result_table(attributes, StragglerAttributes, columns=columns, caption=caption),
        *(caused if costly.height else []),
    )


def _lead(traces: Sequence[Trace], results: dict[Trace, AttributeResult]) -> tuple[Block, ...]:
    """Return the figure of the job of which a group explains or gains most."""
    order: dict[str, Any] = {"descending": True, "nulls_last": True, "maintain_order": True}
    best = pl.concat(
        result.attributes.drop_nulls("gain").with_columns(id=pl.lit(trace.id))
        for trace, result in results.items()
    ).sort("explains", "gain", **order)
    if best.is_empty():
        return ()
    job, trace_id = best.select("job_id", "id").row(0)
    pictures = [
        drawing
        for drawing in draw_attributes([trace for trace in traces if trace.id == trace_id])
        if drawing.result.attributes["job_id"][0] == job and drawing.result.attributes.height > 1
    ]
    return (Gallery(tuple(pictures)),) if pictures else ()


def draw_attributes(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the first jobs of each trace that have a gain."""
    pictures = []
    for trace in traces:
        result = trace.once(workers.attributes_of_jobs)
        jobs = result.attributes.drop_nulls("gain")["job_id"].unique(maintain_order=True)
        for job in jobs.head(_MAX_FILES):
            key, of_job = picture_key("straggler-attributes", trace, job), result.of_job(job)
            about = f"Time gained by attribute in {job}"
            pictures.append(drawing("straggler-attributes", of_job, trace, key, about))
    return pictures


def _finding(jobs: pl.DataFrame, trace: Trace) -> Finding:
    table = jobs.filter("explains")
    number = jobs["job_id"].n_unique()
    if table.is_empty():
        clear = jobs.filter(pl.col("note").str.starts_with("its groups differ")).sort("pvalue")
        for row in clear.head(1).rows(named=True):
            heading = f"{row['attribute']} {row['group']} of {row['job_id']} is slow and explains "
            heading += f"{share(row['explained'])} of the slowdown"
            text = f"{heading} that lasts ({share(row['explained_by_chance'])} by chance); "
            text += f"{row['attribute']} groups differ (p = {row['pvalue']:.2g}; n = "
            text += f"{plural(row['n_steps'], 'step')}). The rest is due to other workers."
            return Finding(text, heading=heading, cost_jobs=row["gain"])
        of = "the job" if number == 1 else f"any of {plural(number, 'job')}"
        heading = f"no single group of workers explains the slowness of {of}"
        return Finding(f"{heading}.", heading=heading, certainty="cannot tell")
    row, *others = table.head(3).rows(named=True)
    group, job = f"{row['attribute']} {row['group']}", row["job_id"]
    heading = f"{group} explains {share(row['explained'])} of the slowdown of {job}"
    text = f"{heading} ({_by_chance(row)}).{_slower_by_time(trace, row)}"
    for other in others:
        text += f" In {other['job_id']}, {other['attribute']} {other['group']} explains "
        text += f"{share(other['explained'])} ({_by_chance(other)})."
    if number > 1:
        text += f" One group of workers explains the slowdown of {table.height} of "
        text += f"{plural(number, 'job')}."
    alert = ""
    levels = trace.once(workers.stragglers).levels
    stated = levels.filter("is_slower", job_id=job, worker_id=row["group"]).height
    if row["gain"] >= _COSTLY and not (row["attribute"] == "worker" and stated):
        alert = f"{group} costs {share(row['gain'])} of the time of {job}"
    return Finding(text, heading=heading, alert=alert, cost_jobs=row["gain"])


def _slower_by_time(trace: Trace, row: dict[str, Any]) -> str:
    """State that a group became slower steadily; empty otherwise."""
    time = workers.clock(trace)
    name = {"worker": "worker_id"}.get(row["attribute"], row["attribute"])
    rows = trace.rows("worker_samples").filter(nw.col("job_id") == row["job_id"])
    samples = collect(rows.select(time, name, "batch_time").drop_nulls(time))
    tenth = ((pl.col(time).rank("dense") - 1) * _TENTHS / pl.col(time).n_unique()).floor()
    is_group = pl.col(name).cast(pl.String) == row["group"]
    inside, outside = (pl.col("batch_time").filter(one).median() for one in (is_group, ~is_group))
    table = samples.group_by(tenth.alias("tenth")).agg(ratio=inside / outside).sort("tenth")
    ratios = table["ratio"].drop_nulls()
    if ratios.len() < _TENTHS or ratios[-1] < _BECAME * ratios[0]:
        return ""
    if table.select(pl.corr("tenth", "ratio", method="spearman")).item() < _STEADILY:
        return ""
    first, last = three_digits(ratios[0]), three_digits(ratios[-1])
    return (
        f" It became slower: {first} times the others' time in the first tenth, {last} in the last."
    )


def _by_chance(row: dict[str, Any]) -> str:
    by_chance = share(row["explained_by_chance"])
    return f"{by_chance} by chance; n = {plural(row['n_steps'], 'step')}"


ATTRIBUTES = Section(
    "straggler-attributes",
    "Stragglers by attribute",
    30,
    build_attributes,
    needs=({"worker_samples": ("batch_time",)},),
    unless=workers.PIPELINE,
    figures=("straggler-attributes",),
    more=draw_attributes,
    part="Stragglers",
    question="Which host, stage or worker explains why a job is slow?",
)
