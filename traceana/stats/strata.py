"""Odds ratios pooled over strata: what is left of a difference within equals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class PooledOdds(NamedTuple):
    """An odds ratio over strata; NaN where it is not defined."""

    odds_ratio: float
    ci_low: float
    ci_high: float
    pvalue: float
    """Of no difference in any stratum."""
    pvalue_homogeneity: float
    """Of one odds ratio in all strata; NaN for a single one."""
    n_strata: int
    """Those that tell anything: with both groups and both outcomes."""


def odds_ratio(table: Floats, /, *, confidence: float) -> tuple[float, float, float]:
    """Odds ratio of a 2 x 2 table with Woolf's interval (Annals of Human Genetics 19, 1955).

    NaN where a cell is 0.
    """
    if (table == 0).any():
        return np.nan, np.nan, np.nan
    log = np.log(table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0]))
    half = ndtri((1 + confidence) / 2) * np.sqrt((1 / table).sum())
    return float(np.exp(log)), float(np.exp(log - half)), float(np.exp(log + half))


def pooled_odds(tables: Floats, /, *, confidence: float) -> PooledOdds:
    """Mantel and Haenszel's odds ratio (Journal of the National Cancer Institute 22, 1959).

    Interval with the variance of Robins, Breslow and Greenland (Biometrics 42, 1986); the test
    of no difference is Cochran, Mantel and Haenszel's without a correction for continuity, that
    of homogeneity Breslow and Day's with Tarone's (Biometrika 72, 1985).

    Parameters
    ----------
    tables
        stratum x group x (failures, successes).
    """
    from statsmodels.stats.contingency_tables import StratifiedTable  # noqa: PLC0415

    tells = (tables.sum(axis=1) > 0).all(axis=1) & (tables.sum(axis=2) > 0).all(axis=1)
    told = tables[tells]
    nothing = PooledOdds(np.nan, np.nan, np.nan, np.nan, np.nan, len(told))
    if not len(told):
        return nothing
    n = told.sum(axis=(1, 2))
    agree, disagree = told[:, 0, 0] * told[:, 1, 1] / n, told[:, 0, 1] * told[:, 1, 0] / n
    found = StratifiedTable([stratum + 0.0 for stratum in told])
    # from the statistics, as a p-value below 1e-16 is given as 0
    pvalue = float(chdtrc(1, found.test_null_odds(correction=False).statistic))
    if not agree.sum() or not disagree.sum():
        return nothing._replace(pvalue=pvalue)
    low, high = found.oddsratio_pooled_confint(alpha=1 - confidence)
    ratio = float(found.oddsratio_pooled)
    equal = _homogeneity(told, ratio) if len(told) > 1 else np.nan
    return PooledOdds(ratio, float(low), float(high), pvalue, equal, len(told))


def _homogeneity(tables: Floats, ratio: float) -> float:
    """Return the p-value of one odds ratio in all strata.

    statsmodels has it too, and divides by 0 where the ratio is 1.
    """
    first, row = tables[:, 0, 0], tables[:, 0].sum(axis=1)
    column, n = tables[:, :, 0].sum(axis=1), tables.sum(axis=(1, 2))
    # the first cell that has this odds ratio with these margins: a root of a quadratic
    b = n - row - column + ratio * (row + column)
    product = ratio * row * column
    expected = 2 * product / (b + np.sqrt(b**2 - 4 * (ratio - 1) * product))
    cells = (expected, row - expected, column - expected, n - row - column + expected)
    variance = 1 / sum(1 / cell for cell in cells)
    excess = first - expected
    statistic = (excess**2 / variance).sum() - excess.sum() ** 2 / variance.sum()
    return float(chdtrc(len(tables) - 1, max(statistic, 0.0)))
