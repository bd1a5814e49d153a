"""Savings of the best batch size, power limit or both against the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import polars as pl

from traceana.analysis.energy.accuracy import configurations
from traceana.analysis.energy.coverage import coverage
from traceana.analysis.energy.tables import read_tables
from traceana.results.energy import EnergySavings
from traceana.results.tables import returns, schema_of
from traceana.schema.training_tables import (
    TrainingTables,
    check_eta,
    default_batch_size,
    max_power_w,
    trained_profiles,
)
from traceana.stats.arguments import as_generator
from traceana.stats.bootstrap import RESAMPLES

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    from traceana.schema import TrainingDefaults

    Factors: TypeAlias = dict[int, NDArray[np.float64]]

_OBJECTIVES: Final = {"energy": "eta_j", "cost": "cost_j"}
_CHOICES: Final = ("baseline", "batch_size", "power_limit", "both")
_MEASURED: Final = ("batch_size", "power_limit_w", "tta_s", "eta_j", "cost_j", "runs")


@returns(EnergySavings)
def energy_savings(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    eta: float = 0.5,
    rng: int | np.random.Generator = 1,
    defaults: TrainingDefaults | None = None,
) -> pl.DataFrame:
    """Compute savings of the best batch size, power limit or both against the baseline.

    The baseline is (b0, the largest power limit of the GPU), with b0 the default batch size of
    the data set, reduced to the largest one profiled on that GPU. Each choice is the feasible
    configuration of least energy or cost if the batch size (at the largest power limit), the
    power limit (at b0) or both are free; ties go to the smaller batch size, then the lower limit.

    Each ratio has a 95 % percentile interval of the bootstrap over training runs (1000 resamples
    within each batch size; the best configuration is chosen anew in each). Time and power of an
    epoch were measured once: their variation is not included. Choosing the best of many
    configurations biases ratio and interval downward. For the power limit alone the epochs
    cancel, and the interval has no width.

    Parameters
    ----------
    training_runs, power_profiles, eta
        As in :func:`energy_to_accuracy`. Every data set is trained to its default target.
    rng
        Seed or generator of the bootstrap.
    defaults
        As in :func:`energy_to_accuracy`.

    Returns
    -------
    DataFrame
        Eight rows per (gpu, dataset) of `power_profiles`, sorted by them. ratio is null where the
        baseline is not feasible, the interval also where a compared batch size was trained once:

        {columns}

    Raises
    ------
    DataError
        As :func:`energy_to_accuracy`, for what is wrong with a table or `eta`; or `rng` is neither.
    """
    check_eta(eta)
    random = as_generator(rng)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    pairs = tables.power_profiles.select("gpu", "dataset").unique().sort("gpu", "dataset")
    rows = []
    streams = random.spawn(pairs.height)
    for (gpu, dataset), stream in zip(pairs.iter_rows(), streams, strict=True):
        open_to, note = _open_configurations(tables, gpu, dataset, eta)
        default = tables.defaults.get(dataset)
        factors = _resample_epochs(open_to["both"], stream) if len(open_to["both"]) else {}
        for objective, column in _OBJECTIVES.items():
            best = {choice: _best(open_to[choice], column) for choice in _CHOICES}
            least = best["baseline"].get(column)
            rows += [
                {
                    "gpu": gpu,
                    "dataset": dataset,
                    "target": default and default.target,
                    "objective": objective,
                    "choice": choice,
                    **row,
                    "ratio": row[column] / least if row and least else None,
                    **_interval(open_to, choice, column, factors, note),
                }
                for choice, row in best.items()
            ]
    return pl.DataFrame(rows, schema=schema_of(EnergySavings))


def _open_configurations(
    tables: TrainingTables, gpu: str, dataset: str, eta: float
) -> tuple[dict[str, pl.DataFrame], str | None]:
    """Return what each choice may choose from, and what is to be said of it."""
    nothing: dict[str, pl.DataFrame] = dict.fromkeys(_CHOICES, pl.DataFrame())
    default = tables.defaults.get(dataset)
    if default is None:
        return nothing, "no default target and batch size are known"
    profiles = trained_profiles(tables, gpu=gpu, dataset=dataset, target=default.target)
    if profiles.is_empty():
        return nothing, "what was profiled was not trained to the default target"
    batch_size = default_batch_size(profiles, default)
    power_limit_w = max_power_w(tables, gpu)
    notes = []
    if batch_size < default.batch_size:
        notes.append(f"default batch size {default.batch_size} reduced to {batch_size}")
    energy = configurations(tables, gpu=gpu, dataset=dataset, target=default.target, eta=eta)
    baseline = energy.filter(batch_size=batch_size, power_limit_w=power_limit_w)
    if baseline.is_empty():
        batches = coverage(tables, gpu=gpu, dataset=dataset, target=default.target).join(
            profiles, on=["network", "optimizer"], how="semi"
        )
        said = batches.filter(batch_size=batch_size)["note"].drop_nulls().to_list()
        why = said[0] if said else f"not profiled at {power_limit_w:g} W"
        notes.append(f"no baseline at batch size {batch_size}: {why}")
    open_to = {
        "baseline": baseline,
        "batch_size": energy.filter(power_limit_w=power_limit_w),
        "power_limit": energy.filter(batch_size=batch_size),
        "both": energy,
    }
    return open_to, "; ".join(notes) or None


def _interval(
    open_to: dict[str, pl.DataFrame],
    choice: str,
    column: str,
    factors: Factors,
    note: str | None,
) -> dict[str, object]:
    """Return the ratio's interval, and the note with what keeps it from being one."""
    among, baseline = open_to[choice], open_to["baseline"]
    if among.is_empty() or baseline.is_empty():
        return {"note": note}
    compared = (_best(among, column)["batch_size"], _best(baseline, column)["batch_size"])
    once = among.vstack(baseline).filter(runs=1)["batch_size"].unique().sort().to_list()
    said = [note] if note else []
    bounds: tuple[float | None, float | None] = (None, None)
    if missing := [str(batch_size) for batch_size in once if batch_size in compared]:
        said.append(f"no interval: trained once at batch size {', '.join(missing)}")
    else:
        bounds = _ratio_interval(among, baseline, column, factors)
        if once:
            said.append(f"no spread at batch size {', '.join(map(str, once))}: trained once")
    low, high = bounds
    return {"ci_low": low, "ci_high": high, "note": "; ".join(said) or None}


def _resample_epochs(energy: pl.DataFrame, random: np.random.Generator) -> Factors:
    """Return, by batch size, the mean epochs of resampled runs over those of all of its runs."""
    batches = energy.select("batch_size", "epochs_of_runs").unique("batch_size").sort("batch_size")
    factors = {}
    for batch_size, epochs in batches.iter_rows():
        drawn = random.choice(np.asarray(epochs, dtype=float), size=(RESAMPLES, len(epochs)))
        factors[batch_size] = drawn.mean(axis=1) / np.mean(epochs)
    return factors


def _ratio_interval(
    among: pl.DataFrame, baseline: pl.DataFrame, column: str, factors: Factors
) -> tuple[float, float]:
    """Return the 95 % percentile interval of the least of `among` over the baseline.

    Energy and cost are proportional to epochs, so that a resample is a factor a batch size.
    """

    def needed(energy: pl.DataFrame) -> NDArray[np.float64]:
        of_each = [factors[b] * value for b, value in energy[["batch_size", column]].iter_rows()]
        least: NDArray[np.float64] = np.min(of_each, axis=0)
        return least

    low, high = np.quantile(needed(among) / needed(baseline), [0.025, 0.975])
    return float(low), float(high)


def _best(energy: pl.DataFrame, column: str) -> dict[str, float]:
    """Return the configuration that is best by a column, {} of none."""
    if energy.is_empty():
        return {}
    best = energy.sort(column, "batch_size", "power_limit_w").row(0, named=True)
    return {name: best[name] for name in _MEASURED}
