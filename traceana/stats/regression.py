"""Coefficients of logistic, proportional hazards and quantile regression."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from scipy.special import expit

from traceana.stats.arrays import Floats, Integers

_NEAR: Final = 1e-8
_Slope: TypeAlias = Callable[[Floats], tuple[Floats, Floats]]


def _maximize(slope: _Slope, k: int, steps: int) -> tuple[Floats, Floats, bool]:
    """Return coefficients by Newton's method, the information there, and whether it converged."""
    beta = np.zeros(k)
    for _ in range(steps):
        score, information = slope(beta)
        step = np.linalg.solve(information, score)
        beta = beta + step
        if (np.abs(step) <= _NEAR).all():
            return beta, slope(beta)[1], True
    return beta, slope(beta)[1], False


def fit_logit(design: Floats, success: Floats, /) -> tuple[Floats, Floats, bool]:
    """Return the coefficients of a logistic regression, the information, and convergence.

    Raises LinAlgError where the information is singular.
    """

    def slope(beta: Floats) -> tuple[Floats, Floats]:
        chance = expit(design @ beta)
        weighted = design * (chance * (1 - chance))[:, None]
        return design.T @ (success - chance), weighted.T @ design

    return _maximize(slope, design.shape[1], 50)


class RiskSets:
    """Rows at risk at each distinct time of an event: from their entry, both ends included."""

    def __init__(
        self, time: Floats, entry: Floats | None, event: Floats, matrix: Floats, *, efron: bool
    ) -> None:
        self._happened = event == 1
        self._matrix = matrix
        times, self._at, self._many = np.unique(
            time[self._happened], return_inverse=True, return_counts=True
        )
        self._n = len(times)
        self._until = np.searchsorted(times, time, side="right")
        zero = np.zeros_like(self._until)
        self._since = zero if entry is None else np.searchsorted(times, entry)
        self._efron = efron

    @cached_property
    def _ties(self) -> tuple[Integers, Floats, Floats]:
        """Time, number of events, and fraction of the tied rows that have left, of each term."""
        if not self._efron:  # one term per time, as none of its rows has left
            return np.arange(self._n), self._many.astype(float), np.zeros(self._n)
        place = np.repeat(np.arange(self._n), self._many)
        first = np.repeat(np.cumsum(self._many) - self._many, self._many)
        left = (np.arange(len(place)) - first) / self._many[place]
        return place, np.ones(len(place)), left

    def _at_risk(self, weights: Floats) -> Floats:
        entered, left = (
            np.bincount(place, weights, self._n + 1) for place in (self._since, self._until)
        )
        total: Floats = np.cumsum(entered - left)[:-1]
        return total

    def _summed(self, steps: Floats | Integers) -> Floats:
        """Return the sum over the times at which each row is at risk."""
        total = np.concatenate([np.zeros((1, *steps.shape[1:])), np.cumsum(steps, axis=0)])
        difference: Floats = total[self._until] - total[self._since]
        return difference

    def fit(self) -> tuple[Floats, Floats]:
        """Return the coefficients of a proportional hazards model, and the information."""
        return _maximize(self._slope, self._matrix.shape[1], 100)[:2]

    def _slope(self, beta: Floats) -> tuple[Floats, Floats]:
        linear = self._matrix @ beta
        hazard = np.exp(linear - linear.max())
        place, many, left = self._ties
        tied, of_tied = self._matrix[self._happened], hazard[self._happened]

        def at_terms(values: Floats) -> Floats:
            total = self._at_risk(values)[place]
            if self._efron:
                total -= left * np.bincount(self._at, values[self._happened], self._n)[place]
            return total

        total = at_terms(hazard)
        mean = np.stack([at_terms(hazard * column) for column in self._matrix.T], axis=1)
        mean /= total[:, None]
        score = tied.sum(axis=0) - many @ mean
        rise, fall = (np.bincount(place, part / total, self._n) for part in (many, many * left))
        weight = hazard * self._summed(rise)
        second = (self._matrix * weight[:, None]).T @ self._matrix
        second -= (tied * (of_tied * fall[self._at])[:, None]).T @ tied
        return score, second - (mean * many[:, None]).T @ mean

    def score_residuals(self, beta: Floats) -> tuple[Floats, Floats]:
        """Return each row's score residual and cumulative hazard; ties as by Breslow."""
        linear = self._matrix @ beta
        hazard = np.exp(linear - linear.max())
        total = self._at_risk(hazard)
        mean = np.stack([self._at_risk(hazard * one) / total for one in self._matrix.T], axis=1)
        rise: Floats = self._many / total
        summed = self._summed(rise)
        expected = self._matrix * summed[:, None] - self._summed(mean * rise[:, None])
        happened = self._happened[:, None] * (self._matrix - mean[np.maximum(self._until - 1, 0)])
        return happened - hazard[:, None] * expected, hazard * summed


def fit_quantile(design: Floats, y: Floats, level: float, /) -> Floats:
    """Return the coefficients of a quantile regression, by least squares reweighted.

    Collinear columns share their coefficient.
    """
    weighted, beta = design, np.ones(design.shape[1])
    for _ in range(1000):
        before = beta
        beta = np.linalg.pinv(weighted.T @ design) @ (weighted.T @ y)
        if np.abs(beta - before).max() <= 1e-6:
            break
        residual = y - design @ beta
        distance = np.maximum(np.abs(residual), 1e-6) * np.where(residual < 0, level, 1 - level)
        weighted = design / distance[:, None]
    return beta
