"""Odds ratios pooled over strata: what is left of a difference within equals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri, stdtr, stdtrit

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


class ClusteredOdds(NamedTuple):
    """Intervals and a test that allow for clusters; NaN where they are not defined."""

    crude_ci_low: float
    crude_ci_high: float
    ci_low: float
    ci_high: float
    pvalue: float
    """Of a pooled odds ratio of 1."""


def clustered_odds(tables: Floats, /, *, n_clusters: int, confidence: float) -> ClusteredOdds:
    """Intervals of the crude and the pooled odds ratio where rows come in clusters.

    The jackknife over clusters of the logarithms of both: with l_c the one without the c-th of G
    cells and l that of all, variance = (G - 1) / G sum of (l_c - l)^2; intervals and the test are
    of t(min(cells, clusters) - 1).

    Parameters
    ----------
    tables
        cell x stratum x group x (failures, successes): a cell is a cluster or some of them.
    n_clusters
        Of the rows in these tables.
    confidence
        Coverage, in (0, 1).
    """
    there = tables[tables.sum(axis=(1, 2, 3)) > 0]
    cells = min(len(there), n_clusters)
    total = there.sum(axis=0)
    if cells < 2:
        return ClusteredOdds(*[np.nan] * 5)
    whole, left = _log_odds(total[None])[0], _log_odds(total - there)
    error = np.sqrt((len(there) - 1) / len(there) * ((left - whole) ** 2).sum(axis=0))
    half = stdtrit(cells - 1, (1 + confidence) / 2) * error
    (crude_low, low), (crude_high, high) = np.exp(whole - half), np.exp(whole + half)
    pvalue = 2 * stdtr(cells - 1, -abs(whole[1]) / error[1]) if error[1] > 0 else np.nan
    return ClusteredOdds(*map(float, (crude_low, crude_high, low, high, pvalue)))


def _log_odds(tables: Floats) -> Floats:
    """Logarithm of the crude and of the pooled odds ratio of each set of strata; NaN without."""
    n = np.maximum(tables.sum(axis=(2, 3)), 1)
    crude = tables.sum(axis=1)
    agree = tables[:, :, 0, 0] * tables[:, :, 1, 1] / n
    disagree = tables[:, :, 0, 1] * tables[:, :, 1, 0] / n
    above = np.stack([crude[:, 0, 0] * crude[:, 1, 1], agree.sum(axis=1)], axis=1)
    below = np.stack([crude[:, 0, 1] * crude[:, 1, 0], disagree.sum(axis=1)], axis=1)
    known = (above > 0) & (below > 0)
    return np.where(known, np.log(np.where(known, above, 1) / np.where(known, below, 1)), np.nan)


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
