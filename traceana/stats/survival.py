"""Survival and cumulative incidence with right censoring and delayed entry, by row or cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from traceana.errors import DataError
from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Floats


class Incidence(NamedTuple):
    """Estimates at each time; the incidence has one column per event."""

    at_risk: Floats
    """Rows at risk just before the time."""
    surviving: Floats
    """Kaplan-Meier estimate of the survival function."""
    surviving_variance: Floats
    """Its variance by Greenwood's formula."""
    incidence: Floats
    """Aalen-Johansen estimate of the cumulative incidence of each event."""
    incidence_variance: Floats
    """Its variance by the delta method."""
    hazard_variance: Floats
    """d / (n (n - d)) with d events among n rows at risk; 0 where all have an event."""


def product_limit(
    events: ArrayLike, censored: ArrayLike, late: ArrayLike | None = None, /
) -> Floats:
    """Return the Kaplan-Meier estimate of the survival function, from counts per time."""
    d = np.asarray(events, dtype=float)
    leaving = d + np.asarray(censored, dtype=float)
    return np.cumprod(1 - d / _at_risk(leaving, late), dtype=np.float64)


def restricted_mean(
    times: Floats, surviving: Floats, hazard_variance: Floats, horizon: float, /
) -> tuple[float, float]:
    """Return the area up to a horizon, and its variance (Klein and Moeschberger, 2003, 4.5)."""
    inside = times < horizon
    edges = np.concatenate([[0.0], times[inside], [horizon]])
    areas = np.concatenate([[1.0], surviving[inside]]) * np.diff(edges)
    left = areas[::-1].cumsum()[::-1][1:]
    return float(areas.sum()), float((left**2 * hazard_variance[inside]).sum())


def censored_quantiles(
    durations: ArrayLike, censored: ArrayLike, quantiles: Sequence[float], /
) -> Floats:
    """Return Kaplan-Meier quantiles, the smallest t with S(t) <= 1 - q; NaN where there is none."""
    t, cut = np.asarray(durations, dtype=float), np.asarray(censored, dtype=bool)
    if not len(t) or t.shape != cut.shape:
        raise DataError(f"durations and censored must have one length: {len(t)} and {len(cut)}")
    times, place = np.unique(t, return_inverse=True)
    events, cuts = (np.bincount(place[part], minlength=len(times)) for part in (~cut, cut))
    surviving = product_limit(events, cuts)
    # S is a product: a step that ends at 1 - q exactly may lie a rounding above it
    steps = [np.flatnonzero(surviving <= 1 - q + 1e-12) for q in quantiles]
    return np.array([times[step[0]] if len(step) else np.nan for step in steps])


def incidence(
    events: ArrayLike, censored: ArrayLike, late: ArrayLike | None = None, /
) -> Incidence:
    """Estimate survival and the cumulative incidence of competing events.

    Aalen and Johansen (1978); variances of Greenwood, and of Marubini and Valsecchi (1995, 10.2).
    """
    by_kind, cut = np.asarray(events, dtype=float), np.asarray(censored, dtype=float)
    d = by_kind.sum(axis=1)
    n = _at_risk(d + cut, late)
    *kinds, surviving = _shares(by_kind.T, cut, late)
    f = np.stack(kinds, axis=1)
    before = np.concatenate([[1.0], surviving[:-1]])[:, None]
    # where all rows at risk have an event, S is 0 and this term adds nothing to F
    last = n <= d
    hazard = np.where(last, 0.0, d / (n * np.where(last, 1.0, n - d)))
    at = n[:, None]
    a, b = hazard[:, None], before * by_kind / at**2
    at_event = before**2 * by_kind * (at - by_kind) / at**3
    variance = (
        f**2 * a.cumsum(axis=0)
        - 2 * f * (f * a + b).cumsum(axis=0)
        + (f**2 * a + 2 * f * b + at_event).cumsum(axis=0)
    )
    greenwood = np.where(surviving > 0, surviving**2 * hazard.cumsum(), np.nan)
    return Incidence(n, surviving, greenwood, f, variance.clip(0), hazard)


def incidence_variances(
    events: ArrayLike,
    censored: ArrayLike,
    late: ArrayLike,
    time: ArrayLike,
    cell: ArrayLike,
    /,
    *,
    durations: Floats,
    horizon: float,
) -> tuple[Floats, Floats, float]:
    """Return jackknife variances over clusters: (surviving, incidence, restricted); NaN for one."""
    of = np.asarray(cell, dtype=np.int64)
    cells = int(of.max()) + 1
    curves = leave_out_cells(events, censored, late, time, of, cells=cells)
    whole = next(curves)
    squares, area = np.zeros(whole.shape), 0.0
    # beyond the last time the curve without a cell is not known
    end = min(horizon, float(durations[-1]))

    def mean(surviving: Floats) -> float:
        return restricted_mean(durations, surviving, np.zeros(len(durations)), end)[0]

    for left in curves:
        squares += (left - whole) ** 2
        area += (mean(left[-1]) - mean(whole[-1])) ** 2
    factor = (cells - 1) / cells if cells > 1 else np.nan
    return factor * squares[-1], factor * squares[:-1].T, factor * area


def leave_out_cells(
    events: ArrayLike,
    censored: ArrayLike,
    late: ArrayLike,
    time: ArrayLike,
    cell: ArrayLike,
    /,
    *,
    cells: int,
) -> Iterator[Floats]:
    """Yield the incidence of each event and the survival, of all rows and without each cell."""
    by_kind, cut = np.asarray(events, dtype=float), np.asarray(censored, dtype=float)
    at, of = np.asarray(time, dtype=np.int64), np.asarray(cell, dtype=np.int64)
    counts = np.vstack([by_kind.T, cut, np.asarray(late, dtype=float)])
    total = np.stack([np.bincount(at, row) for row in counts]).astype(float)
    yield _shares(total[:-2], total[-2], total[-1])
    order = np.argsort(of, kind="stable")
    edges = np.searchsorted(of[order], np.arange(cells + 1))
    for begin, stop in pairwise(edges.tolist()):
        order_of_cell, rest = order[begin:stop], total.copy()
        for row, values in zip(rest, counts, strict=True):
            np.subtract.at(row, at[order_of_cell], values[order_of_cell])
        yield _shares(rest[:-2], rest[-2], rest[-1])


def log_log_interval(
    share: ArrayLike, variance: ArrayLike, /, *, df: ArrayLike = np.inf, confidence: float
) -> tuple[Floats, Floats]:
    """Return the log-log interval p ** exp(-+ q se / (p log p)); NaN where p is 0 or 1."""
    check_confidence(confidence)
    p, v = np.asarray(share, dtype=float), np.asarray(variance, dtype=float)
    # a sum of probabilities may exceed 1 by a rounding
    inside = (p > 0) & (p < 1 - 1e-12)
    q = np.where(inside, p, 0.5)
    half = stdtrit(df, (1 + confidence) / 2) * np.sqrt(v) / np.abs(q * np.log(q))
    low, high = q ** np.exp(half), q ** np.exp(-half)
    return np.where(inside, low, np.nan), np.where(inside, high, np.nan)


def _at_risk(leaving: Floats, late: ArrayLike | None) -> Floats:
    change = leaving if late is None else leaving - np.asarray(late, dtype=float)
    n = change[::-1].cumsum()[::-1]
    # without rows at risk there is no event: any divisor will do
    return np.maximum(n, 0.5)


def _shares(by_kind: Floats, cut: Floats, late: ArrayLike | None) -> Floats:
    """Return one row per kind of event, then the survival."""
    events = by_kind.sum(axis=0)
    result = np.empty((len(by_kind) + 1, len(cut)))
    result[-1] = product_limit(events, cut, late)
    before = np.concatenate([[1.0], result[-1, :-1]]) / _at_risk(events + cut, late)
    np.cumsum(before * by_kind, axis=1, out=result[:-1])
    return result
