"""Power limits chosen by the measurements of the others."""

from __future__ import annotations

import numpy as np
import pytest

from traceana.questions.energy.savings import _from_other_limits

LIMITS = np.array([100.0, 125, 150, 175, 200, 225, 250])


def test_the_prediction_is_that_of_the_fit_without_the_point() -> None:
    cost = np.exp(0.05 * np.random.default_rng(1).standard_normal(7)) * (1 + 1e4 / LIMITS**2)
    expected = _from_other_limits(LIMITS, cost)
    for left in range(7):
        rest = np.arange(7) != left
        fit = np.polyfit(np.log(LIMITS[rest]), np.log(cost[rest]), 2)
        predicted = np.exp(np.polyval(fit, np.log(LIMITS[left])))
        # a cost that is more than a tenth above its prediction is no noise
        assert expected[left] == pytest.approx(
            max(predicted, cost[left] * (cost[left] > 1.1 * predicted))
        )


def test_a_limit_at_which_the_cost_soars_is_not_chosen() -> None:
    cost = np.array([2.0, 0.90, 0.87, 0.86, 0.88, 0.93, 1.0])  # the lowest limit cannot be held
    assert LIMITS[np.argmin(_from_other_limits(LIMITS, cost))] > 100


def test_few_limits_are_taken_as_measured() -> None:
    assert _from_other_limits(LIMITS[:4], LIMITS[:4]).tolist() == LIMITS[:4].tolist()


def test_the_chosen_measurement_is_not_the_smallest_by_chance() -> None:
    rng = np.random.default_rng(2)
    true = 1 + 0.3 * np.log(LIMITS / 160) ** 2
    naive, held = [], []
    for _ in range(2000):
        cost = true * np.exp(0.05 * rng.standard_normal(7))
        at = int(np.argmin(_from_other_limits(LIMITS, cost)))
        held.append(np.log(cost[at] / true[at]))
        naive.append(np.log(cost.min() / true[np.argmin(cost)]))
    assert np.mean(naive) < -0.03
    assert abs(np.mean(held)) < 0.02
