"""Quantiles of values beside those of the families that were fitted to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from scipy.stats import binom

from traceana.analysis.distributions.values import read_values
from traceana.errors import DataError
from traceana.stats.arguments import check_confidence, is_number
from traceana.stats.distributions import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceana.analysis.distributions.result import DistributionFits
    from traceana.analysis.distributions.values import Values

    Floats = NDArray[np.float64]

_MOST_POINTS: Final = 100_000


def fitted_quantiles(
    values: Values,
    fits: DistributionFits,
    /,
    *,
    families: Sequence[str] | None = None,
    points: int = 200,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Quantiles of values with their intervals, beside those of fitted families.

    What a plot of shares, of tails or of quantiles against quantiles shows: each is these columns
    against each other.

    Parameters
    ----------
    values
        Those that were fitted, none of them a lower bound.
    fits
        What :func:`fit_distributions` made of them.
    families
        Of those that have parameters; None for all of them, the best first.
    points
        About how many shares: half of them evenly spaced, half ever closer to the largest value.
    confidence
        Coverage of the intervals, each for itself.

    Returns
    -------
    DataFrame
        [n, share_below, value, ci_low, ci_high, <family>...], sorted: value is the least of the n
        values with at least share_below of them at or below it. [ci_low, ci_high] is the interval
        of that quantile between two order statistics, which holds for independent values whatever
        their distribution; an end that would lie beyond the least or the largest value is null.
        Under a family's name is its own quantile, above the bound of the fit if there is one.

    Raises
    ------
    DataError
        If the values are not those of the fits, are fewer than two or are cut, a family has no
        parameters, or an argument is out of range.
    """
    check_confidence(confidence)
    if not (is_number(points, whole=True) and 2 <= points <= _MOST_POINTS):
        raise DataError(
            f"points must be a whole number from 2 to {_MOST_POINTS:,}; it is {points!r}"
        )
    x, _, _ = read_values(values)
    known = {row["family"]: row for row in fits.table.iter_rows(named=True)}
    first = fits.table.row(0, named=True)
    n = len(x)
    if n < 2 or n != first["n"]:
        raise DataError(f"the fits are of {first['n']} values, and these are {n}; two are needed")
    if first["n_censored"]:
        raise DataError(
            f"{first['n_censored']} of the values are lower bounds: their quantiles are not known "
            "(kaplan_meier has those of runtimes that were cut)"
        )
    have = [name for name in known if fits.params(name)]
    wanted = have if families is None else list(families)
    for name in wanted:
        if name not in have:
            raise DataError(
                f"family {name!r} has no parameters in the fits; those with are "
                f"{', '.join(have) or 'none'}"
            )
    share = _shares(n, points)
    ordered = np.sort(x)
    rank = np.ceil(share * n - 1e-9).astype(np.int64)
    below, above = _ranks(share, n, confidence)
    return pl.DataFrame(
        {
            "n": np.full(len(share), n),
            "share_below": share,
            "value": ordered[rank - 1],
            "ci_low": np.where(below >= 1, ordered[np.maximum(below, 1) - 1], np.nan),
            "ci_high": np.where(above <= n, ordered[np.minimum(above, n) - 1], np.nan),
            **{name: _quantile(known[name], fits.params(name), share) for name in wanted},
        }
    ).fill_nan(None)


def _shares(n: int, points: int) -> Floats:
    """Shares evenly spaced, and ever closer to 1, none beyond the first or last value's middle."""
    evenly = np.linspace(0, 1, points // 2 + 2)[1:-1]
    last = 0.5 / n
    ever_closer = 1 - np.geomspace(last, 0.5, points - len(evenly))
    # a share stands at the middle of a value's step
    middle = (np.floor(np.concatenate([evenly, ever_closer]) * n) + 0.5) / n
    shares: Floats = np.unique(np.clip(middle, last, 1 - last))
    return shares


def _ranks(share: Floats, n: int, confidence: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return between which order statistics each quantile lies."""
    tail = (1 - confidence) / 2
    below = binom.ppf(tail, n, share).astype(np.int64)
    above = binom.ppf(1 - tail, n, share).astype(np.int64) + 1
    return below, above


def _quantile(row: Mapping[str, Any], params: Mapping[str, float], share: Floats) -> Floats:
    family = FAMILIES[row["family"]]
    location, *shape = (params[name] for name in family.parameters)
    theta = np.array(
        [
            location if family.parameters[0] == "mu" else np.log(location),
            *(family.sign * np.log(part) for part in shape),
        ]
    )
    above_bound = row["share_above_bound"]
    longer = np.log1p(-share) + (0.0 if above_bound is None else np.log(above_bound))
    quantiles: Floats = np.exp(family.quantile(longer, theta))
    return quantiles
