"""Values of which some are only known to be longer, as the likelihood needs them: each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Distinct values in rising order, and how many ended or were cut at each.

    Values and bound are logarithms from which `centre` is taken, so that what is found is the
    same whatever unit the values have.
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
        """Number of values that are no lower bounds."""
        return int(self.ends.sum())


def make_sample(y: Floats, cut: NDArray[np.bool_], bound: float | str | None, /) -> Sample:
    """Return a sample of logarithms; a bound of "min" is the least of them."""
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
