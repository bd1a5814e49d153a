"""Curves of how much has ended, and how, while some are still running or were lost from sight."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import stdtrit

from traceana.stats.arguments import check_confidence

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Bounds = tuple[Floats, Floats]


class Incidence(NamedTuple):
    """Curves at each time: one entry a time, and one column a kind of end where there are two."""

    at_risk: Floats
    """How many were still running just before the time."""
    surviving: Floats
    """Kaplan and Meier's estimate of the share that lasts longer."""
    surviving_variance: Floats
    """Its variance by Greenwood."""
    ended: Floats
    """Aalen and Johansen's estimate of the share that has ended in each way."""
    ended_variance: Floats
    """Its variance by the delta method."""


def incidence(ends: ArrayLike, censored: ArrayLike, /) -> Incidence:
    """Estimate how much has ended by each time, and in which way (Aalen and Johansen, 1978).

    At the i-th time, with n at risk, d ends of all kinds and d_k of kind k:
    S = product of (1 - d / n) (Kaplan and Meier, 1958) and F_k = sum of S(before) d_k / n, so
    that the F_k add up to 1 - S. Taking every other end for a censoring and 1 - S for the
    incidence, as is often done, is too high.

    The variance of S is Greenwood's, S^2 sum of d / (n (n - d)); that of F_k at t is the sum of
    (F_k(t) - F_k)^2 d / (n (n - d)) + S(before)^2 d_k (n - d_k) / n^3
    - 2 (F_k(t) - F_k) S(before) d_k / n^2 (Marubini and Valsecchi, Analysing Survival Data from
    Clinical Trials, 1995, section 10.2). With one kind of end it is Greenwood's.

    Parameters
    ----------
    ends
        Of each time, in rising order: how many ended, one column a kind of end.
    censored
        Of each time: how many were seen for the last time, still running. They are at risk of
        the ends of the same time.
    """
    by_kind, cut = np.asarray(ends, dtype=float), np.asarray(censored, dtype=float)
    d = by_kind.sum(axis=1)
    gone = d + cut
    n = gone.sum() - np.concatenate([[0.0], gone.cumsum()[:-1]])
    surviving = np.cumprod(1 - d / n)
    before = np.concatenate([[1.0], surviving[:-1]])[:, None]
    # where all that are left end, S is 0, and F gets no share of this term
    last = n <= d
    hazard = np.where(last, 0.0, d / (n * np.where(last, 1.0, n - d)))
    at = n[:, None]
    ended = np.cumsum(before * by_kind / at, axis=0)
    a, b = hazard[:, None], before * by_kind / at**2
    own = before**2 * by_kind * (at - by_kind) / at**3
    variance = (
        ended**2 * a.cumsum(axis=0)
        - 2 * ended * (ended * a + b).cumsum(axis=0)
        + (ended**2 * a + 2 * ended * b + own).cumsum(axis=0)
    )
    return Incidence(
        n,
        surviving,
        np.where(surviving > 0, surviving**2 * hazard.cumsum(), np.nan),
        ended,
        variance.clip(0),
    )


def incidence_variances(
    ends: ArrayLike, censored: ArrayLike, time: ArrayLike, cell: ArrayLike, /
) -> tuple[Floats, Floats]:
    """Variances of the estimates of :func:`incidence` where rows depend on each other in clusters.

    The jackknife over clusters: with e_c the estimate without the c-th of G clusters (or cells of
    clusters) and e that of all, (G - 1) / G sum of (e_c - e)^2.

    Parameters
    ----------
    ends, censored
        As in :func:`incidence`, but one row a time and cell, in any order.
    time, cell
        Of each row, codes from 0 on without a gap: which time and which cell.

    Returns
    -------
    (surviving, ended)
        Variance at each time, and at each time of each kind of end; NaN for a single cell.
    """
    by_kind, cut = np.asarray(ends, dtype=float), np.asarray(censored, dtype=float)
    at, of = np.asarray(time, dtype=np.int64), np.asarray(cell, dtype=np.int64)
    counts = np.vstack([by_kind.T, cut])
    times = int(at.max()) + 1
    total = np.stack([np.bincount(at, row, times) for row in counts]).astype(float)
    whole = _shares(total)
    squares = np.zeros(whole.shape)
    order = np.argsort(of, kind="stable")
    edges = np.searchsorted(of[order], np.arange(int(of.max()) + 2))
    for begin, stop in pairwise(edges.tolist()):
        own, rest = order[begin:stop], total.copy()
        for row, values in zip(rest, counts, strict=True):
            np.subtract.at(row, at[own], values[own])
        squares += (_shares(rest) - whole) ** 2
    cells = len(edges) - 1
    variance = squares * (cells - 1) / cells if cells > 1 else np.full(whole.shape, np.nan)
    return variance[-1], variance[:-1].T


def _shares(counts: Floats) -> Floats:
    """Return what :func:`incidence` estimates: a row each kind of end, then the survival."""
    by_kind = counts[:-1]
    # where none is left at risk, nothing ends
    n = np.maximum(counts.sum(axis=0)[::-1].cumsum()[::-1], 0.5)
    result = np.empty(counts.shape)
    np.cumprod(1 - by_kind.sum(axis=0) / n, out=result[-1])
    before = np.concatenate([[1.0], result[-1, :-1]]) / n
    np.cumsum(before * by_kind, axis=1, out=result[:-1])
    return result


def log_log_interval(
    share: ArrayLike, variance: ArrayLike, /, *, df: ArrayLike = np.inf, confidence: float
) -> Bounds:
    """Pointwise interval of a share p: p ** exp(-+ q se / (p log p)).

    q is the normal quantile, or that of Student's t with `df` degrees of freedom.

    Symmetric for log(-log p), so that it stays within (0, 1) (Kalbfleisch and Prentice, The
    Statistical Analysis of Failure Time Data, 2002, section 1.4).

    Returns
    -------
    (low, high)
        Not defined (NaN) where the share is 0 or 1, or its variance not known.
    """
    check_confidence(confidence)
    p, v = np.asarray(share, dtype=float), np.asarray(variance, dtype=float)
    # a sum of shares may pass 1 by a rounding
    inside = (p > 0) & (p < 1 - 1e-12)
    q = np.where(inside, p, 0.5)
    half = stdtrit(df, (1 + confidence) / 2) * np.sqrt(v) / np.abs(q * np.log(q))
    low, high = q ** np.exp(half), q ** np.exp(-half)
    return np.where(inside, low, np.nan), np.where(inside, high, np.nan)
