"""Regressions against those of statsmodels, and a closed form."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from statsmodels.discrete.discrete_model import Logit
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.regression.quantile_regression import QuantReg

from traceana.stats.arrays import Floats
from traceana.stats.regression import RiskSets, fit_logit, fit_quantile


def draw(seed: int, n: int = 300) -> tuple[Floats, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(5, 3, n), rng.random(n) < 0.3, rng.exponential(1, n)]), rng


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("entered", [False, True])
@pytest.mark.parametrize("digits", [-1, 0, 6])
def test_proportional_hazards(seed: int, ties: str, *, entered: bool, digits: int) -> None:
    matrix, rng = draw(seed)
    risk = np.exp(0.2 * (matrix[:, 0] - 5) - 0.7 * matrix[:, 1])
    time = rng.exponential(40 / risk).round(digits) + 1
    event = (rng.random(len(time)) < 0.6).astype(float)
    entry = np.where(rng.random(len(time)) < 0.3, rng.uniform(0, time), 0.0) if entered else None
    sets = RiskSets(time, entry, event, matrix, efron=ties == "efron")
    model = PHReg(time, matrix, status=event, entry=entry, ties=ties)
    fit = model.fit(disp=0)
    coefficient, information = sets.fit()
    assert coefficient == pytest.approx(fit.params, abs=1e-7)
    assert information == pytest.approx(-model.hessian(coefficient), rel=1e-7)
    if ties == "breslow":
        residual, hazard = sets.score_residuals(coefficient)
        assert residual.sum(axis=0) == pytest.approx(0, abs=1e-6)
        assert hazard.sum() == pytest.approx(event.sum())
        if not entered:
            assert residual == pytest.approx(np.nan_to_num(fit.score_residuals), abs=1e-6)


def test_two_rows_at_risk_have_the_partial_likelihood_of_a_coin() -> None:
    # of 40 pairs the row with x = 1 ends first in 30: exp(b) / (1 + exp(b)) = 3 / 4
    pair = np.repeat(np.arange(40.0), 2)
    x = np.tile([1.0, 0.0], 40)
    event = np.where(pair < 30, x, 1 - x)
    entry, time = 10 * pair, 10 * pair + 1
    coefficient, information = RiskSets(time, entry, event, x[:, None], efron=True).fit()
    assert coefficient == pytest.approx([np.log(3)])
    assert information == pytest.approx(40 * 3 / 16)


@pytest.mark.parametrize("seed", range(4))
def test_logistic(seed: int) -> None:
    matrix, rng = draw(seed)
    design = np.column_stack([np.ones(len(matrix)), matrix])
    success = (rng.random(len(matrix)) < 1 / (1 + np.exp(1 - 0.3 * matrix[:, 0]))).astype(float)
    fit = Logit(success, design).fit(disp=False)
    beta, information, converged = fit_logit(design, success)
    assert converged
    assert beta == pytest.approx(fit.params, abs=1e-8)
    assert np.linalg.inv(information) == pytest.approx(fit.normalized_cov_params, rel=1e-6)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("collinear", [False, True])
def test_quantile(level: float, *, collinear: bool) -> None:
    matrix, rng = draw(1)
    design = np.column_stack([np.ones(len(matrix)), matrix])
    if collinear:
        design = np.column_stack([design, design[:, 1]])
    y = (matrix[:, 0] + rng.exponential(2, len(matrix))).round(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = QuantReg(y, design).fit(q=level)
    found = fit_quantile(design, y, level)
    assert found == pytest.approx(fit.params, abs=1e-6)
    assert (y < design @ found - 1e-4).mean() <= level
    assert (y <= design @ found + 1e-4).mean() >= level
