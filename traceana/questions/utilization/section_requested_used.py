"""Section on used versus requested resources of jobs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from traceana.cohorts.cohort import sample_note, task_title
from traceana.cohorts.tasks import sample_jobs
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    result_table,
    traces_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.utilization.analyze import REQUESTED_NEEDS, requested_curves, requested_used
from traceana.questions.utilization.tables import RequestedUsed
from traceana.store import Trace, distinct_traces
from traceana.tables.display import key_heading
from traceana.tables.formatting import count, fraction_range, in_sentence, listed, share
from traceana.tables.formatting import interval as interval_text

_LIMITS = ("ci_low", "ci_high")
_LEFT = ("n_missing", "requested_hours")  # columns that the table of several traces leaves out


def build(traces: Sequence[Trace]) -> Content:
    """Show what the jobs of each trace used of their requests."""
    headlines, findings, whole = list[str](), list[str](), dict[str, pl.DataFrame]()
    drawings, blocks = list[Drawing](), list[Block]()
    for trace in distinct_traces(traces):
        title, comparisons = task_title(trace), trace.once(requested_used)
        if not comparisons[""]["n"].sum():
            continue
        if trace.once(sample_jobs) is None:  # all jobs: no sampling error
            none = [pl.lit(None, pl.Float64).alias(name) for name in _LIMITS]
            comparisons = {name: rows.with_columns(none) for name, rows in comparisons.items()}
        whole[title] = comparisons[""]
        headline, each = _findings(whole[title], title)
        headlines.append(headline)
        findings += each
        note = sample_note(trace).strip()
        blocks += [Text(note)] if note else []
        about, curves = "Use over request of jobs", trace.once(requested_curves)
        key = f"requested-used-jobs-{trace.id}"
        labels = {"title": title, "x_label": "Used over requested", "heading": about}
        drawings.append(drawing("empirical-distribution", curves, trace, key, about, **labels))
        for name, rows in comparisons.items():
            by = f" by {in_sentence(key_heading(name))}" if name else ""
            caption = f"Used over requested resources{by}. {title}"
            columns = _shown(rows)
            blocks.append(
                result_table(rows, RequestedUsed, caption=caption, columns=columns, folded=bool(by))
            )
    if not headlines:
        return Content()
    several, tables = len(whole) > 1, list[Table]()
    if several:  # the details have the table of each
        shown = [name for name in _shown(pl.concat(whole.values())) if name not in _LEFT]
        caption = "Used over requested resources of ended jobs"
        tables = traces_table(whole, RequestedUsed, caption=caption, columns=shown)
    return Content(
        tuple(headlines if several else findings),
        tuple(blocks),
        lead=(Gallery(tuple(drawings[:2])), *tables),
        limitations="Memory used is the largest that the scheduler sampled, so it can be too low. "
        "Jobs without a recorded use are excluded.",
    )


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
