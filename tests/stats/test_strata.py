"""Odds ratios over strata against R, closed forms and leave-one-out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import StratifiedTable

from traceana.stats.logistic import clustered_odds, odds_ratio, pooled_odds


def pooled(tables: np.ndarray) -> tuple[float, float]:
    """The crude and the Mantel-Haenszel odds ratio (JNCI 22, 1959)."""
    a, b, c, d = tables.sum(axis=0).ravel()
    above = sum(t[0, 0] * t[1, 1] / t.sum() for t in tables if t.sum())
    below = sum(t[0, 1] * t[1, 0] / t.sum() for t in tables if t.sum())
    return a * d / (b * c), above / below


def test_woolfs_interval_by_hand() -> None:
    found = odds_ratio(np.array([[4.0, 2.0], [3.0, 6.0]]), confidence=0.9)
    half = stats.norm.ppf(0.95) * np.sqrt(1 / 4 + 1 / 2 + 1 / 3 + 1 / 6)
    assert found == pytest.approx((4, 4 * np.exp(-half), 4 * np.exp(half)))
    assert np.isnan(odds_ratio(np.array([[4.0, 0.0], [3.0, 6.0]]), confidence=0.9)).all()
    assert np.isfinite(odds_ratio(np.ones((2, 2)), confidence=0.9)).all()


def test_admissions_to_berkeley_as_r_has_them(r_values: dict[str, Any]) -> None:
    known = r_values["admissions"]
    tables = np.reshape(known["cells"], (6, 2, 2)).astype(float)
    found = pooled_odds(tables, confidence=0.95)
    expected = [known[name] for name in ("odds_ratio", "ci_low", "ci_high", "pvalue")]
    assert found[:4] == pytest.approx(expected, rel=1e-9)
    # Breslow and Day's statistic with Tarone's correction, from the expected cells
    squares = excess = variance = 0.0
    for (a, b), (c, d) in tables:

        def off(x: float, sides: Any = (a + b, a + c, d - a)) -> float:
            row, column, rest = sides
            return float(x * (rest + x) - known["odds_ratio"] * (row - x) * (column - x))

        x = optimize.brentq(off, max(0, a - d) + 1e-9, min(a + b, a + c) - 1e-9)
        own = 1 / (1 / x + 1 / (a + b - x) + 1 / (a + c - x) + 1 / (d - a + x))
        squares += (a - x) ** 2 / own
        excess += a - x
        variance += own
    expected_p = stats.chi2.sf(squares - excess**2 / variance, 5)
    assert found.pvalue_homogeneity == pytest.approx(expected_p, rel=1e-6)
    assert found.n_strata == 6
    # strata of one group or one outcome change nothing
    idle = np.array([[[5.0, 3.0], [0.0, 0.0]], [[4.0, 0.0], [3.0, 0.0]]])
    np.testing.assert_array_equal(
        pooled_odds(np.concatenate([tables, idle]), confidence=0.95), found
    )


def test_equal_odds_have_a_p_of_1_and_a_far_test_one_below_1e_16() -> None:
    same = pooled_odds(np.full((2, 2, 2), 5.0), confidence=0.95)
    assert (same.odds_ratio, same.pvalue, same.pvalue_homogeneity) == pytest.approx((1, 1, 1))
    assert same.ci_low * same.ci_high == pytest.approx(1)
    far = pooled_odds(np.array([[[300.0, 100.0], [100.0, 300.0]]]), confidence=0.95)
    # of a single table (n - 1) / n of Pearson's statistic, here 200
    assert far.pvalue == pytest.approx(stats.chi2.sf(200 * 799 / 800, 1), rel=1e-9)
    assert (far.odds_ratio, far.n_strata) == pytest.approx((9, 1))
    assert np.isnan(far.pvalue_homogeneity)


def test_odds_without_an_end_have_only_a_test() -> None:
    never = pooled_odds(np.array([[[5.0, 2.0], [0.0, 9.0]]]), confidence=0.95)
    assert np.isnan([never.odds_ratio, never.ci_low, never.ci_high]).all()
    # the hypergeometric variance: 7 * 9 * 5 * 11 / (16^2 * 15), of an excess of 5 - 35 / 16
    assert never.pvalue == pytest.approx(
        stats.chi2.sf((5 - 35 / 16) ** 2 / (7 * 9 * 5 * 11 / (16**2 * 15)), 1)
    )
    mirrored = pooled_odds(np.array([[[0.0, 9.0], [5.0, 2.0]]]), confidence=0.95)
    assert mirrored.pvalue == pytest.approx(never.pvalue)
    assert np.isnan(mirrored.odds_ratio)
    nothing = pooled_odds(np.array([[[5.0, 2.0], [0.0, 0.0]]]), confidence=0.95)
    assert np.isnan(nothing[:5]).all()
    assert nothing.n_strata == 0


def test_clusters_are_left_out_one_at_a_time() -> None:
    tables = np.random.default_rng(1).integers(0, 4, (8, 3, 2, 2)).astype(float)
    tables[3, 1] = 0
    whole = np.log(pooled(tables.sum(axis=0)))
    left = np.log([pooled(np.delete(tables, c, axis=0).sum(axis=0)) for c in range(8)])
    error = np.sqrt(7 / 8 * ((left - whole) ** 2).sum(axis=0))
    # Kish's effective number of clusters of each group's rows
    rows = [tables[:, :, group].sum(axis=(1, 2)) for group in (0, 1)]
    df = min(n.sum() ** 2 / (n @ n) for n in rows) - 1
    half = stats.t.ppf(0.95, df) * error
    # a cluster without rows is none
    idle = np.concatenate([tables, np.zeros((1, 3, 2, 2))])
    found = clustered_odds(idle, confidence=0.9)
    assert found[:2] == pytest.approx(np.exp([whole[0] - half[0], whole[0] + half[0]]))
    assert found[2:4] == pytest.approx(np.exp([whole[1] - half[1], whole[1] + half[1]]))
    assert found.pvalue == pytest.approx(2 * stats.t.sf(abs(whole[1]) / error[1], df))


def test_one_cluster_or_one_that_every_failure_needs_has_no_interval() -> None:
    one = np.array([[[[3.0, 2.0], [1.0, 4.0]]]])
    assert np.isnan(clustered_odds(one, confidence=0.95)).all()
    # without the first no row of the first group fails
    lost = np.concatenate([one, [[[[0.0, 5.0], [1.0, 4.0]]]]])
    assert np.isnan(clustered_odds(lost, confidence=0.95)).all()
    # two alike clusters: nothing varies
    alike = clustered_odds(np.repeat(one, 2, axis=0), confidence=0.95)
    assert alike[:4] == pytest.approx((6,) * 4)
    assert np.isnan(alike.pvalue)


def test_rare_events_and_strata_of_a_few_rows() -> None:
    # rows, columns and strata of one; Mantel and Haenszel by hand: sums of a d / n and b c / n
    tables = np.array([[[1.0, 1], [1, 2]], [[1, 3], [2, 5]], [[1, 0], [1, 1]]])
    found = pooled_odds(tables, confidence=0.95)
    above, below = 2 / 5 + 5 / 11 + 1 / 3, 1 / 5 + 6 / 11
    assert found.odds_ratio == pytest.approx(above / below)
    assert found.n_strata == 3
    # a ratio of nearly 1 keeps its test of equal odds: two tables of 4 and 1 / 4, and near
    near = np.array([[[8.0, 4], [4, 8]], [[4, 8], [8, 4]]])
    for scale in (1.0, 1.001):
        moved = near * np.array([scale, 1])[:, None, None]
        statistic = float(
            StratifiedTable([m + 1e-7 * np.eye(2) for m in moved]).test_equal_odds(True).statistic
        )
        equal = pooled_odds(moved, confidence=0.95).pvalue_homogeneity
        assert equal == pytest.approx(stats.chi2.sf(statistic, 1), rel=1e-4)
    # one stratum is in both tables or none: an odds ratio without an end
    apart = np.array([[[5.0, 2], [0, 9]], [[0.0, 9], [5, 2]]])
    n = 16
    assert pooled_odds(apart, confidence=0.95).odds_ratio == pytest.approx((45 / n) / (45 / n))


def test_clusters_of_one_row_and_fractions_of_rows() -> None:
    rng = np.random.default_rng(3)
    tables = np.zeros((30, 2, 2, 2))
    tables[
        np.arange(30), rng.integers(0, 2, 30), rng.integers(0, 2, 30), rng.integers(0, 2, 30)
    ] = 1
    whole = np.log(pooled(tables.sum(axis=0)))
    left = np.log([pooled(np.delete(tables, c, axis=0).sum(axis=0)) for c in range(30)])
    error = np.sqrt(29 / 30 * ((left - whole) ** 2).sum(axis=0))
    df = min(tables[:, :, group].sum() for group in (0, 1)) - 1
    half = stats.t.ppf(0.95, df) * error
    for weight in (1.0, 1 / 64):  # odds are of any unit, from which sums are below 1
        found = clustered_odds(tables * weight, confidence=0.9)
        assert found[1] == pytest.approx(np.exp(whole[0] + half[0]))
        if weight == 1:
            assert found[3] == pytest.approx(np.exp(whole[1] + half[1]))
