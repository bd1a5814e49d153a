"""Energy to accuracy and recurring jobs of a trace, shared by claims and sections."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import polars as pl

from traceana import simulate
from traceana.questions.energy.accuracy import energy_to_accuracy, eta_sweep
from traceana.questions.energy.savings import energy_coverage, energy_savings
from traceana.schema import TRAINING_DEFAULTS, TrainingDefault
from traceana.simulate.recurring.read import read_tables

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.simulate.recurring.tables import RecurringResult
    from traceana.store import Trace

T = TypeVar("T")


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
    >>> trace = store.trace(*store.traces("power_profiles"))
    >>> runs, power = (trace.scan(t) for t in ("training_runs", "power_profiles"))
    >>> traceana.training_defaults(runs, power)["cifar100"]
    TrainingDefault(target=0.6, batch_size=1024, max_epochs=100, lower_is_harder=False)
    """
    tables = read_tables(training_runs, power_profiles)
    profiled = tables.power_profiles.select("dataset", "batch_size").unique()
    runs = tables.training_runs.join(profiled, on=["dataset", "batch_size"], how="semi")
    defaults_by_job = {}
    for (name,), rows in runs.sort("dataset").group_by("dataset", maintain_order=True):
        dataset = str(name)
        stated = TRAINING_DEFAULTS.get(dataset)
        if stated and rows["target_metric"].is_close(stated.target).any():
            defaults_by_job[dataset] = stated
        elif rows["target_epoch"].count():
            defaults_by_job[dataset] = _derive(rows)
    return defaults_by_job


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


ENERGY_NEEDS: Final = (
    {
        "training_runs": ("dataset", "batch_size", "target_metric", "target_epoch"),
        "power_profiles": ("gpu", "dataset", "batch_size", "epoch_s", "mean_power_w"),
    },
)
"""What a trace needs for energy to accuracy."""
SEEDS: Final = range(10)
POLICIES: Final = ("zeus", "grid", "default")


def defaults(trace: Trace, /) -> dict[str, TrainingDefault]:
    """Return the default target, batch size and epochs of each data set."""
    return training_defaults(*training_tables(trace))


def training_tables(trace: Trace, /) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return training runs and power profiles."""
    runs, power = (trace.scan(table).collect() for table in ("training_runs", "power_profiles"))
    return runs, power


def _of(trace: Trace, function: Callable[..., T], /, **options: Any) -> T:  # noqa: ANN401
    """Return what a function of both tables returns for a trace and its defaults."""
    return function(*training_tables(trace), defaults=trace.once(defaults), **options)


def shown_gpu(trace: Trace, /) -> str:
    """Return the GPU with the most known data sets profiled and, among these, the most profiles."""
    power = trace.scan("power_profiles")
    result = trace.once(defaults)
    ranked = (
        power.with_columns(known=pl.col("dataset").is_in(list(result)))
        .group_by("gpu")
        .agg(sets=pl.col("dataset").filter("known").n_unique(), rows=pl.col("known").sum())
        .sort("sets", "rows", "gpu")
        .collect()
    )
    return str(ranked["gpu"][-1])


def savings(trace: Trace, /) -> pl.DataFrame:
    """Return the savings of each choice, on every GPU and data set."""
    return _of(trace, energy_savings)


def coverage(trace: Trace, /) -> pl.DataFrame:
    """Return the batch sizes of every GPU and data set, and why some are not feasible."""
    return _of(trace, energy_coverage)


def configurations(trace: Trace, gpu: str, /) -> dict[str, pl.DataFrame]:
    """Return the feasible configurations of each data set on a GPU, if there are any."""
    profiled = training_tables(trace)[1].filter(gpu=gpu)["dataset"].unique().sort()
    configured = {
        dataset: _of(trace, energy_to_accuracy, gpu=gpu, dataset=dataset)
        for dataset in profiled
        if dataset in trace.once(defaults)
    }
    return {dataset: energy for dataset, energy in configured.items() if energy.height}


def weights_of_energy(trace: Trace, gpu: str, dataset: str, /) -> pl.DataFrame:
    """Return the configuration of least cost by the weight of energy."""
    return _of(trace, eta_sweep, gpu=gpu, dataset=dataset)


def recurring_sweep(trace: Trace, /) -> pl.DataFrame:
    """Return the sweep of recurring jobs over every GPU, data set and ten seeds."""
    return _of(trace, simulate.sweep_recurring, seeds=SEEDS)


def recurring_seeds(trace: Trace, gpu: str, seeds: int, /) -> pl.DataFrame:
    """Return the sweep of the recurring jobs of one GPU over this number of seeds."""
    return _of(trace, simulate.sweep_recurring, gpus=gpu, seeds=range(seeds))


def recurring_policies(trace: Trace, gpu: str, dataset: str, /) -> list[RecurringResult]:
    """Return one recurring job under each policy."""
    return [
        _of(trace, simulate.simulate_recurring, gpu=gpu, dataset=dataset, policy=policy)
        for policy in POLICIES
    ]
