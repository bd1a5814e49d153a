"""Rates and dispersion of counts against tables, statsmodels and planted distributions."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.discrete.discrete_model import NegativeBinomial

from traceana.errors import DataError
from traceana.stats.intervals import (
    dispersion_index,
    dispersion_pvalue,
    fit_negative_binomial,
    negative_binomial_tail,
    rate_interval,
)


def test_the_interval_is_garwoods() -> None:
    # Garwood's table of exact limits, as in Ulm, American Journal of Epidemiology 131 (1990)
    low, high = rate_interval([0, 1, 10, 100], [1, 1, 1, 2])
    assert low == pytest.approx([0, 0.0253, 4.795, 81.36 / 2], rel=1e-3)
    assert high == pytest.approx([3.689, 5.572, 18.39, 121.63 / 2], rel=1e-3)
    # twice the variance is half the events, each counted twice
    assert rate_interval(20, 1, dispersion=2) == pytest.approx(np.multiply(2, rate_interval(10, 1)))
    with pytest.raises(DataError, match="confidence"):
        rate_interval(1, 1, confidence=95)


def test_the_negative_binomial_is_that_of_statsmodels() -> None:
    rng = np.random.default_rng(4)
    counts = rng.poisson(1.5 * rng.gamma(0.8, 1 / 0.8, 300))
    alpha, pvalue = fit_negative_binomial(counts)
    reference = NegativeBinomial(counts, np.ones(300)).fit(disp=0)
    assert alpha == pytest.approx(reference.params[1], rel=1e-3)
    assert pvalue < 1e-6
    k = 1 / alpha
    drawn = rng.poisson(2.0 * rng.gamma(k, 1 / k, 200_000))
    assert negative_binomial_tail([0, 3, 8], 2.0, alpha) == pytest.approx(
        [1, (drawn >= 3).mean(), (drawn >= 8).mean()], abs=0.005
    )
    assert negative_binomial_tail([1], 2.0, 0.0) == pytest.approx(1 - np.exp(-2))


def test_even_counts_have_no_dispersion() -> None:
    assert fit_negative_binomial([2] * 20) == (0.0, 1.0)
    assert dispersion_index([2] * 20) == 0
    assert np.isnan(dispersion_index([0] * 20))
    assert np.isnan(dispersion_pvalue([0] * 20, resamples=9, rng=np.random.default_rng(1)))
    assert np.isnan(fit_negative_binomial([3])[0])


@pytest.mark.parametrize("mean", [0.05, 2.0, 6.0])
def test_the_p_of_poisson_counts_is_uniform(mean: float) -> None:
    rng = np.random.default_rng(5)
    found = [dispersion_pvalue(rng.poisson(mean, 150), resamples=99, rng=rng) for _ in range(200)]
    below = np.nanmean(np.array(found) <= 0.1)
    assert below < 0.16  # of sparse counts many indices are equal, and p is conservative
