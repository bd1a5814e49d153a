"""Energy to accuracy and recurring jobs of a trace, shared by claims and sections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana import analysis, simulate

if TYPE_CHECKING:
    from traceana.results.recurring import RecurringResult
    from traceana.schema import TrainingDefault
    from traceana.store.session import Session

ENERGY_NEEDS: Final = (
    {
        "training_runs": ("dataset", "batch_size", "target_metric", "target_epoch"),
        "power_profiles": ("gpu", "dataset", "batch_size", "epoch_s", "mean_power_w"),
    },
)
"""What a trace needs for energy to accuracy."""
SEEDS: Final = range(10)
POLICIES: Final = ("zeus", "grid", "default")


def defaults(session: Session, trace: str, /) -> dict[str, TrainingDefault]:
    """Return the default target, batch size and epochs of each data set."""
    return analysis.training_defaults(*training_tables(session, trace))


def training_tables(session: Session, trace: str, /) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return training runs and power profiles."""
    runs, power = (
        session.scan(trace, table).collect() for table in ("training_runs", "power_profiles")
    )
    return runs, power


def shown_gpu(session: Session, trace: str, /) -> str:
    """Return the GPU with the most known data sets profiled and, among these, the most profiles."""
    power = session.scan(trace, "power_profiles")
    known = session.once(defaults, trace)
    ranked = (
        power.with_columns(known=pl.col("dataset").is_in(list(known)))
        .group_by("gpu")
        .agg(sets=pl.col("dataset").filter("known").n_unique(), rows=pl.col("known").sum())
        .sort("sets", "rows", "gpu")
        .collect()
    )
    return str(ranked["gpu"][-1])


def savings(session: Session, trace: str, /) -> pl.DataFrame:
    """Return the savings of each choice, on every GPU and data set."""
    tables = training_tables(session, trace)
    return analysis.energy_savings(*tables, defaults=session.once(defaults, trace))


def coverage(session: Session, trace: str, /) -> pl.DataFrame:
    """Return the batch sizes of every GPU and data set, and why some are not feasible."""
    tables = training_tables(session, trace)
    return analysis.energy_coverage(*tables, defaults=session.once(defaults, trace))


def configurations(session: Session, trace: str, gpu: str, /) -> dict[str, pl.DataFrame]:
    """Return the feasible configurations of each data set on a GPU, if there are any."""
    runs, power = training_tables(session, trace)
    known = session.once(defaults, trace)
    found = {
        dataset: analysis.energy_to_accuracy(runs, power, gpu=gpu, dataset=dataset, defaults=known)
        for dataset in power.filter(gpu=gpu)["dataset"].unique().sort()
        if dataset in known
    }
    return {dataset: energy for dataset, energy in found.items() if energy.height}


def weights_of_energy(session: Session, trace: str, gpu: str, dataset: str, /) -> pl.DataFrame:
    """Return the configuration of least cost by the weight of energy."""
    known = session.once(defaults, trace)
    tables = training_tables(session, trace)
    return analysis.eta_sweep(*tables, gpu=gpu, dataset=dataset, defaults=known)


def recurring_sweep(session: Session, trace: str, /) -> pl.DataFrame:
    """Return the sweep of recurring jobs over every GPU, data set and ten seeds."""
    tables = training_tables(session, trace)
    return simulate.sweep_recurring(*tables, seeds=SEEDS, defaults=session.once(defaults, trace))


def recurring_seeds(session: Session, trace: str, gpu: str, seeds: int, /) -> pl.DataFrame:
    """Return the sweep of the recurring jobs of one GPU over this number of seeds."""
    known = session.once(defaults, trace)
    tables = training_tables(session, trace)
    return simulate.sweep_recurring(*tables, gpus=gpu, seeds=range(seeds), defaults=known)


def recurring_policies(
    session: Session, trace: str, gpu: str, dataset: str, /
) -> list[RecurringResult]:
    """Return one recurring job under each policy."""
    runs, power = training_tables(session, trace)
    return [
        simulate.simulate_recurring(
            runs,
            power,
            gpu=gpu,
            dataset=dataset,
            policy=policy,
            defaults=session.once(defaults, trace),
        )
        for policy in POLICIES
    ]
