"""Sections on what-ifs: waits under other policies, deadlines met, and placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.page import blocks as page
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.scheduling import what_if
from traceana.questions.workload.waiting import overtaking
from traceana.simulate.placement.simulate import summarize_placement
from traceana.simulate.placement.tables import PlacementSummary
from traceana.simulate.schedule.capacity import OWN, calibrate
from traceana.simulate.schedule.tables import ScheduleGroups
from traceana.store import Trace
from traceana.tables.formatting import duration, listed, share

_OPENING: Final = (
    f"At most the first {what_if.MOST_JOBS:,} jobs of a trace are scheduled again on their "
    "clusters. fifo: by submission, later jobs wait behind the first; easy: later jobs start early "
    "where they do not delay the first. The number of GPUs is that of the machines, else as the "
    "trace states, else the most in use on each node that jobs ran on, else the largest number "
    "that jobs requested at one time."
)
_FACTOR, _CLOSE_S = 2.0, 60.0
"""Simulated mean waits reproduce the recorded one within a factor, or a minute."""
_OVERTAKEN: Final = 0.01
"""Fraction of the jobs that start before an earlier one, from which the log is not that of fifo."""
_CANNOT_TELL: Final = (
    " Waits for a GPU type, free GPUs on one node, a quota or closed nodes are not simulated, so "
    "the log cannot tell what more GPUs or another policy would change."
)
_DEADLINES: Final = (
    f"Policies with deadlines are simulated for groups of at most {what_if.MOST_PLANNED} jobs; "
    "`traceana simulate schedule` runs all. Throughputs are those that the training plans imply."
)
_LIMITATIONS: Final = (
    "Jobs need GPUs only, which are identical and may be on any node; a job runs as long as in the "
    f"log. Jobs beyond the first {what_if.MOST_JOBS:,}, or that the log does not have, do not "
    "compete. Users would submit other jobs on another cluster."
)
_MORE: Final = f", GPUs {what_if.MORE}"
_WAITS: Final = (
    "policy",
    "group",
    "gpus",
    "capacity",
    "jobs",
    "wait_s_mean",
    "wait_s_median",
    "wait_s_p95",
    "slowdown_mean",
    "utilization",
)
_MET: Final = ("policy", "group", "gpus", "jobs", "n_declined", "fraction_met", "wait_s_mean")


def build(traces: Sequence[Trace]) -> page.Content:
    """Show the what-ifs of each trace."""
    parts = []
    for trace in traces:
        try:
            parts.append((trace.label, _trace(trace)))
        except DataError:  # no job has a submission, a runtime and GPUs
            continue
    if not parts:
        return page.Content()
    return replace(page.join_parts(_OPENING, parts), limitations=_LIMITATIONS)


def _trace(trace: Trace) -> page.Content:
    waits = trace.once(what_if.waits_by_policy)
    if waits.is_empty():
        raise DataError(f"{trace.id}: no job can be scheduled")
    findings = [_of_waits(trace, waits)]
    blocks: list[page.Block] = [
        *([page.Text(compared)] if (compared := calibrate(waits)) else []),
        page.result_table(
            waits, ScheduleGroups, caption="Waits by policy", columns=_WAITS, folded=True
        ),
    ]
    lead: list[page.Block] = []
    if all(trace.has(table, columns) for table, columns in what_if.PLANNED.items()):
        met = trace.once(what_if.deadlines_by_policy)
        if met["fraction_met"].count():
            key = page.picture_key("deadlines-met", trace)
            about = "Deadlines met by policy and cluster"
            subject = trace.label
            picture = page.drawing("deadlines-met", met, trace, key, about, subject=subject)
            lead.append(page.Gallery((picture,)))
            caption = "Deadlines met by policy"
            blocks += [
                page.Text(_DEADLINES),
                page.result_table(met, ScheduleGroups, caption=caption, columns=_MET, folded=True),
            ]
            n_deadlines = pl.col("n_deadlines")
            weighted = (pl.col("fraction_met") * n_deadlines).sum() / n_deadlines.sum()
            of = met.group_by("policy", maintain_order=True).agg(weighted).sort("fraction_met")
            (best, most), (worst, least) = of.row(-1), of.row(0)
            met_by = f"policy {best} meets {share(most)} of the deadlines, {worst} {share(least)}"
            n = met.filter(policy=best)["n_deadlines"].sum()
            generated = trace.manifest.tables["training_plans"].generated
            drawn = "; the deadlines were drawn at random" * generated
            finding = Finding(f"{met_by} (simulated{drawn}; n = {n:,}).", heading=met_by)
            findings.append(finding)
    return page.Content(tuple(findings), tuple(blocks), lead=tuple(lead)).of(trace.label)


def _of_waits(trace: Trace, waits: pl.DataFrame) -> str:
    mean = (pl.col("wait_s_mean") * pl.col("jobs")).sum() / pl.col("jobs").sum()
    of = dict(waits.group_by("policy", maintain_order=True).agg(mean).iter_rows())
    if of["fifo"] == 0 and "recorded" not in of and OWN[-1] in waits["capacity"]:
        return Finding(
            "the log has neither start times nor the number of GPUs, so it cannot tell how long "
            f"jobs wait; `traceana simulate schedule {trace.id} --gpus N` simulates their waits.",
            heading="waits need start times or the number of GPUs",
            certainty="cannot tell",
        )
    shown = {policy: duration(wait) for policy, wait in of.items()}
    fifo, easy = (shown[policy + _MORE] for policy in what_if.WAITS)
    jobs = waits.filter(policy="fifo")["jobs"].sum()
    text = (
        f"GPU jobs would wait {shown['fifo']} on average under fifo and {shown['easy']} under easy "
        f"(backfilling), and with 10 % more GPUs {fifo} and {easy} (simulated; n = {jobs:,})."
    )
    closest, reproduced = "easy", True
    if "recorded" in of:
        overtaken = trace.once(overtaking) or 0.0
        closest, reproduced = _compare(of, overtaken)
        text += f" They waited {shown['recorded']}"
        if overtaken >= _OVERTAKEN:
            text += f"; {share(overtaken)} of them started before an earlier job of their queue"
        text += "." if reproduced else f".{_CANNOT_TELL}"
    _, running, lacking = trace.once(what_if.jobs_to_schedule, what_if.MOST_JOBS)
    if running:
        text += f" Running jobs (n = {running:,}) hold their GPUs until the end of the window."
    if lacking:
        text += (
            f" GPU jobs without a runtime (n = {lacking:,}) are left out, so waits are too short."
        )
    if not reproduced:
        heading = "the simulation does not reproduce the recorded waits"
        return Finding(text, heading=heading, certainty="cannot tell")
    today, more = shown[closest], shown[closest + _MORE]
    heading = (
        f"GPU jobs would wait {shown['fifo']} under fifo, {shown['easy']} under easy, {more} under "
        f"{closest} with 10 % more GPUs"
    )
    same = today == more == shown["easy"]
    return Finding(text, heading=heading, certainty="estimated", is_null=same)


def _compare(of: dict[str, float], overtaken: float) -> tuple[str, bool]:
    """Return the policy closest to the recorded waits, and whether it reproduces them."""
    wait = of["recorded"]
    closest = min(what_if.WAITS, key=lambda policy: abs(of[policy] - wait))
    low, high = sorted(of[policy] for policy in what_if.WAITS)
    is_met = low / _FACTOR <= wait <= high * _FACTOR or abs(wait - of[closest]) <= _CLOSE_S
    overtakes = closest == "fifo" and overtaken >= _OVERTAKEN
    return closest, is_met and not (overtakes and low < wait < high)


SECTION = Section(
    "what-if",
    "What if: other schedules",
    30,
    build,
    needs=(what_if.NEEDED,),
    figures=("deadlines-met", "policy-lines"),
    part="Simulations",
    question="How long would jobs wait under another policy or with more GPUs?",
)


_ABOUT: Final = (
    "Jobs arrive in random order until they request 130 % of the GPUs; then jobs are drawn again. "
    "They never leave, and a job that fits on no machine is lost. Machines without GPUs are not "
    "used. A fragment is the part of the free GPUs that the requests which cover 95 % of the jobs "
    "cannot use. Policies: random; dotprod (Tetris), the smallest dot product of free and "
    "requested resources; clustering, machines with jobs of the same kind; packing, GPUs in use; "
    "bestfit, the least left; fgd, the smallest growth of the fragment. Of machines with equal "
    "scores, that of the smallest name wins, where a run names the machines at random; or a "
    f"random machine wins. Seeds: {len(what_if.SEEDS)} with ties by name, 1 with ties at random."
)
_PLACEMENT_LIMITATIONS: Final = (
    "Jobs stay forever and arrive in random order, so times of the trace are not used. The results "
    f"are means of {len(what_if.SEEDS)} seeds or of 1; `traceana simulate place` runs more."
)
_AT: Final = 100
_SHOWN: Final = (50, 80, 100, 120)


def build_placement(traces: Sequence[Trace]) -> page.Content:
    """Show the placement of each trace whose jobs and machines have GPUs."""
    findings, pictures, tables = list[str](), list[page.Drawing](), list[page.Block]()
    for trace in traces:
        try:
            runs = trace.once(what_if.placement_runs)
        except DataError:  # no machine has a GPU, or no job requests one
            continue
        summary = summarize_placement(runs)
        findings += _findings(trace, summary)
        for quantity, what in (("allocated", "Allocated GPUs"), ("fragment", "Fragment")):
            figure, about = f"placement-{quantity}", f"{what} as jobs arrive, by placement policy"
            key, shown = page.picture_key(figure, trace), runs.filter(ties="name")
            pictures.append(page.drawing(figure, shown, trace, key, about, subject=trace.label))
        caption = "GPUs allocated and fragments by policy and GPUs requested"
        rows = summary.filter(pl.col("arrived").is_in(_SHOWN))
        table = page.result_table(rows, PlacementSummary, caption=caption, folded=True)
        tables += page.captioned([table], trace.label)
    if not tables:
        return page.Content()
    return page.Content(
        tuple(findings),
        (page.Text(_ABOUT), page.Gallery(tuple(pictures[1:])), *tables),
        lead=(page.Gallery(tuple(pictures[:1])),),
        limitations=_PLACEMENT_LIMITATIONS,
    )


def _findings(trace: Trace, summary: pl.DataFrame) -> list[str]:
    jobs = trace.scan("jobs").select(pl.col("gpus").count()).collect().item()
    gpus = float(trace.scan("machines").select(pl.col("gpus").sum()).collect().item())
    unplaceable, rows = trace.once(what_if.count_unplaceable), summary.filter(arrived=_AT)
    by_name = rows.filter(ties="name").sort("allocated", descending=True, maintain_order=True)
    (best, second), worst = by_name.head(2).rows(named=True), by_name.row(-1, named=True)
    first = (
        f"{trace.label}: when jobs have requested as many GPUs as there are, {best['policy']} "
        f"allocates {best['allocated']:.1f} % of them, {second['policy']} "
        f"{second['allocated']:.1f} % and {worst['policy']} {worst['allocated']:.1f} % "
        f"(means of {len(what_if.SEEDS)} seeds; n = {jobs:,} jobs, {gpus:,.0f} GPUs)."
    )
    if unplaceable:
        fraction = share(unplaceable / jobs)
        first += f" {unplaceable:,} jobs ({fraction}) fit on no machine, even if all are empty."
    first = Finding(
        first,
        heading=f"{trace.label}: policy {best['policy']} allocates {best['allocated']:.1f} % of "
        f"the GPUs, {worst['policy']} {worst['allocated']:.1f} %",
    )
    pairs = [pair for pair in what_if.reversed_pairs(summary) if pair[0] == best["policy"]]
    if not pairs:
        return [first]
    at_random = dict(rows.filter(ties="random").select("policy", "allocated").rows())
    ahead = listed(f"{other} ({at_random[other]:.1f} %)" for _, other in pairs)
    second_finding = (
        f"{trace.label}: the order of the policies depends on how ties are broken. With ties "
        f"at random, {best['policy']} allocates {at_random[best['policy']]:.1f} % instead of "
        f"{best['allocated']:.1f} %, less than {ahead} (1 seed)."
    )
    return [first, second_finding]


PLACEMENT = Section(
    "placement",
    "Placement of jobs that share GPUs",
    40,
    build_placement,
    needs=(what_if.NEEDED_TO_PLACE,),
    figures=("placement-allocated", "placement-fragment"),
    part="Simulations",
    question="How many GPUs can each placement policy allocate, and how many are fragments?",
)
