"""Section on placement: GPUs allocated and fragmented by policy as a cluster fills up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.page.blocks import (
    Content,
    Drawing,
    Gallery,
    Table,
    Text,
    drawing,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.scheduling.what_if import (
    NEEDED_TO_PLACE,
    SEEDS,
    count_unplaceable,
    placement_runs,
    reversed_pairs,
)
from traceana.simulate.placement.simulate import summarize_placement
from traceana.simulate.placement.tables import PlacementSummary
from traceana.store import Trace
from traceana.tables.formatting import listed, share

_ABOUT: Final = (
    "Jobs arrive in random order until they request 130 % of the GPUs; then jobs are drawn again. "
    "They never leave, and a job that fits on no machine is lost. Machines without GPUs are not "
    "used. A fragment is the part of the free GPUs that the requests which cover 95 % of the jobs "
    "cannot use. Policies: random; dotprod (Tetris), the smallest dot product of free and "
    "requested resources; clustering, machines with jobs of the same kind; packing, GPUs in use; "
    "bestfit, the least left; fgd, the smallest growth of the fragment. Of machines with equal "
    "scores, that of the smallest name wins, where a run names the machines at random; or a "
    f"random machine wins. Seeds: {len(SEEDS)} with ties by name, 1 with ties at random."
)
_LIMITATIONS: Final = (
    "Jobs stay forever and arrive in random order, so times of the trace are not used. The results "
    f"are means of {len(SEEDS)} seeds or of 1; `traceana simulate place` runs more."
)
_AT: Final = 100
_SHOWN: Final = (50, 80, 100, 120)


def build(traces: Sequence[Trace]) -> Content:
    """Show the placement of each trace whose jobs and machines have GPUs."""
    findings, pictures, tables = list[str](), list[Drawing](), list[Table]()
    for trace in traces:
        try:
            runs = trace.once(placement_runs)
        except DataError:  # no machine has a GPU, or no job requests one
            continue
        summary = summarize_placement(runs)
        findings += _findings(trace, summary)
        for quantity, what in (("allocated", "Allocated GPUs"), ("fragment", "Fragment")):
            pictures.append(
                drawing(
                    f"placement-{quantity}",
                    runs.filter(ties="name"),
                    trace=trace,
                    title=trace.label,
                    key=picture_key(f"placement-{quantity}", trace),
                    about=f"{what} as jobs arrive, by placement policy",
                )
            )
        caption = f"GPUs allocated and fragments by policy and GPUs requested. {trace.label}"
        rows = summary.filter(pl.col("arrived").is_in(_SHOWN))
        tables.append(result_table(rows, PlacementSummary, caption=caption, folded=True))
    if not tables:
        return Content()
    return Content(
        tuple(findings),
        (Text(_ABOUT), Gallery(tuple(pictures[1:])), *tables),
        lead=(Gallery(tuple(pictures[:1])),),
        limitations=_LIMITATIONS,
    )


def _findings(trace: Trace, summary: pl.DataFrame) -> list[str]:
    jobs = trace.scan("jobs").select(pl.col("gpus").count()).collect().item()
    gpus = float(trace.scan("machines").select(pl.col("gpus").sum()).collect().item())
    unplaceable, rows = trace.once(count_unplaceable), summary.filter(arrived=_AT)
    by_name = rows.filter(ties="name").sort("allocated", descending=True, maintain_order=True)
    (best, second), worst = by_name.head(2).rows(named=True), by_name.row(-1, named=True)
    first = (
        f"{trace.label}: when jobs have requested as many GPUs as there are, {best['policy']} "
        f"allocates {best['allocated']:.1f} % of them, {second['policy']} "
        f"{second['allocated']:.1f} % and {worst['policy']} {worst['allocated']:.1f} % "
        f"(means of {len(SEEDS)} seeds; n = {jobs:,} jobs, {gpus:,.0f} GPUs)."
    )
    if unplaceable:
        fraction = share(unplaceable / jobs)
        first += f" {unplaceable:,} jobs ({fraction}) fit on no machine, even if all are empty."
    first = Finding(
        first,
        heading=f"{trace.label}: policy {best['policy']} allocates {best['allocated']:.1f} % of "
        f"the GPUs, {worst['policy']} {worst['allocated']:.1f} %",
    )
    pairs = [pair for pair in reversed_pairs(summary) if pair[0] == best["policy"]]
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


SECTION = Section(
    "placement",
    "Placement of jobs that share GPUs",
    40,
    build,
    needs=(NEEDED_TO_PLACE,),
    figures=("placement-allocated", "placement-fragment"),
    part="Simulations",
    question="How many GPUs can each placement policy allocate, and how many are fragments?",
)
