"""Compute the measured part of docs/explanation/energy.md from a store."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import TYPE_CHECKING

import polars as pl
from findings import as_table

from traceana import energy_coverage, energy_savings, energy_to_accuracy
from traceana.schema import TRAINING_DEFAULTS, TrainingDefault

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
    coverage = pl.concat([energy_coverage(runs, power, **pair) for pair in which])
    savings = energy_savings(runs, power)
    return "\n".join(
        [
            defaults(),
            falls_out(coverage),
            saved(savings),
            fronts(energy),
            noise(power),
            late(coverage, energy, savings),
        ]
    )


def defaults() -> str:
    names = [field.name for field in fields(TrainingDefault)]
    table = pl.DataFrame(
        [(dataset, *astuple(default)) for dataset, default in TRAINING_DEFAULTS.items()],
        schema=["dataset", *names],
        orient="row",
    )
    return f"### Defaults of the data sets\n\n{as_table(table)}"


def falls_out(coverage: pl.DataFrame) -> str:
    def batches(note: str) -> pl.Expr:
        return (pl.col("note") == note).sum()

    table = coverage.group_by("gpu", "dataset").agg(
        pl.col("feasible").sum(),
        (pl.col("feasible") & (pl.col("power_limits_missing") > 0)).sum().alias("with gaps"),
        *(
            batches(note).alias(note)
            for note in ("a run never reached the target", "trained only", "profiled only")
        ),
        pl.col("runs").filter("feasible").min().alias("fewest runs"),
    )
    return (
        "### Feasible batch sizes, and why others are excluded\n\n"
        + as_table(table.sort("gpu", "dataset"))
        + "\nWith gaps: profiled at some of the GPU's power limits only. Runs without a row at the "
        f"target: {coverage['runs_unknown'].sum()}.\n"
    )


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
    cost = savings.filter(objective="cost", choice="both").select(
        "gpu",
        "dataset",
        pl.col("ratio").alias("both, cost"),
        pl.col("note")
        .str.replace(r"(; )?\d+ runs of a batch size: the interval is approximate(; )?", "")
        .alias("note"),
    )
    table = (
        table.drop("baseline")
        .join(interval, on=["gpu", "dataset"])
        .join(chosen, on=["gpu", "dataset"])
        .join(cost, on=["gpu", "dataset"])
        .sort("gpu", "dataset")
    )
    v100 = savings.filter(gpu="v100", objective="energy", choice="both")["ratio"]
    return (
        "### Least energy and cost relative to the baseline\n\n"
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
    above = energy.filter(pl.col("mean_power_w") > pl.col("power_limit_w")).height
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
        + f"\n{above} of {energy.height:,} feasible configurations drew more power on average than "
        "their limit.\n"
    )


def noise(power: pl.DataFrame) -> str:
    steps = (
        power.sort("power_limit_w")
        .with_columns(
            before=pl.col("epoch_s").shift(1).over("gpu", "dataset", "optimizer", "batch_size")
        )
        .drop_nulls("before")
        .with_columns(longer=pl.col("epoch_s") / pl.col("before") - 1)
    )
    wrong = steps.filter(pl.col("longer") > 0)
    return (
        "### Noise of epoch times\n\n"
        f"{wrong.height} of {steps.height:,} increases of the power limit made the epoch longer, "
        f"by {100 * wrong['longer'].median():.1f} % in the median and "
        f"{100 * wrong['longer'].max():.0f} % at most. This is noise of single measurements.\n"
    )


def late(coverage: pl.DataFrame, energy: pl.DataFrame, savings: pl.DataFrame) -> str:
    is_late = coverage.filter(pl.col("runs_past_max_epochs") > 0, pl.col("feasible"))
    key = ["gpu", "dataset", "batch_size"]
    on_front = energy.filter("on_front").join(is_late, on=key, how="semi").height
    chosen = savings.filter(choice="both").join(is_late, on=key, how="semi").height
    names = sorted({f"{row['dataset']} at {row['batch_size']}" for row in is_late.to_dicts()})
    return (
        "### Targets reached after max_epochs\n\n"
        f"Feasible batch sizes with such runs: {', '.join(names)}. {on_front} of their "
        f"configurations are on a front, and {chosen} are best by energy or cost.\n"
    )
