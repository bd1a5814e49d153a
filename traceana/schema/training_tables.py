"""Checked training runs and power profiles, with the defaults of the Zeus traces' data sets."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Final, TypeAlias

import dataframely as dy
import polars as pl

from traceana.errors import DataError
from traceana.schema.registry import get_table


@dataclass(frozen=True, kw_only=True)
class TrainingDefault:
    """How a data set is trained if nothing else is requested."""

    target: float
    """Validation metric to reach, as in target_metric."""
    batch_size: int
    """Default batch size b0; a GPU that was not profiled at it uses its largest one below."""
    max_epochs: int
    """Epochs after which a simulated run is stopped."""
    lower_is_harder: bool = False
    """Whether the metric is an error, so that a smaller target is reached later."""


TrainingDefaults: TypeAlias = Mapping[str, TrainingDefault]

TRAINING_DEFAULTS: Final[TrainingDefaults] = {
    "cifar100": TrainingDefault(target=0.6, batch_size=1024, max_epochs=100),
    "imagenet": TrainingDefault(target=0.65, batch_size=256, max_epochs=100),
    "librispeech": TrainingDefault(
        target=40.0, batch_size=256, max_epochs=16, lower_is_harder=True
    ),
    "movielens-1m": TrainingDefault(target=0.41, batch_size=1024, max_epochs=100),
    "sentiment140": TrainingDefault(target=0.84, batch_size=128, max_epochs=10),
    "squad": TrainingDefault(target=84.0, batch_size=32, max_epochs=6),
}
"""As the publisher states them; :func:`traceana.training_defaults` derives others."""

CONFIGURATION: Final = ["dataset", "network", "batch_size", "optimizer"]
"""Key that joins training runs and power profiles."""


@dataclass(frozen=True)
class TrainingTables:
    """Checked training runs and power profiles, and the defaults of their data sets."""

    training_runs: pl.DataFrame
    power_profiles: pl.DataFrame
    defaults: TrainingDefaults


def check_rows(name: str, rows: pl.DataFrame, /) -> pl.DataFrame:
    """Return the rows of a table in their order, cast to its declaration."""
    table = get_table(name)
    for column, declared in table.columns().items():
        dtype = rows.schema[column]
        if not (dtype.is_numeric() or dtype in (pl.String, pl.Null)):
            raise DataError(f"{name}: column {column} holds {dtype}; text or numbers are needed")
        if isinstance(declared, dy.Int64) and dtype.is_float() and (rows[column] % 1 != 0).any():
            raise DataError(f"{name}: column {column} holds fractions; whole numbers are needed")
    kept, broken = table.filter(rows, cast=True)
    if rules := broken.counts():
        rule, count = min(rules.items())
        raise DataError(f"{name}: {count} row(s) break the rule {rule!r}; leave them out")
    return kept


def check_eta(eta: float, /) -> None:
    """Refuse a weight outside [0, 1]."""
    if not (_is_number(eta) and 0 <= eta <= 1):
        raise DataError(f"eta must lie from 0 (time alone) to 1 (energy alone); it is {eta!r}")


def target_of(tables: TrainingTables, /, *, gpu: str, dataset: str, target: float | None) -> float:
    """Return the given target, or the data set's default, after checking all three names."""
    power = tables.power_profiles
    check_one_of("gpu", gpu, power["gpu"])
    check_one_of(f"dataset on {gpu}", dataset, power.filter(gpu=gpu)["dataset"])
    check_one_of("dataset of the training runs", dataset, tables.training_runs["dataset"])
    targets = tables.training_runs.filter(dataset=dataset)["target_metric"].unique().sort()
    if not (target is None or _is_number(target)):
        raise DataError(f"target must be a number or None; it is {target!r}")
    listed = ", ".join(f"{metric:g}" for metric in targets)
    if target is None:
        if dataset not in tables.defaults:
            raise DataError(f"{dataset} has no default target; set target= to one of {listed}")
        target = tables.defaults[dataset].target
    if not targets.is_close(target).any():
        raise DataError(f"no run of {dataset} has target {target!r}; found {listed}")
    return target


def check_one_of(what: str, name: str, values: pl.Series) -> None:
    """Refuse a name that is not there, and list those that are."""
    names = values.unique().sort().to_list()
    if not isinstance(name, str) or name not in names:
        listed = " ".join(", ".join(names).split())  # one line, whatever they hold
        raise DataError(f"{what}: {name!r} is unknown; found {listed or 'none'}")


def max_power_w(tables: TrainingTables, gpu: str, /) -> float:
    """Return the largest power limit that a GPU was profiled at, whatever the data set."""
    return float(max(tables.power_profiles.filter(gpu=gpu)["power_limit_w"]))


def trained_profiles(
    tables: TrainingTables, /, *, gpu: str, dataset: str, target: float
) -> pl.DataFrame:
    """Return a GPU's profiles of the (network, optimizer) that were trained to the target."""
    at_target = pl.col("target_metric").is_close(target)
    return tables.power_profiles.filter(gpu=gpu, dataset=dataset).join(
        tables.training_runs.filter(at_target, dataset=dataset),
        on=["network", "optimizer"],
        how="semi",
    )


def default_batch_size(profiles: pl.DataFrame, default: TrainingDefault, /) -> int:
    """Return the default batch size, reduced to the largest one of the profiles."""
    largest: int = max(profiles["batch_size"])
    return min(default.batch_size, largest)


def refuse_several_rates(runs: pl.DataFrame, /, *, dataset: str) -> None:
    """Refuse runs of one batch size with several learning rates."""
    rates = runs.group_by(CONFIGURATION).agg(rates=pl.col("learning_rate").unique().sort())
    several = rates.filter(pl.col("rates").list.len() > 1).sort("batch_size")
    if not several.is_empty():
        first = several.row(0, named=True)
        listed = ", ".join(f"{rate:g}" for rate in first["rates"])
        raise DataError(
            f"{dataset} at batch size {first['batch_size']} was trained with several learning "
            f"rates: {listed}; keep the runs of one"
        )


def refuse_several_kinds(joined: pl.DataFrame, /, *, gpu: str, dataset: str) -> None:
    """Refuse what was trained and profiled with several (network, optimizer)."""
    kinds = joined.select("network", "optimizer").unique().sort("network", "optimizer").rows()
    if len(kinds) > 1:
        raise DataError(
            f"{dataset} on {gpu} was trained and profiled with several (network, optimizer): "
            f"{', '.join('/'.join(kind) for kind in kinds)}; keep the rows of one"
        )


def _is_number(value: object) -> bool:
    with suppress(OverflowError):
        return not isinstance(value, bool) and isinstance(value, Real) and isfinite(value)
    return False
