"""Logistic regression against R, statsmodels, closed forms and brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit, logit
from statsmodels.discrete.discrete_model import Logit

from traceana.errors import DataError
from traceana.stats.logistic import (
    calibrate,
    dependent_columns,
    fit_firth,
    fit_logistic,
    predict_held_out,
)


def births(r_values: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    known = r_values["birth_weight"]
    design = np.stack([np.ones(len(known["low"])), known["lwt"], known["smoke"]], axis=1)
    return design, np.array(known["low"], float), np.array(known["age"])


def drawn(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    design = np.stack([np.ones(n), rng.normal(size=n), rng.integers(0, 2, n)], axis=1)
    chance = expit(design @ np.array([-1.0, 0.7, 0.5]))
    return design, (rng.random(n) < chance).astype(float)


def test_rows_have_rs_hc1_errors(r_values: dict[str, Any]) -> None:
    design, failed, _ = births(r_values)
    known = r_values["birth_weight"]
    found = fit_logistic(design, failed, None, confidence=0.9)
    np.testing.assert_allclose(found.coefficient, known["coefficient"], rtol=1e-6)
    np.testing.assert_allclose(found.std_error, known["hc1_error"], rtol=1e-6)
    half = stats.t.ppf(0.95, 189 - 3) * found.std_error
    np.testing.assert_allclose(found.ci_low, found.coefficient - half)
    np.testing.assert_allclose(found.ci_high, found.coefficient + half)
    expected = 2 * stats.t.sf(np.abs(found.coefficient / found.std_error), 186)
    np.testing.assert_allclose(found.pvalue, expected)


def test_clusters_have_rs_jackknife(r_values: dict[str, Any]) -> None:
    design, failed, age = births(r_values)
    known = r_values["birth_weight"]
    cluster = np.unique(age, return_inverse=True)[1]
    found = fit_logistic(design, failed, cluster, confidence=0.9)
    np.testing.assert_allclose(found.std_error, known["jackknife_error"], rtol=1e-6)
    half = stats.t.ppf(0.95, cluster.max()) * found.std_error
    np.testing.assert_allclose(found.ci_high, found.coefficient + half)


def test_a_coefficient_of_a_single_cluster_has_no_error() -> None:
    design, failed = drawn()
    cluster = np.arange(60) % 6
    alone = np.column_stack([design, (cluster == 2) & (np.arange(60) % 4 == 0)])
    found = fit_logistic(alone, failed, cluster, confidence=0.95)
    assert np.isnan(found.std_error).tolist() == [False, False, False, True]
    chance = expit(alone @ found.coefficient)
    weighted, score = alone * (chance * (1 - chance))[:, None], alone * (failed - chance)[:, None]
    moved = [
        np.linalg.pinv(alone[cluster != c].T @ weighted[cluster != c], rtol=1e-10)
        @ score[cluster == c].sum(axis=0)
        for c in range(6)
    ]
    errors = np.sqrt(5 / 6 * (np.array(moved) ** 2).sum(axis=0))
    np.testing.assert_allclose(found.std_error[:3], errors[:3], rtol=1e-6)


def test_separation_and_too_few_rows_are_refused() -> None:
    design = np.stack([np.ones(8), np.arange(8.0)], axis=1)
    with pytest.raises(DataError, match="separation"):
        fit_logistic(design, (np.arange(8) > 3).astype(float), None, confidence=0.95)
    with pytest.raises(DataError, match=r"2 row\(s\) are too few for the 2 coefficients"):
        fit_logistic(design[:2], np.array([0.0, 1.0]), None, confidence=0.95)


def test_columns_that_depend_on_others_are_named_with_them() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 3))
    sum_of_two = 3 * x[:, 0] - 1e-3 * x[:, 1]
    assert dependent_columns(x) == []
    (group,) = dependent_columns(np.column_stack([x, sum_of_two]))
    assert sorted(group) == [0, 1, 3]
    two = dependent_columns(np.column_stack([np.ones(30), x[:, 0], np.full(30, 4), 1e6 * x[:, 0]]))
    assert sorted(map(sorted, two)) == [[0, 2], [1, 3]]
    # nearly dependent is not dependent
    assert dependent_columns(np.column_stack([x, sum_of_two + 1e-5 * rng.normal(size=30)])) == []


def test_held_out_rows_have_the_probabilities_of_the_other_folds_fit() -> None:
    design, failed = drawn(90)
    fold = np.arange(90) % 3
    found = predict_held_out(design, failed, fold)
    for part in range(3):
        rest = fold != part
        beta = Logit(failed[rest], design[rest]).fit(disp=False).params
        np.testing.assert_allclose(found[~rest], expit(design[~rest] @ beta), rtol=1e-6)
    # the others have one outcome
    one = predict_held_out(design, np.where(fold == 1, failed, 0.0), fold)
    assert np.isnan(one).tolist() == (fold == 1).tolist()
    # the others are separated
    apart = predict_held_out(design, np.where(fold == 1, failed, design[:, 2]), fold)
    assert np.isnan(apart).tolist() == (fold == 1).tolist()
    # a fold without rows
    np.testing.assert_array_equal(predict_held_out(design, failed, fold * 2), found)


def test_calibration_by_hand_and_by_statsmodels() -> None:
    design, failed = drawn(80)
    log_odds = 3 * design[:, 1] - 1
    found = calibrate(expit(log_odds), failed)
    assert found.brier == pytest.approx(((expit(log_odds) - failed) ** 2).mean())
    u = stats.mannwhitneyu(log_odds[failed == 1], log_odds[failed == 0]).statistic
    assert found.auc == pytest.approx(u / (failed.sum() * (80 - failed.sum())))
    scaled = np.stack([np.ones(80), log_odds], axis=1)
    fit = Logit(failed, scaled).fit(disp=False).params
    assert (found.intercept, found.slope) == pytest.approx(tuple(fit), rel=1e-6)
    assert calibrate(np.array([0.0, 1.0, 0.5]), np.array([0.0, 1.0, 1.0])).brier == 0.25 / 3
    flat = calibrate(np.full(80, 0.3), failed)
    assert flat.auc == 0.5
    assert np.isnan([flat.intercept, flat.slope]).all()
    for one in (0.0, 1.0):
        same = calibrate(np.array([0.5, 0.2]), np.full(2, one))
        assert same.brier == pytest.approx(((np.array([0.5, 0.2]) - one) ** 2).mean())
        assert np.isnan(same[1:]).all()
    sure = calibrate(np.array([0.1, 0.2, 0.8, 0.9]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert sure.auc == 1
    assert np.isnan([sure.intercept, sure.slope]).all()  # separated
    certain = calibrate(np.array([0.0, 1, 0, 1, 0.5]), np.array([0.0, 1, 1, 0, 1]))
    assert np.isfinite(certain.slope)


def test_firths_fit_of_a_table_adds_half_to_each_cell() -> None:
    design = np.repeat([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]], [7, 0, 5, 4], axis=0)
    failed = np.repeat([0.0, 1.0, 0.0, 1.0], [7, 0, 5, 4])
    found = fit_firth(design, failed, confidence=0.9)
    odds = np.log([0.5 / 7.5, (4.5 / 5.5) / (0.5 / 7.5)])
    np.testing.assert_allclose(found.coefficient, odds, rtol=1e-6)

    def penalized(beta: np.ndarray) -> float:
        chance = expit(design @ beta)
        information = design.T @ (design * (chance * (1 - chance))[:, None])
        likelihood = np.where(failed == 1, np.log(chance), np.log1p(-chance)).sum()
        return float(likelihood + np.log(np.linalg.det(information)) / 2)

    def fall(slope: float) -> float:
        best = optimize.minimize_scalar(
            lambda a: -penalized(np.array([a, slope])),
            bounds=(-12, 4),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return 2 * float(penalized(found.coefficient) + best.fun)

    for end in (found.ci_low[1], found.ci_high[1]):
        assert fall(end) == pytest.approx(stats.chi2.ppf(0.9, 1), rel=1e-4)
    assert found.ci_low[1] < found.coefficient[1] < found.ci_high[1]
    assert found.pvalue[1] == pytest.approx(stats.chi2.sf(fall(0.0), 1), rel=1e-4)
    assert np.isnan([found.ci_low[0], found.ci_high[0], found.pvalue[0]]).all()
    # errors from the information: those of a table with the fitted odds
    chance = expit(design @ found.coefficient)
    covariance = np.linalg.inv(design.T @ (design * (chance * (1 - chance))[:, None]))
    np.testing.assert_allclose(found.std_error, np.sqrt(np.diag(covariance)), rtol=1e-6)


def test_firths_fit_of_many_rows_is_near_the_likelihoods_and_of_a_far_column_finite() -> None:
    design, failed = drawn(3000)
    found = fit_firth(design, failed, confidence=0.95)
    peer = Logit(failed, design).fit(disp=False)
    np.testing.assert_allclose(found.coefficient, peer.params, atol=0.003)
    np.testing.assert_allclose(found.std_error, peer.bse, rtol=0.01)
    np.testing.assert_allclose(found.ci_high[1:], peer.conf_int()[1:, 1], atol=0.01)
    np.testing.assert_allclose(found.ci_low[1:], peer.conf_int()[1:, 0], atol=0.01)
    # perfectly separated: an end is infinite, hence none, or far out
    apart = np.stack([np.ones(40), np.repeat([0.0, 1.0], 20)], axis=1)
    split = fit_firth(apart, apart[:, 1], confidence=0.95)
    assert split.coefficient[1] == pytest.approx(2 * logit(20.5 / 21))
    assert split.ci_low[1] > 0
    assert split.pvalue[1] < 1e-6


def three(x: list[float], counts: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows at three values of a column: failures and successes of each."""
    failed = np.concatenate([np.repeat([1.0, 0.0], pair) for pair in counts])
    return np.stack([np.ones(len(failed)), np.repeat(x, [sum(c) for c in counts])], 1), failed


@pytest.mark.parametrize(("start", "refused"), [(20, False), (21, True)])
@pytest.mark.parametrize("unit", [1.0, 1e-3])
def test_coefficients_beyond_15_are_of_separation(start: int, refused: bool, unit: float) -> None:
    # log odds of -ln 2, 0 and ln 2: the line meets 0 at the middle, the intercept is -ln 2 times it
    x = [unit * (start + i) for i in range(3)]
    design, failed = three(x, [(20, 40), (30, 30), (40, 20)])
    if refused:
        with pytest.raises(DataError, match="separation"):
            fit_logistic(design, failed, None, confidence=0.95)
        return
    found = fit_logistic(design, failed, None, confidence=0.95)
    expected = np.log(2) * np.array([-(start + 1), 1 / unit])
    np.testing.assert_allclose(found.coefficient, expected, rtol=1e-6)


@pytest.mark.parametrize(("start", "refused"), [(80, False), (82, True)])
def test_errors_beyond_30_are_of_separation(start: int, refused: bool) -> None:
    # (7, 8), (0, 0) and (8, 7): an information of 15 * 56 / 225 at both ends
    design, failed = three([start, start + 1, start + 2], [(7, 8), (0, 0), (8, 7)])
    information = 15 * 56 / 225
    error = np.sqrt(1 / (2 * information) + (start + 1) ** 2 / (2 * information))
    slope = np.log(8 / 7)
    assert slope * (start + 1) < 15
    assert (error > 30) == refused
    if refused:
        with pytest.raises(DataError, match="separation"):
            fit_logistic(design, failed, None, confidence=0.95)
    else:
        found = fit_logistic(design, failed, None, confidence=0.95)
        np.testing.assert_allclose(found.coefficient, [-slope * (start + 1), slope], rtol=1e-6)
        np.testing.assert_allclose(found.std_error[0], error * np.sqrt(30 / 28), rtol=1e-6)


def test_a_coefficient_of_a_single_cluster_has_no_error_in_any_unit() -> None:
    design, failed = drawn()
    cluster = np.arange(60) % 6
    alone = np.column_stack([design, (cluster == 2) & (np.arange(60) % 4 == 0)])
    for unit in (1.0, 1e4, 1e5):
        moved = alone * np.array([1, 1, 1, unit])
        found = fit_logistic(moved, failed, cluster, confidence=0.95)
        assert np.isnan(found.std_error).tolist() == [False, False, False, True]


def test_all_rows_in_one_fold_or_predictions_that_hardly_differ() -> None:
    design, failed = drawn(90)
    assert np.isnan(predict_held_out(design, failed, np.zeros(90, np.int64))).all()
    log_odds = 0.05 * design[:, 1] - 1
    found = calibrate(expit(log_odds), failed)
    fit = Logit(failed, np.stack([np.ones(90), log_odds], axis=1)).fit(disp=False).params
    assert (found.intercept, found.slope) == pytest.approx(tuple(fit), rel=1e-5)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_firths_profile_of_a_middling_column(scale: float) -> None:
    rng = np.random.default_rng(2)
    x, z = rng.normal(size=(2, 40))
    design = np.stack([np.ones(40), scale * x, z], axis=1)
    failed = (rng.random(40) < expit(0.1 * x - 1.5)).astype(float)
    found = fit_firth(design, failed, confidence=0.8)

    def loss(beta: np.ndarray) -> float:
        chance = expit(design @ beta)
        information = design.T @ (design * (chance * (1 - chance))[:, None])
        half = np.linalg.slogdet(information)[1] / 2
        return float(-(failed @ np.log(chance) + (1 - failed) @ np.log1p(-chance)) - half)

    least = loss(found.coefficient)
    near = optimize.minimize(loss, found.coefficient, method="Nelder-Mead", tol=1e-12)
    assert near.fun == pytest.approx(least, abs=1e-8)

    def fall(slope: float) -> float:
        rest = optimize.minimize(
            lambda b: loss(np.array([b[0], slope, b[1]])), found.coefficient[[0, 2]], tol=1e-10
        )
        return 2 * float(rest.fun - least)

    assert found.pvalue[1] == pytest.approx(stats.chi2.sf(fall(0.0), 1), abs=1e-5)
    assert found.pvalue[1] > 0.35
    for end in (found.ci_low[1], found.ci_high[1]):
        assert fall(end) == pytest.approx(stats.chi2.ppf(0.8, 1), rel=1e-3)
