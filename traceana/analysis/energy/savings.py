"""What choosing the batch size, the power limit or both would have saved against the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.analysis.energy.accuracy import configurations
from traceana.analysis.energy.coverage import coverage
from traceana.analysis.energy.resampling import (
    ratio_interval,
    resample_epochs,
    with_one_run,
)
from traceana.analysis.energy.tables import read_tables
from traceana.schema import TRAINING_DEFAULTS
from traceana.schema.training_tables import (
    TrainingTables,
    check_eta,
    default_batch_size,
    max_power_w,
    trained_profiles,
)
from traceana.stats.arguments import as_generator

if TYPE_CHECKING:
    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.analysis.energy.resampling import Factors

_OBJECTIVES: Final = {"energy": "eta_j", "cost": "cost_j"}
_CHOICES: Final = ("baseline", "batch_size", "power_limit", "both")
_MEASURED: Final = ("batch_size", "power_limit_w", "tta_s", "eta_j", "cost_j", "runs")
_SCHEMA: Final = {
    "gpu": pl.String,
    "dataset": pl.String,
    "target": pl.Float64,
    "objective": pl.String,
    "choice": pl.String,
    "batch_size": pl.Int64,
    "power_limit_w": pl.Float64,
    "tta_s": pl.Float64,
    "eta_j": pl.Float64,
    "cost_j": pl.Float64,
    "ratio": pl.Float64,
    "ratio_low": pl.Float64,
    "ratio_high": pl.Float64,
    "runs": pl.Int64,
    "note": pl.String,
}


def energy_savings(
    training_runs: IntoFrame,
    power_profiles: IntoFrame,
    /,
    *,
    eta: float = 0.5,
    rng: int | np.random.Generator = 1,
) -> pl.DataFrame:
    """Best batch size alone, best power limit alone and both, against the baseline.

    The baseline is (b0, the GPU's largest power limit), with b0 the data set's default batch size
    cut to the largest one profiled on that GPU. Each choice is the feasible configuration that
    needs the least energy, or costs least, when the batch size (at the largest power limit), the
    power limit (at b0) or both are free; of equals the smaller batch size, then the lower limit.

    Each ratio has a 95 % percentile interval of the bootstrap over training runs, 1000 resamples:
    as many runs are drawn with replacement, for each batch size apart, as it has, the baseline's
    too, and the best configuration is chosen anew in each resample. A batch size stays feasible,
    and time and power of an epoch were measured once: how they vary is not in it. Nor is the
    luck of the choice taken out, which makes ratio and interval too low by what it is worth. For
    the power limit alone epochs cancel, and the interval has no width; nor has it where all runs
    of what is compared take as many whole epochs, which is how finely epochs are counted.

    Parameters
    ----------
    training_runs, power_profiles, eta
        As in :func:`energy_to_accuracy`. Every data set is trained to its default target
        (:data:`traceana.schema.TRAINING_DEFAULTS`).
    rng
        Seed or generator; the same seed gives the same intervals for the same tables.

    Returns
    -------
    DataFrame
        Eight rows a (gpu, dataset) of `power_profiles`, sorted by them: [gpu, dataset, target,
        objective, choice, batch_size, power_limit_w, tta_s, eta_j, cost_j, ratio, ratio_low,
        ratio_high, runs, note].
        objective is "energy" or "cost", choice is "baseline", "batch_size", "power_limit" or
        "both"; ratio is the objective over the baseline's, so that 1 - ratio is saved. ratio is
        null where the baseline is not feasible, and all numbers are where no configuration of the
        choice is: note says why, and also where b0 was cut. runs counts those of the batch size
        chosen. Where it or b0 was trained once the interval is null; where another one that could
        be chosen was, that one has no spread in it: note says either.

    Raises
    ------
    DataError
        As :func:`energy_to_accuracy`, for what is wrong with a table or `eta`; or `rng` is neither.
    """
    check_eta(eta)
    random = as_generator(rng)
    tables = read_tables(training_runs, power_profiles)
    pairs = tables.power_profiles.select("gpu", "dataset").unique().sort("gpu", "dataset")
    rows = []
    streams = random.spawn(pairs.height)
    for (gpu, dataset), stream in zip(pairs.iter_rows(), streams, strict=True):
        open_to, note = _open_configurations(tables, gpu, dataset, eta)
        default = TRAINING_DEFAULTS.get(dataset)
        factors = resample_epochs(open_to["both"], stream) if len(open_to["both"]) else {}
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
    return pl.DataFrame(rows, schema=_SCHEMA)


def _open_configurations(
    tables: TrainingTables, gpu: str, dataset: str, eta: float
) -> tuple[dict[str, pl.DataFrame], str | None]:
    """Return what each choice may choose from, and what is to be said of it."""
    nothing: dict[str, pl.DataFrame] = dict.fromkeys(_CHOICES, pl.DataFrame())
    default = TRAINING_DEFAULTS.get(dataset)
    if default is None:
        return nothing, "no default target and batch size are known"
    profiles = trained_profiles(tables, gpu=gpu, dataset=dataset, target=default.target)
    if profiles.is_empty():
        return nothing, "what was profiled was not trained to the default target"
    batch_size = default_batch_size(profiles, dataset=dataset)
    power_limit_w = max_power_w(tables, gpu)
    notes = []
    if batch_size < default.batch_size:
        notes.append(f"default batch size {default.batch_size} cut to {batch_size}")
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
    once = with_one_run(among.vstack(baseline))
    said = [note] if note else []
    bounds: tuple[float | None, float | None] = (None, None)
    if missing := [str(batch_size) for batch_size in once if batch_size in compared]:
        said.append(f"no interval: trained once at batch size {', '.join(missing)}")
    else:
        bounds = ratio_interval(among, baseline, column, factors)
        if once:
            said.append(f"no spread at batch size {', '.join(map(str, once))}: trained once")
    low, high = bounds
    return {"ratio_low": low, "ratio_high": high, "note": "; ".join(said) or None}


def _best(energy: pl.DataFrame, column: str) -> dict[str, float]:
    """Return the configuration that is best by a column, {} of none."""
    if energy.is_empty():
        return {}
    best = energy.sort(column, "batch_size", "power_limit_w").row(0, named=True)
    return {name: best[name] for name in _MEASURED}
