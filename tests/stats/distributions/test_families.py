"""Each family is scipy's distribution of that name, and its derivatives are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from scipy.special import gammaln, logsumexp

from traceana.stats.distributions.families import FAMILIES, log_gammaincc
from traceana.stats.distributions.likelihood import Sample, fit_family, make_sample, terms_of

Y = np.linspace(-4, 3, 29)
THETA = {name: np.array([0.4, -0.3][: len(FAMILIES[name].parameters)]) for name in FAMILIES}
PEERS: dict[str, Any] = {
    "lognormal": scipy.stats.lognorm(np.exp(-0.3), scale=np.exp(0.4)),
    "gamma": scipy.stats.gamma(np.exp(-0.3), scale=np.exp(0.4)),
    "weibull": scipy.stats.weibull_min(np.exp(0.3), scale=np.exp(0.4)),
    "exponential": scipy.stats.expon(scale=np.exp(0.4)),
    "lomax": scipy.stats.lomax(np.exp(-0.3), scale=np.exp(0.4)),
    "loglogistic": scipy.stats.fisk(np.exp(0.3), scale=np.exp(0.4)),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_density_survival_and_quantile_are_those_of_scipy(name: str) -> None:
    family, theta, peer = FAMILIES[name], THETA[name], PEERS[name]
    np.testing.assert_allclose(family.density(Y, theta)[0], peer.logpdf(np.exp(Y)) + Y, rtol=1e-9)
    np.testing.assert_allclose(family.survival(Y, theta)[0], peer.logsf(np.exp(Y)), rtol=1e-9)
    np.testing.assert_allclose(family.quantile(peer.logsf(np.exp(Y)), theta), Y, atol=1e-7)


@pytest.mark.parametrize("part", ["density", "survival"])
@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_are_those_of_differences(name: str, part: str) -> None:
    terms, theta = getattr(FAMILIES[name], part), THETA[name]
    _, first, second = terms(Y, theta)
    places = {1: [(0, 0)], 2: [(0, 0), (0, 1), (1, 1)]}[len(theta)]
    h = 1e-5
    for i in range(len(theta)):
        step = np.eye(len(theta))[i] * h
        value = (terms(Y, theta + step)[0] - terms(Y, theta - step)[0]) / (2 * h)
        np.testing.assert_allclose(first[i], value, rtol=1e-5, atol=1e-7)
        for row, place in zip(second, places, strict=True):
            if i in place:
                j = place[1 - place.index(i)]
                slope = (terms(Y, theta + step)[1] - terms(Y, theta - step)[1])[j] / (2 * h)
                np.testing.assert_allclose(row, slope, rtol=1e-4, atol=1e-5)


def test_the_incomplete_gamma_goes_on_where_doubles_end() -> None:
    # S of a gamma of shape 1 is exp(-x), of shape 2 (1 + x) exp(-x)
    x = np.array([1.0, 400.0, 800.0, 1e5])
    np.testing.assert_allclose(log_gammaincc(1.0, x), -x, rtol=1e-13)
    np.testing.assert_allclose(log_gammaincc(2.0, x), np.log1p(x) - x, rtol=1e-13)
    np.testing.assert_allclose(
        log_gammaincc(0.5, x[1:3] ** 1),
        np.log(2) + scipy.stats.norm.logsf(np.sqrt(2 * x[1:3])),
        rtol=1e-12,
    )


def test_the_continued_fraction_is_the_sum_of_a_whole_shape() -> None:
    # Q(n, x) = exp(-x) sum of x^k / k!, k below n (DLMF 8.4.10)
    k = np.arange(300)
    x = np.array([700.0, 1900, 2500])
    expected = logsumexp(k * np.log(x[:, None]) - gammaln(k + 1), axis=1) - x
    np.testing.assert_allclose(log_gammaincc(300.0, x), expected, rtol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_search_begins_at_the_moments_of_the_logarithm(name: str) -> None:
    family, m, s = FAMILIES[name], 2.5, 0.7
    theta = family.start(m, s)
    assert len(theta) == len(family.parameters)
    values = -np.log(np.linspace(0, 1, 200_001)[1:] - 0.5 / 200_000)
    y = family.quantile(-values, np.array(theta))  # evenly spaced quantiles
    assert y.mean() == pytest.approx(m, abs=1e-4)
    if name in ("lognormal", "weibull", "loglogistic"):
        assert y.std() == pytest.approx(s, abs=1e-3)
    if name == "gamma":  # trigamma(shape) is about 1 / shape + 1 / (2 shape^2)
        shape = np.exp(theta[1])
        assert 1 / shape + 0.5 / shape**2 == pytest.approx(s**2)
    if name == "lomax":
        assert theta[1] == pytest.approx(np.log(2))


def test_the_displayed_shape_is_scipys() -> None:
    # e to the power of sign times the second parameter
    shapes = {
        name: np.exp(FAMILIES[name].sign * THETA[name][1])
        for name in FAMILIES
        if len(THETA[name]) == 2
    }
    theirs = {name: PEERS[name].args[0] for name in shapes}
    assert shapes == pytest.approx(theirs)


def test_a_fit_with_entries_and_cuts_has_the_maximum_of_the_likelihood() -> None:
    rng = np.random.default_rng(8)
    life, entry, limit = rng.lognormal(1, 0.7, 900), 3 * rng.random(900), 2 + 9 * rng.random(900)
    entry[::3] = 0
    kept = np.minimum(life, limit) > entry
    x, cut, entry = np.minimum(life, limit)[kept], (limit < life)[kept], entry[kept]
    with np.errstate(divide="ignore"):
        sample = make_sample(np.log(x), cut, None, np.log(entry))
    exponential = fit_family(FAMILIES["exponential"], sample)
    # events over time at risk
    mean = (x - entry).sum() / (~cut).sum()
    assert exponential.theta[0] + sample.center == pytest.approx(np.log(mean))

    def loss(theta: Any) -> float:
        z, late = ((np.log(part) - theta[0]) / np.exp(theta[1]) for part in (x, entry[entry > 0]))
        norm = scipy.stats.norm
        terms = np.where(cut, norm.logsf(z), norm.logpdf(z) - theta[1])
        return float(norm.logsf(late).sum() - terms.sum())

    found = fit_family(FAMILIES["lognormal"], sample)
    peer = scipy.optimize.minimize(loss, [1.0, -0.5], method="Nelder-Mead", tol=1e-10)
    assert found.theta + np.array([sample.center, 0]) == pytest.approx(peer.x, abs=1e-5)
    assert found.log_likelihood == pytest.approx(-peer.fun - np.log(x[~cut]).sum(), rel=1e-9)
    assert found.covariance is not None
    # the inverse of the observed information, by differences
    h = 1e-3
    e = np.eye(2) * h
    information = [
        [
            (
                loss(peer.x + a + b)
                - loss(peer.x + a - b)
                - loss(peer.x - a + b)
                + loss(peer.x - a - b)
            )
            / (4 * h * h)
            for b in e
        ]
        for a in e
    ]
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-3)


def sample_of(
    x: np.ndarray, cut: np.ndarray, entry: np.ndarray, bound: float | None = None
) -> Sample:
    with np.errstate(divide="ignore"):
        low = None if bound is None else float(np.log(bound))
        return make_sample(np.log(x), cut, low, np.log(entry))


X = np.array([1.2, 1.9, 2.5, 2.5, 3.1, 4.4, 5.0, 7.7, 9.0, 14.0])
CUT = np.arange(10) % 4 == 3
ENTRY = np.array([0.0, 1.1, 0.0, 0.9, 2.0, 0.3, 4.9, 0.0, 3.0, 0.0])


@pytest.mark.parametrize("bound", [None, 0.8])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_likelihood_is_the_sum_of_scipys_terms(name: str, bound: float | None) -> None:
    sample = sample_of(X, CUT, ENTRY, bound)
    theta = THETA[name] - np.eye(len(THETA[name]))[0] * sample.center
    found = terms_of(FAMILIES[name], sample, theta)
    peer, entry = PEERS[name], np.maximum(ENTRY, bound or 0)
    ends = found[0, np.repeat(np.arange(len(sample.y)), sample.ends.astype(int))]
    cuts = found[1, np.repeat(np.arange(len(sample.y)), sample.cuts.astype(int))]
    expected = [
        (peer.logpdf(X) - peer.logsf(entry))[~CUT],
        (peer.logsf(X) - peer.logsf(entry))[CUT],
    ]
    np.testing.assert_allclose(np.sort(ends), np.sort(expected[0]), rtol=1e-9)
    np.testing.assert_allclose(np.sort(cuts), np.sort(expected[1]), rtol=1e-9)
    fit = fit_family(FAMILIES[name], sample)
    total = sample.ends @ terms_of(fit.family, sample, fit.theta)[0]
    total += sample.cuts @ terms_of(fit.family, sample, fit.theta)[1]
    assert fit.log_likelihood == pytest.approx(total, rel=1e-12)


def test_lomax_has_a_maximum_where_its_likelihood_rises_from_the_exponential() -> None:
    def rise(longest: float) -> float:
        """Derivative of ln L in one over the shape, at 0 and the exponential's scale."""
        x = np.append(X, longest)
        cut, entry = np.append(CUT, False), np.append(ENTRY, 0.5)
        scale, h = (x - entry).sum() / (~cut).sum(), 1e-6

        def log_survival(t: np.ndarray, tail: float) -> np.ndarray:
            result: np.ndarray = -np.log1p(tail * t / scale) / tail
            return result

        def total(tail: float) -> float:
            events = log_survival(x[~cut], tail) * (1 + tail)
            others = log_survival(x[cut], tail).sum() - log_survival(entry, tail).sum()
            return float(events.sum() + others)

        return total(2 * h) - total(h)

    edge = scipy.optimize.brentq(rise, 10, 60)
    for longest, family in ((edge - 0.05, "exponential"), (edge + 0.05, "lomax")):
        sample = sample_of(np.append(X, longest), np.append(CUT, False), np.append(ENTRY, 0.5))
        fit = fit_family(FAMILIES["lomax"], sample)
        assert fit.family.name == family
        assert (fit.note is None) == (family == "lomax")
    # equal to the exponential's: complete values whose standard deviation is their mean
    same = make_sample(np.log([1.0, 1, 1, 1, 1, 1, 1, 1, 11]), np.zeros(9, bool), None)
    assert fit_family(FAMILIES["lomax"], same).family.name == "lomax"


@pytest.mark.parametrize(("spread", "inside"), [(0.85, True), (1.2, False)])
def test_a_truncated_lognormal_has_a_maximum_if_logarithms_vary_little(
    spread: float, inside: bool
) -> None:
    # the coefficient of variation of ln(x / bound) is below 1 (del Castillo, Annals of the
    # Institute of Statistical Mathematics 46, 1994); otherwise ln x tends to the exponential
    y = scipy.stats.gamma(1 / spread**2).ppf((np.arange(200) + 0.5) / 200)
    y *= 1.3 / y.mean()
    assert (y.std() < y.mean()) == inside
    bound = 2.0
    fit = fit_family(FAMILIES["lognormal"], make_sample(y + bound, np.zeros(200, bool), bound))
    limit = -200 * (np.log(1.3) + 1) - (y + bound).sum()
    if inside:
        assert fit.note is None
        assert fit.log_likelihood > limit + 1
    else:
        assert fit.note is not None
        assert fit.note.endswith("increases as the whole fit moves below the bound")
        assert fit.log_likelihood == pytest.approx(limit, abs=1)
        assert fit.covariance is None
