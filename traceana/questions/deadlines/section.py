"""Section on deadlines: rules, tightness, throughput, and synthetic plans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.page.blocks import (
    Block,
    Content,
    Drawing,
    Gallery,
    Heading,
    Text,
    drawing,
    join_parts,
    picture_key,
    result_table,
)
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.deadlines import plans
from traceana.simulate.deadlines import tables
from traceana.store import Trace
from traceana.tables.formatting import count, fraction_range, plural, share

_OPENING: Final = (
    "A deadline counts as met if the job, started when submitted, ends in time at the requested "
    "GPUs; with more GPUs, if it does at the fastest rate of its model and batch size. Intervals "
    "are Wilson intervals; drawn deadlines have none."
)
_GENERATED: Final = (
    "The publishers generated model, batch size, iterations and deadline of these plans; the rule "
    "is not stated. The values below support these rules: iterations are the runtime times a rate "
    "of (model, batch size, GPUs), rounded down; the time until the deadline is the runtime times "
    "a uniform draw from 0.5 to 1.5; and models are one seeded sequence of draws. No p-value is "
    "stated: it would test a generator of random numbers."
)
_POLICIES: Final = (
    "The jobs of a cluster share identical GPUs, as many as the jobs use to 80 % between the first "
    "submission and the last, and at least those of the largest job. A job starts on all of its "
    "GPUs at once, runs for its runtime and is not interrupted; later jobs wait behind the first "
    "in the queue. Deadlines earlier than submission plus runtime are missed in any case. "
    "fifo: by submission; sjf: shortest runtime first; edf: earliest deadline first; least_slack: "
    "by deadline minus runtime. At most the first {most:,} jobs are scheduled."
)
_RULES: Final = ("rule", "n", "measure", "value")
_MISSED: Final = tuple(
    name
    for name in tables.DeadlinePolicies.columns()
    if name not in ("cluster", "capacity", "median_wait_s", "p95_wait_s")
)
_MET: Final = (
    "cluster",
    *(
        name
        for name in tables.DeadlineTightness.columns()
        if name != "n_met_fastest" and not name.startswith("tightness_p")
    ),
)
_MEASURES: Final = {
    "samples_per_s": "Throughput by GPUs",
    "scaling_efficiency": "Scaling efficiency by GPUs",
}
_LIMITATIONS: Final = (
    "Fractions that could be met leave out queueing and contention, so they are upper bounds for "
    "any scheduler. Policies are simulated on identical GPUs, at 80 % load if these suffice for "
    "the largest job. Intervals treat deadlines as independent; those of policies are too narrow. "
    "Results on drawn deadlines hold for deadlines of that kind."
)
_RATES: Final = (
    "model",
    "batch_size",
    "gpus",
    "n",
    "iterations_per_s",
    "lowest",
    "highest",
    "samples_per_s",
    "scaling_efficiency",
)
_FEWEST_DEADLINES = 30  # below, no finding names a policy


def build(traces: Sequence[Trace]) -> Content:
    """Show tightness and rates of each trace; rules and synthetic plans if it was generated."""
    content = join_parts(_OPENING, [(trace.label, _trace(trace)) for trace in traces])
    pictures = [one for trace in traces for one in _draw_missed(trace)]
    lead = (Gallery(tuple(pictures)),) if pictures else ()
    return replace(content, lead=lead, limitations=_LIMITATIONS)


def _draw_missed(trace: Trace) -> list[Drawing]:
    try:
        result = trace.once(plans.missed_deadlines).drop_nulls("cluster")
    except DataError:
        return []
    key, about = picture_key("missed-deadlines", trace), "Missed deadlines by cluster and policy"
    return [drawing("missed-deadlines", result, trace, key, about, title=trace.label)]


def draw_more(traces: Sequence[Trace]) -> list[Drawing]:
    """Draw the missed deadlines of each trace, and the tightness and throughput of its plans."""
    pictures = [picture for trace in traces for picture in _draw_missed(trace)]
    for trace in traces:
        key, about = f"deadline-tightness-{trace.id}", "Tightness of deadlines by cluster"
        by_cluster, _ = trace.once(plans.tightness)
        pictures.append(drawing("deadline-tightness", by_cluster, trace, key, about))
        result = trace.once(plans.rates)
        for measure, about in _MEASURES.items():
            if result[measure].count():
                key = f"throughput-{measure}-{trace.id}"
                pictures.append(drawing("throughput", result, trace, key, about, measure=measure))
    return pictures


def _stated(trace: Trace, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are shown; drawn deadlines have no interval."""
    left_out = ("ci_low", "ci_high") if plans.are_drawn(trace) else ()
    return tuple(name for name in columns if name not in left_out)


def _missed(trace: Trace) -> tuple[tuple[str, ...], tuple[Block, ...]]:
    title = trace.label
    try:
        result = trace.once(plans.missed_deadlines)
    except DataError as error:
        return (), (Text(f"No job can be scheduled: {error}."),)
    named, total = result.drop_nulls("cluster"), result.filter(pl.col("cluster").is_null())
    several = not total.is_empty()
    total = total if several else named
    best, *_, worst = total.sort("fraction_missed").rows(named=True)
    least, most = (share(row["fraction_missed"]) for row in (best, worst))
    heading = f"policy {best['policy']} misses {least} of the deadlines, {worst['policy']} {most}"
    drawn = "; the deadlines were drawn at random" * plans.are_drawn(trace)
    finding = Finding(
        f"{heading} (simulated at a utilization of {share(best['utilization'])}; "
        f"n = {count(best['n'])}{drawn}). A deadline before submission plus runtime is missed in "
        "any case.",
        heading=heading,
    )
    blocks: list[Block] = [
        Heading("Missed deadlines under scheduling policies"),
        Text(_POLICIES.format(most=plans.MAX_JOBS)),
        result_table(
            total,
            tables.DeadlinePolicies,
            caption=f"Missed deadlines, all clusters. {title}",
            columns=_stated(trace, _MISSED),
        ),
    ]
    if several:
        of_each = result_table(
            named,
            tables.DeadlinePolicies,
            caption=f"Missed deadlines by cluster. {title}",
            columns=_stated(trace, tables.DeadlinePolicies.columns()),
            folded=True,
        )
        blocks.append(of_each)
    return (finding,) if best["n"] >= _FEWEST_DEADLINES else (), tuple(blocks)


def _trace(trace: Trace) -> Content:
    title, rates = trace.label, trace.once(plans.rates)
    by_cluster, total = trace.once(plans.tightness)
    blocks: list[Block] = [
        Heading("Tightness"),
        result_table(
            by_cluster.filter(plans="published"),
            tables.DeadlineTightness,
            caption=f"Deadlines that jobs without a wait would meet. {title}",
            columns=_stated(trace, _MET),
            total=total.select(pl.lit("All").alias("cluster"), pl.all()),
        ),
        Heading("Throughput"),
        Text(
            f"One rate explains all plans in {rates['is_one_rate'].sum()} of "
            f"{plural(rates.height, 'cell')} (model, batch size, GPUs). Scaling efficiency is the "
            "rate over the number of GPUs times the rate on one GPU."
        ),
        result_table(
            rates,
            tables.IterationRates,
            caption=f"Throughput by model, batch size and GPUs. {title}",
            columns=_RATES,
            folded=True,
        ),
    ]
    missed, scheduled = _missed(trace)
    if not plans.are_drawn(trace):
        findings = (_met(total.row(0, named=True)), *missed)
        return Content(findings, (*blocks, *scheduled)).of(title)
    caption = f"Rules of the plans. {title}"
    of_rules = result_table(
        trace.once(plans.rules), tables.DeadlineRules, caption=caption, columns=_RULES
    )
    rules: list[Block] = [
        Text(_GENERATED),
        of_rules,
        result_table(
            trace.once(plans.draws),
            tables.PublishedDraws,
            caption="Models of each file as draws of one seeded generator, in the order of the "
            f"job ids; by chance 13 draws per plan would be passed over. {title}",
            folded=True,
        ),
    ]
    synthetic: list[Block] = [
        Heading("Synthetic plans"),
        Text(
            f"Plans of the same jobs are drawn by these rules (seed {plans.SEED}) and compared "
            "with the published ones."
        ),
        result_table(
            trace.once(plans.agreement),
            tables.PlanComparison,
            caption=f"Synthetic and published plans compared. {title}",
            columns=("compared", "n", "n_synthetic", "measure", "value"),
        ),
    ]
    determined, uniform, *_ = trace.once(plans.rules).rows(named=True)
    # how many drawn deadlines could be met is a result on the generator
    rule = (
        f"the iterations are the rate times the runtime in "
        f"{share(determined['value'])} of {count(determined['n'])} plans. The tightness (time "
        f"until the deadline over runtime) differs from uniform on 0.5 to 1.5 by a KS distance of "
        f"{uniform['value']:.2g}."
    )
    return Content((*missed, rule), (*rules, *blocks, *synthetic, *scheduled)).of(title)


def _met(met: dict[str, float]) -> Finding:
    fractions = f"{share(met['fraction_met'])} of {{}} could be met"
    more = f"{share(met['fraction_met_fastest'])} with more GPUs"
    interval = f"95 % CI {fraction_range(met['ci_low'], met['ci_high'])}"
    return Finding(
        f"{fractions.format(count(met['n']) + ' deadlines')} at the requested GPUs "
        f"({interval}), {more}.",
        heading=f"{fractions.format('the deadlines')}, {more}",
    )


SECTION = Section(
    "deadlines",
    "Deadlines",
    10,
    build,
    needs=plans.PLANS_NEEDS,
    figures=("deadline-tightness", "throughput", "missed-deadlines"),
    more=draw_more,
    part="Simulations",
    question="How many deadlines could be met, and how tight are they?",
)
