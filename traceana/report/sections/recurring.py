"""Section on recurring jobs that choose their batch size and power limit for each run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.derived.energy import (
    ENERGY_NEEDS,
    SEEDS,
    recurring_policies,
    recurring_sweep,
    shown_gpu,
)
from traceana.report.blocks import Block, Content, Gallery, Text, drawing, join_parts, result_table
from traceana.report.section import Section
from traceana.results.formatting import plural, share
from traceana.results.recurring import SweepSummary
from traceana.simulate import summarize_recurring

if TYPE_CHECKING:
    from traceana.report.blocks import Drawing
    from traceana.report.context import Context

_OPENING: Final = (
    "A job that is trained repeatedly can learn its best batch size and power limit. This "
    "simulation on the data of the trace uses the policy of Zeus (NSDI'23): two rounds of pruning, "
    "Gaussian Thompson sampling, and power limits profiled in the first epoch of a batch size. A "
    "run that costs twice as much as the cheapest recurrence is stopped, and its cost counts. Cost "
    "is half energy, half time at the largest power of the GPU, so a lower cost can take longer."
)
_INTERVALS: Final = (
    "Intervals are those of the mean over seeds. They cover the randomness of the simulation, not "
    "that each epoch was measured once and each batch size was trained a few times. The default is "
    "its expected energy and time."
)
_SHOWN: Final = tuple(
    name
    for name in SweepSummary.columns()
    if name not in ("seeds", "seeds_failed", "regret_share_ci_low", "regret_share_ci_high")
)


def build(session: Context, traces: list[str]) -> Content:
    """Show savings of the last five recurrences, and the regret of one job, of each trace."""
    parts = ((session.title(trace), _trace(session, trace)) for trace in traces)
    return join_parts(_OPENING, parts)


def _trace(session: Context, trace: str) -> Content:
    summary = summarize_recurring(session.once(recurring_sweep, trace))
    title, gpu = session.title(trace), shown_gpu(session, trace)
    known = summary.drop_nulls("energy_saved").sort("energy_saved")
    on_gpu = known.filter(gpu=gpu)
    pictures: list[Drawing] = []
    if on_gpu.height:
        pictures += _one_job(session, trace, gpu, on_gpu["dataset"][-1])
    if known.height:
        pictures.append(
            drawing(
                "recurring-savings",
                summary,
                trace=trace,
                key=f"recurring-savings-{trace}",
                about="Energy saved by recurring jobs, by data set and GPU",
            )
        )
    blocks: list[Block] = [
        *([Gallery(tuple(pictures))] if pictures else []),
        result_table(
            summary,
            SweepSummary,
            caption=(
                f"Last five recurrences against the default, mean of {plural(len(SEEDS), 'seed')}. "
                "Regret: cost of all recurrences above that of the best feasible configuration, as "
                "a percentage of the latter. Points missing: pairs of batch size and power limit "
                f"without data. {title}"
            ),
            columns=_SHOWN,
            null={"note": ""},
        ),
        Text(_INTERVALS),
    ]
    return Content(_findings(on_gpu, gpu, title), tuple(blocks))


def _one_job(session: Context, trace: str, gpu: str, dataset: str) -> list[Drawing]:
    """Draw the regret by policy of the job that saves most, and its choices."""
    results = session.once(recurring_policies, trace, gpu, dataset)
    regret = pl.concat(
        result.recurrences.select(pl.lit(result.policy).alias("policy"), pl.all())
        for result in results
    )
    pictures = []
    if not regret["cumulative_regret_j"].has_nulls():
        pictures.append(
            drawing(
                "regret",
                regret,
                trace=trace,
                key=f"regret-{trace}-{gpu}-{dataset}",
                about=f"Regret of {dataset} on {gpu} by policy",
            )
        )
    choices = drawing(
        "recurring-choices",
        results[0],
        trace=trace,
        key=f"choices-{trace}-{gpu}-{dataset}",
        about=f"Batch sizes of {dataset} on {gpu} chosen by the policy {results[0].policy}",
    )
    return [*pictures, choices]


def _findings(rows: pl.DataFrame, gpu: str, title: str) -> tuple[str, ...]:
    if rows.is_empty():
        return ()
    least, most = rows.row(0, named=True), rows.row(-1, named=True)
    slower = rows.filter(pl.col("time_saved") < 0).height
    but = f"; {slower} of {plural(rows.height, 'job')} take longer" if slower else ""
    saved = (
        f"{title}: recurring jobs on {gpu} that learn their batch size and power limit save "
        f"{share(least['energy_saved'])} to {share(most['energy_saved'])} of the energy of the "
        f"default in the simulation (least for {least['dataset']}, most for {most['dataset']})"
    )
    return (f"{saved}{but}.",)


SECTION = Section(
    "recurring",
    "Recurring jobs",
    140,
    build,
    needs=ENERGY_NEEDS,
    figures=("regret", "recurring-choices", "recurring-savings"),
    part="Energy",
    question="How much energy do recurring jobs save while they learn their settings?",
)
