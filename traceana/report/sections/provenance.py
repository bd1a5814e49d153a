"""Definitions with their formulas, and what this page was made from and with."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

from traceana.report.blocks import Block, Content, Facts, Heading, Text
from traceana.report.origin import SEED
from traceana.report.section import Section

if TYPE_CHECKING:
    from traceana.report.context import Context

_LIBRARIES = ("polars", "numpy", "scipy", "matplotlib")
_DEFINITIONS = {
    "CoV": "over the n workers of a job at one tick: `CoV = s / m` with `m = sum(x) / n` and "
    "`s = sqrt(sum((x - m)^2) / (n - ddof))`, ddof 0 or 1 as said. For values that are not "
    "negative it is at most `sqrt(n - 1)` with ddof 0 and `sqrt(n)` with ddof 1. Ticks with fewer "
    "than two workers are left out.",
    "Quantile": "linear between order statistics (type 7 of Hyndman and Fan, The American "
    "Statistician 50, 1996).",
    "Slowdown": "`sum(max(x)) / sum(mean(x))` with x the times of a job's workers at a tick, "
    "summed over all ticks: how much longer a synchronous job takes for waiting for its slowest "
    "worker.",
    "Time and energy to the target": "`mean(epochs) * time of an epoch`, and that times the mean "
    "power; cost is `0.5 * energy + 0.5 * largest power limit * time` (Zeus, NSDI 2023).",
    "Gini": "`2 sum(i x_i) / (n sum(x)) - (n + 1) / n` over the GPU-hours of jobs in rising order.",
    "Burstiness": "`(cv - 1) / (cv + 1)` with cv the standard deviation (ddof 1) over the mean of "
    "the times between submissions; memory is the correlation of each with the next (Goh and "
    "Barabasi, EPL 81, 2008); dispersion is variance over mean of submissions an hour.",
    "GPU-hours": "`sum(GPUs asked for * runtime in s) / 3600` over the jobs of which both are "
    "known.",
    "Interval of a mean": "Student's t: `mean +/- t * s / sqrt(n)` with t the 97.5 % quantile of "
    "its distribution with n - 1 degrees of freedom and s of ddof 1; none for a single value.",
    "Success rate": "`p = successes / n` with n = successes + failures. Its interval is Wilson's "
    "(Journal of the American Statistical Association 22, 1927): "
    "`(p + z^2 / 2n +/- z * sqrt(p * (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)` with z the 97.5 % "
    "quantile of the normal distribution.",
    "Missing values": "are left out of every statistic and counted beside it, never filled in.",
}


def build(session: Context) -> Content:
    """Define what is computed; say from which store and with which versions."""
    facts = [
        ("Data", _data(session)),
        ("Engine", _engine(session)),
        ("traceana", version("traceana")),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in _LIBRARIES),
    ]
    if session.date:
        facts.append(("Date", f"{session.date} (SOURCE_DATE_EPOCH)"))
    blocks: tuple[Block, ...] = (
        Text("How the numbers above are defined, and from what and with what they were computed."),
        Heading("Definitions"),
        Facts(tuple(_DEFINITIONS.items())),
        Heading("Provenance"),
        Facts(tuple(facts)),
    )
    return Content((), blocks)


def _engine(session: Context) -> str:
    if session.master is None:
        return "Polars"
    spark = f"Spark {version('pyspark')} on `{session.master}`"
    reduced = [
        f"{table} of {session.title(trace)}"
        for trace in session.ledgers
        for table in ("tasks", "instances", "jobs")
        if session.has(trace, table)
    ]
    if not reduced:
        return f"Polars; {spark} found none of the tables that it reduces in the store"
    return (
        f"{spark} reduced {', '.join(reduced)} to a row a task or group; Polars did all else, and "
        "read jobs and job tags again for arrivals, users and groups"
    )


def _data(session: Context) -> str:
    if session.origin.is_sample:
        return f"the synthetic sample, seed {SEED}, as `traceana sample --seed {SEED}` writes it"
    return f"store `{session.origin.place}`; the files it was made from stand above with sha256"


SECTION = Section("provenance", "Definitions and provenance", 180, build)
