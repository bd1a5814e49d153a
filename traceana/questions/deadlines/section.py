"""Section on deadlines: rules, tightness and throughput."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from traceana.page import blocks as page
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
_RULES: Final = ("rule", "n", "measure", "value")
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
    "any scheduler. Intervals treat deadlines as independent. Results on drawn deadlines hold for "
    "deadlines of that kind."
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


def build(traces: Sequence[Trace]) -> page.Content:
    """Show tightness and rates of each trace; rules if the plans were generated."""
    content = page.join_parts(_OPENING, [(trace.label, _trace(trace)) for trace in traces])
    lead = (page.Gallery(tuple(map(_draw_tightness, traces))),)
    return replace(content, lead=lead, limitations=_LIMITATIONS)


def _draw_tightness(trace: Trace) -> page.Drawing:
    key, about = f"deadline-tightness-{trace.id}", "Tightness of deadlines by cluster"
    by_cluster, _ = trace.once(plans.tightness)
    return page.drawing("deadline-tightness", by_cluster, trace, key, about)


def draw_more(traces: Sequence[Trace]) -> list[page.Drawing]:
    """Draw the tightness and throughput of the plans of each trace."""
    pictures = []
    for trace in traces:
        pictures.append(_draw_tightness(trace))
        result = trace.once(plans.rates)
        for measure, about in _MEASURES.items():
            if result[measure].count():
                key = f"throughput-{measure}-{trace.id}"
                options = {"subject": trace.label, "measure": measure}
                pictures.append(page.drawing("throughput", result, trace, key, about, **options))
    return pictures


def _stated(trace: Trace, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that are shown; drawn deadlines have no interval."""
    left_out = ("ci_low", "ci_high") if plans.are_drawn(trace) else ()
    return tuple(name for name in columns if name not in left_out)


def _trace(trace: Trace) -> page.Content:
    rates = trace.once(plans.rates)
    by_cluster, total = trace.once(plans.tightness)
    blocks: list[page.Block] = [
        page.Heading("Tightness"),
        page.result_table(
            by_cluster.filter(plans="published"),
            tables.DeadlineTightness,
            caption="Deadlines that jobs without a wait would meet",
            columns=_stated(trace, _MET),
            total=total.select(pl.lit("All").alias("cluster"), pl.all()),
        ),
        page.Heading("Throughput"),
        page.Text(
            f"One rate explains all plans in {rates['is_one_rate'].sum()} of "
            f"{plural(rates.height, 'cell')} (model, batch size, GPUs). Scaling efficiency is the "
            "rate over the number of GPUs times the rate on one GPU."
        ),
        page.result_table(
            rates,
            tables.IterationRates,
            caption="Throughput by model, batch size and GPUs",
            columns=_RATES,
            folded=True,
        ),
    ]
    if not plans.are_drawn(trace):
        return page.Content((_met(total.row(0, named=True)),), tuple(blocks)).of(trace.label)
    of_rules = trace.once(plans.rules)
    caption = "Rules of the plans"
    rules = (
        page.Text(_GENERATED),
        page.result_table(of_rules, tables.DeadlineRules, caption=caption, columns=_RULES),
    )
    determined, uniform, *_ = of_rules.rows(named=True)
    # how many drawn deadlines could be met is a result on the generator
    drawn = "the publishers drew the deadlines"
    rule = (
        f"{drawn}. The iterations are the rate times the runtime in "
        f"{share(determined['value'])} of {count(determined['n'])} plans. The tightness (time "
        f"until the deadline over runtime) differs from uniform on 0.5 to 1.5 by a KS distance of "
        f"{uniform['value']:.2g}."
    )
    return page.Content((Finding(rule, heading=drawn),), (*rules, *blocks)).of(trace.label)


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
    figures=("deadline-tightness", "throughput"),
    more=draw_more,
    part="Simulations",
    question="How many deadlines could be met, and how tight are they?",
)
