"""Pearson's r with the jackknife's error, and Spearman's rho of rows told by distinct x."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from traceana.stats.correlation import spearman_of_groups, weighted_ranks
from traceana.stats.jackknife import pearson_jackknife


@pytest.mark.parametrize("n", [5, 60, 20_000])  # the last in more than one block
def test_the_error_is_that_of_all_pairs_but_one_in_turn(n: int) -> None:
    rng = np.random.default_rng(n)
    x, noise = rng.standard_normal((2, n))
    x, y = 1e6 + np.exp(x), np.exp(x + noise)
    r, error = pearson_jackknife(x, y)
    assert r == pytest.approx(np.corrcoef(x, y)[0, 1], rel=1e-9)
    if n < 100:
        left = [np.corrcoef(np.delete(x, i), np.delete(y, i))[0, 1] for i in range(n)]
        z = np.arctanh(left)
    else:  # from sums without the pair, in more digits than a double has
        a, b = ((part - part.mean()).astype(np.longdouble) for part in (x, y))
        xx, yy, xy = ((u * v).sum() - n / (n - 1) * u * v for u, v in ((a, a), (b, b), (a, b)))
        z = np.arctanh(xy / np.sqrt(xx * yy))
    assert error == pytest.approx(float(np.sqrt((n - 1) / n * ((z - z.mean()) ** 2).sum())))


def test_what_the_jackknife_cannot_tell_is_nan() -> None:
    x, y = np.array([1.0, 2, 3, 4, 7]), np.array([2.0, 1, 4, 3, 9])
    assert np.isnan(pearson_jackknife(x * 1e-200, y)).all()
    for other in (np.array([0.0, 0, 0, 0, 1]), x, -2 * x):
        r, error = pearson_jackknife(x, other)
        assert r == pytest.approx(np.corrcoef(x, other)[0, 1])
        assert np.isnan(error)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=4, max_size=60))
def test_rho_of_groups_is_that_of_rows(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    if len(set(x)) < 2 or len(set(y)) < 2:
        return
    rank = weighted_ranks(y)
    assert rank.tolist() == scipy.stats.rankdata(y).tolist()
    values, at, size = np.unique(x, return_inverse=True, return_counts=True)
    squares = float(((rank - rank.mean()) ** 2).sum())
    mean = np.bincount(at, rank) / size
    found = spearman_of_groups(values, size.astype(float), mean, squares)
    assert found == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-12)
