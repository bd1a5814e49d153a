"""Gaps without a running job that the users of a log have in common."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traceana.cohorts.overlap import BEGIN, UNTIL, Window
from traceana.stats.idle import active_slots, idle_stretches
from traceana.stats.time_blocks import DAY_S

UNIT: Final = "unit"
"""Column of the user, else the account, of a job."""
SHORTEST_S: Final = 3600.0
"""Length of a gap that is considered."""
_WEEK_H: Final = 168
_FEWEST_UNITS: Final = 5
_MOST_UNITS: Final = 200
"""Of more users, some are one unit."""
_SLOTS: Final = {16: 4, 10_000: 1}
"""Slots of an hour, by the most weeks."""


def shared_gaps(
    rows: pl.DataFrame, latest: NDArray[Any], window: Window, /
) -> dict[int, float] | None:
    """Return p of each gap without a running job, by its place; None with few users or weeks."""
    (first, last), week = window, 7 * DAY_S
    weeks, units = int((last - first) // week), rows[UNIT].n_unique()
    idle = np.flatnonzero(rows[BEGIN].to_numpy()[1:] - latest[:-1] >= SHORTEST_S)
    if weeks < 2 or units < _FEWEST_UNITS or rows[UNIT].null_count() or not len(idle):
        return None
    per_hour = next(number for most, number in _SLOTS.items() if weeks <= most)
    slot, slots = 3600.0 / per_hour, weeks * _WEEK_H * per_hour
    begin, until = rows[BEGIN].to_numpy(), rows[UNTIL].to_numpy()
    ends = latest[idle], begin[idle + 1]
    if max(ends[1]) > first + weeks * week:  # whole weeks, with the last gap
        first = last - weeks * week
    inside = (until >= first) & (begin < first + weeks * week)
    of_rows = (np.clip((time[inside] - first) // slot, 0, slots - 1) for time in (begin, until))
    low, high = (of.astype(np.int64) for of in of_rows)
    unit = rows[UNIT].rank("dense").to_numpy().astype(np.int64)[inside] % _MOST_UNITS
    active = active_slots(unit, low, high, units=min(units + 1, _MOST_UNITS), slots=slots)
    stretches = idle_stretches(active.reshape(len(active), weeks, -1))
    found: dict[int, float] = {}
    for low_slot, high_slot, p in stretches:
        middle = first + slot * (low_slot + high_slot) / 2
        for place, start, end in zip(idle, *ends, strict=True):
            if start <= middle <= end:
                found[int(place)] = p
    return found
