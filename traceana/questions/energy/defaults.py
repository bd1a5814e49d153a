"""Default target, batch size and epochs of each data set, stated or derived from the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from traceana.schema import TRAINING_DEFAULTS
from traceana.schema.training_defaults import TrainingDefault
from traceana.simulate.recurring.energy_tables import read_tables

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def training_defaults(
    training_runs: IntoFrame, power_profiles: IntoFrame, /
) -> dict[str, TrainingDefault]:
    """Return the defaults of each data set that was trained and profiled.

    Stated defaults (:data:`traceana.schema.TRAINING_DEFAULTS`) apply if runs have their target.
    Otherwise the target is the hardest of those that the most batch sizes reached in every run. The
    batch size is the median of these, and max_epochs the largest epoch of any run. A metric is an
    error if larger targets are reached earlier.

    Parameters
    ----------
    training_runs, power_profiles
        As in :func:`energy_to_accuracy`.

    Examples
    --------
    >>> import traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> traceana.training_defaults(runs, power)["cifar100"]
    TrainingDefault(target=0.6, batch_size=1024, max_epochs=100, lower_is_harder=False)
    """
    tables = read_tables(training_runs, power_profiles)
    profiled = tables.power_profiles.select("dataset", "batch_size").unique()
    runs = tables.training_runs.join(profiled, on=["dataset", "batch_size"], how="semi")
    found = {}
    for (name,), rows in runs.sort("dataset").group_by("dataset", maintain_order=True):
        dataset = str(name)
        stated = TRAINING_DEFAULTS.get(dataset)
        if stated and rows["target_metric"].is_close(stated.target).any():
            found[dataset] = stated
        elif rows["target_epoch"].count():
            found[dataset] = _derive(rows)
    return found


def _derive(rows: pl.DataFrame) -> TrainingDefault:
    reached = rows.drop_nulls("target_epoch")
    slope = reached.select(pl.cov("target_metric", "target_epoch")).item()
    lower_is_harder = slope is not None and slope < 0
    batches = (
        rows.group_by("target_metric", "batch_size")
        .agg(every=pl.col("target_epoch").is_not_null().all(), any=pl.col("target_epoch").count())
        .group_by("target_metric")
        .agg(pl.col("every", "any").sum(), sizes=pl.col("batch_size").filter("every"))
        .sort("every", "any", pl.col("target_metric") * (-1 if lower_is_harder else 1))
    )
    best = batches.row(-1, named=True)
    sizes = sorted(best["sizes"] or reached["batch_size"].unique().to_list())
    return TrainingDefault(
        target=best["target_metric"],
        batch_size=sizes[(len(sizes) - 1) // 2],
        max_epochs=int(str(reached["target_epoch"].max())),
        lower_is_harder=lower_is_harder,
    )
