"""Variation across the workers of a job: computed from worker samples, and as published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Text,
    drawing,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.stragglers import analyze as workers
from traceana.questions.stragglers.iterations import iteration_cov
from traceana.questions.stragglers.tables import CovMatch, CovPooled, CovSeries
from traceana.tables.formatting import (
    count,
    fine_fraction,
    listed,
    plural,
    share,
    three_digits,
    three_digits_range,
)

if TYPE_CHECKING:
    from traceana.store import Trace

_MAX_DRAWN: Final = 2
_MAX_LINES: Final = 7
_MAX_ROWS: Final = 10
_LEAD: Final = (
    "trace",
    "job_id",
    "n",
    "median",
    "median_ci_low",
    "median_ci_high",
    "p95",
    "max",
    "fraction_above_0_5",
)
_COLUMNS: Final = (
    "n",
    "mean",
    "p05",
    "p25",
    "median",
    "p75",
    "p95",
    "max",
    "fraction_above_0_1",
    "fraction_above_0_5",
    "fraction_above_1",
    "median_ci_low",
    "median_ci_high",
)
_PUBLISHED: Final = (
    "job_id",
    "n",
    "median",
    "median_ci_low",
    "median_ci_high",
    "p95",
    "max",
    "fraction_above_0_5",
    "effective_n",
)
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
    has = {trace: trace.manifest.has for trace in traces}
    sampled = [trace for trace in traces if has[trace]("worker_samples", ("batch_time",))]
    tabled = [trace for trace in traces if has[trace]("cov_samples", ("cov",))]
    computed = {
        trace: trace.once(workers.cov_by_job).join(
            workers.synchronized(trace), on="job_id", how="anti"
        )
        for trace in sampled
    }
    computed = {trace: rows for trace, rows in computed.items() if rows["median"].count()}
    findings: list[str] = []
    headlines: list[str] = []
    blocks: list[Block] = [Text(_OPENING)]
    for trace, rows in computed.items():
        name = trace.label
        blocks.append(
            result_table(
                rows,
                CovSeries,
                columns=["job_id", "ddof", *_COLUMNS, "effective_n", "note"],
                headings={"ddof": "ddof"},
                caption=f"CoV of mini-batch time across workers, by job. {name}",
            )
        )
        finding, headline = _conclude(rows.filter(ddof=0).drop_nulls("median"))
        findings.append(Finding(f"{name}: {finding}", heading=_heading(name, rows)))
        headlines.append(f"{name}: {headline}")
    blocks += [
        Text(
            f"{trace.label}: no time step has two workers with times of their own; there is no CoV."
        )
        for trace in sampled
        if trace not in computed
    ]
    for trace in tabled:
        parts = [_published(trace)]
        parts += [_match_jobs(trace)] if trace in sampled else []
        findings += [f"{trace.label}: {item}" for part in parts for item in part.findings]
        blocks += [block for part in parts for block in part.blocks]
    drawn = {*computed, *(item for item in tabled if item not in sampled)}
    ecdfs = [_draw_cov(trace) for trace in traces if trace in drawn]
    curves = [item for trace in traces if trace in drawn for item in _draw_curves(trace)]
    pictures = (*ecdfs[:_MAX_DRAWN], *curves[: 2 * _MAX_DRAWN])
    lead = (*([Gallery(pictures)] if pictures else []), *_compare(computed))
    return Content(tuple(findings), tuple(blocks), " ".join(headlines), lead, _LIMITATIONS)


def _compare(computed: dict[Trace, pl.DataFrame]) -> list[Block]:
    """Return the table of the jobs of several traces with the largest median CoV."""
    if len(computed) < 2:
        return []
    rows = pl.concat(
        frame.filter(ddof=0).with_columns(trace=pl.lit(trace.label))
        for trace, frame in computed.items()
    ).sort("median", descending=True, nulls_last=True)
    titles = "; ".join(trace.label for trace in computed)
    table = result_table(
        rows.head(_MAX_ROWS),
        CovSeries,
        columns=_LEAD,
        headings={"trace": "Trace"},
        caption=f"CoV across workers by job (ddof 0), largest median first. {titles}.",
    )
    return [table]


def _heading(name: str, rows: pl.DataFrame) -> str:
    """State the median CoV of the job with the largest one."""
    most = rows.filter(ddof=0).drop_nulls("median").sort("median").row(-1, named=True)
    return (
        f"{name}: workers of {most['job_id']} differ by {share(most['median'])} of their mean time"
    )


def _draw_cov(trace: Trace) -> Drawing:
    """Draw the distributions over the time steps of each job, in front of the published ones."""
    manifest, published = trace.manifest, None
    if manifest.has("cov_samples", ("cov",)):
        published = workers.cov_samples(trace)
    ddof = 0 if manifest.has("worker_samples", ("batch_time",)) else None
    return drawing(
        "cov-ecdf",
        published if ddof is None else _cov(trace),
        trace=trace,
        key=picture_key("cov-ecdf", trace),
        about="Distribution of CoV by job",
        ddof=ddof,
        published=None if ddof is None else published,
    )


def _cov(trace: Trace) -> pl.DataFrame:
    samples = workers.worker_rows(trace).to_native()
    return iteration_cov(samples, ddof=0, time=workers.clock(trace))


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the distributions of mini-batch time, and the published CoV as published."""
    pictures = []
    for trace in traces:
        if trace.manifest.has("worker_samples", ("batch_time",)):
            samples = workers.worker_samples(trace)
            pictures += draw_distributions(trace, samples)[:1]
        if trace.manifest.has("cov_samples", ("cov",)):
            pictures.append(
                drawing(
                    "cov-ecdf",
                    workers.cov_samples(trace),
                    trace=trace,
                    key=picture_key("published-ecdf", trace),
                    about="Distribution of the published CoV",
                )
            )
    return pictures


def draw_distributions(trace: Trace, samples: pl.DataFrame, /) -> list[Drawing]:
    """Draw the distributions of mini-batch time, and of CoV, of the first jobs."""
    jobs = samples["job_id"].unique(maintain_order=True)
    few = jobs.head(_MAX_LINES)
    unit = workers.batch_time_unit(trace)
    some = f" (first {len(few)} of {len(jobs)} jobs)" if len(few) < len(jobs) else ""
    scale = "; the times of each job have their own scale" if unit == "relative" else ""
    return [
        drawing(
            "batch-time-ecdf",
            samples.filter(samples["job_id"].is_in(few.implode())),
            trace=trace,
            key=picture_key("batch-time-ecdf", trace),
            about=f"Distribution of mini-batch time by job{some}{scale}",
            unit=unit,
        ),
        drawing(
            "cov-ecdf",
            iteration_cov(samples, ddof=0, time=workers.clock(trace)),
            trace=trace,
            key=picture_key("cov-ecdf", trace),
            about="Distribution of CoV by job",
            ddof=0,
        ),
    ]


def _draw_curves(trace: Trace) -> list[Drawing]:
    """Draw the CoV of the first jobs against time, and that of the publisher's example jobs."""
    curves: list[tuple[pl.DataFrame, str, str, int | None]] = []
    if trace.manifest.has("worker_samples", ("batch_time",)):
        covs = _cov(trace)
        few = covs["job_id"].unique(maintain_order=True).head(_MAX_LINES)
        shown = covs.filter(pl.col("job_id").is_in(few.implode()))
        curves.append((shown, "cov", f"CoV across the workers of {listed(few)}", 0))
    if trace.manifest.has("cov_samples", ("cov",)):
        cov = workers.cov_samples(trace)
        shown = cov.filter(
            pl.col("job_id").is_in(trace.manifest.tables["cov_samples"].example_jobs)
        )
        about = "Published CoV of the jobs in the publisher's figure"
        curves.append((shown, "published", about, None))
    return [
        drawing("cov", shown, trace=trace, key=picture_key(key, trace), about=about, ddof=ddof)
        for shown, key, about, ddof in curves
        if shown.height
    ]


def _published(trace: Trace) -> Content:
    """Summarize the published table over all jobs, and by job."""
    jobs, overall = trace.once(workers.published_cov)
    n_workers = trace.manifest.tables["cov_samples"].workers_per_job
    medians = jobs["median"].drop_nulls().to_numpy()
    bound = _ddof_bound(overall["max"].item(), n_workers)
    truncation = ["right_truncated"] if jobs["right_truncated"].count() else []
    blocks: tuple[Block, ...] = (
        Heading("Published CoV table"),
        Text(
            "The publisher computed these values; the file does not state ddof. The confidence "
            "interval over all jobs (Woodruff) has jobs as clusters."
            f"{_lengths(overall.row(0, named=True))}"
        ),
        result_table(
            overall.with_columns(job_id=pl.lit("all")),
            CovPooled,
            columns=["job_id", *_COLUMNS],
            headings={"job_id": "Jobs"},
            caption="Published CoV, each time step of each job counted once. " + trace.label,
        ),
        result_table(
            jobs,
            CovSeries,
            columns=[*_PUBLISHED, *truncation],
            caption=f"Published CoV by job. {trace.label}",
            folded=True,
        ),
    )
    if not len(medians):
        return Content((), blocks)
    finding = (
        f"in the published CoV table ({plural(jobs.height, 'job')}, "
        f"{overall['n'].item():,} values) the medians by job range from "
        f"{three_digits_range(medians.min(), medians.max())}. Of all values, "
        f"{share(overall['fraction_above_0_5'].item())} exceed 0.5.{bound}"
    )
    return Content((finding,), blocks)


def _ddof_bound(largest: float | None, n_workers: int | None) -> str:
    """Return whether the values can have ddof 0, which bounds them."""
    if largest is None or n_workers is None:
        return ""
    bound = math.sqrt(n_workers - 1)
    which = "all values may have ddof 0" if largest <= bound else "some values have another ddof"
    return (
        f" With ddof 0 a CoV of {n_workers} workers is at most {bound:g}. The largest is "
        f"{three_digits(largest)}, so {which}."
    )


def _lengths(overall: dict[str, Any]) -> str:
    """Return how many jobs are truncated, and the median length."""
    if overall["n_right_truncated"] is None:
        return ""
    truncated = (
        f" {overall['n_right_truncated']} of {plural(overall['n_jobs'], 'job')} reach the last "
        "column and are right-truncated"
    )
    median = overall["length_median"]
    if median is None:
        return f"{truncated}; the median length exceeds the table."
    return f"{truncated}; the median length is {count(median)} samples (Kaplan-Meier)."


def _match_jobs(trace: Trace) -> Content:
    """Table of the best matches under both ddof."""
    matches = trace.once(workers.cov_matches)
    if matches.is_empty():
        return Content()
    blocks = (
        Heading("Match of these jobs to the published CoV table"),
        Text(
            "Each job's CoV is compared with every row of the table at every shift. The table "
            "shows the best match for each ddof. Worker times are integers, so rounding explains "
            "differences up to a known bound. If a job is a row of the table, nearly all "
            "differences are within that bound under the right ddof, and few under the other."
        ),
        result_table(
            matches.drop_nulls("overlap"),
            CovMatch,
            columns=[
                "job_id",
                "ddof",
                "cov_job_id",
                "first_sample",
                "overlap",
                "max_abs_difference",
                "median_abs_difference",
                "fraction_within_rounding",
            ],
            caption="Best match of each job in the published CoV table. " + trace.label,
        ),
    )
    return Content((_finding(matches),), blocks)


def _finding(matches: pl.DataFrame) -> str:
    jobs = matches["job_id"].n_unique()
    rows = matches.filter(pl.col("fraction_within_rounding") >= _IS_ROW).sort("job_id")
    if rows.is_empty():
        return f"none of {plural(jobs, 'job')} with worker times is a row of the CoV table."
    named = ", ".join(
        f"{row['job_id']} is {row['cov_job_id']} (ddof {row['ddof']}, "
        f"{fine_fraction(row['fraction_within_rounding'])} of {row['overlap']:,} differences "
        "within rounding)"
        for row in rows.iter_rows(named=True)
    )
    return (
        f"of {plural(jobs, 'job')} with worker times, {rows['job_id'].n_unique()} are rows of the "
        f"published CoV table: {named}."
    )


def _conclude(summary: pl.DataFrame) -> tuple[str, str]:
    """Return the finding and the headline."""
    by_median = summary.sort("median").rows(named=True)
    low, high = by_median[0], by_median[-1]
    if len(by_median) == 1:
        finding = (
            f"the median CoV across workers (ddof 0) of {low['job_id']} is "
            f"{three_digits(low['median'])} (maximum {three_digits(low['max'])}; "
            f"n = {low['n']:,} time steps)."
        )
        median = f"{share(low['median'])} of the mean in {low['job_id']}."
        return (
            finding,
            f"the median standard deviation of mini-batch time across workers is {median}",
        )
    finding = (
        f"the median CoV across workers (ddof 0) is lowest in {low['job_id']} "
        f"({three_digits(low['median'])}; n = {low['n']:,} time steps). It is highest in "
        f"{high['job_id']} ({three_digits(high['median'])}, maximum {three_digits(high['max'])}; "
        f"n = {high['n']:,}), of {plural(len(by_median), 'job')}."
    )
    headline = (
        "the median standard deviation of mini-batch time across workers is between "
        f"{share(low['median'])} ({low['job_id']}) and {share(high['median'])} "
        f"({high['job_id']}) of the mean (n = {plural(len(by_median), 'job')})."
    )
    return finding, headline


SECTION = Section(
    "variation",
    "Variation between workers",
    20,
    build,
    needs=({"worker_samples": ("batch_time",)}, {"cov_samples": ("cov",)}),
    unless=workers.PIPELINE,
    figures=("cov-ecdf", "batch-time-ecdf", "cov"),
    more=draw_more,
    part="Stragglers",
    question="How much do mini-batch times vary between the workers of a job?",
)
