"""Do groups differ in the mean of a score? With rows that come in clusters, or on their own.

The score is a rank (Kruskal and Wallis) or 1 for a failure (the chi-square test): both tests
are one quadratic form of the groups' means. What clusters do to it is taken into account by its
first two moments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import chdtrc, chndtr, chndtrinc

from traceana.stats.arguments import check_confidence

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]


class GroupDifference(NamedTuple):
    """Whether groups differ, and by how much; NaN where nothing varies that could tell."""

    statistic: float
    """Sum over groups of n (mean - overall mean)^2 / variance, over the design effect."""
    df: float
    pvalue: float
    effect: float
    """Share of the scores' variance that lies between groups, statistic / (N - 1) of the rows."""
    ci_low: float
    ci_high: float
    design_effect: float
    """How many rows are worth one independent one; 1 where rows are independent."""


def between_groups(
    n: ArrayLike,
    total: ArrayLike,
    squares: float,
    /,
    *,
    null: Floats | None = None,
    spread: Floats | None = None,
    confidence: float = 0.95,
) -> GroupDifference:
    """Test whether groups' mean scores differ, and estimate the share of variance between them.

    Q = sum of n_g (mean_g - mean)^2 / s^2, with s^2 the variance of all N scores (ddof 1). With
    M the covariance of its terms' roots, Q is close to c times chi-square with f degrees of
    freedom, c = tr(M^2) / tr(M) and f = tr(M)^2 / tr(M^2) (Satterthwaite; for ranks: Brunner,
    Dette and Munk, JASA 92, 1997). Rows that are independent have c = 1 and f = groups - 1, the
    classical tests. For the interval of the share Q / (N - 1), Q is taken as c times noncentral
    chi-square, and those noncentralities are kept that do not make Q an extreme.

    Parameters
    ----------
    n, total
        Of each group: rows, and sum of their scores.
    squares
        Sum of the squares of all scores.
    null
        Covariance of the groups' means less the overall one where groups do not differ; None for
        independent rows.
    spread
        The same whether they differ or not, for the interval; None for that of independent rows
        where groups do not differ.
    confidence
        Coverage, in (0, 1).

    Raises
    ------
    DataError
        If `confidence` is not in (0, 1).
    """
    check_confidence(confidence)
    count, sums = np.asarray(n, dtype=float), np.asarray(total, dtype=float)
    rows = count.sum()
    mean = sums.sum() / rows
    weight = count * (rows - 1) / (squares - rows * mean**2)
    q = float((weight * (sums / count - mean) ** 2).sum())
    c, f = _scale(null, weight)
    c_actual, f_actual = _scale(spread, weight)
    tail = (1 - confidence) / 2
    low, high = (
        _noncentrality(q / c_actual, f_actual, p) * c_actual / rows for p in (1 - tail, tail)
    )
    effect = float(min(q / (rows - 1), 1))
    return GroupDifference(
        statistic=q / c,
        df=f,
        pvalue=float(chdtrc(f, q / c)),
        effect=effect,
        ci_low=float(np.minimum(low, effect)),
        ci_high=float(np.clip(high, effect, 1)),
        design_effect=c,
    )


def cluster_covariance(
    cluster: Integers, group: Integers, n: Floats, total: Floats, /, *, centre: ArrayLike
) -> Floats:
    """Return the covariance of groups' means less the overall one, clusters independent.

    Parameters
    ----------
    cluster, group, n, total
        Of each (cluster, group) that there is: its codes from 0 on, rows and sum of scores.
    centre
        The mean score expected in each group: the overall one where groups do not differ, or
        its own.
    """
    shape = (int(cluster.max()) + 1, int(group.max()) + 1)
    excess = np.zeros(shape)
    np.add.at(excess, (cluster, group), total - n * np.broadcast_to(centre, shape[1])[group])
    rows = np.bincount(group, weights=n)
    return covariance_of_sum(excess / rows - excess.sum(axis=1, keepdims=True) / rows.sum())


def covariance_of_sum(parts: Floats, /) -> Floats:
    """Return the covariance of the sum of independent parts, one a row, that sum to about 0."""
    result: Floats = parts.T @ parts * (len(parts) / (len(parts) - 1))
    return result


def _scale(covariance: Floats | None, weight: Floats) -> tuple[float, float]:
    if covariance is None:
        return 1.0, float(len(weight) - 1)
    root = np.sqrt(weight)
    m = root[:, None] * covariance * root
    first, second = float(np.trace(m)), float((m**2).sum())
    if first < 1e-12:  # nothing varies between clusters
        return np.nan, np.nan
    return second / first, first**2 / second


def _noncentrality(statistic: float, df: float, p: float) -> float:
    """Return the noncentrality at which the statistic is the p-quantile; 0 where there is none."""
    if np.isnan(statistic):
        return np.nan
    if chndtr(statistic, df, 0) <= p:
        return 0.0
    return float(chndtrinc(statistic, df, p))
