"""The published clusters: heterogeneous against homogeneous, under three systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from traceana.errors import DataError
from traceana.simulate.batching.controllers import Static
from traceana.simulate.batching.devices import PUBLISHED
from traceana.simulate.batching.simulate import simulate_batching
from traceana.simulate.batching.tables import ClusterComparison
from traceana.simulate.batching.workers import Workers, check_throughputs
from traceana.stats.arguments import as_list, is_number
from traceana.tables.declare import declared, returns, schema_of

_BATCH: Final = 64


@returns(ClusterComparison)
def compare_clusters(
    clusters: Mapping[str, Sequence[float]] | None = None,
    /,
    *,
    overhead_share: float = 0.0,
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
    overhead_share
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
    if not isinstance(chosen, Mapping) or not chosen:
        raise DataError("clusters must be one or more, each with the throughputs of its workers")
    if not (is_number(overhead_share) and 0 <= overhead_share < 1):
        raise DataError(f"overhead_share must be in [0, 1); it is {overhead_share!r}")
    rows: list[dict[str, Any]] = []
    for name, throughputs in chosen.items():
        speeds = as_list(f"cluster {name}", throughputs)
        check_throughputs(f"cluster {name}: throughputs", speeds)
        systems = _systems(speeds, overhead_share, steps)
        rows += [{"cluster": name, **row} for row in systems]
        if clusters is None:
            uniform = systems[1]["relative_time"]
            rows += [
                {"cluster": name, "workers": "published", "system": model, **factors}
                for model, factors in _published(name, uniform).items()
            ]
    return declared(pl.DataFrame(rows, schema=schema_of(ClusterComparison)), ClusterComparison)


def _systems(throughputs: list[float], overhead_share: float, steps: int) -> list[dict[str, Any]]:
    count, total = len(throughputs), sum(throughputs)
    # a step of equal workers and equal batches takes 1 s, overhead included
    scale = _BATCH * count / (1 - overhead_share) / total
    equal = Workers(overhead_share, [total / count * scale] * count)
    unlike = Workers(overhead_share, [each * scale for each in throughputs])
    systems = [{"workers": "homogeneous", "system": "uniform"}]
    systems += [
        {"workers": "heterogeneous", "system": name} for name in ("uniform", "static", "dynamic")
    ]
    controllers: tuple[str | Static, ...] = (
        "uniform",
        "uniform",
        Static(throughputs),
        "proportional",
    )
    jobs = [
        simulate_batching(crew, controller=each, steps=steps, global_batch=_BATCH * count)
        for crew, each in zip((equal, unlike, unlike, unlike), controllers, strict=True)
    ]
    return [
        {**row, "relative_time": job.time_s / jobs[0].time_s, "speedup": job.speedup}
        for row, job in zip(systems, jobs, strict=True)
    ]


def _published(name: str, uniform: float) -> dict[str, dict[str, float | None]]:
    """Return the times that published factors imply, given that of uniform batches."""
    printed: dict[str, dict[str, float | None]] = {}
    for gain in PUBLISHED["gains"].values():
        factor = float(gain["factor"])
        if gain["cluster"] == name:
            printed[gain["model"]] = (
                {"relative_time": factor, "speedup": None}
                if gain.get("slowdown")
                else {"relative_time": uniform / factor, "speedup": factor}
            )
    return printed
