"""Moments of rows, against numpy and where rounding would tell."""

from __future__ import annotations

import numpy as np
import pytest

from traceana.stats.dispersion import row_moments


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("rows", [0, 1, 5, 20_001])
def test_moments_are_numpys(rows: int, ddof: int) -> None:
    values = np.random.default_rng(1).lognormal(3, 2, (rows, 7))
    n, mean, std = row_moments(values, ddof=ddof)
    assert n.tolist() == [7] * rows
    np.testing.assert_allclose(mean, values.mean(axis=1), rtol=1e-14)
    np.testing.assert_allclose(std, values.std(axis=1, ddof=ddof), rtol=1e-13)


def test_what_is_missing_is_left_out() -> None:
    nan = np.nan
    values = np.array([[nan, 2, 4, 9], [nan, nan, nan, nan], [nan, nan, 7, nan], [3, 3, nan, 3]])
    n, mean, std = row_moments(values, ddof=1)
    assert n.tolist() == [3, 0, 1, 3]
    np.testing.assert_allclose(mean, [5, nan, 7, 3])
    np.testing.assert_allclose(std, [np.sqrt(13), nan, nan, 0])
    assert row_moments(values, ddof=0)[2][2] == 0


def test_one_column_has_its_values_as_means() -> None:
    n, mean, std = row_moments(np.array([[3.0], [np.nan]]), ddof=0)
    assert n.tolist() == [1, 0]
    np.testing.assert_array_equal([mean, std], [[3, np.nan], [0, np.nan]])


def test_a_large_mean_costs_no_digits() -> None:
    near = np.array([[0.0, 0.5, 1.0, 0.25]])
    _, mean, std = row_moments(near + 2.0**40, ddof=1)
    assert mean[0] == 2.0**40 + near.mean()
    assert std[0] == pytest.approx(near.std(ddof=1), rel=1e-15)


def test_equal_values_have_no_deviation() -> None:
    for value in (0.1, 1e7 / 3, 1e150, 5e-324):
        assert row_moments(np.full((1, 9), value), ddof=1)[2].tolist() == [0]
