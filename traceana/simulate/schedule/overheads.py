"""Seconds without progress when a training job starts, moves or is scaled."""

from __future__ import annotations

import math
from typing import Final

_LARGE: Final = 256


def is_restart(decisions: int, slot_s: float, /) -> bool:
    """Return whether all workers restart: as often as a slot has seconds, as published.

    Examples
    --------
    >>> is_restart(0, 60.0), is_restart(120, 60.0)
    (False, True)
    """
    return decisions > 0 and slot_s > 0 and decisions % slot_s == 0


def scaling_overhead_s(gpus: int, cluster_gpus: int, /, *, cached: bool, restart: bool) -> float:
    """Return the published overhead of a job on a number of GPUs.

    It is 2 s (7 s on clusters of 256 GPUs and more) where the placement has been used since the
    last restart; else 2 (log2 g + 1) s more, and at a restart 27 s (47 s) more.

    Examples
    --------
    >>> scaling_overhead_s(8, 512, cached=False, restart=False)
    15.0
    """
    large = cluster_gpus >= _LARGE
    seconds = 7.0 if large else 2.0
    if cached:
        return seconds
    if restart:
        seconds += 47.0 if large else 27.0
    return seconds + 2 * (math.log2(gpus) + 1)
