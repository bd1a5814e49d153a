"""Read the data of a job from the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError
from traceana.schema.training_tables import (
    CONFIGURATION,
    TrainingTables,
    default_batch_size,
    max_power_w,
    refuse_several_kinds,
    refuse_several_rates,
    target_of,
    trained_profiles,
)
from traceana.simulate.recurring.energy_tables import read_table
from traceana.simulate.recurring.job import BatchTrace, Epoch, JobTrace
from traceana.stats.arguments import as_generator, is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame


def read_job(
    tables: TrainingTables, /, *, gpu: str, dataset: str, target: float | None = None
) -> JobTrace:
    """Return the data of a job."""
    if dataset in set(tables.training_runs["dataset"]) - set(tables.defaults):
        raise DataError(
            f"{dataset} has no default batch size; set defaults= (known: "
            f"{', '.join(tables.defaults)})"
        )
    target = target_of(tables, gpu=gpu, dataset=dataset, target=target)
    all_runs = tables.training_runs.filter(dataset=dataset)
    refuse_several_rates(all_runs, dataset=dataset)
    profiles = trained_profiles(tables, gpu=gpu, dataset=dataset, target=target)
    runs = all_runs.filter(pl.col("target_metric").is_close(target))
    joined = runs.join(profiles, on=CONFIGURATION, how="semi")
    if joined.is_empty():
        raise DataError(f"no batch size of {dataset} was both trained and profiled on {gpu}")
    refuse_several_kinds(joined, gpu=gpu, dataset=dataset)
    defaults = tables.defaults[dataset]
    max_epochs = defaults.max_epochs
    in_time = pl.col("target_epoch") <= max_epochs
    if joined.filter(in_time).is_empty():
        reached = all_runs.join(profiles, on=CONFIGURATION, how="semi").filter(in_time)
        metrics = ", ".join(f"{metric:g}" for metric in reached["target_metric"].unique().sort())
        raise DataError(
            f"no run of {dataset} on {gpu} reached target {target:g} in {max_epochs} epochs; "
            f"some run reached {metrics or 'none'}"
        )
    batches = _batches(joined, profiles)
    default = default_batch_size(profiles, defaults)
    if default not in batches:
        raise DataError(
            f"default batch size {default} of {dataset} was not both trained and profiled on "
            f"{gpu}; there is {', '.join(map(str, batches))}"
        )
    return JobTrace(
        gpu=gpu,
        dataset=dataset,
        target=target,
        default_batch_size=default,
        max_epochs=max_epochs,
        max_power_w=max_power_w(tables, gpu),
        batches=batches,
        gaps=_gaps(runs, profiles),
    )


def sample_training_path(
    training_runs: IntoFrame,
    /,
    *,
    dataset: str,
    network: str,
    batch_size: int,
    target: float,
    rng: int | np.random.Generator = 1,
) -> int | None:
    """Draw one training run of a configuration at random.

    Each run of the (data set, network, batch size) that has a row at the target is equally likely
    (Zeus, NSDI'23, trace-driven simulation).

    Parameters
    ----------
    training_runs
        The table of that name, of any supported engine.
    dataset, network, batch_size
        Values of the data set, the network and the batch size.
    target
        Value of target_metric.
    rng
        Seed or generator; a generator continues its stream from draw to draw.

    Returns
    -------
    int or None
        None if the drawn run never reached the target.

    Raises
    ------
    DataError
        If no run has the configuration and target.

    Examples
    --------
    >>> import traceana
    >>> runs = traceana.open_sample().scan("zeus-2023", "training_runs")
    >>> traceana.sample_training_path(
    ...     runs, dataset="cifar100", network="shufflenetv2", batch_size=1024, target=0.6
    ... )
    64
    """
    generator = as_generator(rng)
    table = read_table("training_runs", training_runs)
    numbers = is_number(batch_size, whole=True) and is_number(target)
    if not (isinstance(dataset, str) and isinstance(network, str) and numbers):
        raise DataError(
            "dataset and network must be text, batch_size a whole number and target a number; "
            f"found {dataset!r}, {network!r}, {batch_size!r} and {target!r}"
        )
    runs = table.filter(
        pl.col("target_metric").is_close(target),
        dataset=dataset,
        network=network,
        batch_size=batch_size,
    )
    if runs.is_empty():
        rows = table.select("dataset", "network", "batch_size").unique().sort(pl.all())
        listed = "; ".join(", ".join(map(str, row)) for row in rows.head(5).iter_rows())
        raise DataError(
            f"no run of {dataset}, {network}, {batch_size} has target {target!r}; among the "
            f"configurations are {listed or 'none'}"
        )
    epochs: int | None = runs["target_epoch"][int(generator.integers(runs.height))]
    return epochs


def _batches(runs: pl.DataFrame, profiles: pl.DataFrame) -> dict[int, BatchTrace]:
    epochs: dict[int, list[int | None]] = {}
    for size, epoch in runs.select("batch_size", "target_epoch").iter_rows():
        epochs.setdefault(size, []).append(epoch)
    limits: dict[int, dict[float, Epoch]] = {}
    measured = ("batch_size", "power_limit_w", "epoch_s", "mean_power_w")
    kinds = profiles.join(runs, on=CONFIGURATION, how="semi").sort("power_limit_w", descending=True)
    for size, limit, time_s, power_w in kinds.select(measured).iter_rows():
        limits.setdefault(size, {})[limit] = Epoch(time_s, power_w, time_s * power_w)
    return {
        size: BatchTrace(tuple(epochs[size]), limits[size], _profiling(limits[size]))
        for size in sorted(epochs)
    }


def _profiling(limits: Mapping[float, Epoch]) -> Epoch:
    # plain means: time and energy of an epoch cut into equal parts, one per limit
    time_s = sum(epoch.time_s for epoch in limits.values()) / len(limits)
    energy_j = sum(epoch.energy_j for epoch in limits.values()) / len(limits)
    return Epoch(time_s, energy_j / time_s, energy_j)


def _gaps(runs: pl.DataFrame, profiles: pl.DataFrame) -> pl.DataFrame:
    grid = profiles["power_limit_w"].n_unique()
    kind = ["network", "optimizer", "batch_size"]
    trained = runs.group_by(kind).agg(runs=pl.len().cast(pl.Int64))
    profiled = profiles.group_by(kind).agg(power_limits=pl.len().cast(pl.Int64))
    counts = pl.col("runs", "power_limits")
    note = (
        pl.when(pl.col("runs") == 0)
        .then(pl.lit("profiled only"))
        .when(pl.col("power_limits") == 0)
        .then(pl.lit("trained only"))
        .otherwise(pl.lit("not profiled at every power limit"))
    )
    trained_points = pl.when(pl.col("runs") > 0).then("power_limits").otherwise(0)
    return (
        trained.join(profiled, on=kind, how="full", coalesce=True)
        .with_columns(counts.fill_null(0))
        .select(
            "batch_size",
            "runs",
            "power_limits",
            points_missing=grid - trained_points,
            note=note,
        )
        .filter(pl.col("points_missing") > 0)
        .sort("batch_size")
    )
