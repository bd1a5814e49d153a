"""Training runs and power profiles, and a recurring job as they recorded it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.schema import TRAINING_DEFAULTS, TrainingDefaults, get_table
from traceana.schema.training_tables import (
    CONFIGURATION,
    TrainingTables,
    check_rows,
    default_batch_size,
    max_power_w,
    refuse_several_kinds,
    refuse_several_rates,
    target_of,
    trained_profiles,
)
from traceana.simulate.frames import read_clean
from traceana.stats.arguments import as_generator, is_number


class Epoch(NamedTuple):
    """One epoch at a batch size and power limit, as measured."""

    time_s: float
    mean_power_w: float
    energy_j: float


@dataclass(frozen=True)
class BatchTrace:
    """What is known of one batch size."""

    epochs: tuple[int | None, ...]
    """Epochs to the target of each run, in the trace's order; None: it never reached it."""
    limits: Mapping[float, Epoch]
    """An epoch by power limit in W, from the highest to the lowest."""
    profiling: Epoch
    """The first epoch of a run that profiles the limits: each limit has an equal part of it."""


@dataclass(frozen=True)
class JobTrace:
    """A data set trained to a target on a GPU: all that a policy and a simulation may know."""

    gpu: str
    dataset: str
    target: float
    """Which job it is."""
    default_batch_size: int
    """b0, cut to the largest batch size profiled on the GPU."""
    max_epochs: int
    """Epochs after which a run is given up."""
    max_power_w: float
    """The GPU's largest power limit: the power that time is weighed with."""
    batches: Mapping[int, BatchTrace]
    """By batch size, ascending: those both trained and profiled."""
    points_missing: int
    """(Batch size, power limit) of the trained or profiled batch sizes without data."""

    @property
    def power_limits_w(self) -> list[float]:
        """Every power limit of any batch size, from the highest to the lowest."""
        return sorted({limit for batch in self.batches.values() for limit in batch.limits})[::-1]

    def epochs(self, batch_size: int, /) -> float | None:
        """Return the mean epochs to the target; None if a run of the batch size misses it."""
        epochs = self.batches[batch_size].epochs
        reached = [each for each in epochs if each is not None and each <= self.max_epochs]
        return sum(reached) / len(reached) if len(reached) == len(epochs) else None

    def expected(self, batch_size: int, power_limit_w: float, /) -> tuple[float, float] | None:
        """Return mean energy (J) and time (s) to the target over the runs of a batch size."""
        mean = self.epochs(batch_size) if batch_size in self.batches else None
        if mean is None or power_limit_w not in self.batches[batch_size].limits:
            return None
        epoch = self.batches[batch_size].limits[power_limit_w]
        return mean * epoch.energy_j, mean * epoch.time_s

    def cost(self, energy_j: float, time_s: float, eta: float, /) -> float:
        """Return eta * energy + (1 - eta) * max_power * time, in J."""
        return eta * energy_j + (1 - eta) * self.max_power_w * time_s

    def best(self, eta: float, /) -> tuple[int, float] | None:
        """Return the feasible (batch size, power limit) of least expected cost."""
        costs = {
            (size, limit): self.cost(*expected, eta)
            for size, batch in self.batches.items()
            for limit in batch.limits
            if (expected := self.expected(size, limit)) is not None
        }
        return min(costs, key=costs.__getitem__) if costs else None


def read_tables(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    defaults: TrainingDefaults | None = None,
) -> TrainingTables:
    """Read both tables and check them against their declarations."""
    if not (defaults is None or isinstance(defaults, Mapping)):
        raise DataError(f"defaults must be a mapping by data set; it is {defaults!r}")
    return TrainingTables(
        read_table("training_runs", training_runs),
        read_table("power_profiles", power_profiles),
        TRAINING_DEFAULTS if defaults is None else defaults,
    )


def trained_batches(tables: TrainingTables, /, *, dataset: str, target: float) -> pl.DataFrame:
    """Return epochs to the target by (network, batch_size, optimizer), of all runs or null."""
    at_target = pl.col("target_metric").is_close(target)
    of_dataset = tables.training_runs.filter(dataset=dataset)
    refuse_several_rates(of_dataset, dataset=dataset)
    runs = of_dataset.group_by(*CONFIGURATION, "run", maintain_order=True).agg(
        known=at_target.any(), epochs=pl.col("target_epoch").filter(at_target).first()
    )
    epochs = pl.col("epochs")
    batches = runs.group_by(CONFIGURATION, maintain_order=True).agg(
        runs=pl.len().cast(pl.Int64),
        runs_reached=epochs.count().cast(pl.Int64),
        runs_unknown=(~pl.col("known")).sum().cast(pl.Int64),
        epochs_mean=epochs.mean(),
        epochs_std=epochs.std(ddof=1),
        epochs_min=epochs.min(),
        epochs_max=epochs.max(),
        epochs_of_runs=epochs.sort(),
    )
    all_reached = pl.col("runs_reached") == pl.col("runs")
    of_all = pl.when(all_reached).then(pl.col("^epochs_.*$")).name.keep()
    return batches.with_columns(of_all)


def read_table(name: str, frame: IntoFrame, /, *, times: Sequence[str] = ()) -> pl.DataFrame:
    """Read a table in its order and check it against its declaration; datetimes become seconds."""
    categories = pl.selectors.categorical() | pl.selectors.enum()
    rows = read_clean(frame, get_table(name).column_names(), name, numbers=times)
    return check_rows(name, rows.cast({categories: pl.String}))


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
            f"{gpu}; found {', '.join(map(str, batches))}"
        )
    return JobTrace(
        gpu=gpu,
        dataset=dataset,
        target=target,
        default_batch_size=default,
        max_epochs=max_epochs,
        max_power_w=max_power_w(tables, gpu),
        batches=batches,
        points_missing=_points_missing(runs, profiles),
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
    batches = {}
    for size in sorted(epochs):
        # plain means: time and energy of an epoch cut into equal parts, one per limit
        of_limits = zip(*limits[size].values(), strict=True)
        time_s, _, energy_j = (sum(values) / len(values) for values in of_limits)
        profiling = Epoch(time_s, energy_j / time_s, energy_j)
        batches[size] = BatchTrace(tuple(epochs[size]), limits[size], profiling)
    return batches


def _points_missing(runs: pl.DataFrame, profiles: pl.DataFrame) -> int:
    trained, profiled = (rows.select(CONFIGURATION).unique() for rows in (runs, profiles))
    batches = pl.concat([trained, profiled]).unique().height
    answered = profiles.join(trained, on=CONFIGURATION, how="semi").height
    return profiles["power_limit_w"].n_unique() * batches - answered
