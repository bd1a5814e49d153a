"""Gaps without a running job: how long for their time of the week, and who waited in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceana.stats.segments import long_gaps

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from traceana.cohorts.overlap import Window
    from traceana.stats.arrays import Floats


SHORTEST_S: Final = 3600.0
"""Length of a gap that is considered."""
_HOUR_S: Final = 3600.0
_FEWEST_WEEKS: Final = 3
_FLOOR: Final = 0.02
_FEWEST: Final = 40
"""Waits in gaps that suffice as what is usual."""
_SHAPE: Final = 0.75


def gap_pvalues(
    begin: Floats, latest: Floats, submit: Floats, start: Floats, window: Window, /
) -> dict[int, float]:
    """Return p of the gaps without a running job, by place; `submit` and `start` in any order."""
    idle = np.flatnonzero(begin[1:] - latest[:-1] >= SHORTEST_S).tolist()
    of_starts = dict(long_gaps(expected_starts(begin, *window), shape=_SHAPE))
    of_waits = waits_in_gaps(begin, latest, submit, start)
    return {i: min(1.0, 2 * of_starts.get(i, 1.0), 2 * of_waits.get(i, 1.0)) for i in idle}


def expected_starts(begin: Floats, first: float, last: float, /) -> Floats:
    """Return the gaps between times, as the bursts of starts that are usual at their hours.

    An hour of the day, times a day of the week, in which a fraction q of the hours has a start has
    -log(1 - q) of them, as in a Poisson process of bursts.
    """
    total = int((last - first) // _HOUR_S) + 1
    at = (begin - first) / _HOUR_S
    whole = np.clip(np.floor(at).astype(np.int64), 0, total - 1)
    started = np.zeros(total)
    started[whole] = 1
    rates = np.full(total, 1 / _rate(started.mean(), total))
    for parts, size in ((24, 1), (7, 24)):
        if total >= parts * size * _FEWEST_WEEKS:
            part = np.arange(total) // size % parts
            n = np.bincount(part, minlength=parts)
            rates *= _rate(np.bincount(part, started, parts) / n, n)[part]
        else:
            rates *= _rate(started.mean(), total)
    rates = np.maximum(rates, _FLOOR)
    sums = np.concatenate([[0.0], np.cumsum(rates)])
    return np.diff(sums[whole] + (at - whole) * rates[whole])


def _rate(fraction: ArrayLike, n: ArrayLike) -> Floats:
    half = 0.5 / np.asarray(n)
    rate: Floats = -np.log1p(-np.clip(fraction, half, 1 - half))
    return rate


def waits_in_gaps(
    begin: Floats, latest: Floats, submit: Floats, start: Floats, /
) -> dict[int, float]:
    """Return p of gaps in which jobs waited longer than otherwise while none ran.

    The wait of a gap is from the second submission within it, an hour or more after the first,
    until its end; with one submission, from that.
    """
    order = np.argsort(submit, kind="stable")
    submit, start = submit[order], start[order]
    place = np.flatnonzero(begin[1:] > latest[:-1])
    low, high = latest[place], begin[place + 1]
    padded = np.append(submit, np.inf)
    one = padded[np.searchsorted(submit, low)]
    two = padded[np.searchsorted(submit, one + _HOUR_S)]
    tested = (two < high) & (high - low >= SHORTEST_S)
    wait = np.maximum(high - np.where(tested, two, one), 0)
    if not tested.any():
        return {}
    usual = wait[:0]
    if (wait > 0).sum() < _FEWEST:  # rarely idle: as long as jobs of a cluster in use wait
        hour = (submit - submit[0]) // _HOUR_S
        usual = np.diff(hour, prepend=-1) > 0
        after = np.searchsorted(high[tested], submit, side="right")
        next_low = np.append(low[tested], np.inf)[after]
        usual = (start - submit)[usual & (start <= next_low)]
    known = long_gaps(np.concatenate([wait, usual]), shape=_SHAPE)
    return {int(place[i]): p for i, p in known if i < len(wait) and tested[i]}
