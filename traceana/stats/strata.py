"""Odds ratios pooled over strata."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, ndtri, stdtr, stdtrit

from traceana.stats.arrays import Floats
from traceana.stats.intervals import FEWEST_CLUSTERS


class PooledOdds(NamedTuple):
    """An odds ratio over strata; NaN where undefined."""

    odds_ratio: float
    ci_low: float
    ci_high: float
    pvalue: float
    """Cochran-Mantel-Haenszel test."""
    pvalue_homogeneity: float
    """Breslow-Day test; NaN for a single stratum."""
    n_strata: int
    """Informative strata: with both groups and both outcomes."""


def odds_ratio(table: Floats, /, *, confidence: float) -> tuple[float, float, float]:
    """Return the odds ratio of a 2 x 2 table with Woolf's interval.

    Woolf (Annals of Human Genetics 19, 1955). NaN if a cell is 0.
    """
    if (table == 0).any():
        return np.nan, np.nan, np.nan
    log = np.log(table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0]))
    half = ndtri((1 + confidence) / 2) * np.sqrt((1 / table).sum())
    return float(np.exp(log)), float(np.exp(log - half)), float(np.exp(log + half))


def pooled_odds(tables: Floats, /, *, confidence: float) -> PooledOdds:
    """Return the Mantel-Haenszel odds ratio of [stratum, group, (failures, successes)].

    Variance of Robins, Breslow and Greenland (1986), Cochran-Mantel-Haenszel test without
    continuity correction, and Breslow and Day's test with Tarone's correction (Biometrika 72,
    1985).
    """
    from statsmodels.stats.contingency_tables import StratifiedTable  # noqa: PLC0415

    informative = (tables.sum(axis=1) > 0).all(axis=1) & (tables.sum(axis=2) > 0).all(axis=1)
    kept = tables[informative]
    nothing = PooledOdds(np.nan, np.nan, np.nan, np.nan, np.nan, len(kept))
    if not len(kept):
        return nothing
    n = kept.sum(axis=(1, 2))
    agree, disagree = kept[:, 0, 0] * kept[:, 1, 1] / n, kept[:, 0, 1] * kept[:, 1, 0] / n
    table = StratifiedTable([stratum + 0.0 for stratum in kept])
    # from the statistic: statsmodels returns 0 for a p-value below 1e-16
    pvalue = float(chdtrc(1, table.test_null_odds(correction=False).statistic))
    if not agree.sum() or not disagree.sum():
        return nothing._replace(pvalue=pvalue)
    low, high = table.oddsratio_pooled_confint(alpha=1 - confidence)
    ratio = float(table.oddsratio_pooled)
    equal = np.nan
    if len(kept) > 1:
        # statsmodels divides by 0 where the ratio is 1 exactly
        nudge = 1e-6 * (abs(ratio - 1) < 1e-9)
        moved = StratifiedTable([stratum + np.diag([nudge, nudge]) for stratum in kept])
        equal = float(chdtrc(len(kept) - 1, moved.test_equal_odds(adjust=True).statistic))
    return PooledOdds(ratio, float(low), float(high), pvalue, equal, len(kept))


class ClusteredOdds(NamedTuple):
    """Intervals and a test for rows in clusters; NaN where undefined."""

    crude_ci_low: float
    crude_ci_high: float
    ci_low: float
    ci_high: float
    pvalue: float
    """Of a pooled odds ratio of 1."""


def clustered_odds(tables: Floats, /, *, confidence: float) -> ClusteredOdds:
    """Return intervals of the crude and the pooled odds ratio for rows in clusters.

    Jackknife over clusters of the logarithms of both: with l_c the one without the c-th of G
    cells and l that of all, variance = (G - 1) / G sum of (l_c - l)^2 (Efron, The Jackknife, the
    Bootstrap and Other Resampling Plans, 1982, section 3). Intervals and test use t(k - 1), with k
    the smaller effective number of cells (Kish) of both groups; undefined if k is below 2.
    """
    present = tables[tables.sum(axis=(1, 2, 3)) > 0]
    total, sizes = present.sum(axis=0), present.sum(axis=(1, 3))
    effective = float((sizes.sum(axis=0) ** 2 / (sizes**2).sum(axis=0)).min())
    if effective < FEWEST_CLUSTERS:
        return ClusteredOdds(*[np.nan] * 5)
    whole, left = _log_odds(total[None])[0], _log_odds(total - present)
    error = np.sqrt((len(present) - 1) / len(present) * ((left - whole) ** 2).sum(axis=0))
    half = stdtrit(effective - 1, (1 + confidence) / 2) * error
    (crude_low, low), (crude_high, high) = np.exp(whole - half), np.exp(whole + half)
    pvalue = 2 * stdtr(effective - 1, -abs(whole[1]) / error[1]) if error[1] > 0 else np.nan
    return ClusteredOdds(*map(float, (crude_low, crude_high, low, high, pvalue)))


def _log_odds(tables: Floats) -> Floats:
    """Return the log of the crude and of the pooled odds ratio of each set of strata, or NaN."""
    n = np.maximum(tables.sum(axis=(2, 3)), 1)
    crude = tables.sum(axis=1)
    agree = tables[:, :, 0, 0] * tables[:, :, 1, 1] / n
    disagree = tables[:, :, 0, 1] * tables[:, :, 1, 0] / n
    above = np.stack([crude[:, 0, 0] * crude[:, 1, 1], agree.sum(axis=1)], axis=1)
    below = np.stack([crude[:, 0, 1] * crude[:, 1, 0], disagree.sum(axis=1)], axis=1)
    positive = (above > 0) & (below > 0)
    return np.where(
        positive, np.log(np.where(positive, above, 1) / np.where(positive, below, 1)), np.nan
    )
