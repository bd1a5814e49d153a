"""How long things ran and how they ended, by GPU type or what else a trace has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import failure_rates, outcome_rates, runtime_by
from traceana.report.blocks import (
    Absent,
    Block,
    Column,
    Content,
    Drawing,
    Gallery,
    Heading,
    Table,
    Text,
    drawing,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.report.sections.outcome_tests import tell_dependence, tell_runtimes, tell_strata
from traceana.report.sections.populations import OPENB, PAI, Population, read_populations
from traceana.results.formatting import count, seconds, seconds_range, share, share_range
from traceana.schema import STATUSES

if TYPE_CHECKING:
    from traceana.report.context import Context

_STATUSES_DRAWN: Final = ("completed", "failed")
_READINGS: Final = {
    "strict": ("failed",),
    "published": tuple(status for status in STATUSES if status != "completed"),
}


@dataclass(frozen=True)
class _Question:
    """Runtime and outcomes of one trace's rows by one column, within strata if it names any."""

    trace: str
    by: str
    heading: str
    note: str
    strata: tuple[str, str] | None = None


_QUESTIONS: Final = (
    _Question(PAI, "gpu_type", "GPU type", ""),
    _Question(
        OPENB,
        "qos",
        "QoS class",
        "The jobs have no GPU type, so they stand by QoS class and by GPUs asked for.",
    ),
    _Question(
        OPENB,
        "gpus_asked",
        "GPUs asked for",
        "Failure is confounded with QoS: best-effort pods are evicted, and classes ask for "
        "different GPUs. The last table compares within QoS classes only.",
        strata=("qos", "QoS class"),
    ),
)


def build(session: Context) -> Content:
    """Runtime by group and status, and outcomes by group under both readings."""
    findings: list[str] = []
    blocks: list[Block] = [
        Text(
            "Means come with Student's 95 % interval, rates with Wilson's; both take rows as "
            "independent, which tasks of one job or user are not, so that these intervals are too "
            "narrow rather than too wide. An interval of a mean that reaches below 0 says that "
            "the runtimes are too few or too unequal for it. What a failure is, is a choice. The "
            "strict reading sets `failed` against `completed` and leaves out any other status; "
            "the published one counts every status but `completed` as a failure, those that still "
            "ran or waited among them. Effects stand before p. ITP and ElasticFlow have neither "
            "status nor GPU type: outcomes cannot be studied there."
        )
    ]
    parts = dict(
        zip((PAI, OPENB), read_populations(session, what="Runtime and outcomes"), strict=True)
    )
    for trace, part in parts.items():
        if isinstance(part, Absent):
            blocks += [Heading(session.title(trace)), part]
            continue
        for question in _QUESTIONS:
            if question.trace == trace:
                content = _answer(part, question)
                findings += content.findings
                blocks += content.blocks
    return Content(tuple(findings), tuple(blocks))


def _answer(population: Population, question: _Question) -> Content:
    rows, name, by = population.rows, population.name, question.by
    runtimes = runtime_by(rows, ("status", by))
    rates = failure_rates(rows, by)
    what = f"{population.things} by {question.heading}"
    differences = tell_runtimes(population, by, question.heading)
    dependence = tell_dependence(population, by, question.heading)
    strata: tuple[Block, ...] = ()
    if question.strata is not None:
        strata = tell_strata(population, by, question.heading, question.strata)
    blocks: tuple[Block, ...] = (
        Heading(f"{name}: {what}"),
        Text(f"{population.about} {question.note}".strip()),
        make_table(
            runtimes,
            [
                words("Status", "status"),
                words(question.heading, by),
                Column("Runtimes", "n", count),
                Column("Mean (s)", "mean_s", seconds),
                Column("95 % interval (s)", ("ci_low", "ci_high"), seconds_range),
                Column("Median (s)", "median_s", seconds),
                Column("90 % (s)", "p90_s", seconds),
                Column("Without runtime", "n_missing", count),
            ],
            caption=f"Runtime of {what} and status. {name}",
        ),
        *differences.blocks,
        _rates_table(rates, question, f"Failure rate of {what}, under both readings. {name}"),
        *dependence.blocks,
        *strata,
        Gallery(tuple(_pictures(population, question, runtimes))),
    )
    told = _findings(question, population, runtimes, rates)
    if question.strata is None:  # else what is confounded would stand at the page's head
        told += [*differences.findings, *dependence.findings]
    return Content(tuple(told), blocks)


def _rates_table(rates: pl.DataFrame, question: _Question, caption: str) -> Table:
    other = ("cancelled", "running", "pending", "unknown")
    return make_table(
        rates.with_columns(others=pl.sum_horizontal(*other) - pl.col("running")),
        [
            words(question.heading, question.by),
            words("Reading", "reading"),
            Column("Counted", "n", count),
            Column("Failures", "failures", count),
            Column("Failure rate", "rate", share),
            Column("95 % interval", ("ci_low", "ci_high"), share_range),
            Column("Completed", "completed", count),
            Column("Failed", "failed", count),
            Column("Running", "running", count),
            Column("Other statuses", "others", count),
        ],
        caption=caption,
    )


def _pictures(population: Population, question: _Question, runtimes: pl.DataFrame) -> list[Drawing]:
    key = f"{population.trace}-{question.by}"
    what = f"{population.things} by {question.heading}"
    pictures = [
        drawing(
            "runtime-by",
            runtimes.filter(status=status).filter(pl.col("n") > 0).drop("status"),
            trace=population.trace,
            title=population.name,
            key=f"runtime-{status}-{key}",
            about=f"Runtime of {status} {what}",
        )
        for status in _STATUSES_DRAWN
        if runtimes.filter(status=status)["n"].sum()
    ]
    others = population.rows.filter(pl.col("status").is_in(_READINGS["published"]))
    ended = runtime_by(others, question.by).filter(pl.col("n") > 0)
    if population.trace == PAI and not ended.is_empty():
        pictures.append(
            drawing(
                "runtime-by",
                ended,
                trace=population.trace,
                title=population.name,
                key=f"runtime-published-failure-{key}",
                about=f"Runtime of {what}, every status but completed (the published failure)",
            )
        )
    return pictures + [
        drawing(
            "outcome-rates",
            outcome_rates(population.rows, question.by, failure=failure),
            trace=population.trace,
            title=population.name,
            key=f"rates-{reading}-{key}",
            about=f"Success rate of {what}, {reading} reading",
        )
        for reading, failure in _READINGS.items()
    ]


def _findings(
    question: _Question, population: Population, runtimes: pl.DataFrame, rates: pl.DataFrame
) -> list[str]:
    told, name = [], population.name
    stated = pl.col(question.by).is_not_null()
    known = runtimes.filter(pl.col("ci_low").is_not_null(), stated)
    completed = known.filter(status="completed").sort("mean_s").rows(named=True)
    if question.by == "gpu_type" and len(completed) > 1:
        least, most = completed[0], completed[-1]
        told.append(
            f"{name}: completed {population.things} ran longest on {_mean(most, question.by)} and "
            f"shortest on {_mean(least, question.by)}."
        )
    judged = rates.filter(pl.col("n") > 0, stated, reading="strict").sort("rate")
    if judged.height > 1 and question.strata is None:
        low, high = judged.row(0, named=True), judged.row(-1, named=True)
        where = " (where stated)" if rates[question.by].null_count() else ""
        told.append(
            f"{name}: the failure rate by {question.heading}{where}, `failed` against `completed`, "
            f"is lowest for {_rate(low, question.by)} and highest for {_rate(high, question.by)}."
        )
    return told


def _mean(row: dict[str, float], by: str) -> str:
    interval = seconds_range(row["ci_low"], row["ci_high"])
    return f"{row[by]} (mean {seconds(row['mean_s'])} s, {interval}, n = {row['n']:,})"


def _rate(row: dict[str, float], by: str) -> str:
    interval = share_range(row["ci_low"], row["ci_high"])
    return f"{row[by]} ({share(row['rate'])}, {interval}, n = {row['n']:,})"


SECTION = Section(
    "outcomes",
    "Runtime and outcomes",
    70,
    build,
    figures=("runtime-by", "outcome-rates"),
    of_tasks=True,
)
