"""Tail index of a distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, stdtrit

from traceana.stats.arrays import Floats, Integers
from traceana.stats.intervals import FEWEST_CLUSTERS
from traceana.stats.wild_bootstrap import effective_clusters


@dataclass(frozen=True)
class Tail:
    """Hill's estimate from the k values above a threshold, with its interval."""

    k: int
    threshold: float
    index: float
    low: float
    high: float


def hill(
    values: Floats,
    k: int,
    /,
    *,
    entry: Floats | None = None,
    observed: NDArray[np.bool_] | None = None,
    cluster: Integers | None = None,
    confidence: float,
) -> Tail | None:
    """Return Hill's estimate: k over the sum of ln(x / threshold) of the k largest values.

    2 k index / estimate is chi-squared with 2 k degrees of freedom in a Pareto tail (Hill, Annals
    of Statistics 3, 1975). With delayed entry or censoring: exact values over the sum of ln(x /
    max(threshold, entry)) (Beirlant and others, Extremes 10, 2007), and the interval is
    approximate. None without an exact value above the threshold.
    """
    order = np.argsort(-values, kind="stable")
    threshold = values[order[k]]
    top = order[:k][values[order[:k]] > threshold]
    ends = len(top) if observed is None else int(observed[top].sum())
    if not ends:
        return None
    above, n = values[top], ends
    low = threshold if entry is None else np.maximum(threshold, entry[top])
    logs = np.log(above / low)
    index = n / float(logs.sum())
    if cluster is not None:
        exact = np.ones(len(top)) if observed is None else observed[top].astype(float)
        reach = np.exp(_reach(exact, logs, cluster[top], confidence))
        return Tail(len(top), float(threshold), index, index / reach, index * reach)
    tail = (1 - confidence) / 2
    low, high = (index * float(chdtri(2 * n, p)) / (2 * n) for p in (1 - tail, tail))
    return Tail(len(top), float(threshold), index, low, high)


def _reach(exact: Floats, logs: Floats, cluster: Integers, confidence: float) -> float:
    """Return half the length of the interval of the logarithm of sum(exact) / sum(logs)."""
    _, of = np.unique(cluster, return_inverse=True)
    ends, sums = np.bincount(of, exact), np.bincount(of, logs)
    m, effective = len(ends), effective_clusters(np.ones(len(of)), of)
    if effective < FEWEST_CLUSTERS:
        return float("nan")
    fraction = sums / sums.sum()
    moved = (ends / ends.sum() - fraction) / (1 - fraction)
    error = np.sqrt((m - 1) / m * (moved @ moved))
    return float(stdtrit(effective - 1, (1 + confidence) / 2) * error)
