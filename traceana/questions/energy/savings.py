"""Savings relative to the default, covered batch sizes, and the results of a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import stdtrit

from traceana import simulate
from traceana.errors import DataError
from traceana.questions.energy.accuracy import (
    energy_to_accuracy,
    eta_sweep,
    feasible_configurations,
)
from traceana.questions.energy.tables import EnergyCoverage, EnergySavings
from traceana.schema import TRAINING_DEFAULTS, TrainingDefault, TrainingDefaults
from traceana.schema import training_tables as training
from traceana.simulate.recurring.read import read_tables, trained_batches
from traceana.simulate.recurring.tables import RecurringResult
from traceana.stats.arguments import as_generator
from traceana.stats.arrays import Floats
from traceana.store import Trace
from traceana.tables.declare import declared, returns, schema_of


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
        table = tables.power_profiles.select("gpu", "dataset").unique().sort("gpu", "dataset")
        trained = {*tables.training_runs["dataset"], dataset} & {*tables.defaults}
        pairs = [
            (of, name)
            for of, name in table.rows()
            if gpu in (None, of) and dataset in (None, name) and name in trained
        ]
    batches = []
    for of, name in pairs:
        goal = training.target_of(tables, gpu=of, dataset=name, target=target)
        batches.append(_coverage_of(tables, gpu=of, dataset=name, target=goal))
    if not batches:
        raise DataError("no data set of this GPU was trained and has a default target")
    return pl.concat(batches)


def _coverage_of(
    tables: training.TrainingTables, /, *, gpu: str, dataset: str, target: float
) -> pl.DataFrame:
    """Compute :func:`energy_coverage` of checked tables."""
    profiles = tables.power_profiles.filter(gpu=gpu, dataset=dataset)
    grid = profiles["power_limit_w"].n_unique()
    profiled = profiles.group_by(training.CONFIGURATION).agg(power_limits=pl.len().cast(pl.Int64))
    batches = trained_batches(tables, dataset=dataset, target=target).join(
        profiled, on=training.CONFIGURATION, how="full", coalesce=True
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
    table = batches.with_columns(
        counts.fill_null(0),
        power_limits_missing=grid - pl.col("power_limits").fill_null(0),
        note=note,
        feasible=note.is_null(),
        gpu=pl.lit(gpu),
        target=pl.lit(float(target)),
    )
    return declared(table.sort("network", "optimizer", "batch_size"), EnergyCoverage)


_OBJECTIVES: Final = {"energy": "eta_j", "cost": "cost_j"}
_CHOICES: Final = ("baseline", "batch_size", "power_limit", "both")
_PARTITIONS: Final = 100
_MIN_RUNS: Final = 3
_FEW_RUNS: Final = 8
_FEWEST_LIMITS: Final = 5
_FAR: Final = 1.1  # measured over predicted cost of a limit from which the prediction fails
_MEASURED: Final = ("batch_size", "power_limit_w", "tta_s", "eta_j", "cost_j", "runs")


class Fold(NamedTuple):
    """Epochs of the runs of a batch size, and of its held-out and other runs by partition."""

    epochs: Floats
    held: Floats
    kept: Floats


Folds: TypeAlias = dict[int, Fold]


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
    """Compute energy savings of the best batch size and power limit.

    The baseline is (b0, the largest power limit of the GPU), with b0 the default batch size of the
    data set, reduced to the largest one profiled on that GPU. Each choice is the feasible
    configuration of least energy or cost if the batch size (at the largest power limit), the power
    limit (at b0) or both are free. Ties go to the smaller batch size, then the lower limit.

    The best of many noisy configurations is partly best by chance, so that `ratio` is biased
    downward. `ratio_held_out` is less so (cross-validation, Stone, JRSS B 36, 1974): a batch size
    is chosen without one run of each, and its ratio is of the runs held out; a power limit is
    chosen by its cost as predicted from the others (a parabola of the logarithms, from five limits
    on). It is the geometric mean over 100 random partitions; its 95 % interval is Welch's for the
    mean logarithms of the epochs (Biometrika 34, 1947), with the noise of two measurements about
    such parabolas. Every data set is trained to its default target.

    Parameters
    ----------
    training_runs, power_profiles, eta, defaults
        As in :func:`energy_to_accuracy`.
    rng
        Seed or generator of the partitions.

    Returns
    -------
    DataFrame
        Eight rows per (gpu, dataset) of `power_profiles`, sorted by them. ratio is null where the
        baseline is not feasible, the interval also below three runs of a compared batch size:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> store = traceana.open_sample()
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    >>> found = traceana.energy_savings(runs, power)
    >>> found = found.filter(gpu="v100", dataset="cifar100", objective="energy")
    >>> found.select("choice", "batch_size", "power_limit_w", pl.col("ratio").round(1)).rows()[1:]
    [('batch_size', 128, 250.0, 0.3), ('power_limit', 1024, 100.0, 0.9), ('both', 128, 150.0, 0.3)]
    """
    training.check_eta(eta)
    random = as_generator(rng)
    tables = read_tables(training_runs, power_profiles, defaults=defaults)
    pairs = tables.power_profiles.select("gpu", "dataset").unique().sort("gpu", "dataset")
    rows = []
    streams = random.spawn(pairs.height)
    for (gpu, dataset), stream in zip(pairs.iter_rows(), streams, strict=True):
        open_to, note = _open_configurations(tables, gpu, dataset, eta)
        default = tables.defaults.get(dataset)
        folds = _partition_runs(open_to["both"], stream) if len(open_to["both"]) else {}
        for objective, column in _OBJECTIVES.items():
            least = _best(open_to["baseline"], column).get(column)
            noise = _noise_of_epochs(open_to["both"], column) if folds else (0.0, 0)
            for choice in _CHOICES:
                row: dict[str, Any] = _best(open_to[choice], column)
                row["ratio"] = row[column] / least if row and least else None
                row |= {"gpu": gpu, "dataset": dataset, "target": default and default.target}
                row |= {"objective": objective, "choice": choice}
                rows.append(row | _interval(open_to, choice, column, (folds, noise), note))
    return pl.DataFrame(rows, schema=schema_of(EnergySavings))


def _open_configurations(
    tables: training.TrainingTables, gpu: str, dataset: str, eta: float
) -> tuple[dict[str, pl.DataFrame], str | None]:
    """Return the configurations that each choice selects from, and its note."""
    nothing: dict[str, pl.DataFrame] = dict.fromkeys(_CHOICES, pl.DataFrame())
    default = tables.defaults.get(dataset)
    if default is None:
        return nothing, "no default target and batch size are known"
    profiles = training.trained_profiles(tables, gpu=gpu, dataset=dataset, target=default.target)
    if profiles.is_empty():
        return nothing, "what was profiled was not trained to the default target"
    batch_size = training.default_batch_size(profiles, default)
    power_limit_w = training.max_power_w(tables, gpu)
    notes = []
    if batch_size < default.batch_size:
        notes.append(f"default batch size {default.batch_size} reduced to {batch_size}")
    energy = feasible_configurations(
        tables, gpu=gpu, dataset=dataset, target=default.target, eta=eta
    )
    baseline = energy.filter(batch_size=batch_size, power_limit_w=power_limit_w)
    if baseline.is_empty():
        batches = _coverage_of(tables, gpu=gpu, dataset=dataset, target=default.target)
        batches = batches.join(profiles, on=["network", "optimizer"], how="semi")
        reasons = batches.filter(batch_size=batch_size)["note"].drop_nulls().to_list()
        why = reasons[0] if reasons else f"not profiled at {power_limit_w:g} W"
        notes.append(f"no baseline at batch size {batch_size}: {why}")
    open_to = {"baseline": baseline, "both": energy}
    open_to["batch_size"] = energy.filter(power_limit_w=power_limit_w)
    open_to["power_limit"] = energy.filter(batch_size=batch_size)
    return open_to, "; ".join(notes) or None


def _interval(
    open_to: dict[str, pl.DataFrame],
    choice: str,
    column: str,
    spread: tuple[Folds, tuple[float, int]],
    note: str | None,
) -> dict[str, object]:
    """Return the held-out ratio, its interval, and the note with why there is none."""
    among, baseline = open_to[choice], open_to["baseline"]
    folds, noise = spread
    if among.is_empty() or baseline.is_empty():
        return {"note": note}
    best, default = (int(_best(part, column)["batch_size"]) for part in (among, baseline))
    once = [size for size in among["batch_size"].unique().sort() if len(folds[size].epochs) == 1]
    alone = _listed({*once} & {best, default})
    left_out = _listed({*once} - {best, default})
    values: dict[str, float] = {}
    why = f"no interval: trained once at batch size {alone}"
    if not alone:
        ratio, always = _held_out_ratio(among, baseline, column, folds)
        if choice == "baseline":
            why = ""
        else:
            other = best
            if best == default and not always:
                # a default that is chosen only here and there is compared with the next best
                others = among.filter(pl.col("batch_size") != default)
                other = int(_best(others, column)["batch_size"])
            fewest = min(len(folds[best].epochs), len(folds[default].epochs))
            values, why = _ends(ratio, folds[other], folds[default], fewest, noise)
        values["ratio_held_out"] = ratio
    not_held = left_out and f"batch size {left_out} trained once: not held out"
    return values | {"note": "; ".join(filter(None, (note, why, not_held))) or None}


def _listed(sizes: set[int]) -> str:
    return ", ".join(map(str, sorted(sizes)))


def _ends(
    ratio: float, chosen: Fold, default: Fold, fewest: int, noise: tuple[float, int]
) -> tuple[dict[str, float], str]:
    """Return Welch's interval with the noise of both measurements, and why there is none."""
    runs = (chosen.epochs, default.epochs)
    parts = [float(np.log(epochs).var(ddof=1) / len(epochs)) for epochs in runs if len(epochs) > 1]
    if chosen is default or fewest < _MIN_RUNS or sum(parts) < 1e-20:  # rounding
        return {}, f"no interval: the epochs cancel or do not vary, or under {_MIN_RUNS} runs"
    freedom = [part**2 / (len(epochs) - 1) for part, epochs in zip(parts, runs, strict=True)]
    if noise[1]:
        parts.append(2 * noise[0])
        freedom.append(parts[-1] ** 2 / noise[1])
    half = float(stdtrit(sum(parts) ** 2 / sum(freedom), 0.975)) * sum(parts) ** 0.5
    few = fewest < _FEW_RUNS
    note = f"{fewest} runs of a batch size: the interval is approximate" if few else ""
    return {"ci_low": ratio * float(np.exp(-half)), "ci_high": ratio * float(np.exp(half))}, note


def _partition_runs(energy: pl.DataFrame, random: np.random.Generator) -> Folds:
    """Return, by batch size, the epochs of held-out runs and the mean of the others."""
    batches = energy.select("batch_size", "epochs_of_runs").unique("batch_size").sort("batch_size")
    most = max(len(epochs) for epochs in batches["epochs_of_runs"])
    folds = {}
    for batch_size, of_runs in batches.iter_rows():
        epochs = np.sort(np.asarray(of_runs, dtype=float))
        n = len(epochs)
        mixed = random.permuted(np.tile(epochs, (_PARTITIONS, 1)), axis=1)
        held = mixed[:, np.arange(most) % n].ravel()
        folds[batch_size] = Fold(epochs, held, (epochs.sum() - held) / max(n - 1, 1))
    return folds


def _held_out_ratio(
    among: pl.DataFrame, baseline: pl.DataFrame, column: str, folds: Folds
) -> tuple[float, bool]:
    """Return the geometric mean of held-out ratios, and whether all chose the default."""

    def per_epoch(energy: pl.DataFrame) -> dict[int, tuple[float, float]]:
        """Return the expected and the measured cost of the power limit that is expected best."""
        costs: dict[int, tuple[float, float]] = {}
        ordered = energy.sort("batch_size", "power_limit_w")
        sizes, limits, cost = ordered.select("batch_size", "power_limit_w", column).to_numpy().T
        for size in np.unique(sizes).astype(int).tolist():
            if len(folds[size].epochs) > 1:
                measured = cost[sizes == size] / folds[size].epochs.mean()
                expected = _from_other_limits(limits[sizes == size], measured)
                best = int(np.argmin(expected))
                costs[size] = float(expected[best]), float(measured[best])
        return costs

    costs, ((default, (_, base)),) = per_epoch(among), per_epoch(baseline).items()
    sizes = sorted(costs)
    chosen = np.argmin([folds[size].kept * costs[size][0] for size in sizes], axis=0)
    held = np.array([folds[size].held * costs[size][1] for size in sizes])
    logs = np.log(np.take_along_axis(held, chosen[None], axis=0)[0] / (folds[default].held * base))
    return float(np.exp(logs.mean())), set(np.asarray(sizes)[chosen]) == {default}


def _from_other_limits(limits: Floats, cost: Floats) -> Floats:
    """Predict the cost at each of five limits or more by a parabola of the others' logarithms."""
    if len(limits) < _FEWEST_LIMITS:
        return cost
    x, y = np.log(limits), np.log(cost)
    design = np.stack([np.ones(len(x)), x - x.mean(), (x - x.mean()) ** 2], axis=1)
    hat = design @ np.linalg.pinv(design)
    # the residual without the point itself (Allen, Technometrics 16, 1974)
    left_out = (y - hat @ y) / (1 - np.diag(hat))
    expected: Floats = np.exp(y - left_out)
    return np.where(cost > _FAR * expected, cost, expected)  # far above it is no noise


def _noise_of_epochs(energy: pl.DataFrame, column: str) -> tuple[float, int]:
    """Return the variance of log costs about a parabola and a deviation of each limit; its df."""
    enough = energy.filter(pl.len().over("batch_size") >= _FEWEST_LIMITS)
    x, y = (enough[name].log().to_numpy() for name in ("power_limit_w", column))
    sizes, limits = (
        (enough[name].to_numpy()[:, None] == enough[name].unique().to_numpy()).astype(float)
        for name in ("batch_size", "power_limit_w")
    )
    design = np.hstack([*(sizes * power[:, None] for power in (x**0, x, x**2)), limits])
    fitted, _, rank, _ = np.linalg.lstsq(design, y)
    freedom = len(y) - int(rank)
    return float(((y - design @ fitted) ** 2).sum()) / max(freedom, 1), freedom


def _best(energy: pl.DataFrame, column: str) -> dict[str, float]:
    """Return the configuration that is best by a column, {} of none."""
    if energy.is_empty():
        return {}
    best = energy.sort(column, "batch_size", "power_limit_w").row(0, named=True)
    return {name: best[name] for name in _MEASURED}


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
    >>> runs, power = (store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
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
    return _of(trace, simulate.sweep_recurring, gpu_types=gpu, seeds=range(seeds))


def recurring_policies(trace: Trace, gpu: str, dataset: str, /) -> list[RecurringResult]:
    """Return one recurring job under each policy."""
    return [
        _of(trace, simulate.simulate_recurring, gpu=gpu, dataset=dataset, policy=policy)
        for policy in POLICIES
    ]
