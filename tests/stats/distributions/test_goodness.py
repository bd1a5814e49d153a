"""The distance to the product-limit estimate, and what simulated samples look like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.stats

from traceana.stats.distributions import (
    FAMILIES,
    fit_family,
    ks_distance,
    ks_distances_of_refits,
    make_sample,
)
from traceana.stats.survival import product_limit


def test_without_cuts_it_is_the_usual_distance() -> None:
    x = np.random.default_rng(1).lognormal(3, 1.2, 300)
    sample = make_sample(np.log(x), np.zeros(300, bool), None)
    fit = fit_family(FAMILIES["lognormal"], sample)
    peer = scipy.stats.kstest(
        x, scipy.stats.lognorm(np.log(x).std(), 0, np.exp(np.log(x).mean())).cdf
    )
    assert np.isclose(ks_distance(fit, sample), peer.statistic, rtol=1e-10)


def test_the_product_limit_is_that_of_scipy_where_ends_and_cuts_meet() -> None:
    rng = np.random.default_rng(2)
    x, cut = rng.integers(1, 15, 80).astype(float), rng.random(80) < 0.4
    sample = make_sample(np.log(x), cut, None)
    peer = scipy.stats.ecdf(scipy.stats.CensoredData.right_censored(x, cut)).sf
    # scipy rounds otherwise near an estimate of 0
    np.testing.assert_allclose(product_limit(sample.ends, sample.cuts), peer.probabilities, 1e-12)


def test_a_known_distance_with_a_cut_by_hand() -> None:
    # ends at 1 and 3, a cut at 2: S falls to 2/3 at 1 and to 0 at 3; the exponential's mean is 3
    sample = make_sample(np.log([1.0, 2.0, 3.0]), np.array([False, True, False]), None)
    fit = fit_family(FAMILIES["exponential"], sample)
    assert np.isclose(ks_distance(fit, sample), np.exp(-3 / 3))
    # an end at 1, with a mean of 117; the cut at 100 is further off, and does not count
    x, cut = np.array([1.0] + [2.0] * 8 + [100.0]), np.arange(10) > 0
    late = make_sample(np.log(x), cut, None)
    fit = fit_family(FAMILIES["exponential"], late)
    assert np.isclose(ks_distance(fit, late), np.exp(-1 / 117) - 0.9)


def test_resamples_are_cut_about_as_often_as_the_data() -> None:
    rng = np.random.default_rng(3)
    life, limit = rng.exponential(1, 4000), rng.exponential(2, 4000)
    sample = make_sample(np.log(np.minimum(life, limit)), limit < life, None)
    family = FAMILIES["exponential"]
    fit = fit_family(family, sample)
    distances = ks_distances_of_refits(
        family, fit, sample, resamples=60, bound_is_least=False, rng=rng
    )
    # the model is true: the distance is one of them, and not at either end
    assert 0.02 < (distances >= ks_distance(fit, sample)).mean() < 0.98


def test_a_distance_that_did_not_know_of_the_refit_would_be_too_long() -> None:
    # Lilliefors (JASA 62, 1967), normal, n = 30: 5 % of the distances exceed 0.161, not 0.242;
    # 0.161 was simulated too, and 0.159 is what later work has (Dallal and Wilkinson, 1986)
    x = np.random.default_rng(4).lognormal(0, 1, 30)
    sample = make_sample(np.log(x), np.zeros(30, bool), None)
    family = FAMILIES["lognormal"]
    distances = ks_distances_of_refits(
        family,
        fit_family(family, sample),
        sample,
        resamples=1000,
        bound_is_least=False,
        rng=np.random.default_rng(5),
    )
    assert abs(np.quantile(distances, 0.95) - 0.160) < 0.006


def test_a_truncated_exponential_is_one_that_begins_at_the_bound() -> None:
    above = np.random.default_rng(6).exponential(2, 50)
    sample = make_sample(np.log(above + 3), np.zeros(50, bool), float(np.log(3)))
    fit = fit_family(FAMILIES["exponential"], sample)
    peer = scipy.stats.kstest(above, scipy.stats.expon(scale=above.mean()).cdf)
    assert np.isclose(ks_distance(fit, sample), peer.statistic, rtol=1e-10)


def test_rows_enter_at_their_entry_and_before_they_end() -> None:
    y, entry = np.log([2.0, 4, 5, 6, 6]), np.log([1.0, 3, 1, 6, 2])
    cut = np.array([False, False, True, False, True])
    sample = make_sample(y, cut, None, entry)
    times, *counts = sample.steps
    np.testing.assert_allclose(np.exp(times + sample.center), [1, 2, 3, 4, 5, 6, 6], rtol=1e-12)
    expected = [[0, 1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 1, 0, 1], [2, 1, 1, 0, 0, 1, 0]]
    np.testing.assert_array_equal(counts, expected)
    # all rows are observed from the bound on: those with the bound as entry do not enter later
    bounded = make_sample(y, cut, 0.0, entry)
    np.testing.assert_array_equal(bounded.steps[3], [1, 1, 0, 0, 1, 0])
    plain = make_sample(y, cut, 0.0)
    np.testing.assert_array_equal(np.stack(plain.steps[1:]), [[1, 1, 0, 1], [0, 0, 1, 1], [0] * 4])


def test_a_stationary_point_that_is_no_maximum_is_no_fit() -> None:
    def rises(y: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        like = np.ones(len(y))
        second = np.outer([0.1, 0.0, 0.1], like)
        return 0.05 * (theta @ theta) * like, np.outer(0.1 * theta, like), second

    sample = make_sample(np.log([1.0, 2, 3]), np.zeros(3, bool), None)
    family = replace(FAMILIES["gamma"], density=rises)
    fit = fit_family(family, sample, start=np.zeros(2))
    assert fit.note == "the search for the maximum did not converge"
    assert np.isnan(fit.log_likelihood)
