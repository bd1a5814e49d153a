"""Standard errors of a correlation whose rows depend on each other within clusters.

Whole clusters are drawn with replacement. A resample is told by how often it has each cluster, so
that all resamples of a sum over rows are one matrix product with the clusters' own sums. Errors
are on Fisher's scale, arctanh(r).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import stdtrit

from traceana.stats.arguments import check_confidence
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


@dataclass(frozen=True)
class Draws:
    """Clusters drawn.

    Attributes
    ----------
    cells
        The cell of each row: its cluster, or one of :data:`CELLS` random sets of clusters.
    counts
        How often each resample (row) has each cell (column), drawn with replacement.
    """

    cells: Whole
    counts: Floats


def draw_clusters(clusters: Whole, /, *, resamples: int, rng: np.random.Generator) -> Draws:
    """Draw whole clusters with replacement, as many as there are.

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
    return Draws(cells, counts)


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


def clustered_interval(
    r: float, error: float, clusters: int, /, *, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of a correlation: tanh(arctanh(r) -+ t(clusters - 1) error)."""
    check_confidence(confidence)
    half = stdtrit(clusters - 1, (1 + confidence) / 2) * error
    return float(np.tanh(np.arctanh(r) - half)), float(np.tanh(np.arctanh(r) + half))


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
