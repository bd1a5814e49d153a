"""Values and censored values as counts of distinct values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Distinct values in ascending order, with counts of exact (`ends`) and censored (`cuts`) ones.

    Values and bound are logarithms minus `centre`, so that fits do not depend on the unit.
    """

    y: Floats
    ends: Floats
    cuts: Floats
    bound: float | None
    centre: float

    @property
    def n(self) -> int:
        """Number of values."""
        return int(self.ends.sum() + self.cuts.sum())

    @property
    def n_ends(self) -> int:
        """Number of uncensored values."""
        return int(self.ends.sum())


def make_sample(y: Floats, cut: NDArray[np.bool_], bound: float | str | None, /) -> Sample:
    """Return a sample of logarithms; a bound of "min" is the smallest of them."""
    if cut.any():
        distinct, of = np.unique(y, return_inverse=True)
        cuts = np.bincount(of[cut], minlength=len(distinct)).astype(float)
        ends = np.bincount(of[~cut], minlength=len(distinct)).astype(float)
    else:
        distinct, counts = np.unique(y, return_counts=True)
        ends, cuts = counts.astype(float), np.zeros(len(distinct))
    centre = float(distinct @ (ends + cuts) / len(y))
    least = float(distinct[0]) if bound == "min" else bound
    low = None if least is None else float(least) - centre
    return Sample(distinct - centre, ends, cuts, low, centre)
