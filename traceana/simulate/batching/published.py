"""Published speedups: the throughput ratios that they imply, and the clusters simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, Final

import polars as pl

from traceana.errors import DataError
from traceana.simulate.batching.controllers import Static
from traceana.simulate.batching.simulate import simulate_batching
from traceana.simulate.batching.tables import ClusterComparison, PublishedGains
from traceana.simulate.batching.workers import DEVICES, PUBLISHED, Workers, read_throughputs
from traceana.stats.arguments import is_number
from traceana.tables.declare import declared, returns, schema_of

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


@returns(PublishedGains)
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
    devices = permutations(DEVICES.select("device", "tflops").iter_rows(), 2)
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
    table = pl.DataFrame(rows, schema=schema_of(PublishedGains), orient="row")
    return declared(table, PublishedGains)


_BATCH: Final = 64


@returns(ClusterComparison)
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
    return declared(pl.DataFrame(rows, schema=schema_of(ClusterComparison)), ClusterComparison)


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
        job = simulate_batching(crew, controller=controller, **setting)
        usual_s = usual_s or job.time_s
        times = {"relative_time": job.time_s / usual_s, "speedup": job.speedup}
        rows.append({"workers": workers, "system": system, **times})
    return rows
