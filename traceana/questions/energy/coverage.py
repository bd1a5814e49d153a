"""Batch sizes that energy to accuracy covers, and why others are excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError
from traceana.questions.energy.tables import EnergyCoverage
from traceana.schema.training_tables import CONFIGURATION, TrainingTables, target_of
from traceana.simulate.recurring.energy_tables import read_tables, trained_batches
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.schema import TrainingDefaults


@returns(EnergyCoverage)
def energy_coverage(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    gpu: str | None = None,
    dataset: str | None = None,
    target: float | None = None,
    defaults: TrainingDefaults | None = None,
) -> pl.DataFrame:
    """List the batch sizes with energy measurements, and those without.

    Parameters
    ----------
    training_runs, power_profiles, target, defaults
        As in :func:`energy_to_accuracy`.
    gpu, dataset
        Names of the GPU and the data set; None: all that were trained and have defaults.

    Returns
    -------
    DataFrame
        One row per (network, optimizer, batch_size) that was trained or profiled, sorted by
        them; counts of what was not trained or profiled are 0:
        {columns}

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> found = traceana.energy_coverage(runs, power, gpu="v100", dataset="cifar100")
    >>> found["note"].value_counts(sort=True).rows()
    [(None, 10), ('profiled only', 10)]
    """
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    if gpu is not None and dataset is not None:
        pairs = [(gpu, dataset)]
    else:
        found = tables.power_profiles.select("gpu", "dataset").unique().sort("gpu", "dataset")
        trained = {*tables.training_runs["dataset"], *([] if dataset is None else [dataset])}
        pairs = [
            pair
            for pair in found.rows()
            if gpu in (None, pair[0])
            and dataset in (None, pair[1])
            and pair[1] in trained & set(tables.defaults)
        ]
    batches = [
        coverage(tables, gpu=one, dataset=name, target=goal)
        for one, name in pairs
        for goal in [target_of(tables, gpu=one, dataset=name, target=target)]
    ]
    if not batches:
        raise DataError("no data set of this GPU was trained and has a default target")
    return pl.concat(batches)


def coverage(tables: TrainingTables, /, *, gpu: str, dataset: str, target: float) -> pl.DataFrame:
    """Compute :func:`energy_coverage` of checked tables."""
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
    found = (
        batches.with_columns(note=note)
        .with_columns(
            counts.fill_null(0),
            power_limits_missing=grid - pl.col("power_limits").fill_null(0),
            feasible=pl.col("note").is_null(),
        )
        .with_columns(gpu=pl.lit(gpu), target=pl.lit(float(target)))
        .sort("network", "optimizer", "batch_size")
    )
    return declared(found, EnergyCoverage)
