"""Logistic regression by Firth's penalized likelihood, with profile intervals, for few events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtrc, chdtri, expit

from traceana.stats.logistic import LogisticFit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_STEPS: Final = 200
_LONGEST: Final = 2.0  # of a step, in log odds of a standardized column
_FAR: Final = 50.0  # log odds at which the search for an end of an interval stops


def fit_firth(design: Floats, failed: Floats, /, *, confidence: float) -> LogisticFit:
    """Fit a logistic regression by the likelihood times the root of its information.

    Firth (Biometrika 80, 1993): finite under separation too, and without the first-order bias of
    maximum likelihood. Intervals and p-values are from the profile of the penalized likelihood
    (Heinze and Schemper, Statistics in Medicine 21, 2002); rows are independent.
    """
    free = np.ones(design.shape[1], dtype=bool)
    beta, best = _climb(design, failed, np.zeros(design.shape[1]), free)
    covariance = np.asarray(np.linalg.inv(_information(design, beta)), dtype=np.float64)
    error = np.sqrt(np.diag(covariance))
    drop = float(chdtri(1, 1 - confidence)) / 2
    low, high = np.full(len(beta), np.nan), np.full(len(beta), np.nan)
    pvalue = np.full(len(beta), np.nan)
    for column in range(1, len(beta)):
        others = free.copy()
        others[column] = False

        def loss(value: float, column: int = column, others: NDArray[np.bool_] = others) -> float:
            start = beta.copy()
            start[column] = value
            return best - _climb(design, failed, start, others)[1]

        pvalue[column] = chdtrc(1, max(2 * loss(0.0), 0.0))
        for ends, sign in ((low, -1), (high, 1)):
            step = 2 * error[column]
            while step < _FAR and loss(beta[column] + sign * step) < drop:
                step *= 1.5
            if step < _FAR:
                ends[column] = brentq(
                    lambda value, loss=loss: loss(value) - drop,
                    beta[column],
                    beta[column] + sign * step,
                    xtol=1e-6,
                )
    return LogisticFit(beta, error, low, high, pvalue, covariance)


def _information(design: Floats, beta: Floats) -> Floats:
    chance = expit(design @ beta)
    result: Floats = (design * (chance * (1 - chance))[:, None]).T @ design
    return result


def _penalized(design: Floats, failed: Floats, beta: Floats) -> float:
    score = design @ beta
    _, half = np.linalg.slogdet(_information(design, beta))
    return float(failed @ score - np.logaddexp(0, score).sum() + half / 2)


def _climb(
    design: Floats, failed: Floats, start: Floats, free: NDArray[np.bool_]
) -> tuple[Floats, float]:
    """Return the maximum over the free coefficients."""
    beta, value = start.copy(), _penalized(design, failed, start)
    for _ in range(_STEPS if free.any() else 0):
        chance = expit(design @ beta)
        weighted = design * np.sqrt(chance * (1 - chance))[:, None]
        inverse = np.linalg.pinv(weighted.T @ weighted)
        leverage = np.einsum("ij,jk,ik->i", weighted, inverse, weighted)
        score = design.T @ (failed - chance + leverage * (0.5 - chance))
        own = (weighted.T @ weighted)[np.ix_(free, free)]
        step = np.linalg.pinv(own) @ score[free]
        step *= min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300))
        for _halving in range(30):
            trial = beta.copy()
            trial[free] += step
            found = _penalized(design, failed, trial)
            if found >= value - 1e-12:
                break
            step /= 2
        else:
            break
        gain, beta, value = found - value, trial, found
        if gain < 1e-11 and np.abs(step).max() < 1e-7:
            break
    return beta, value
