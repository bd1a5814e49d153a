"""Section on faults of machines: rate, repair, repeat offenders, and time to failure of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from traceana.page.blocks import Block, Content, Gallery, Table, drawing, join_parts, result_table
from traceana.page.finding import Certainty, Finding
from traceana.page.section import Section
from traceana.questions.reliability.jobs import (
    NEEDS,
    count_planned,
    failing_together,
    failing_type,
    fault_trends,
    faulty_groups,
    group_column,
    is_known,
    job_failures_of,
    reliability_of,
)
from traceana.questions.reliability.tables import (
    ConcurrentFaults,
    FaultDispersion,
    JobFailureIntervals,
    MachineFaults,
    MachineReliability,
    ReliabilityResult,
)
from traceana.store import Trace
from traceana.tables.formatting import (
    duration,
    duration_range,
    listed,
    p_equals,
    percent,
    plural,
    three_digits,
    three_digits_range,
)

_OPENING: Final = (
    "A fault lasts from the failure of a machine to the end of its repair. The rate is the number "
    "of faults over machines times days (node-days); its interval is about another period of the "
    "same length, and allows for faults that come in clusters. Time to repair is estimated by "
    "Kaplan-Meier, which includes repairs that had not ended. Overlapping faults of a machine "
    "count once for downtime."
)
_LIMITATIONS: Final = (
    "All machines count as in service during the whole window. The time to failure of a job "
    "assumes that it restarts at once on machines that are up."
)
_FIGURES: Final = {
    "faults-over-time": "Faults over time",
    "faults-per-machine": "Machines by number of faults",
    "machines-down": "Machines down",
}
_REPAIR: Final = ("mttr_s", "median_s", "downtime_s", "availability")
_SHOWN: Final = ("n", "machines_failed", "rate", "ci_low", "ci_high", *_REPAIR)
_VAGUE: Final = 100  # ratio of the ends of an interval from which a rate is no main result
_MOST_OFFENDERS: Final = 20
_NOTICED: Final = 0.05
_ALARMING: Final = 0.01
"""Adjusted p below which a trend is stated; a machine, or a class, is an alert, as a node with more
failures is."""
_NAMED: Final = 3


def build(traces: Sequence[Trace]) -> Content:
    """Show the reliability of the machines of each trace."""
    with_machines = [trace for trace in traces if is_known(trace)]
    if not with_machines:
        return Content()
    return join_parts(_OPENING, ((trace.label, _trace(trace)) for trace in with_machines))


def _trace(trace: Trace) -> Content:
    by = group_column(trace)
    result = trace.once(reliability_of, by)
    total = result.total_machines
    sizes = [2**power for power in range(total.bit_length()) if 2**power < total]
    jobs = trace.once(job_failures_of, (*sizes, total))
    pictures = [
        drawing(figure, result, trace=trace, key=f"{figure}-{trace.id}", about=about)
        for figure, about in _FIGURES.items()
        if figure != "machines-down" or result.down is not None
    ]
    lead = (Gallery(tuple(pictures[:2])), _rates(result, by))
    blocks: list[Block] = [Gallery(tuple(pictures[2:]))] if pictures[2:] else []
    offenders, intervals = result.machines.head(_MOST_OFFENDERS), jobs.intervals
    machine = {result.machines.columns[0]: "Machine"}
    against = "the number of faults against the Poisson distribution"
    for what, frame, table in (
        ("Machines with the most faults, compared with chance", offenders, MachineFaults),
        ("Mean time to failure of a job by its number of machines", intervals, JobFailureIntervals),
        (f"Dispersion of {against}", result.dispersion, FaultDispersion),
        ("Machines down at a time", result.concurrent, ConcurrentFaults),
    ):
        if frame is not None:
            blocks.append(result_table(frame, table, caption=what, headings=machine))
    findings = (
        _rate(result, count_planned(trace)),
        _offenders(result),
        *_groups(trace, result),
        _together(trace, total),
        _of_type(trace),
        *_trends(trace, by, result.window_s),
        _job(jobs.intervals, total),
    )
    return Content(tuple(filter(None, findings)), tuple(blocks), lead, _LIMITATIONS).of(trace.label)


def _rates(result: ReliabilityResult, by: str) -> Table:
    shown = [name for name in (*_SHOWN, "note") if result.overall[name].count()]
    if not by or result.groups is None or result.groups.height == 1:  # one row is that of all
        caption = "Faults"
        return result_table(result.overall, MachineReliability, caption=caption, columns=shown)
    return result_table(
        result.groups,
        MachineReliability,
        caption=f"Faults by {by}",
        columns=[by, *shown],
        total=result.overall.select(pl.lit("all").alias(by), pl.all()),
    )


def _rate(result: ReliabilityResult, planned: int) -> str:
    row = result.overall.row(0, named=True)
    heading = f"{three_digits(row['rate'])} faults per 1,000 node-days"
    text = (
        f"{heading} (95 % CI for another such period "
        f"{three_digits_range(row['ci_low'], row['ci_high'])}; n = {plural(row['n'], 'fault')} of "
        f"{plural(result.total_machines, 'machine')} in "
        f"{duration(result.window_s[1] - result.window_s[0])})"
    )
    if planned:
        rest = max(row["n"] - planned, 0)
        text += f", of which {planned:,} are planned maintenance: without it, "
        text += f"{three_digits(row['rate'] * rest / row['n'])}"
    if not result.is_stated:
        text += "; machines that never failed are not in the log, so the rate is too high"
    if row["availability"] is not None:
        text += f". Machines are up {percent(row['availability'])} of the time"
    if row["mttr_s"] is not None:
        median = "" if row["median_s"] is None else f" (median {duration(row['median_s'])})"
        text += f"; a repair takes {duration(row['mttr_s'])} on average{median}"
    vague = row["ci_low"] is not None and row["ci_high"] > _VAGUE * row["ci_low"]
    certainty: Certainty = "cannot tell" if vague else "estimated"
    return Finding(f"{text}.", certainty=certainty, heading=heading, is_description=True)


def _offenders(result: ReliabilityResult) -> str:
    worst = result.offenders
    machine, alert, excess, name = result.machines.columns[0], "", 0.0, ""
    if worst.height:
        expected = three_digits(worst["expected"][0])
        names = [f"{name} ({n})" for name, n in worst.select(machine, "n").head(_NAMED).rows()]
        names += [f"{worst.height - _NAMED} others"] if worst.height > _NAMED else []
        verb = "fail" if worst.height > 1 else "fails"
        text = (
            f"{plural(worst.height, 'machine')} {verb} more often than chance explains, "
            f"with number of faults: {listed(names)}; {expected} are expected (adjusted "
            f"{p_equals(worst['pvalue_adjusted'][-1])})"
        )
        row = worst.row(0, named=True)
        excess, name = row["n"] - row["expected"], str(row[machine])
        if row["pvalue_adjusted"] < _ALARMING:
            alert = f"machine {name}: {plural(row['n'], 'fault')}, {expected} expected"
    else:
        text = "no machine has more faults than chance explains (adjusted p above 0.05)"
    clustered = [
        f"{three_digits(row['dispersion'])} times over {row['across']} ({p_equals(row['pvalue'])})"
        for row in result.dispersion.drop_nulls("dispersion").iter_rows(named=True)
    ]
    if clustered:
        text += (
            ". The variance of the number of faults, compared with independent faults, is "
            f"{listed(clustered)}"
        )
    return Finding(f"{text}.", alert=alert, machine=name, cost_jobs=excess)


def _groups(trace: Trace, result: ReliabilityResult) -> Iterator[Finding]:
    """State the group of machines, such as a rack, with the most faults beyond chance."""
    found = faulty_groups(trace, result.machines).filter(pl.col("pvalue") < _ALARMING)
    for row in found.head(1).rows(named=True):
        heading = (
            f"the {row['machines']:,} machines of {row['of'].replace('_', ' ')} {row['group']}"
        )
        heading += f" have {plural(row['n'], 'fault')}, {three_digits(row['expected'])} expected"
        excess = row["n"] - row["expected"]
        text = f"{heading} (adjusted {p_equals(row['pvalue'])})."
        yield Finding(text, heading=heading, alert=heading, n=row["n"], cost_jobs=excess)


def _together(trace: Trace, total: int) -> str:
    """State the machines that fail at the same times: they share a rack, a switch or power."""
    if (found := failing_together(trace, total)) is None:
        return ""
    machines, times = found
    names = [*machines[:_NAMED]]
    names += [f"{len(machines) - _NAMED} others"] if len(machines) > _NAMED else []
    text = f"{len(machines):,} machines failed together, {times:,} times ({listed(names)})"
    cost = float(times * len(machines))
    return Finding(
        f"{text}.", n=times, cost_jobs=cost, certainty="estimated", alert=text, heading=text
    )


def _of_type(trace: Trace) -> str:
    """State the GPU type whose nodes fail more often than others."""
    if (found := failing_type(trace)) is None:
        return ""
    kind, ratio, n, others = found
    text = f"nodes with {kind} GPUs fail {three_digits(ratio)} times as often per hour in use as "
    text = f"{text}others" if others else f"only nodes with {kind} GPUs fail"
    text += f" ({plural(n, 'fault')} and {others:,})"
    cost = n * (1 - 1 / ratio)
    return Finding(f"{text}.", n=n, cost_jobs=cost, certainty="estimated", alert=text, heading=text)


def _trends(trace: Trace, by: str, window_s: tuple[float, float]) -> Iterator[Finding]:
    """State the classes of faults that become more or less frequent; the former are alerts."""
    for row in fault_trends(trace, by, window_s).filter(pl.col("pvalue") < _NOTICED).to_dicts():
        first, middle, last = row["first"], row["middle"], row["last"]
        of = f" of class {row['class']}" * bool(row["class"])
        verb = "rise" if last > first else "fall"
        what = f"faults{of} {verb} from {first:,} to {last:,}"
        text = f"{what} between the first and the last third of the window ({middle:,} in the "
        text += f"second; slope over days: adjusted {p_equals(row['pvalue'])})."
        is_alarming = last > first and row["pvalue"] < _ALARMING
        alert, more = f"{what} by thirds of the window" * is_alarming, max(last - first, 0)
        yield Finding(text, heading=what, alert=alert, cost_jobs=more, certainty="estimated")


def _job(intervals: pl.DataFrame, total: int) -> str:
    row = intervals.row(-1, named=True)
    if row["observed_s"] is None:
        return ""
    low, high = row["observed_ci_low_s"], row["observed_ci_high_s"]
    limits = "" if low is None else f" (95 % CI {duration_range(low, high)})"
    return (
        f"a job on all {total:,} machines would fail every {duration(row['observed_s'])}{limits}, "
        f"and every {duration(row['mean_s'])} if faults were independent."
    )


SECTION = Section(
    "reliability",
    "Reliability of machines",
    60,
    build,
    needs=NEEDS,
    figures=tuple(_FIGURES),
    part="Failures",
    question="How often do machines fail, for how long, and which of them more than chance?",
)
