"""Quantiles of durations of which some are known only to be longer than what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def censored_quantiles(
    durations: ArrayLike, censored: ArrayLike, quantiles: Sequence[float], /
) -> Floats:
    """Quantiles of durations by the estimator of Kaplan and Meier (JASA 53, 1958).

    The q-quantile is the least duration t at which the estimated share that last longer,
    S(t), is at most 1 - q. A censored duration counts as being at risk until it was cut and is
    never taken for an end. Right where being cut has nothing to do with what was left.

    Parameters
    ----------
    durations
        Each at least 0.
    censored
        True where the duration is a lower bound.
    quantiles
        Each in (0, 1).

    Returns
    -------
    array
        One entry a quantile; NaN where S never comes down so far: that quantile is beyond what
        was observed.

    Raises
    ------
    DataError
        If there is no duration, or as many flags as durations are not given.
    """
    t, cut = np.asarray(durations, dtype=float), np.asarray(censored, dtype=bool)
    if not len(t) or t.shape != cut.shape:
        raise DataError(f"durations and their flags must be as many: {len(t)} and {len(cut)}")
    # scipy.stats has it too, and takes half a second to load
    ends, died = np.unique(t[~cut], return_counts=True)
    at_risk = len(t) - np.searchsorted(np.sort(t), ends)
    # S is a product: a step that ends at 1 - q exactly may lie a rounding above it
    longer = np.cumprod(1 - died / at_risk)
    steps = [np.flatnonzero(longer <= 1 - q + 1e-12) for q in quantiles]
    return np.array([ends[step[0]] if len(step) else np.nan for step in steps])
