"""Best alignment of one series along another, over every shift at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from traceana.stats.arrays import Floats


@dataclass(frozen=True)
class Alignment:
    """The best shift of a series along another."""

    shift: int
    """Index of the longer run at which the other's index 0 lies; negative where it begins
    earlier."""
    overlap: int
    """Entries that both have at this shift."""
    mean_square: float
    """Mean square of their differences."""


def best_alignment(a: Floats, b: Floats, /, *, min_overlap: int) -> Alignment | None:
    """Shift `a` along `b` so that the mean square of their differences is least.

    The mean over the i at which both are known of (a[i] - b[i + k])^2, for all k together by three
    cross-correlations. None where no shift has enough overlap.
    """
    known_a, known_b = np.isfinite(a), np.isfinite(b)
    # about the common mean, so that the sums of squares do not cancel
    center = np.mean(np.concatenate([a[known_a], b[known_b]])) if known_a.any() else 0.0
    x = np.where(known_a, a - center, 0.0)
    y = np.where(known_b, b - center, 0.0)
    overlap = np.rint(_over_shifts((known_b, known_a))).astype(int)
    squares = _over_shifts((known_b, x**2), (y**2, known_a), (-2 * y, x))
    enough = overlap >= max(1, min_overlap)
    if not enough.any():
        return None
    mean_square = np.full(overlap.shape, np.inf)
    mean_square[enough] = np.maximum(squares[enough], 0) / overlap[enough]
    best = int(np.argmin(mean_square))
    return Alignment(best - (len(a) - 1), int(overlap[best]), float(mean_square[best]))


def _over_shifts(*pairs: tuple[NDArray[Any], NDArray[Any]]) -> Floats:
    """Sum long[i + k] * short[i], over the pairs too, for k from 1 - len(short) to len(long) - 1.

    By the convolution theorem; the pairs' transforms are added before they are taken back.
    """
    n = len(pairs[0][0]) + len(pairs[0][1]) - 1
    size = fft.next_fast_len(n, real=True)
    spectrum = sum(
        fft.rfft(long.astype(float), size) * fft.rfft(short[::-1].astype(float), size)
        for long, short in pairs
    )
    result: Floats = fft.irfft(spectrum, size)[:n]
    return result
