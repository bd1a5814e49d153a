"""Sections on what-ifs: waits under other policies, deadlines met, and placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Text,
    captioned,
    drawing,
    join_parts,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.scheduling import what_if
from traceana.questions.workload.waiting import overtaking
from traceana.simulate.placement.simulate import summarize_placement
from traceana.simulate.placement.tables import PlacementSummary
from traceana.simulate.schedule.capacity import OWN, calibrate, unused
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


def build(traces: Sequence[Trace]) -> Content:
    """Show the what-ifs of each trace."""
    parts = []
    for trace in traces:
        try:
            parts.append((trace.label, _trace(trace)))
        except DataError:  # no job has a submission, a runtime and GPUs
            continue
    return replace(join_parts(_OPENING, parts), limitations=_LIMITATIONS) if parts else Content()


def _trace(trace: Trace) -> Content:
    waits = trace.once(what_if.waits_by_policy)
    if waits.is_empty():
        raise DataError(f"{trace.id}: no job can be scheduled")
    findings = [_of_waits(trace, waits)]
    blocks: list[Block] = [
        *([Text(compared)] if (compared := calibrate(waits)) else []),
        result_table(
            waits,
            ScheduleGroups,
            caption="Waits by policy",
            columns=_WAITS,
            folded=True,
        ),
    ]
    lead: list[Block] = []
    if all(trace.has(table, columns) for table, columns in what_if.PLANNED.items()):
        met = trace.once(what_if.deadlines_by_policy)
        if met["fraction_met"].count():
            key = picture_key("deadlines-met", trace)
            about = "Deadlines met by policy and cluster"
            subject = trace.label
            picture = drawing("deadlines-met", met, trace, key, about, subject=subject)
            lead.append(Gallery((picture,)))
            caption = "Deadlines met by policy"
            blocks += [
                Text(_DEADLINES),
                result_table(met, ScheduleGroups, caption=caption, columns=_MET, folded=True),
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
    return Content(tuple(findings), tuple(blocks), lead=tuple(lead)).of(trace.label)


def _of_waits(trace: Trace, waits: pl.DataFrame) -> str:
    mean = (pl.col("wait_s_mean") * pl.col("jobs")).sum() / pl.col("jobs").sum()
    of = dict(waits.group_by("policy", maintain_order=True).agg(mean).iter_rows())
    jobs = waits.filter(policy="fifo")["jobs"].sum()
    if of["fifo"] == 0 and (untold := _untold(trace, waits, of)) is not None:
        return untold
    shown = {
        policy: "less than 1 s" if 0 < wait < 1 else duration(wait) for policy, wait in of.items()
    }
    is_waiting, few = any(of[policy] for policy in what_if.WAITS), ""
    if all(of[policy] == of[policy + _MORE] for policy in what_if.WAITS):
        few = _too_few(trace, waits)
    text = _simulated(shown, is_waiting, f"simulated; n = {jobs:,}", few)
    closest, compared, reproduced = _compare(of, shown, trace.once(overtaking) or 0.0)
    text += compared
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
    return Finding(text, heading=_heading(closest, shown, few), certainty="estimated")


def _too_few(trace: Trace, waits: pl.DataFrame) -> str:
    """State that a tenth of the GPUs is fewer than any job requests; else empty."""
    gpus = dict(waits.group_by("policy").agg(pl.col("gpus").max()).iter_rows())
    sizes = trace.scan("jobs").select(pl.col("gpus").filter(pl.col("gpus") > 0).min())
    least, more = sizes.collect().item(), gpus["fifo" + _MORE] - gpus["fifo"]
    if more >= least:
        return ""
    return f" 10 % more GPUs ({more:.0f}) are fewer than any job requests ({least:g})."


def _compare(
    of: dict[str, float], shown: dict[str, str], overtaken: float
) -> tuple[str, str, bool]:
    """Return the policy closest to the recorded waits, a sentence, and whether it meets them."""
    if "recorded" not in of:
        return "easy", "", True
    wait = of["recorded"]
    closest = min(what_if.WAITS, key=lambda policy: abs(of[policy] - wait))
    low, high = sorted(of[policy] for policy in what_if.WAITS)
    is_met = low / _FACTOR <= wait <= high * _FACTOR or abs(wait - of[closest]) <= _CLOSE_S
    how = f", which is closer to {closest}" if shown["fifo"] != shown["easy"] else ""
    if shown["recorded"] in {shown[policy] for policy in what_if.WAITS}:
        how = " too" if shown["fifo"] == shown["easy"] else how
    elif not is_met or not 2 * low - high <= wait <= 2 * high - low:
        how = f", {'longer' if wait > high else 'shorter'} than under either"
    elif closest == "fifo" and overtaken >= _OVERTAKEN:
        is_met = False
        how += f", but {share(overtaken)} of them started before an earlier job of their queue"
    return (
        closest,
        f" They waited {shown['recorded']}{how}.{'' if is_met else _CANNOT_TELL}",
        is_met,
    )


def _simulated(shown: dict[str, str], is_waiting: bool, how: str, few: str) -> str:
    """State the mean waits under each policy, today and with more GPUs."""
    if not is_waiting:
        return (
            "GPU jobs would not wait under fifo or easy (backfilling) with the GPUs that there are "
            f"({how})."
        )
    fifo, easy = (shown[policy + _MORE] for policy in what_if.WAITS)
    more = "" if few else f", and with 10 % more GPUs {fifo} and {easy}"
    return (
        f"GPU jobs would wait {shown['fifo']} on average under fifo and {shown['easy']} under easy "
        f"(backfilling){more} ({how}).{few}"
    )


def _heading(closest: str, shown: dict[str, str], few: str) -> str:
    """Return what easy, or more GPUs, would change for a log that is closest to a policy."""
    today, more, easy = shown[closest], shown[closest + _MORE], shown["easy"]
    if today == easy == duration(0):
        return "GPU jobs would not wait under fifo or easy"
    if easy != today:
        also = "" if few else f", 10 % more GPUs to {more}"
        return f"backfilling (easy) would change the mean wait from {today} to {easy}{also}"
    if more != today:
        return f"10 % more GPUs would change the mean wait under {closest} from {today} to {more}"
    return few.strip(" .") or "10 % more GPUs would not shorten the mean wait"


def _untold(trace: Trace, waits: pl.DataFrame, of: dict[str, float]) -> Finding | None:
    """Return why the log cannot tell how waits would change, where none waits for GPUs."""
    if "recorded" not in of and set(waits["capacity"].drop_nulls()) >= {OWN[-1]}:
        text = (
            f"the log has neither start times nor the number of GPUs, so it cannot "
            f"tell how long jobs wait; `traceana simulate schedule {trace.id} --gpus N` simulates "
            "their waits on N GPUs."
        )
        heading = "waits need start times or the number of GPUs"
        return Finding(text, heading=heading, certainty="cannot tell")
    if of.get("recorded") and (idle := unused(waits)):
        n = waits.filter(pl.col("policy") == "recorded")["jobs"].sum()
        text = (
            f"GPU jobs waited {duration(of['recorded'])} on average "
            f"(n = {n:,}), but {idle}. The log cannot tell whether more GPUs or another policy "
            "would shorten their waits."
        )
        heading = "the jobs do not fill the GPUs, so waits have other causes"
        return Finding(text, heading=heading, certainty="cannot tell")
    return None


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


def build_placement(traces: Sequence[Trace]) -> Content:
    """Show the placement of each trace whose jobs and machines have GPUs."""
    findings, pictures, tables = list[str](), list[Drawing](), list[Block]()
    for trace in traces:
        try:
            runs = trace.once(what_if.placement_runs)
        except DataError:  # no machine has a GPU, or no job requests one
            continue
        summary = summarize_placement(runs)
        findings += _findings(trace, summary)
        for quantity, what in (("allocated", "Allocated GPUs"), ("fragment", "Fragment")):
            figure, about = f"placement-{quantity}", f"{what} as jobs arrive, by placement policy"
            key, shown = picture_key(figure, trace), runs.filter(ties="name")
            pictures.append(drawing(figure, shown, trace, key, about, subject=trace.label))
        caption = "GPUs allocated and fragments by policy and GPUs requested"
        rows = summary.filter(pl.col("arrived").is_in(_SHOWN))
        table = result_table(rows, PlacementSummary, caption=caption, folded=True)
        tables += captioned([table], trace.label)
    if not tables:
        return Content()
    return Content(
        tuple(findings),
        (Text(_ABOUT), Gallery(tuple(pictures[1:])), *tables),
        lead=(Gallery(tuple(pictures[:1])),),
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
