"""Which batch sizes can be judged by energy to accuracy, and what falls out of the join."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.energy.tables import read_tables, trained_batches
from traceana.schema.training_tables import CONFIGURATION, TrainingTables, target_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def energy_coverage(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str,
    dataset: str,
    target: float | None = None,
) -> pl.DataFrame:
    """Which batch sizes can be judged on a GPU, and why the others cannot.

    Parameters
    ----------
    training_runs, power_profiles, gpu, dataset, target
        As in :func:`~traceana.analysis.energy_to_accuracy`.

    Returns
    -------
    DataFrame
        One row a (network, optimizer, batch_size) that was trained or profiled, sorted by them:
        [gpu, dataset, target, network, optimizer, batch_size, runs, runs_reached, runs_unknown,
        runs_past_max_epochs, power_limits, power_limits_missing, feasible, note].

        - runs_unknown: runs without a row at the target.
        - runs_past_max_epochs: runs that reached it later than the data set's max_epochs. They
          count as reached: the trace followed them so far, where a simulator would have given up.
          Null where no max_epochs is known.
        - power_limits_missing: of the limits that this GPU and data set were profiled at, those
          this batch size was not.
        - note: null where feasible; else the first that applies of "profiled only", "trained only",
          "a run never reached the target" and "a run has no row at the target".

        Counts of what was not trained, or not profiled, are 0.

    Raises
    ------
    DataError
        As :func:`~traceana.analysis.energy_to_accuracy`, except for several (network, optimizer).
    """
    tables = read_tables(training_runs, power_profiles)
    target = target_of(tables, gpu=gpu, dataset=dataset, target=target)
    return coverage(tables, gpu=gpu, dataset=dataset, target=target)


def coverage(tables: TrainingTables, /, *, gpu: str, dataset: str, target: float) -> pl.DataFrame:
    """Do what :func:`energy_coverage` does, on tables that were read and checked."""
    profiles = tables.power_profiles.filter(gpu=gpu, dataset=dataset)
    grid = profiles["power_limit_w"].n_unique()
    profiled = profiles.group_by(CONFIGURATION).agg(power_limits=pl.len().cast(pl.Int64))
    batches = trained_batches(tables, dataset=dataset, target=target).join(
        profiled, on=CONFIGURATION, how="full", coalesce=True
    )
    note = (
        pl.when(pl.col("runs").is_null())
        .then(pl.lit("profiled only"))
        .when(pl.col("power_limits").is_null())
        .then(pl.lit("trained only"))
        .when(pl.col("runs_reached") + pl.col("runs_unknown") < pl.col("runs"))
        .then(pl.lit("a run never reached the target"))
        .when(pl.col("runs_unknown") > 0)
        .then(pl.lit("a run has no row at the target"))
    )
    counts = pl.col("runs", "runs_reached", "runs_unknown", "power_limits")
    return (
        batches.with_columns(note=note)
        .with_columns(
            counts.fill_null(0),
            power_limits_missing=grid - pl.col("power_limits").fill_null(0),
            feasible=pl.col("note").is_null(),
        )
        .select(
            pl.lit(gpu).alias("gpu"),
            *("dataset", pl.lit(target).alias("target"), "network", "optimizer", "batch_size"),
            *("runs", "runs_reached", "runs_unknown", "runs_past_max_epochs"),
            *("power_limits", "power_limits_missing", "feasible", "note"),
        )
        .sort("network", "optimizer", "batch_size")
    )
