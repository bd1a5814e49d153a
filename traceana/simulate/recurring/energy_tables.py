"""Training runs and power profiles, and the epochs that runs took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError
from traceana.schema import TRAINING_DEFAULTS, TrainingDefaults, get_table
from traceana.schema.training_tables import (
    CONFIGURATION,
    TrainingTables,
    check_rows,
    refuse_several_rates,
)
from traceana.store.frames import admit_columns, clean_columns, collect

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


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
    """Epochs to the target by batch size: one row per (network, batch_size, optimizer).

    A mean, a spread and an extreme are null unless every run reached the target.
    """
    at_target = pl.col("target_metric").is_close(target)
    of_dataset = tables.training_runs.filter(dataset=dataset)
    refuse_several_rates(of_dataset, dataset=dataset)
    runs = of_dataset.group_by(*CONFIGURATION, "run", maintain_order=True).agg(
        known=at_target.any(),
        epochs=pl.col("target_epoch").filter(at_target).first(),
    )
    epochs = pl.col("epochs")
    default = tables.defaults.get(dataset)
    batches = runs.group_by(CONFIGURATION, maintain_order=True).agg(
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
    )
    all_reached = pl.col("runs_reached") == pl.col("runs")
    of_all = pl.when(all_reached).then(pl.col("^epochs_.*$")).name.keep()
    return batches.with_columns(of_all)


def read_table(name: str, frame: IntoFrame, /, *, times: Sequence[str] = ()) -> pl.DataFrame:
    """Read a table in its order and check it against its declaration; datetimes become seconds."""
    categories = pl.selectors.categorical() | pl.selectors.enum()
    columns = get_table(name).column_names()
    try:
        rows = collect(clean_columns(admit_columns(frame, columns), times))
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    return check_rows(name, rows.cast({categories: pl.String}))
