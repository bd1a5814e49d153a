"""Section on used versus requested resources of jobs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from traceana.cohorts.cohort import sample_note, task_title
from traceana.cohorts.tasks import sample_jobs
from traceana.page.blocks import Block, Content, Drawing, Gallery, Text, drawing, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.utilization.analyze import (
    REQUESTED_NEEDS,
    requested_curves,
    requested_used,
)
from traceana.questions.utilization.tables import RequestedUsed
from traceana.store import Trace, distinct_traces
from traceana.tables.display import key_heading
from traceana.tables.formatting import count, fraction_range, in_sentence, listed, share

_SHOWN = (
    "resource",
    "n",
    "p25",
    "median",
    "p75",
    "ci_low",
    "ci_high",
    "unused_hours",
    "fraction_unused",
)
_LIMITS = ("ci_low", "ci_high")


def build(traces: Sequence[Trace]) -> Content:
    """Show what the jobs of each trace used of their requests."""
    headlines, findings, lead = list[str](), list[str](), list[pl.DataFrame]()
    drawings, blocks = list[Drawing](), list[Block]()
    for trace in distinct_traces(traces):
        title = task_title(trace)
        comparisons = {
            name: _limited(rows, trace) for name, rows in trace.once(requested_used).items()
        }
        whole = comparisons[""]
        if not whole["n"].sum():
            continue
        headline, each = _findings(whole, title)
        headlines.append(headline)
        findings += each
        lead.append(whole.select(pl.lit(title).alias("trace"), pl.all()))
        note = sample_note(trace).strip()
        blocks += [Text(note)] if note else []
        drawings.append(
            drawing(
                "empirical-distribution",
                trace.once(requested_curves),
                trace=trace,
                title=title,
                key=f"requested-used-jobs-{trace.id}",
                about="Use over request of jobs",
                x_label="Used over requested",
                heading="Use over request of jobs",
            )
        )
        for name, rows in comparisons.items():
            by = f" by {in_sentence(key_heading(name))}" if name else ""
            caption = f"Used over requested resources{by}. {title}"
            table = result_table(
                rows, RequestedUsed, caption=caption, columns=_shown(rows), folded=bool(by)
            )
            blocks.append(table)
    if not headlines:
        return Content()
    several, tables = len(lead) > 1, list[Block]()
    if several:  # the details have the table of each
        rows = pl.concat(lead)
        columns = ["trace", *(name for name in _shown(rows) if name in _SHOWN)]
        caption = "Used over requested resources of ended jobs"
        heading = {"trace": "Trace"}
        tables.append(
            result_table(rows, RequestedUsed, columns=columns, headings=heading, caption=caption)
        )
    return Content(
        tuple(headlines if several else findings),
        tuple(blocks),
        headlines[0],
        lead=(Gallery(tuple(drawings[:2])), *tables),
        limitations="Memory used is the largest that the scheduler sampled, so it can be too low. "
        "Jobs without a recorded use are excluded.",
    )


def _limited(rows: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """Return the rows without intervals, if they are of all jobs: no sampling error."""
    if trace.once(sample_jobs) is not None:
        return rows
    return rows.with_columns(pl.lit(None, pl.Float64).alias(name) for name in _LIMITS)


def _shown(rows: pl.DataFrame) -> list[str]:
    """Return the columns, those of the interval only if there is one."""
    return [name for name in rows.columns if name not in _LIMITS or rows[name].count()]


def _findings(rows: pl.DataFrame, title: str) -> tuple[str, list[str]]:
    """Return one sentence on all resources, and one on each with its interval."""
    with_rows = rows.filter(pl.col("n") > 0).rows(named=True)
    names = [in_sentence(row["resource"].partition(" (")[0]) for row in with_rows]
    medians, each = list[str](), list[str]()
    counts = [row["n"] for row in with_rows]
    for row, name in zip(with_rows, names, strict=True):
        interval = ""
        if row["ci_low"] is not None:
            interval = f"95 % CI {fraction_range(row['ci_low'], row['ci_high'])}; "
        median = f"{share(row['median'])} of the {name}"
        medians.append(f"{median} ({interval.rstrip('; ')})" if interval else median)
        unit = row["resource"].partition(" (")[2].rstrip(")")
        each.append(
            f"{title}: the median job used {median} that it requested ({interval}quartiles "
            f"{share(row['p25'])} and {share(row['p75'])}; n = {row['n']:,}); "
            f"{count(row['unused_hours'])} {unit} were unused."
        )
    n = " to ".join(f"{one:,}" for one in sorted({min(counts), max(counts)}))
    used = listed(medians)
    text = f"{title}: the median job used {used} that it requested (n = {n})."
    held = [place for place, name in enumerate(names) if name != "time limit"] or [0]
    least = min(held, key=lambda place: float(with_rows[place]["median"]))
    median = share(with_rows[least]["median"])
    heading = f"{title}: the median job used {median} of the {names[least]} that it requested"
    each.insert(0, Finding(each.pop(least), heading=heading))
    return Finding(text, heading=heading), each


SECTION = Section(
    "requested-used",
    "Requested and used resources of jobs",
    60,
    build,
    needs=REQUESTED_NEEDS,
    figures=("empirical-distribution",),
    part="Utilization",
    question="How much of the CPU time, memory, GPUs and time that jobs request do they use?",
)
