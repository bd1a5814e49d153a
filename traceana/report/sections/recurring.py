"""What recurring jobs save that choose their batch size and power limit anew each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.report.blocks import (
    Block,
    Column,
    Content,
    Gallery,
    Table,
    Text,
    drawing,
    make_table,
    words,
)
from traceana.report.section import Section
from traceana.results.formatting import count, plural, share, share_range
from traceana.simulate import simulate_recurring, summarize_recurring, sweep_recurring

if TYPE_CHECKING:
    from traceana.report.context import Context

_TRACE = "zeus-2023"
_TABLES = ("training_runs", "power_profiles")
_SHOWN = ("v100", "cifar100")
_POLICIES = ("zeus", "grid", "default")
_SEEDS = range(10)


def build(session: Context) -> Content:
    """Savings of the last five recurrences by GPU and data set, and one job's regret."""
    for table in _TABLES:
        if not session.has(_TRACE, table):
            return Content((), (session.absent(_TRACE, table, what="Recurring jobs"),))
    runs, power = (session.scan(_TRACE, table).collect() for table in _TABLES)
    sweep = sweep_recurring(runs, power, seeds=_SEEDS)
    summary = summarize_recurring(sweep)
    name = session.title(_TRACE)
    blocks: list[Block] = [
        Text(
            "A job that is trained again and again may learn which batch size and power limit "
            "suit it. This is a simulation on the trace with the publisher's policy: two rounds "
            "of pruning, Gaussian Thompson sampling, and power limits profiled in a batch size's "
            "first epoch. A run that becomes twice as dear as the cheapest recurrence is stopped "
            "and counts. Cost is half energy, half time at the GPU's largest power, so that a "
            "lower cost may be bought with time."
        ),
        *_one_job(runs, power),
        *_picture(summary),
        _savings(summary, name),
        Text(
            "The intervals are those of the mean over seeds: they hold the luck of the "
            "simulation, and not that each epoch was measured once, nor that each batch size has "
            "a handful of runs out of which every seed draws. The default is its expected energy "
            "and time, without luck."
        ),
    ]
    return Content(tuple(_findings(summary, name)), tuple(blocks))


def _one_job(runs: pl.DataFrame, power: pl.DataFrame) -> list[Block]:
    gpu, dataset = _SHOWN
    if power.filter(gpu=gpu, dataset=dataset).is_empty() or dataset not in runs["dataset"]:
        return []
    results = [
        simulate_recurring(runs, power, gpu=gpu, dataset=dataset, policy=policy)
        for policy in _POLICIES
    ]
    regret = pl.concat(
        [
            result.recurrences.select(pl.lit(result.policy).alias("policy"), pl.all())
            for result in results
        ]
    )
    pictures = []
    if not regret["cumulative_regret_j"].has_nulls():
        pictures.append(
            drawing(
                "regret",
                regret,
                trace=_TRACE,
                key=f"regret-{gpu}-{dataset}",
                about=f"Regret of {dataset} on {gpu} by policy",
            )
        )
    pictures.append(
        drawing(
            "recurring-choices",
            results[0].history,
            trace=_TRACE,
            key=f"choices-{gpu}-{dataset}",
            about=f"Batch sizes that the publisher's policy chose for {dataset} on {gpu}",
            batch_sizes=list(results[0].job.batches),
        )
    )
    return [Gallery(tuple(pictures))]


def _picture(summary: pl.DataFrame) -> list[Block]:
    if not summary["energy_saved"].count():
        return []
    return [
        Gallery(
            (
                drawing(
                    "recurring-savings",
                    summary,
                    trace=_TRACE,
                    key="recurring-savings",
                    about="Energy that recurring jobs end up saving, by data set and GPU",
                ),
            )
        )
    ]


def _savings(summary: pl.DataFrame, name: str) -> Table:
    def saved(heading: str, of: str) -> Column:
        return Column(heading, of, share, null="unknown")

    columns = [
        words("GPU", "gpu"),
        words("Data set", "dataset"),
        saved("Energy saved", "energy_saved"),
        Column("Energy, 95 %", ("energy_saved_ci_low", "energy_saved_ci_high"), share_range),
        saved("Time saved", "time_saved"),
        Column("Time, 95 %", ("time_saved_ci_low", "time_saved_ci_high"), share_range),
        saved("Cost saved", "cost_saved"),
        Column("Cost, 95 %", ("cost_saved_ci_low", "cost_saved_ci_high"), share_range),
        saved("Regret", "regret_share"),
        Column("Points missing", "points_missing", count),
        words("Note", "note", null=""),
    ]
    return make_table(
        summary,
        columns,
        caption=(
            f"Last five recurrences against the default, mean of {plural(len(_SEEDS), 'seed')}. "
            "Regret: what all recurrences cost beyond the best feasible point, as a share of what "
            "that is expected to cost. Points missing: pairs of batch "
            f"size and power limit that the trace cannot answer. {name}"
        ),
    )


def _findings(summary: pl.DataFrame, name: str) -> list[str]:
    known = summary.drop_nulls("energy_saved").sort("energy_saved")
    if known.is_empty():
        return []
    gpu = _SHOWN[0]
    there = known.filter(gpu=gpu)
    where, rows = (gpu, there) if there.height else (f"{known['gpu'].n_unique()} GPUs", known)
    least, most = rows.row(0, named=True), rows.row(-1, named=True)
    slower = rows.filter(pl.col("time_saved") < 0).height
    told = f"; {slower} of {plural(rows.height, 'job')} take longer for it" if slower else ""
    finding = (
        f"{name}: recurring jobs on {where} that learn their batch size and power limit end up "
        f"with {share(least['energy_saved'])} to {share(most['energy_saved'])} less energy than "
        f"the default (least for {least['dataset']}, most for {most['dataset']}; simulated)"
        f"{told}."
    )
    return [finding]


SECTION = Section(
    "recurring",
    "Recurring jobs",
    140,
    build,
    figures=("regret", "recurring-choices", "recurring-savings"),
)
