"""Likelihood-ratio tests against their formulas worked out from scipy's densities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from traceana.stats.distributions.families import FAMILIES
from traceana.stats.distributions.likelihood import (
    Fit,
    PairTest,
    _followed,
    fit_family,
    make_sample,
    terms_of,
    vuong_test,
)

X = np.random.default_rng(1).lognormal(2, 1, 400)
SAMPLE = make_sample(np.log(X), np.zeros(400, bool), None)


def of(first: str, second: str) -> PairTest:
    better, other = (fit_family(FAMILIES[name], SAMPLE) for name in (first, second))
    return vuong_test(better, other, SAMPLE, names=(first, second), confidence=0.95)


def test_vuong_is_its_formula() -> None:
    test = of("lognormal", "exponential")
    y, n = np.log(X), len(X)
    mu, sigma, scale = y.mean(), y.std(), X.mean()
    d = scipy.stats.lognorm.logpdf(X, sigma, scale=np.exp(mu)) - scipy.stats.expon.logpdf(
        X, scale=scale
    )
    # g' C g by hand: of mu and ln sigma, with 1 / n and 1 / 2n; and of ln scale, with 1 / n
    u = (y - mu) / sigma
    q = (u**2 + (u**2 - 1) ** 2 / 2) / (2 * n) - (X / scale - 1) ** 2 / (2 * n)
    error = (d - 2 * q).std(ddof=1) / np.sqrt(n)
    z = (d - q).mean() / error
    assert test.test == "vuong"
    assert np.isclose(test.log_likelihood_ratio, d.sum(), rtol=1e-9)
    assert np.isclose(test.statistic or 0, z, rtol=1e-9)
    assert np.isclose(test.pvalue or 0, 2 * scipy.stats.norm.sf(z), rtol=1e-6)
    ends = scipy.stats.norm.interval(0.95, (d - q).mean(), error)
    np.testing.assert_allclose(np.array([test.ci_low, test.ci_high], float), ends, rtol=1e-9)
    assert (test.note is not None) == (n < 25 * scipy.stats.skew(d) ** 2)


def test_what_a_value_loses_left_out_is_twice_what_the_fit_gained() -> None:
    family, cut = FAMILIES["weibull"], np.arange(300) % 4 == 0
    y = np.log(np.random.default_rng(3).weibull(0.9, 300) + 0.2)
    sample = make_sample(y, cut, float(np.log(0.1)))
    fit = fit_family(family, sample)
    followed = _followed(fit, sample)
    loss, told = [], []
    for row, field in enumerate(("ends", "cuts")):
        weight = getattr(sample, field)
        for at in np.flatnonzero(weight):
            rest = replace(sample, **{field: weight - (np.arange(len(weight)) == at)})
            theta = fit_family(family, rest).theta
            with_it, without = (terms_of(family, sample, one) for one in (fit.theta, theta))
            loss.append((with_it - without)[row, at])
            told.append(2 * followed[row, at])
    np.testing.assert_allclose(loss, told, atol=0.15 * max(told))


def test_what_an_exponential_gained_begins_at_its_bound() -> None:
    above = np.random.default_rng(5).exponential(3, 40)
    for bound in (1.0, 10.0):
        sample = make_sample(np.log(above + bound), np.zeros(40, bool), float(np.log(bound)))
        (ends, _) = _followed(fit_family(FAMILIES["exponential"], sample), sample)
        # g is the derivative of -ln scale - x / scale in ln scale, of variance 1 / n
        np.testing.assert_allclose(ends, (np.sort(above) / above.mean() - 1) ** 2 / 80, rtol=1e-9)


def test_vuong_turns_its_sign_with_the_order() -> None:
    one, other = of("lognormal", "gamma"), of("gamma", "lognormal")
    assert one.statistic is not None
    assert other.statistic is not None
    assert np.isclose(one.statistic, -other.statistic)
    assert np.isclose(one.pvalue or 0, other.pvalue or 1)


def test_the_exponential_is_tested_inside_and_on_the_edge() -> None:
    inside, edge = of("weibull", "exponential"), of("lomax", "exponential")
    assert (inside.test, edge.test) == ("nested", "nested")
    for test, share in ((inside, 1.0), (edge, 0.5)):
        assert test.ci_low is None
        chi2 = scipy.stats.chi2.sf(2 * abs(test.log_likelihood_ratio), 1)
        assert np.isclose(test.pvalue or 0, share * chi2, rtol=1e-9)
    assert edge.note == "the exponential lies on the boundary of the other"


def test_two_fits_that_are_one_distribution_have_no_p() -> None:
    x = np.random.default_rng(2).weibull(3, 200)  # Lomax goes to the exponential
    sample = make_sample(np.log(x), np.zeros(200, bool), None)
    fit = fit_family(FAMILIES["lomax"], sample)
    test = vuong_test(fit, fit, sample, names=("lomax", "gamma"), confidence=0.95)
    assert test.pvalue is None
    assert test.note == "the two fits are the same distribution"


def shifted(n: int, k: int, moved: float = 0.5) -> tuple[PairTest, np.ndarray]:
    """Two normal fits of ln x, of which k of n are 1 and the others 0: d is linear in ln x."""
    y = np.repeat([0.0, 1.0], [n - k, k])
    sample = make_sample(y, np.zeros(n, bool), None)
    thetas = (np.array([at - sample.center, 0.0]) for at in (moved, 0.0))
    fits = [Fit(FAMILIES["lognormal"], theta, 0.0, None, None) for theta in thetas]
    found = vuong_test(fits[0], fits[1], sample, names=("lognormal", "weibull"), confidence=0.9)
    return found, (y**2 - (y - moved) ** 2) / 2


def test_a_note_says_where_25_squares_of_the_skewness_exceed_n() -> None:
    # of 0 and 1 it is (1 - 2 p) / sqrt(p (1 - p)); 25 times its square is n at 292.7
    for n, noted in ((292, False), (293, True)):
        found, d = shifted(n, 20)
        half = scipy.stats.norm.ppf(0.95) * d.std(ddof=1) / np.sqrt(n)
        assert (found.ci_low, found.ci_high) == pytest.approx((d.mean() - half, d.mean() + half))
        assert (found.mean_ratio, found.log_likelihood_ratio) == pytest.approx((d.mean(), d.sum()))
        z = d.mean() / d.std(ddof=1) * np.sqrt(n)
        assert (found.statistic, found.pvalue) == pytest.approx(
            (z, 2 * scipy.stats.norm.sf(abs(z)))
        )
        skewness = scipy.stats.skew(d)
        text = f"a few values dominate the difference (skewness {skewness:.1f}): p is too small"
        assert found.note == (text if noted else None)


def test_no_difference_from_the_exponential_is_half_the_time() -> None:
    fit = fit_family(FAMILIES["exponential"], SAMPLE)
    names = ("lomax", "exponential")
    assert vuong_test(fit, fit, SAMPLE, names=names, confidence=0.9).pvalue == 1
    other = replace(fit, theta=fit.theta + 0.03)
    found = vuong_test(other, fit, SAMPLE, names=names, confidence=0.9)
    doubled = 2 * 400 * (0.03 + np.exp(-0.03) - 1)  # of n exponential values with their mean
    assert doubled < 1
    assert found.pvalue == pytest.approx(scipy.stats.chi2.sf(doubled, 1) / 2, rel=1e-6)
    both = vuong_test(fit, other, SAMPLE, names=("lomax", "gamma"), confidence=0.9)
    assert (both.note or "").startswith("both contain the exponential: if it is the true")
    mixed = vuong_test(fit, other, SAMPLE, names=("lognormal", "exponential"), confidence=0.9)
    assert mixed.test == "vuong"


def test_the_correction_of_censored_values_above_a_bound_by_differences() -> None:
    y, cut = np.log(X[:30]), np.arange(30) % 3 == 1
    sample = make_sample(y, cut, float(y.min() - 0.1))
    fit = fit_family(FAMILIES["lognormal"], sample)
    assert fit.covariance is not None
    h = 1e-6
    slopes = [
        (terms_of(fit.family, sample, fit.theta + e) - terms_of(fit.family, sample, fit.theta - e))
        / (2 * h)
        for e in np.eye(2) * h
    ]
    expected = np.einsum("ikn,ij,jkn->kn", slopes, fit.covariance, slopes) / 2
    weight = np.stack([sample.ends, sample.cuts]) > 0
    np.testing.assert_allclose(_followed(fit, sample)[weight], expected[weight], rtol=1e-6)
