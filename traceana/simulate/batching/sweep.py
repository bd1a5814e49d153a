"""Sweep over the heterogeneity of the workers, and published speedups with their clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import permutations, product
from typing import Any, Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.errors import DataError
from traceana.simulate.batching import simulate, tables
from traceana.simulate.batching.controllers import (
    BatchController,
    Static,
    Uniform,
    read_controllers,
)
from traceana.simulate.batching.workers import LEVELS, PUBLISHED, Workers, read_throughputs
from traceana.simulate.frames import over_seeds, read_result, read_seeds, with_intervals
from traceana.stats.arguments import as_list, is_number
from traceana.stats.arrays import Floats
from traceana.tables.declare import declared, returns, schema_of

_CONTROLLERS = ("uniform", "static", "measured", "proportional", "damped", "omnilearn", "oracle")
_BY_CORES: Final = Static(())
"""Replaced in each run by batch sizes in proportion to its cores."""
_BLOCK: Final = 4_000_000
"""Worker steps simulated at once, which take some hundred megabytes."""


@returns(tables.BatchingSweep)
def sweep_batching(
    levels: Mapping[str, Sequence[float]] | None = None,
    /,
    *,
    controllers: Sequence[str | BatchController] = _CONTROLLERS,
    overheads_s: Sequence[float] = (0.0, 0.1, 0.2),
    noise_cvs: Sequence[float] = (0.0, 0.1),
    seeds: Iterable[int] = range(10),
    global_batch: int = 192,
    samples_per_core_s: float = 4.0,
    steps: int = 200,
    min_batch: int = 1,
    max_batch: float = math.inf,
    progress: Callable[[float], None] | None = None,
) -> pl.DataFrame:
    r"""Simulate jobs of increasing heterogeneity under several controllers.

    Worker k with :math:`c_k` cores takes :math:`a + \varepsilon b_k / (r c_k)` seconds for
    :math:`b_k` samples, r being samples/s of a core and :math:`\varepsilon` lognormal noise of
    mean 1, drawn for each worker and step. By default a step of equal workers takes 1 s plus the
    overhead a. All runs with the same number of workers are simulated as one array; a seed draws
    the same noise for every level, overhead and controller.

    Parameters
    ----------
    levels
        Cores of each worker by the name of the level; by default the splits of 39 cores of the
        paper over three workers, and of 48 cores of the authors' later code over four.
    controllers
        Names or objects, as for :func:`simulate_batching`, and ``static``: batch sizes in
        proportion to cores.
    overheads_s
        Overheads a, the same for all workers of a run.
    noise_cvs
        Coefficients of variation of the noise. Without noise there is one run, with a null seed.
    seeds
        Seeds of the noise, one run each.
    global_batch, steps, min_batch, max_batch
        As in :func:`simulate_batching`.
    samples_per_core_s
        Throughput of a core.
    progress
        Called with the completed fraction.

    Returns
    -------
    DataFrame
        One row per (level, overhead_s, noise_cv, seed, controller):
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> sweep = traceana.sweep_batching(
    ...     {"uneven": [36, 12]}, controllers=["uniform", "oracle"], overheads_s=[0.1],
    ...     noise_cvs=[0], steps=20,
    ... )
    >>> sweep.select("controller", pl.col("speedup").round(2)).rows()
    [('uniform', 1.0), ('oracle', 1.91)]
    """
    cores = read_throughputs(LEVELS if levels is None else levels, "level", "cores")
    overheads_s, noise_cvs = as_list("overheads_s", overheads_s), as_list("noise_cvs", noise_cvs)
    seeds = read_seeds(seeds)
    given = as_list("controllers", controllers)
    by_name = read_controllers([_BY_CORES if name == "static" else name for name in given])
    settings = {"overheads_s": overheads_s, "noise_cvs": noise_cvs}
    for what, numbers in (settings | {"samples_per_core_s": [samples_per_core_s]}).items():
        least = 0.0 if what in settings else 1e-9
        if not all(is_number(number) and least <= number <= 1e9 for number in numbers):
            raise DataError(f"{what} must be from {least:g} to 1e9; found {list(numbers)}")
    for what, values in (settings | {"seeds": seeds}).items():
        if not values or len(set(values)) < len(values):
            raise DataError(f"{what} must be one or more distinct values; found {values}")
    for of_level in cores.values():
        simulate.check_setting(global_batch, len(of_level), min_batch, max_batch, steps)
        simulate.check_memory(steps, len(cores) * len(overheads_s), len(of_level))
    setting: dict[str, Any] = {"global_batch": global_batch, "steps": steps}
    setting |= {"min_batch": min_batch, "max_batch": max_batch}
    rows: list[dict[str, Any]] = []
    blocks = list(_blocks(cores, len(overheads_s), noise_cvs, seeds, steps))
    for done, (some, noise_cv, of_seeds) in enumerate(blocks):
        keys = list(product(some, overheads_s, of_seeds))
        table = np.array([cores[level] for level, _, _ in keys], dtype=float)
        overhead = np.repeat([[a] for _, a, _ in keys], table.shape[1], axis=1)
        rate = samples_per_core_s * table / _noise(table, keys, noise_cv, steps)
        run = partial(simulate.run_course, overhead, rate, **setting)
        usual = run(Uniform())
        for number, (name, controller) in enumerate(by_name.items(), 1):
            decides = Static(table) if controller is _BY_CORES else controller
            course = run(decides)
            of_run = _rows(course, usual, keys, cores, goal=global_batch * steps)
            for row, note in zip(of_run, simulate.notes_of(decides, course), strict=True):
                rows.append(row | {"noise_cv": float(noise_cv), "controller": name, "note": note})
            if progress is not None:
                progress((done + number / len(by_name)) / len(blocks))
    swept = pl.DataFrame(rows, schema=schema_of(tables.BatchingSweep)).sort(
        pl.col("level").cast(pl.Enum(list(cores))),
        "overhead_s",
        "noise_cv",
        pl.col("controller").cast(pl.Enum(list(by_name))),
        "seed",
    )
    return declared(swept, tables.BatchingSweep)


def _blocks(
    cores: Mapping[str, Sequence[float]],
    overheads: int,
    noise_cvs: Sequence[float],
    seeds: Sequence[int],
    steps: int,
) -> Iterator[tuple[list[str], float, list[int | None]]]:
    """Yield levels with the same number of workers, a noise, and seeds that fit into memory."""
    for workers in sorted({len(of_level) for of_level in cores.values()}):
        some = [name for name, of_level in cores.items() if len(of_level) == workers]
        at_once = max(1, _BLOCK // (len(some) * overheads * steps * workers))
        for noise_cv in noise_cvs:
            these: list[int | None] = [None] if noise_cv == 0 else list(seeds)
            for first in range(0, len(these), at_once):
                yield some, noise_cv, these[first : first + at_once]


def _noise(
    table: Floats, keys: Sequence[tuple[str, float, int | None]], cv: float, steps: int
) -> Floats:
    """Return lognormal noise of mean 1: (steps, runs, workers), the same for the same seed."""
    if cv == 0:
        return np.ones(table.shape)
    sigma = math.sqrt(math.log1p(cv**2))
    shape = (steps, table.shape[1])
    seeds = [seed for _, _, seed in keys]
    by_seed = {seed: np.random.default_rng(seed).standard_normal(shape) for seed in set(seeds)}
    drawn = np.stack([by_seed[seed] for seed in seeds], axis=1)
    return np.exp(sigma * drawn - sigma**2 / 2)


def _rows(
    course: simulate.Course,
    usual: simulate.Course,
    keys: Sequence[tuple[str, float, int | None]],
    cores: Mapping[str, Sequence[float]],
    *,
    goal: int,
) -> Iterator[dict[str, Any]]:
    clock, trained = course.step_s.cumsum(0), course.samples.cumsum(0)
    reached, reaches = (trained >= goal).argmax(0), trained[-1] >= goal
    time_s, speedup, waiting = clock[-1], course.speedup(usual), course.waiting
    for run, (level, overhead_s, seed) in enumerate(keys):
        of_level = cores[level]
        yield {
            "level": level,
            "n_workers": len(of_level),
            "mean_over_min": sum(of_level) / len(of_level) / min(of_level),
            "overhead_s": float(overhead_s),
            "seed": seed,
            "time_s": time_s[run],
            "samples": trained[-1][run],
            "step_s": time_s[run] / len(clock),
            "speedup": speedup[run],
            "idle_fraction": waiting[run],
            "adjustments": course.adjustments[run],
            "time_to_samples_s": clock[reached[run], run] if reaches[run] else None,
        }


_KEYS: Final = ("level", "n_workers", "mean_over_min", "overhead_s", "noise_cv", "controller")
_READ: Final = (*_KEYS, "speedup", "step_s", "idle_fraction", "adjustments", "note")


@returns(tables.BatchingSummary)
def summarize_batching(sweep: IntoFrame, /, *, confidence: float = 0.95) -> pl.DataFrame:
    """Average the runs of a sweep over the seeds.

    Parameters
    ----------
    sweep
        What :func:`sweep_batching` returns.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        One row per (level, overhead_s, noise_cv, controller), in the order of the sweep:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> sweep = traceana.sweep_batching(
    ...     {"uneven": [36, 12]}, controllers=["oracle"], overheads_s=[0.1], noise_cvs=[0.1],
    ...     seeds=range(3), steps=20,
    ... )
    >>> found = traceana.summarize_batching(sweep)
    >>> found.select("controller", pl.col("speedup", "speedup_ci_low").round(2)).rows()
    [('oracle', 1.91, 1.77)]
    """
    rows = read_result(sweep, tables.BatchingSweep, _READ, "summarize_batching")
    grouped = rows.group_by(_KEYS, maintain_order=True).agg(
        *over_seeds(["speedup"]),
        pl.col("step_s", "idle_fraction", "adjustments").mean(),
        pl.col("note").drop_nulls().first(),
        n=pl.len().cast(pl.Int64),
    )
    return declared(
        with_intervals(grouped, ["speedup"], confidence=confidence), tables.BatchingSummary
    )


OVERHEADS: Final = (0.0, 0.1, 0.2)
"""Overheads, as fractions of the uniform step, for which ratios are computed."""


def implied_throughput_ratio(
    gain: float, /, *, fast: int = 1, slow: int = 1, overhead_fraction: float = 0.0
) -> float | None:
    r"""Compute the throughput ratio of workers that a speedup implies.

    Uniform batches take :math:`a + b / x_s`; batches that equalize times take
    :math:`a + K b / (n_f x_f + n_s x_s)`, K being :math:`n_f + n_s`. With overhead
    :math:`a = \varphi (a + b / x_s)`, their ratio g gives

    .. math:: x_f / x_s = \left(K \frac{1 - \varphi}{1 / g - \varphi} - n_s\right) / n_f

    which is :math:`(K g - n_s) / n_f` without overhead.

    Parameters
    ----------
    gain
        Time of uniform batches over time of the best ones, 1 or more.
    fast, slow
        Numbers of fast workers and slow workers.
    overhead_fraction
        Fraction of the uniform step that no batch size changes, in [0, 1).

    Returns
    -------
    float or None
        None if the overhead alone takes longer than the sped-up step: no ratio is possible.

    Examples
    --------
    >>> import traceana
    >>> traceana.implied_throughput_ratio(1.5)
    2.0
    >>> round(traceana.implied_throughput_ratio(1.5, overhead_fraction=0.1), 2)
    2.18
    """
    numbers = all(map(is_number, (gain, fast, slow, overhead_fraction)))
    if not numbers or gain < 1 or min(fast, slow) < 1 or not 0 <= overhead_fraction < 1:
        raise DataError(
            "a gain is 1 or more, there is a worker or more of each kind, and the overhead's share "
            f"is in [0, 1); found {gain!r}, {fast!r}, {slow!r}, {overhead_fraction!r}"
        )
    left = 1 / gain - overhead_fraction
    if left <= 0:
        return None
    return ((fast + slow) * (1 - overhead_fraction) / left - slow) / fast


def largest_gain(ratio: float, /, *, fast: int = 1, slow: int = 1) -> float:
    """Return mean(x) / min(x) at a throughput ratio: the maximum speedup of any split."""
    return (fast * ratio + slow) / (fast + slow) / min(ratio, 1)


@returns(tables.PublishedGains)
def published_gains() -> pl.DataFrame:
    """Compare each published factor with the throughputs of its cluster.

    Factors and clusters of Tyagi and Sharma (ACSOS'20): CPU cores, or half-precision FLOPS.

    Returns
    -------
    DataFrame
        With the columns
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> gains = traceana.published_gains().filter(id="batching-level-2")
    >>> gains.select("published", pl.col("largest_gain").round(2), "is_plausible").rows()
    [(2.0, 1.44, False)]
    """
    tflops = {name: entry["tflops"] for name, entry in PUBLISHED["devices"].items()}
    devices = permutations(tflops.items(), 2)
    # of pairs of devices, the least unlike first
    ratios = sorted((x / y, f"{fast} and {slow}") for (fast, x), (slow, y) in devices if x > y)
    rows = []
    for name, stated in PUBLISHED["gains"].items():
        gain, throughputs = float(stated["factor"]), PUBLISHED["clusters"][stated["cluster"]]
        slowest = min(throughputs)
        others = [each for each in throughputs if each != slowest]
        crew = {"fast": len(others), "slow": len(throughputs) - len(others)}
        implied = [implied_throughput_ratio(gain, **crew, overhead_fraction=o) for o in OVERHEADS]
        differ = sum(others) / len(others) / slowest
        most = largest_gain(differ, **crew)
        plausible = gain <= most
        note = (
            f"{stated['model']}: the throughputs of {stated['cluster']} allow at most "
            f"{most:.2f}, {'which includes' if plausible else 'less than'} the published factor"
        )
        reach = ", ".join(pair for x, pair in ratios if largest_gain(x, **crew) >= gain) or "none"
        # at this overhead a speedup of `most` becomes one of `gain`
        overhead = (1 / gain - 1 / most) / (1 - 1 / most) if plausible else None
        row = (name, gain, stated["cluster"], *implied, differ, most, plausible, note)
        rows.append((*row, overhead, reach if len(set(throughputs)) < 3 else None))
    table = pl.DataFrame(rows, schema=schema_of(tables.PublishedGains), orient="row")
    return declared(table, tables.PublishedGains)


_BATCH: Final = 64


@returns(tables.ClusterComparison)
def compare_clusters(
    clusters: Mapping[str, Sequence[float]] | None = None,
    /,
    *,
    overhead_fraction: float = 0.0,
    steps: int = 200,
) -> pl.DataFrame:
    """Compare batch size controllers on clusters of equal total throughput.

    Each cluster is simulated with its own workers (heterogeneous) and with as many workers of equal
    throughput that add up to the same (homogeneous). Static batch sizes follow the throughputs;
    dynamic ones are those of the proportional controller, its first steps included. The model is
    that of Tyagi and Sharma (ACSOS'20).

    Parameters
    ----------
    clusters
        Throughputs of the workers by the name of the cluster, in any unit, such as cores or TFLOPS.
        None: the clusters of the paper with cores or half-precision FLOPS, and their published
        factors.
    overhead_fraction
        Overhead of an iteration as a fraction of the step of the homogeneous cluster, in [0, 1).
    steps
        Number of steps.

    Returns
    -------
    DataFrame
        One row per cluster, kind of workers and system, and one per published factor:
        {columns}

    Examples
    --------
    >>> import traceana
    >>> found = traceana.compare_clusters({"mine": [100, 300]})
    >>> round(found.filter(workers="heterogeneous", system="uniform")["relative_time"].item(), 3)
    2.0
    """
    chosen = PUBLISHED["clusters"] if clusters is None else clusters
    if not (is_number(overhead_fraction) and 0 <= overhead_fraction < 1):
        raise DataError(f"overhead_fraction must be in [0, 1); it is {overhead_fraction!r}")
    rows: list[dict[str, Any]] = []
    for name, speeds in read_throughputs(chosen, "cluster", "throughputs").items():
        systems = _systems(speeds, overhead_fraction, steps)
        rows += [{"cluster": name, **row} for row in systems]
        uniform = systems[1]["relative_time"]
        for gain in PUBLISHED["gains"].values() if clusters is None else ():
            if gain["cluster"] == name:
                factor, slower = float(gain["factor"]), gain.get("slowdown", False)
                time = factor if slower else uniform / factor
                row = {"relative_time": time, "speedup": None if slower else factor}
                rows.append(
                    {"cluster": name, "workers": "published", "system": gain["model"], **row}
                )
    return declared(
        pl.DataFrame(rows, schema=schema_of(tables.ClusterComparison)), tables.ClusterComparison
    )


def _systems(
    throughputs: list[float], overhead_fraction: float, steps: int
) -> list[dict[str, Any]]:
    count, total = len(throughputs), sum(throughputs)
    # a step of equal workers and equal batches takes 1 s, overhead included
    scale = _BATCH * count / (1 - overhead_fraction) / total
    equal = Workers(overhead_fraction, [total / count * scale] * count)
    unlike = Workers(overhead_fraction, [each * scale for each in throughputs])
    systems: tuple[tuple[str, str, Workers, str | Static], ...] = (
        ("homogeneous", "uniform", equal, "uniform"),
        ("heterogeneous", "uniform", unlike, "uniform"),
        ("heterogeneous", "static", unlike, Static(throughputs)),
        ("heterogeneous", "dynamic", unlike, "proportional"),
    )
    rows: list[dict[str, Any]] = []
    usual_s = 0.0
    setting = {"steps": steps, "global_batch": _BATCH * count}
    for workers, system, crew, controller in systems:
        job = simulate.simulate_batching(crew, controller=controller, **setting)
        usual_s = usual_s or job.time_s
        times = {"relative_time": job.time_s / usual_s, "speedup": job.speedup}
        rows.append({"workers": workers, "system": system, **times})
    return rows
