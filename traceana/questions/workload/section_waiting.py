"""Section on what was free while jobs waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from traceana.page.blocks import Content, Text
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.workload.waiting import POINTS, Waiting, describe_waiting
from traceana.store import Trace, distinct_traces
from traceana.tables.formatting import hours_text, listed, share

_REASONS: Final = {
    "few": "fewer GPUs were free than the job requested",
    "spread": "enough GPUs were free, but on more nodes than the job used",
    "other": "enough GPUs were free, but too few on nodes of their queue and GPU type",
    "cpus": "enough GPUs were free, but with too few free CPUs on their nodes",
    "behind": "nodes were free for the job, but an earlier job of its queue waited, too",
    "open": "nodes were free for the job, and it was the first of its queue",
}
_AVOIDABLE: Final = ("spread", "other", "cpus")
"""Reasons that more GPUs are not needed for."""
_LEAST: Final = 0.01
"""Fraction of the waits below which a reason is not stated, and waits over runtimes below which
none is a heading."""
_NEGLIGIBLE: Final = 0.001
"""Hours of waits over those of all runtimes below which nothing is stated."""
_MAJOR: Final = 0.3
"""The same of a heading."""
_COSTLY: Final = 0.05
"""Hours of waits for such a reason over those of all runtimes, from which it is an alert."""
_MOSTLY: Final = 0.8
"""Fraction of such waits that a named queue or size has."""
_HOLDING: Final = 0.2
_NAMED: Final = 3
"""Fraction of a named user of the GPU-hours that are barred by jobs with many CPUs per GPU."""
_DEFINITIONS: Final = (
    f"Waits of a minute or more at {POINTS:,} equally spaced points: two standard errors are at "
    "most 3 percentage points. Mostly: 80 % of it. Free GPUs (CPUs) of a node are the most in use "
    "at a time minus those in use. A drained node counts as free. Nodes of a queue and GPU type "
    "are those that ran its jobs. The log cannot tell why the first job of a queue waits while "
    "nodes are free: a limit, a reservation or a dependency."
)


def build(traces: Sequence[Trace]) -> Content:
    """State what was free while the jobs of each trace waited."""
    findings = []
    for trace in distinct_traces(traces):
        waiting = trace.once(describe_waiting)
        if waiting is not None and waiting.hours >= _NEGLIGIBLE * waiting.run_hours:
            findings.append(_finding(waiting).of(trace.label))
    return Content(tuple(findings), (Text(_DEFINITIONS),)) if findings else Content()


def _finding(waiting: Waiting) -> Finding:
    points = waiting.points
    counts = points["reason"].value_counts(sort=True)
    fractions = {reason: n / points.height for reason, n in counts.rows()}
    first, avoidable = next(iter(fractions)), max(_AVOIDABLE, key=lambda r: fractions.get(r, 0.0))
    part = fractions.get(avoidable, 0.0)
    is_major = part >= _MAJOR and waiting.hours >= _LEAST * waiting.run_hours
    stated = avoidable if is_major else first
    heading = f"in {share(fractions.pop(stated))} of the hours that jobs waited, {_REASONS[stated]}"
    whole = f"GPU jobs waited {hours_text(waiting.hours)} h in all (n = {waiting.jobs:,})."
    texts = [f"{heading}{_of(waiting, stated)}.", whole]
    texts += [
        f"In {share(fraction)} of this time {_REASONS[reason]}{_of(waiting, reason)}."
        for reason, fraction in fractions.items()
        if fraction >= _LEAST
    ]
    if counts.filter(pl.col("reason") == "cpus")["count"].sum() >= _LEAST * points.height:
        holders = waiting.holders.filter(pl.col("part") >= _HOLDING).head(_NAMED).rows()
        users = listed([f"{user} ({share(of_user)})" for user, of_user in holders])
        texts += [f"Jobs that hold many CPUs per GPU are mostly those of {users}."] if users else []
    is_costly = is_major and part * waiting.hours >= _COSTLY * waiting.run_hours
    return Finding(
        " ".join(texts),
        effect=part if is_major else None,
        n=waiting.jobs,
        cost_jobs=part * waiting.jobs * is_major,
        alert=heading if is_costly else "",
        heading=heading,
        is_description=not is_major,
    )


def _of(waiting: Waiting, reason: str) -> str:
    """Name the queue and the sizes that have most of the waits for a reason."""
    those, names = waiting.points.filter(reason=reason), []
    queues = (
        those["queue"].drop_nulls().value_counts(sort=True).head(1 if waiting.queues > 1 else 0)
    )
    names += [f"mostly queue {queue}" for queue, n in queues.rows() if n >= _MOSTLY * those.height]
    least = float(those["gpus"].quantile(1 - _MOSTLY) or 0)
    if least > waiting.usual_gpus:
        names.append(f"mostly jobs of {round(least, 2):g} GPUs or more")
    return f" ({'; '.join(names)})" if names else ""


SECTION: Final = Section(
    "waiting",
    "Free GPUs while jobs waited",
    16,
    build,
    needs=({"jobs": ("submit_s", "start_s", "gpus")},),
    part="Workload",
    question="What was free while jobs waited?",
)
