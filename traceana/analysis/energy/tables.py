"""The two tables behind energy to accuracy: checked once, and the epochs that runs took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import dataframely as dy
import polars as pl

from traceana.analysis.frames import collect, open_frame
from traceana.errors import DataError
from traceana.schema import TRAINING_DEFAULTS, get_table
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

CONFIGURATION: Final = ["dataset", "network", "batch_size", "optimizer"]
"""What a training run and a power profile have in common: the key of their join."""


@dataclass(frozen=True)
class Tables:
    """Training runs and power profiles that keep their declarations."""

    training_runs: pl.DataFrame
    power_profiles: pl.DataFrame


def read_tables(training_runs: IntoFrame, power_profiles: IntoFrame, /) -> Tables:
    """Take both tables in and hold them to their declarations.

    Raises
    ------
    DataError
        If a column is missing or a row breaks a rule of its table.
    """
    return Tables(_read(training_runs, "training_runs"), _read(power_profiles, "power_profiles"))


def target_of(tables: Tables, /, *, gpu: str, dataset: str, target: float | None) -> float:
    """Return the target asked for, or the data set's default, after checking all three names.

    Raises
    ------
    DataError
        If the GPU, the data set or the target is not there; those that are, are listed.
    """
    power = tables.power_profiles
    _be_one_of("gpu", gpu, power["gpu"])
    _be_one_of(f"dataset on {gpu}", dataset, power.filter(gpu=gpu)["dataset"])
    _be_one_of("dataset of the training runs", dataset, tables.training_runs["dataset"])
    targets = tables.training_runs.filter(dataset=dataset)["target_metric"].unique().sort()
    if not (target is None or is_number(target)):
        raise DataError(f"target must be a number or None; it is {target!r}")
    listed = ", ".join(f"{metric:g}" for metric in targets)
    if target is None:
        if dataset not in TRAINING_DEFAULTS:
            raise DataError(f"{dataset} has no default target; give one of {listed}")
        target = TRAINING_DEFAULTS[dataset].target
    if not targets.is_close(target).any():
        raise DataError(f"no run of {dataset} has target {target!r}; there is {listed}")
    return target


def max_power_w(tables: Tables, gpu: str, /) -> float:
    """Return the largest power limit that a GPU was profiled at, whatever the data set."""
    return float(max(tables.power_profiles.filter(gpu=gpu)["power_limit_w"]))


def trained_batches(tables: Tables, /, *, dataset: str, target: float) -> pl.DataFrame:
    """Epochs to the target by batch size: one row a (network, batch_size, optimizer).

    A mean, a spread and an extreme are null unless every run reached the target.

    Raises
    ------
    DataError
        If a batch size has several learning rates.
    """
    at_target = pl.col("target_metric").is_close(target)
    runs = (
        tables.training_runs.filter(dataset=dataset)
        .group_by(*CONFIGURATION, "learning_rate", "run")
        .agg(
            known=at_target.any(),
            epochs=pl.col("target_epoch").filter(at_target).first(),
        )
    )
    epochs = pl.col("epochs")
    default = TRAINING_DEFAULTS.get(dataset)
    batches = runs.group_by(CONFIGURATION).agg(
        runs=pl.len().cast(pl.Int64),
        runs_reached=epochs.count().cast(pl.Int64),
        runs_unknown=(~pl.col("known")).sum().cast(pl.Int64),
        runs_past_max_epochs=(
            (epochs > default.max_epochs).sum().cast(pl.Int64)
            if default
            else pl.lit(None, pl.Int64)
        ),
        epochs_mean=epochs.mean(),
        epochs_std=epochs.std(ddof=1),
        epochs_min=epochs.min(),
        epochs_max=epochs.max(),
        epochs_of_runs=epochs.sort(),
        rates=pl.col("learning_rate").unique().sort(),
    )
    several = batches.filter(pl.col("rates").list.len() > 1).sort("batch_size")
    if not several.is_empty():
        first = several.row(0, named=True)
        rates = ", ".join(f"{rate:g}" for rate in first["rates"])
        raise DataError(
            f"{dataset} at batch size {first['batch_size']} was trained with several learning "
            f"rates: {rates}; keep the runs of one"
        )
    all_reached = pl.col("runs_reached") == pl.col("runs")
    of_all = pl.when(all_reached).then(pl.col("^epochs_.*$")).name.keep()
    return batches.drop("rates").with_columns(of_all)


def _read(frame: IntoFrame, name: str) -> pl.DataFrame:
    table = get_table(name)
    words = pl.selectors.categorical() | pl.selectors.enum()
    rows = collect(open_frame(frame, keys=table.column_names())).cast({words: pl.String})
    for column, declared in table.columns().items():
        found = rows.schema[column]
        if not (found.is_numeric() or found in (pl.String, pl.Null)):
            raise DataError(f"{name}: column {column} holds {found}; text or numbers are needed")
        if isinstance(declared, dy.Int64) and found.is_float() and (rows[column] % 1 != 0).any():
            raise DataError(f"{name}: column {column} holds fractions; whole numbers are needed")
    kept, broken = table.filter(rows, cast=True)
    if rules := broken.counts():
        rule, count = min(rules.items())
        raise DataError(f"{name}: {count} row(s) break the rule {rule!r}; leave them out")
    return kept


def _be_one_of(what: str, name: str, there: pl.Series) -> None:
    names = there.unique().sort().to_list()
    if name not in names:
        raise DataError(f"{what}: {name!r} is unknown; there is {', '.join(names) or 'none'}")
