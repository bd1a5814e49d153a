"""What every sample trace is drawn with: generators, identifiers, shares and arrival times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DAY_S: Final = 86_400
MINIBATCH_KEY, ITP_KEY, PAI_KEY, OPENB_KEY, ZEUS_KEY = range(5)
"""First key of each trace's generators (`elasticflow-2023` shares those of ITP)."""

_UTC8_S: Final = 8 * 3600
_THURSDAY: Final = 3  # the weekday at time 0, counted from Monday


def generator(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of one part of the sample, independent of all other parts."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def hex_ids(rng: np.random.Generator, n: int, *, digits: int) -> pl.Series:
    """Draw `n` identifiers of so many hexadecimal digits (an even number)."""
    text = rng.bytes(n * digits // 2).hex("\n", digits // 2)
    return pl.Series([text]).str.split("\n").explode().head(n)


def apportion(total: int, weights: Sequence[float], *, least: int = 1) -> NDArray[np.int64]:
    """Divide `total` by weight into whole numbers (largest remainders), none below `least`."""
    exact = np.asarray(weights, dtype=float) / np.sum(weights) * total
    parts = np.floor(exact).astype(np.int64)
    short = total - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:short]] += 1
    raised: NDArray[np.int64] = np.maximum(parts, least)
    return raised


def pick(rng: np.random.Generator, shares: Sequence[float], n: int) -> NDArray[np.int64]:
    """Draw `n` indices with probabilities in proportion to `shares`."""
    cumulative = np.cumsum(shares) / np.sum(shares)
    drawn: NDArray[np.int64] = np.searchsorted(cumulative[:-1], rng.random(n), side="right")
    return drawn


def heavy_tail(
    rng: np.random.Generator, mean: float | NDArray[np.float64], n: int, *, sigma: float
) -> NDArray[np.float64]:
    """Draw lognormal values with the given mean (not median) and sigma of the logarithm."""
    return mean * np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)


def arrivals(rng: np.random.Generator, n: int, *, first_s: int, days: int) -> NDArray[np.int64]:
    """Draw `n` times in seconds, more by day than by night and at weekends, in UTC+8; unsorted."""
    hours = first_s + 3600 * np.arange(24 * days)
    hour = (hours + _UTC8_S) // 3600 % 24
    weekday = ((hours + _UTC8_S) // DAY_S + _THURSDAY) % 7
    weight = (1 + 0.5 * np.cos((hour - 15) / 24 * 2 * np.pi)) * np.where(weekday >= 5, 0.7, 1.0)
    return hours[pick(rng, list(weight), n)] + rng.integers(0, 3600, n)
