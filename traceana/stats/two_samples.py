"""How two samples differ: in any way, and in which tends to be larger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.special import expit, logit, stdtr, stdtrit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_AT_ONCE: Final = 2_000_000  # counts held at a time


class Superiority(NamedTuple):
    """P(X > Y) + P(X = Y) / 2 with its interval and p; NaN where they are not defined."""

    estimate: float
    low: float
    high: float
    pvalue: float


def superiority(x: Floats, y: Floats, /, *, confidence: float) -> Superiority:
    """Probability that a value of the first sample is larger, ties counted half.

    The variance is that of Brunner and Munzel (Biometrical Journal 42, 2000), which lets the two
    differ in shape and has ties; p is of their test that the probability is one half, by Student's
    t with their degrees of freedom. The interval is taken on the scale of ln(a / (1 - a)), so that
    it stays inside (0, 1).

    Returns
    -------
    Superiority
        Interval and p are NaN for fewer than two values in a sample, or where every value of one
        sample is at the same place among those of the other, as where the two do not overlap.
    """
    ordered_x, ordered_y = np.sort(x), np.sort(y)
    of_x = _share_below(x, ordered_y)
    of_y = _share_below(y, ordered_x)
    estimate = float(of_x.mean())
    nothing = Superiority(estimate, *(float("nan"),) * 3)
    if min(len(x), len(y)) < 2:
        return nothing
    parts = np.array([of_x.var(ddof=1) / len(x), of_y.var(ddof=1) / len(y)])
    variance = float(parts.sum())
    if variance <= 0 or not 0 < estimate < 1:
        return nothing
    df = variance**2 / float(parts**2 @ (1 / (np.array([len(x), len(y)]) - 1)))
    t = (estimate - 0.5) / np.sqrt(variance)
    half = stdtrit(df, (1 + confidence) / 2) * np.sqrt(variance) / (estimate * (1 - estimate))
    low, high = (float(expit(logit(estimate) + side)) for side in (-half, half))
    return Superiority(estimate, low, high, float(2 * stdtr(df, -abs(t))))


def ks_distance_two(x: Floats, y: Floats, /) -> float:
    """Return the largest distance of two samples' shares at or below a value."""
    return float(np.abs(_share_gaps(x, y)[0]).max())


def ks_interval(
    x: Floats, y: Floats, /, *, confidence: float, resamples: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Interval of the largest distance of two distributions, by the bootstrap.

    The distance of samples is at most as far from that of the distributions as the largest
    change of the gap between the shares; its quantile is taken from resamples of each sample. So
    the interval, cut to [0, 1], covers also where the two are the same, and more often than asked
    for elsewhere.
    """
    gaps, order, is_last = _share_gaps(x, y)
    n, m = len(x), len(y)
    at_once = max(1, _AT_ONCE // (n + m))
    largest = []
    for done in range(0, resamples, at_once):
        size = min(at_once, resamples - done)
        change = np.concatenate(
            [
                rng.multinomial(n, np.full(n, 1 / n), size=size) / n,
                rng.multinomial(m, np.full(m, 1 / m), size=size) / -m,
            ],
            axis=1,
        )[:, order].cumsum(axis=1)[:, is_last]
        largest.append(np.abs(change - gaps).max(axis=1))
    reach = float(np.quantile(np.concatenate(largest), confidence))
    distance = float(np.abs(gaps).max())
    return max(0.0, distance - reach), min(1.0, distance + reach)


def _share_below(values: Floats, ordered: Floats) -> Floats:
    sides = [np.searchsorted(ordered, values, side=side) for side in ("left", "right")]
    share: Floats = (sides[0] + sides[1]) / (2 * len(ordered))
    return share


def _share_gaps(x: Floats, y: Floats) -> tuple[Floats, NDArray[np.intp], NDArray[np.bool_]]:
    """Gap of the shares after each distinct value, the order, and where a value is the last."""
    both = np.concatenate([x, y])
    order = np.argsort(both, kind="stable")
    steps = np.concatenate([np.full(len(x), 1 / len(x)), np.full(len(y), -1 / len(y))])
    is_last = np.append(np.diff(both[order]) > 0, True)
    return steps[order].cumsum()[is_last], order, is_last
