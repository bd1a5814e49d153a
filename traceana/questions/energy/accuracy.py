"""Time, energy and cost of training to a target, by configuration and batch size (Zeus)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.questions.energy.tables import BatchSizeSweep, EnergyToAccuracy, EtaSweep
from traceana.schema import TrainingDefaults, training_tables
from traceana.simulate.recurring.read import read_tables, trained_batches
from traceana.tables.declare import declared, returns

_MEASURED: Final = ("batch_size", "power_limit_w", "tta_s", "eta_j")
_EPOCH: Final = ("epoch_s", "mean_power_w")
_NEEDED: Final = (*_MEASURED, "runs", "epochs_min", "epochs_max", *_EPOCH)


@returns(BatchSizeSweep)
def batch_size_sweep(energy: pl.DataFrame, /) -> pl.DataFrame:
    """Select the power limit of least energy for each batch size.

    Energy to accuracy against batch size is from Zeus (You et al., NSDI'23).

    Parameters
    ----------
    energy
        What :func:`energy_to_accuracy` returns.

    Returns
    -------
    DataFrame
        Sorted by limit and batch size. A batch size not profiled at the largest limit has no such
        row:
        {columns}

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> energy = traceana.energy_to_accuracy(runs, power, gpu="v100", dataset="cifar100")
    >>> found = traceana.batch_size_sweep(energy).filter(batch_size=1024)
    >>> found.select("limit", "power_limit_w").rows()
    [('best', 100.0), ('largest', 250.0)]
    """
    missing = [name for name in _NEEDED if name not in energy.columns]
    if missing:
        raise DataError(f"column {', '.join(missing)} is missing; give energy_to_accuracy's result")
    ordered = energy.sort("batch_size", "eta_j", "power_limit_w")
    limits = {
        "best": ordered.unique("batch_size", keep="first", maintain_order=True),
        "largest": ordered.filter(pl.col("power_limit_w") == pl.col("power_limit_w").max()),
    }
    swept = pl.concat(
        rows.select(pl.lit(limit).alias("limit"), pl.all()) for limit, rows in limits.items()
    )
    low, high = (pl.col(f"epochs_{end}") * pl.col("epoch_s") for end in ("min", "max"))
    power_w = pl.col("mean_power_w")
    ranges = {"tta_low_s": low, "tta_high_s": high}
    joules = {"eta_low_j": low * power_w, "eta_high_j": high * power_w}
    return declared(swept.with_columns(**ranges, **joules), BatchSizeSweep)


_UNITS = "epoch_s must be in s and mean_power_w in W"
_SPREAD = ("runs", "epochs_mean", "epochs_std", "epochs_min", "epochs_max")


@returns(EnergyToAccuracy)
def energy_to_accuracy(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str,
    dataset: str,
    target: float | None = None,
    eta: float = 0.5,
    defaults: TrainingDefaults | None = None,
) -> pl.DataFrame:
    """Compute time, energy and cost to a target accuracy.

    tta_s = epochs_mean * epoch_s; eta_j = tta_s * mean_power_w;
    cost_j = eta * eta_j + (1 - eta) * max_power * tta_s, with epochs_mean the mean of target_epoch
    over the runs of the batch size and max_power the largest power limit of the GPU in
    `power_profiles`, whatever the data set (Zeus, NSDI'23).

    A configuration is feasible if every run of its batch size reached the target and its epoch
    was measured. Runs and profiles are joined on (dataset, network, batch_size, optimizer);
    :func:`energy_coverage` lists what the join excludes.

    Parameters
    ----------
    training_runs, power_profiles
        The tables of those names; eager or lazy, of any supported engine.
    gpu, dataset
        Names of the GPU and the data set: as in the tables.
    target
        Value of target_metric; None: the default of the data set.
    eta
        Weight of energy against time in the cost, in [0, 1].
    defaults
        Defaults by data set, such as those of :func:`training_defaults`; None: those of the Zeus
        traces.

    Returns
    -------
    DataFrame
        Feasible configurations, sorted by batch size and power limit:
        {columns}

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> energy = traceana.energy_to_accuracy(runs, power, gpu="v100", dataset="cifar100")
    >>> energy.sort("cost_j").select("batch_size", "power_limit_w", "on_front").row(0)
    (128, 200.0, True)
    """
    training_tables.check_eta(eta)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    target = training_tables.target_of(tables, gpu=gpu, dataset=dataset, target=target)
    energy = feasible_configurations(tables, gpu=gpu, dataset=dataset, target=target, eta=eta)
    return declared(energy, EnergyToAccuracy)


def feasible_configurations(
    tables: training_tables.TrainingTables, /, *, gpu: str, dataset: str, target: float, eta: float
) -> pl.DataFrame:
    """Compute :func:`energy_to_accuracy` with the column epochs_of_runs, each run's epochs."""
    profiles = tables.power_profiles.filter(gpu=gpu)
    max_power = training_tables.max_power_w(tables, gpu)
    joined = trained_batches(tables, dataset=dataset, target=target).join(
        profiles, on=training_tables.CONFIGURATION, how="inner"
    )
    training_tables.refuse_several_kinds(joined, gpu=gpu, dataset=dataset)
    energy = (
        joined.filter(pl.col("runs_reached") == pl.col("runs"))
        .with_columns(tta_s=pl.col("epochs_mean") * pl.col("epoch_s"))
        .with_columns(eta_j=pl.col("tta_s") * pl.col("mean_power_w"))
        .with_columns(cost_j=eta * pl.col("eta_j") + (1 - eta) * max_power * pl.col("tta_s"))
        .sort("batch_size", "power_limit_w")
    )
    held = pl.col("eta_j", "cost_j")
    if not energy.select((held.is_finite() & (held > 0)).all()).row(0) == (True, True):
        raise DataError(f"energy of {dataset} on {gpu} is not a finite positive number: {_UNITS}")
    front = _on_front(energy)
    return energy.select(*_MEASURED, "cost_j", front, *_SPREAD, *_EPOCH, "epochs_of_runs")


def _on_front(energy: pl.DataFrame) -> pl.Series:
    time, joules = energy["tta_s"].to_numpy(), energy["eta_j"].to_numpy()
    # row: the point that may be dominated; column: the one that may dominate it. A grid is small.
    at_most = (time <= time[:, None]) & (joules <= joules[:, None])
    better = (time < time[:, None]) | (joules < joules[:, None])
    return pl.Series("on_front", ~np.any(at_most & better, axis=1))


@returns(EtaSweep)
def eta_sweep(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str,
    dataset: str,
    target: float | None = None,
    etas: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    defaults: TrainingDefaults | None = None,
) -> pl.DataFrame:
    """Find the configuration of least cost per weight of energy.

    cost_j = eta * eta_j + (1 - eta) * max_power * tta_s (Zeus, NSDI'23, section 3): eta 0 minimizes
    time, eta 1 energy. Savings are those over the default batch size at the largest power limit.

    Parameters
    ----------
    training_runs, power_profiles, gpu, dataset, target, defaults
        As in :func:`energy_to_accuracy`.
    etas
        Weights in [0, 1].

    Returns
    -------
    DataFrame
        One row per weight, in their order; savings are null if the default is not feasible:
        {columns}

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> found = traceana.eta_sweep(runs, power, gpu="v100", dataset="cifar100", etas=[0, 1])
    >>> found.select("eta", "batch_size", "power_limit_w").rows()
    [(0.0, 256, 150.0), (1.0, 128, 150.0)]
    """
    for eta in etas:
        training_tables.check_eta(eta)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    target = training_tables.target_of(tables, gpu=gpu, dataset=dataset, target=target)
    energy = feasible_configurations(tables, gpu=gpu, dataset=dataset, target=target, eta=1.0)
    if energy.is_empty():
        raise DataError(f"no configuration of {dataset} on {gpu} reaches {target:g} in every run")
    power_w = training_tables.max_power_w(tables, gpu)
    profiles = training_tables.trained_profiles(tables, gpu=gpu, dataset=dataset, target=target)
    default = energy.clear()
    if dataset in tables.defaults:
        size = training_tables.default_batch_size(profiles, tables.defaults[dataset])
        default = energy.filter(batch_size=size, power_limit_w=power_w)
    rows = []
    for eta in etas:
        cost = eta * pl.col("eta_j") + (1 - eta) * power_w * pl.col("tta_s")
        weighed = energy.with_columns(cost_j=cost).sort("cost_j", "batch_size", "power_limit_w")
        best = weighed.row(0, named=True)
        saved = {
            f"{name}_saved": None if default.is_empty() else 1 - best[column] / default[column][0]
            for name, column in (("energy", "eta_j"), ("time", "tta_s"))
        }
        rows.append({"eta": float(eta), **best, **saved})
    return declared(pl.DataFrame(rows, infer_schema_length=None), EtaSweep)
