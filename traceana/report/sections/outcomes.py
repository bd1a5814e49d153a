"""How long things ran and how they ended, by GPU type or what else a trace has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis import outcome_rates, runtime_by
from traceana.report.blocks import Block, Column, Content, Gallery, Heading, Text, make_table, words
from traceana.report.wording import count, seconds, seconds_range, share, share_range

if TYPE_CHECKING:
    from traceana.report.material import Material

_STATUSES_DRAWN = ("completed", "failed")


@dataclass(frozen=True)
class _Question:
    """Runtime and outcomes of one table's rows by one column."""

    trace: str
    table: str
    by: str
    heading: str
    things: str
    note: str


_QUESTIONS = (
    _Question(
        "alibaba-pai-2020",
        "tasks",
        "gpu_type",
        "GPU type",
        "tasks",
        "A task's runtime is `end_s - start_s` of its own row. Where the publisher "
        "lost an end there is none; the table counts these rows. Where many lack one, the rows "
        "with a runtime are a selection.",
    ),
    _Question(
        "alibaba-openb-2023",
        "jobs",
        "qos",
        "QoS class",
        "pods",
        "The jobs have no GPU type, so they stand by QoS class and by GPUs asked for. Failure is "
        "confounded with QoS: best-effort pods are evicted. A pod still running at its last "
        "record is neither a success nor a failure.",
    ),
    _Question("alibaba-openb-2023", "jobs", "gpus_asked", "GPUs asked for", "pods", ""),
)


def build(material: Material) -> Content:
    """Runtime by group and status, and success rates by group."""
    findings: list[str] = []
    blocks: list[Block] = [
        Text(
            "Means come with Student's 95 % interval, success rates with Wilson's; both take rows "
            "as independent, which tasks of one job or user are not, so that the intervals are "
            "too narrow rather than too wide. An interval of a mean that reaches below 0 says that "
            "the runtimes are too few or too unequal for it. A rate is successes (completed) over "
            "successes and failures (failed); any other status is counted beside. ITP and "
            "ElasticFlow have neither status nor GPU type: outcomes cannot be studied there."
        )
    ]
    for question in _QUESTIONS:
        if not material.has(question.trace, question.table):
            what = f"Runtime and outcomes by {question.heading}"
            blocks += [
                _heading(material, question),
                material.absent(question.trace, question.table, what=what),
            ]
            continue
        content = _answer(material, question)
        findings += content.findings
        blocks += content.blocks
    return Content(tuple(findings), tuple(blocks))


def _answer(material: Material, question: _Question) -> Content:
    rows = material.scan(question.trace, question.table)
    if question.table == "tasks":
        rows = rows.with_columns(runtime_s=pl.col("end_s") - pl.col("start_s"))
    if question.by == "gpus_asked":
        rows = _with_gpus_asked(rows)
    name, key = material.name(question.trace), f"{question.trace}-{question.by}"
    runtimes = runtime_by(rows, ("status", question.by))
    rates = outcome_rates(rows, question.by)
    group = words(question.heading, question.by)
    pictures = [
        material.picture(
            "runtime-by",
            runtimes.filter(status=status).filter(pl.col("n") > 0).drop("status"),
            trace=question.trace,
            key=f"runtime-{status}-{key}",
            about=f"Runtime of {status} {question.things} by {question.heading}",
        )
        for status in _STATUSES_DRAWN
        if runtimes.filter(status=status)["n"].sum()
    ]
    pictures.append(
        material.picture(
            "outcome-rates",
            rates,
            trace=question.trace,
            key=f"rates-{key}",
            about=f"Success rate of {question.things} by {question.heading}",
        )
    )
    blocks: tuple[Block, ...] = (
        _heading(material, question),
        *([Text(question.note)] if question.note else []),
        make_table(
            runtimes,
            [
                words("Status", "status"),
                group,
                Column("Runtimes", "n", count),
                Column("Mean (s)", "mean_s", seconds),
                Column("95 % interval (s)", ("ci_low", "ci_high"), seconds_range),
                Column("Median (s)", "median_s", seconds),
                Column("90 % (s)", "p90_s", seconds),
                Column("Without runtime", "n_missing", count),
            ],
            caption=f"Runtime of {question.things} by status and {question.heading}. {name}",
        ),
        make_table(
            rates,
            [
                group,
                Column("Successes and failures", "n", count),
                Column("Successes", "successes", count),
                Column("Rate", "rate", share),
                Column("95 % interval", ("ci_low", "ci_high"), share_range),
                Column("Other statuses", "others", count),
            ],
            caption=f"Success rate of {question.things} by {question.heading}. {name}",
        ),
        Gallery(tuple(pictures)),
    )
    return Content(tuple(_findings(question, name, runtimes, rates)), blocks)


def _heading(material: Material, question: _Question) -> Heading:
    name = material.name(question.trace)
    return Heading(f"{name}: {question.things} by {question.heading}")


def _findings(
    question: _Question, name: str, runtimes: pl.DataFrame, rates: pl.DataFrame
) -> list[str]:
    told = []
    known = runtimes.filter(pl.col("ci_low").is_not_null() & pl.col(question.by).is_not_null())
    completed = known.filter(status="completed").sort("mean_s").rows(named=True)
    if question.by == "gpu_type" and len(completed) > 1:
        least, most = completed[0], completed[-1]
        told.append(
            f"{name}: completed {question.things} ran longest on {_mean(most, question.by)} and "
            f"shortest on {_mean(least, question.by)}."
        )
    judged = rates.filter((pl.col("n") > 0) & pl.col(question.by).is_not_null()).sort("rate")
    if judged.height > 1 and question.by != "gpus_asked":
        low, high = judged.row(0, named=True), judged.row(-1, named=True)
        stated = " (where stated)" if rates[question.by].null_count() else ""
        told.append(
            f"{name}: the success rate by {question.heading}{stated} is lowest for "
            f"{_rate(low, question.by)} and highest for {_rate(high, question.by)}."
        )
    return told


def _mean(row: dict[str, float], by: str) -> str:
    interval = seconds_range(row["ci_low"], row["ci_high"])
    return f"{row[by]} (mean {seconds(row['mean_s'])} s, {interval}, n = {row['n']:,})"


def _rate(row: dict[str, float], by: str) -> str:
    interval = share_range(row["ci_low"], row["ci_high"])
    return f"{row[by]} ({share(row['rate'])}, {interval}, n = {row['n']:,})"


def _with_gpus_asked(jobs: pl.LazyFrame) -> pl.LazyFrame:
    """Add `gpus_asked`: the GPUs asked for, all shares of one GPU taken together."""
    gpus = pl.col("gpus")
    name = (
        pl.when((gpus > 0) & (gpus < 1))
        .then(pl.lit("share of one"))
        .otherwise(gpus.cast(pl.String).str.strip_suffix(".0"))
    )
    known = jobs.filter(gpus.is_not_null()).select(gpus, name=name).collect()
    order = known.sort("gpus")["name"].unique(maintain_order=True)
    return jobs.with_columns(gpus_asked=name.cast(pl.Enum(order)))
