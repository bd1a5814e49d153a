"""Energy against time with the front, and which batch sizes can be judged at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis import energy_coverage, energy_to_accuracy
from traceana.report.blocks import Block, Column, Gallery, Table, Text, drawing, make_table, words
from traceana.results.formatting import count, plain, seconds
from traceana.schema import TRAINING_DEFAULTS

if TYPE_CHECKING:
    from traceana.report.context import Context

TRACE: Final = "zeus-2023"
PAIR: Final = (words("GPU", "gpu"), words("Data set", "dataset"))
_PUBLISHED_FRONT = ("v100", "librispeech")
_NOTES = (
    "a run never reached the target",
    "a run has no row at the target",
    "trained only",
    "profiled only",
)


def build_front(session: Context, runs: pl.DataFrame, power: pl.DataFrame) -> list[Block]:
    """Draw and list the front whose figure the publisher shows, where the tables hold it."""
    gpu, dataset = _PUBLISHED_FRONT
    there = not power.filter(gpu=gpu, dataset=dataset).is_empty()
    target = pl.col("target_metric").is_close(TRAINING_DEFAULTS[dataset].target)
    there = there and not runs.filter(target, dataset=dataset).is_empty()
    energy = energy_to_accuracy(runs, power, gpu=gpu, dataset=dataset) if there else None
    if energy is None or energy.is_empty():
        return [Text(f"No configuration of {dataset} on {gpu} is both trained and profiled.")]
    on_front = energy.filter("on_front").sort("tta_s")
    return [
        Gallery(
            (
                drawing(
                    "energy-front",
                    energy,
                    trace=TRACE,
                    key=f"front-{gpu}-{dataset}",
                    about=f"Energy against time to the target of {dataset} on {gpu}",
                ),
            )
        ),
        make_table(
            on_front,
            [
                Column("Batch size", "batch_size", count),
                Column("Power limit (W)", "power_limit_w", plain),
                Column("Time (s)", "tta_s", seconds),
                Column("Energy (J)", "eta_j", count),
                Column("Runs", "runs", count),
                Column("Fewest epochs", "epochs_min", count),
                Column("Most epochs", "epochs_max", count),
            ],
            caption=f"Configurations on the front: {dataset} on {gpu}. {session.title(TRACE)}",
        ),
    ]


def build_coverage(runs: pl.DataFrame, power: pl.DataFrame, name: str) -> Table:
    """Count the batch sizes of each GPU and data set by what can be said of them."""
    trained = runs["dataset"].unique().to_list()
    pairs = power.select("gpu", "dataset").unique().sort("gpu", "dataset")
    judged = [
        energy_coverage(runs, power, gpu=gpu, dataset=dataset)
        for gpu, dataset in pairs.iter_rows()
        if dataset in trained and dataset in TRAINING_DEFAULTS
    ]
    feasible = pl.col("feasible")
    table = (
        pl.concat(judged)
        .group_by("gpu", "dataset", maintain_order=True)
        .agg(
            feasible.sum(),
            (feasible & (pl.col("power_limits_missing") > 0)).sum().alias("gaps"),
            *((pl.col("note") == note).sum().alias(note) for note in _NOTES),
            pl.col("runs").filter(feasible).min().alias("fewest"),
        )
    )
    columns = [
        *PAIR,
        Column("Judged", "feasible", count),
        Column("with gaps", "gaps", count),
        *(Column(f"Left out: {note}", note, count) for note in _NOTES),
        Column("Fewest runs", "fewest", count),
    ]
    return make_table(
        table, columns, caption=f"Batch sizes by what can be said of them. {name}", folded=True
    )
