"""Standard errors of a correlation whose rows depend on each other within clusters.

Whole clusters are drawn with replacement. A resample is told by how often it has each cluster, so
that all resamples of a sum over rows are one matrix product with the clusters' own sums. Errors
are on Fisher's scale, arctanh(r).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.sparse import csr_array
from scipy.special import stdtr, stdtrit
from scipy.stats import weightedtau

from traceana.stats.arguments import check_confidence
from traceana.stats.correlation import SMALLEST_P, weighted_ranks
from traceana.stats.rank_influence import kendall_influence, spearman_influence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Whole = NDArray[np.int64]

CELLS: Final = 2000
"""More clusters than these are put at random into so many cells, which are then drawn.

Sums over cells of independent clusters are independent too, with the same variance in total; an
error told from 2000 cells is itself uncertain by 1.6 % at most, less than by 1000 resamples.
"""

_NEAR_ONE: Final = 1 - 1e-12  # whose arctanh is still a number
_AT_ONCE: Final = 4_000_000  # entries of a matrix of resamples by groups


@dataclass(frozen=True)
class Draws:
    """Clusters drawn, and clusters turned over.

    Attributes
    ----------
    cells
        The cell of each row: its cluster, or one of :data:`CELLS` random sets of clusters.
    counts
        How often each resample (row) has each cell (column), drawn with replacement.
    signs
        1 or -1 of each cell in each resample.
    """

    cells: Whole
    counts: Floats
    signs: Floats


def draw_clusters(clusters: Whole, /, *, resamples: int, rng: np.random.Generator) -> Draws:
    """Draw whole clusters with replacement, as many as there are; and their signs.

    Parameters
    ----------
    clusters
        Whose each row is: whole numbers from 0 on.
    resamples, rng
        How many times, and by what.
    """
    n = int(clusters.max()) + 1
    cells = clusters
    if n > CELLS:
        cells, n = rng.permutation(n)[clusters] % CELLS, CELLS
    counts = rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)
    signs = 2.0 * rng.integers(0, 2, size=(resamples, n)) - 1
    return Draws(cells, counts, signs.astype(np.float64))


def pearson_error(x: Floats, y: Floats, draws: Draws, /) -> float:
    """Return the standard error of Pearson's r over rows, on Fisher's scale.

    From the symmetric bootstrap-t (Hall, The Bootstrap and Edgeworth Expansion, 1992): each
    resample's arctanh(r*) - arctanh(r) over its own linearised error; see :func:`_calibrated`.
    """
    cells, counts = draws.cells, draws.counts
    a, b = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    parts = (np.ones(len(a)), a, b, a * a, b * b, a * b)
    sums = np.stack([np.bincount(cells, part, counts.shape[1]) for part in parts], axis=1)
    i, j = np.triu_indices(len(parts))
    twice = np.where(i == j, 1, 2)
    drawn = counts @ np.hstack([sums, sums[:, i] * sums[:, j]])
    r, gradient, n = _linear_parts(drawn[:, :6])
    varies = np.isfinite(gradient).all(axis=1) & (1 - r**2 > 1e-12)
    r, gradient, n, drawn = r[varies], gradient[varies], n[varies], drawn[varies]
    squares = (twice * gradient[:, i] * gradient[:, j] * drawn[:, 6:]).sum(axis=1)
    whole, slope, rows = _linear_parts(sums.sum(axis=0)[None])
    error = float(np.sqrt(np.sum((sums @ slope[0]) ** 2)) / (rows[0] * (1 - whole[0] ** 2)))
    fine = squares > 0
    r, n, squares = r[fine], n[fine], squares[fine]
    away = np.arctanh(r) - np.arctanh(whole[0])
    return _calibrated(error, away, np.sqrt(squares) / (n * (1 - r**2)), cells)


def rank_error(r: float, x: Floats, y: Floats, draws: Draws, /, *, method: str) -> float:
    """Return the standard error of Spearman's or Kendall's coefficient over rows, on that scale.

    As :func:`pearson_error`, of the coefficient's linear part: r + the mean of each row's
    influence, told once from all rows (ranks are not taken anew in each resample).
    """
    cells, counts = draws.cells, draws.counts
    influence = spearman_influence(x, y) if method == "spearman" else kendall_influence(x, y)
    n, total = (np.bincount(cells, part, counts.shape[1]) for part in (np.ones(len(x)), influence))
    drawn = counts @ np.stack([n, total, total**2, total * n, n**2], axis=1)
    drawn = drawn[drawn[:, 0] > 0]
    mean = drawn[:, 1] / drawn[:, 0]
    squares = drawn[:, 2] - 2 * mean * drawn[:, 3] + mean**2 * drawn[:, 4]
    fine = squares > 0
    errors = np.sqrt(squares[fine]) / drawn[fine, 0]
    error = float(np.sqrt(np.sum(total**2))) / len(x)
    # the step to Fisher's scale is that of r itself, in error and in resamples alike
    return _calibrated(error, mean[fine], errors, cells) / (1 - r**2)


def group_mean_error(
    x: Floats, y: Floats, draws: Draws, /, *, method: str, weighted: bool
) -> float:
    """Return the standard error of a correlation over group means, on Fisher's scale.

    From the wild cluster bootstrap with the null imposed (Cameron, Gelbach and Miller, Review of
    Economics and Statistics 90, 2008): rows keep their x, and what each y is off the mean of all
    is its y in a resample, with one random sign for the whole cluster. The error is what makes t
    (clusters - 1) reach the 95 % quantile of |arctanh(r*)| over the means of these, by the same
    method and weights. Drawing clusters with replacement would add the noise of means to itself,
    and find a correlation in noise too often; so would residuals from a line, which an outlying x
    draws to itself.

    Parameters
    ----------
    x, y, draws
        Of each row; a group is the rows of a distinct x.
    method, weighted
        As for the coefficient: weighted by the groups' numbers of rows or not.
    """
    values, group, size = np.unique(x, return_inverse=True, return_counts=True)
    weights = size.astype(float) if weighted else np.ones(len(values))
    off = y - y.mean()
    table = csr_array((off, (group, draws.cells)), shape=(len(values), draws.counts.shape[1]))
    ranks = weighted_ranks(values, weights)
    found = []
    at_once = max(1, _AT_ONCE // len(values))
    for start in range(0, len(draws.signs), at_once):
        signs = np.ascontiguousarray(draws.signs[start : start + at_once].T)
        noise = (table @ signs).T / size
        if method == "kendall":
            found.append(np.array([_weighted_tau(values, row, weights) for row in noise]))
        elif method == "spearman":
            noise = _ranks(noise, weights)
            found.append(_correlations(ranks, noise, weights))
        else:
            found.append(_correlations(values, noise, weights))
    r = np.concatenate(found)
    r = np.clip(r[np.isfinite(r)], -_NEAR_ONE, _NEAR_ONE)
    if len(r) < 2:
        return float("nan")
    reached = np.quantile(np.abs(np.arctanh(r)), 0.95)
    return float(reached / stdtrit(count_distinct(draws.cells) - 1, 0.975))


def clustered_interval(
    r: float, error: float, clusters: int, /, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of a correlation: tanh(arctanh(r) -+ t(clusters - 1) error)."""
    check_confidence(confidence)
    half = stdtrit(clusters - 1, (1 + confidence) / 2) * error
    return float(np.tanh(np.arctanh(r) - half)), float(np.tanh(np.arctanh(r) + half))


def clustered_pvalue(r: float, error: float, clusters: int, /) -> float:
    """Two-sided p-value of no correlation: t(clusters - 1) of arctanh(r) / error."""
    return max(float(2 * stdtr(clusters - 1, -abs(np.arctanh(r)) / error)), SMALLEST_P)


def count_distinct(numbers: Whole, /) -> int:
    """Return how many different whole numbers from 0 on there are; many times numpy's speed."""
    return int(np.count_nonzero(np.bincount(numbers)))


def _calibrated(error: float, away: Floats, errors: Floats, cells: Whole) -> float:
    """Return an error that t(clusters - 1) makes the symmetric bootstrap-t interval of 95 %."""
    if len(away) < 2:
        return float("nan")
    reached = np.quantile(np.abs(away / errors), 0.95)
    return float(error * reached / stdtrit(count_distinct(cells) - 1, 0.975))


def _linear_parts(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Pearson's r of rows of [n, x, y, xx, yy, xy], its influence as factors of these, and n."""
    with np.errstate(invalid="ignore", divide="ignore"):  # resamples without variation
        n = sums[:, 0]
        mx, my, xx, yy, xy = (sums[:, k] / n for k in range(1, 6))
        sx, sy = np.sqrt(np.maximum(xx - mx**2, 0)), np.sqrt(np.maximum(yy - my**2, 0))
        r = (xy - mx * my) / (sx * sy)
        product, of_x, of_y = 1 / (sx * sy), r / 2 / sx**2, r / 2 / sy**2
        factors = np.stack(
            [
                product * mx * my - of_x * mx**2 - of_y * my**2,
                2 * of_x * mx - product * my,
                2 * of_y * my - product * mx,
                -of_x,
                -of_y,
                product,
            ],
            axis=1,
        )
    return r, factors, n


def _correlations(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Correlation of x with each row of y; NaN where a row does not vary."""
    u = weights * (x - np.average(x, weights=weights))
    away = y - np.average(y, weights=weights, axis=1)[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        r: Floats = away @ u / np.sqrt((u**2 / weights).sum() * (away**2 @ weights))
    return r


def _weighted_tau(x: Floats, y: Floats, weights: Floats) -> float:
    """Kendall's tau-b of points that count as often as their weights say."""
    # each pair counts the product of its weights, which scipy takes as a function of the place
    place = np.arange(len(x))
    found = weightedtau(x, y, rank=place, weigher=weights.__getitem__, additive=False)
    return float(found.statistic)


def _ranks(values: Floats, weights: Floats) -> Floats:
    """Weighted ranks along rows; equal values, few among such means, keep their order."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered = weights[order]
    ranks = np.empty_like(values)
    np.put_along_axis(ranks, order, np.cumsum(ordered, axis=1) - (ordered - 1) / 2, axis=1)
    return ranks
