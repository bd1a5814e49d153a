"""Energy to accuracy and recurring jobs of a trace, shared by claims and sections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana import simulate
from traceana.questions.energy.accuracy import energy_to_accuracy
from traceana.questions.energy.coverage import energy_coverage
from traceana.questions.energy.defaults import training_defaults
from traceana.questions.energy.savings import energy_savings
from traceana.questions.energy.weights import eta_sweep

if TYPE_CHECKING:
    from traceana.schema import TrainingDefault
    from traceana.simulate.recurring.tables import RecurringResult
    from traceana.store import Trace

ENERGY_NEEDS: Final = (
    {
        "training_runs": ("dataset", "batch_size", "target_metric", "target_epoch"),
        "power_profiles": ("gpu", "dataset", "batch_size", "epoch_s", "mean_power_w"),
    },
)
"""What a trace needs for energy to accuracy."""
SEEDS: Final = range(10)
POLICIES: Final = ("zeus", "grid", "default")


def defaults(trace: Trace, /) -> dict[str, TrainingDefault]:
    """Return the default target, batch size and epochs of each data set."""
    return training_defaults(*training_tables(trace))


def training_tables(trace: Trace, /) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return training runs and power profiles."""
    runs, power = (trace.scan(table).collect() for table in ("training_runs", "power_profiles"))
    return runs, power


def shown_gpu(trace: Trace, /) -> str:
    """Return the GPU with the most known data sets profiled and, among these, the most profiles."""
    power = trace.scan("power_profiles")
    known = trace.once(defaults)
    ranked = (
        power.with_columns(known=pl.col("dataset").is_in(list(known)))
        .group_by("gpu")
        .agg(sets=pl.col("dataset").filter("known").n_unique(), rows=pl.col("known").sum())
        .sort("sets", "rows", "gpu")
        .collect()
    )
    return str(ranked["gpu"][-1])


def savings(trace: Trace, /) -> pl.DataFrame:
    """Return the savings of each choice, on every GPU and data set."""
    tables = training_tables(trace)
    return energy_savings(*tables, defaults=trace.once(defaults))


def coverage(trace: Trace, /) -> pl.DataFrame:
    """Return the batch sizes of every GPU and data set, and why some are not feasible."""
    tables = training_tables(trace)
    return energy_coverage(*tables, defaults=trace.once(defaults))


def configurations(trace: Trace, gpu: str, /) -> dict[str, pl.DataFrame]:
    """Return the feasible configurations of each data set on a GPU, if there are any."""
    runs, power = training_tables(trace)
    known = trace.once(defaults)
    found = {
        dataset: energy_to_accuracy(runs, power, gpu=gpu, dataset=dataset, defaults=known)
        for dataset in power.filter(gpu=gpu)["dataset"].unique().sort()
        if dataset in known
    }
    return {dataset: energy for dataset, energy in found.items() if energy.height}


def weights_of_energy(trace: Trace, gpu: str, dataset: str, /) -> pl.DataFrame:
    """Return the configuration of least cost by the weight of energy."""
    known = trace.once(defaults)
    tables = training_tables(trace)
    return eta_sweep(*tables, gpu=gpu, dataset=dataset, defaults=known)


def recurring_sweep(trace: Trace, /) -> pl.DataFrame:
    """Return the sweep of recurring jobs over every GPU, data set and ten seeds."""
    tables = training_tables(trace)
    return simulate.sweep_recurring(*tables, seeds=SEEDS, defaults=trace.once(defaults))


def recurring_seeds(trace: Trace, gpu: str, seeds: int, /) -> pl.DataFrame:
    """Return the sweep of the recurring jobs of one GPU over this number of seeds."""
    known = trace.once(defaults)
    tables = training_tables(trace)
    return simulate.sweep_recurring(*tables, gpus=gpu, seeds=range(seeds), defaults=known)


def recurring_policies(trace: Trace, gpu: str, dataset: str, /) -> list[RecurringResult]:
    """Return one recurring job under each policy."""
    runs, power = training_tables(trace)
    return [
        simulate.simulate_recurring(
            runs,
            power,
            gpu=gpu,
            dataset=dataset,
            policy=policy,
            defaults=trace.once(defaults),
        )
        for policy in POLICIES
    ]
