"""Each family is scipy's distribution of that name, and its derivatives are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from traceana.stats.distributions import FAMILIES, fit_family, make_sample
from traceana.stats.distributions.families import log_gammaincc

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
