"""Values and censored values as counts of distinct values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceana.stats.arrays import Floats


@dataclass(frozen=True)
class Sample:
    """Distinct values in ascending order, with counts of exact (`ends`) and censored (`cuts`) ones.

    Values and bounds are logarithms minus `center`, so that fits do not depend on the unit. With
    delayed entry a value has one row for each of its entries.
    """

    y: Floats
    ends: Floats
    cuts: Floats
    bound: float | None
    """Left-truncation bound of all values."""
    center: float
    low: Floats
    """Bound or later entry of each row; minus infinity without either."""

    @property
    def steps(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Times in ascending order with ends, cuts and rows that enter after each, if later."""
        enters = self.low > (-np.inf if self.bound is None else self.bound)
        if not enters.any():
            return self.y, self.ends, self.cuts, np.zeros(len(self.y))
        weight = (self.ends + self.cuts)[enters]
        # a row that ends at its entry enters just before its end
        entry = np.minimum(self.low[enters], np.nextafter(self.y[enters], -np.inf))
        times, place = np.unique(np.concatenate([self.y, entry]), return_inverse=True)
        zeros, none = np.zeros(len(entry)), np.zeros(len(self.y))
        columns = ((self.ends, zeros), (self.cuts, zeros), (none, weight))
        ends, cuts, entering = (
            np.bincount(place, np.concatenate(pair), len(times)).astype(float) for pair in columns
        )
        return times, ends, cuts, entering

    @property
    def n(self) -> int:
        """Number of values."""
        return int(self.ends.sum() + self.cuts.sum())

    @property
    def n_ends(self) -> int:
        """Number of uncensored values."""
        return int(self.ends.sum())


def resolution(values: Floats, /) -> float | None:
    """Return the step of which all values are multiples, to 3 digits after the point.

    None if there is none, or no value occurs twice: then rounding is no matter.
    """
    if len(np.unique(values)) == len(values):
        return None
    for scale in (1, 10, 100, 1000):
        scaled = values * scale
        if scaled.max() < 2**53 and (np.abs(scaled - np.round(scaled)) < 1e-6).all():
            step = int(np.gcd.reduce(np.round(scaled).astype(np.int64)))
            return step / scale if step else None
    return None


def make_sample(
    y: Floats, cut: NDArray[np.bool_], bound: float | str | None, /, entry: Floats | None = None
) -> Sample:
    """Return a sample of logarithms; a bound of "min" is the smallest of them.

    `entry` has the logarithm of the value from which each was observed, minus infinity for 0.
    """
    least = float(y.min()) if bound == "min" else bound
    if entry is not None and (entry > -np.inf).any():
        floor = -np.inf if least is None else float(least)
        pairs = np.stack([y, np.maximum(entry, floor)])
        (distinct, lows), of = np.unique(pairs, axis=1, return_inverse=True)
        of = of.ravel()
        cuts = np.bincount(of[cut], minlength=len(distinct)).astype(float)
        ends = np.bincount(of[~cut], minlength=len(distinct)).astype(float)
        center = float(y.mean())
        return Sample(
            distinct - center,
            ends,
            cuts,
            None if least is None else float(least) - center,
            center,
            lows - center,
        )
    if cut.any():
        distinct, of = np.unique(y, return_inverse=True)
        cuts = np.bincount(of[cut], minlength=len(distinct)).astype(float)
        ends = np.bincount(of[~cut], minlength=len(distinct)).astype(float)
    else:
        distinct, counts = np.unique(y, return_counts=True)
        ends, cuts = counts.astype(float), np.zeros(len(distinct))
    center = float(distinct @ (ends + cuts) / len(y))
    low = None if least is None else float(least) - center
    return Sample(
        distinct - center,
        ends,
        cuts,
        low,
        center,
        np.full(len(distinct), -np.inf if low is None else low),
    )
