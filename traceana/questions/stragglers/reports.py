"""Reports behind sampled values: a value is repeated until the next report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Counts: TypeAlias = NDArray[np.intp]

USUAL_HOLD: Final = 0.97
"""Quantile of a worker's run lengths that is its usual hold."""

FEWEST_REPORTS: Final = 10
"""Minimum number of reports, which limits the usual hold."""


@dataclass(frozen=True)
class Reports:
    """Reports of each series, in order.

    n: reports of each series; holds: whether it repeats values. Of each report: begins, its
    position among the present samples; first and last sample, counted through all the series of
    n_ticks; whose, its series; place in that.
    """

    n: Counts
    holds: NDArray[np.bool_]
    begins: Counts
    first: Counts
    last: Counts
    n_ticks: int
    whose: Counts
    place: Counts

    def of(self, series: int, /) -> tuple[Counts, Counts]:
        """First and last sample of one series' reports."""
        end = int(np.searchsorted(self.whose, series, side="right"))
        mine = slice(end - int(self.n[series]), end)
        return self.first[mine] % self.n_ticks, self.last[mine] % self.n_ticks

    def at_begin(self, present: Floats, /) -> Floats:
        """Return the number of each report's first sample: (series, report); else NaN."""
        shape = (len(self.n), int(self.n.max(initial=0)))
        of_report = present[self.begins]
        if of_report.size == shape[0] * shape[1]:
            return of_report.reshape(shape)
        table = np.full(shape, np.nan)
        table[self.whose, self.place] = of_report
        return table


def read_reports(value: Floats, present: NDArray[np.bool_], level: Floats, /) -> Reports:
    """Find the reports of each series: runs of one value, at most as long as the usual hold.

    A longer run is several reports. A worker with its median value in more than half of its
    samples is constant: each of its samples is a report.
    """
    where = np.flatnonzero(present)
    x = value.ravel()[where]
    samples = np.count_nonzero(present, axis=1)
    series = np.repeat(np.arange(len(value)), samples)
    new = np.ones(len(x), dtype=bool)
    new[1:] = (x[1:] != x[:-1]) | (series[1:] != series[:-1])
    if not new.all():
        constant = 2 * np.count_nonzero((value == level[:, None]) & present, axis=1) > samples
        new |= np.repeat(constant, samples)
    begins = np.flatnonzero(new)
    hold = np.ones(len(value), dtype=np.intp)
    if len(begins) < len(x):
        lengths = np.diff(begins, append=len(x))
        hold = np.minimum(
            _usual_hold(lengths, series[begins], len(value)), samples // FEWEST_REPORTS
        )
        hold = np.maximum(hold, 1)
        # cut a run at multiples of the hold; no piece is shorter
        of_run = hold[series[begins]]
        pieces = np.maximum(lengths // of_run, 1)
        piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        begins = np.repeat(begins, pieces) + piece * np.repeat(of_run, pieces)
    whose, n, first, last = series, samples, where, where
    if len(begins) < len(x):  # otherwise each sample is a report
        whose = series[begins]
        n = np.bincount(whose, minlength=len(value))
        first, last = where[begins], where[np.append(begins[1:], len(x)) - 1]
    return Reports(
        n=n,
        holds=hold > 1,
        begins=begins,
        first=first,
        last=last,
        n_ticks=value.shape[1],
        whose=whose,
        place=np.arange(len(whose)) - (np.cumsum(n) - n)[whose],
    )


def coming_report(value: Floats, present: NDArray[np.bool_], reports: Reports, /) -> Floats:
    """Return at each sample the next report if values are repeated, else the value itself."""
    if not reports.holds.any() or not len(reports.begins):
        return value
    x = value[present]
    of_report = x[reports.begins]
    following = of_report.copy()
    same = reports.whose[1:] == reports.whose[:-1]
    following[:-1] = np.where(
        same & reports.holds[reports.whose[1:]], of_report[1:], of_report[:-1]
    )
    coming = value.copy()
    coming[present] = np.repeat(following, np.diff(reports.begins, append=len(x)))
    return coming


def _usual_hold(lengths: Counts, whose: Counts, n_series: int) -> Counts:
    """Return a high quantile of each series' run lengths; 1 if there is none."""
    n = np.bincount(whose, minlength=n_series)
    rank = np.cumsum(n) - n + np.ceil(USUAL_HOLD * n).astype(np.intp) - 1
    room = int(lengths.max(initial=0)) + 1
    ordered = np.sort(whose * room + lengths) % room  # within each series, for whose is sorted
    hold = np.ones(n_series, dtype=np.intp)
    hold[n > 0] = ordered[rank[n > 0]]
    return hold
