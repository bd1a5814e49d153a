"""Compute the part of the appendix on energy from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import energy_savings, energy_to_accuracy

if TYPE_CHECKING:
    from traceana.store import Store


def measure(store: Store) -> str:
    """Return the measured part of the page."""
    runs = store.scan("zeus-2023", "training_runs").collect()
    power = store.scan("zeus-2023", "power_profiles").collect()
    pairs = power.select("gpu", "dataset").unique().sort("gpu", "dataset").rows()
    which = [{"gpu": gpu, "dataset": dataset} for gpu, dataset in pairs]
    energy = pl.concat(
        [
            energy_to_accuracy(runs, power, **pair).select(
                pl.lit(pair["gpu"]).alias("gpu"), pl.lit(pair["dataset"]).alias("dataset"), pl.all()
            )
            for pair in which
        ]
    )
    return "\n".join([saved(energy_savings(runs, power)), fronts(energy)])


def saved(savings: pl.DataFrame) -> str:
    table = savings.filter(objective="energy").pivot(
        "choice", index=["gpu", "dataset"], values="ratio"
    )
    chosen = savings.filter(objective="energy", choice="both").select(
        "gpu",
        "dataset",
        best=pl.format("{}, {} W", "batch_size", pl.col("power_limit_w").cast(int)),
    )
    interval = savings.filter(objective="energy", choice="both").select(
        "gpu",
        "dataset",
        pl.col("ratio_held_out").alias("both, held out"),
        pl.concat_str(
            pl.col("ci_low", "ci_high").round_sig_figs(3).cast(pl.String), separator=" to "
        ).alias("held out, 95 %"),
        "runs",
    )
    table = (
        table.drop("baseline")
        .join(interval, on=["gpu", "dataset"])
        .join(chosen, on=["gpu", "dataset"])
        .sort("gpu", "dataset")
    )
    v100 = savings.filter(gpu="v100", objective="energy", choice="both")["ratio"]
    return (
        "### Least energy relative to the baseline\n\n"
        + as_table(table)
        + f"\nOn the V100, both together save {100 * (1 - v100.max()):.1f} % to "
        f"{100 * (1 - v100.min()):.1f} % of energy (published as 23.8 % to 74.7 %). "
        "Held out: without the bias of choosing the best. Runs: those of the chosen batch size.\n"
    )


def fronts(energy: pl.DataFrame) -> str:
    sizes = (
        energy.filter("on_front")
        .group_by("gpu", "dataset")
        .len()
        .sort("dataset", "gpu")
        .pivot("gpu", index="dataset", values="len")
    )
    shown = energy.filter("on_front", gpu="v100", dataset="librispeech").sort("tta_s")
    return (
        "### Configurations on the Pareto front\n\n"
        + as_table(sizes)
        + f"\nLibrispeech on the V100 has {shown.height} (the published figure shows 7):\n\n"
        + as_table(
            shown.select(
                "batch_size", "power_limit_w", "tta_s", "eta_j", "epochs_min", "epochs_max"
            ),
            digits=4,
        )
    )
