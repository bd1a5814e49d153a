"""The distance to the product-limit estimate, and what simulated samples look like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from traceana.stats.distributions.families import FAMILIES
from traceana.stats.distributions.goodness import ks_distance, ks_distances_of_refits
from traceana.stats.distributions.likelihood import fit_family, make_sample
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


class Given(np.random.Generator):
    """Random numbers that were written down."""

    def __init__(self, exponential: list[float], uniform: list[float]) -> None:
        super().__init__(np.random.PCG64(1))
        self.given = np.array(exponential), np.array(uniform)

    def exponential(self, *_: object, **__: object) -> np.ndarray:  # type: ignore[override]
        return self.given[0]

    def random(self, *_: object, **__: object) -> np.ndarray:  # type: ignore[override]
        return self.given[1]


def distance_by_hand(x: np.ndarray, cut: np.ndarray, entry: np.ndarray, bound: float) -> float:
    """Distance of the exponential from the product-limit estimate, time by time."""
    mean = (x - entry).sum() / (~cut).sum()
    largest, surviving = 0.0, 1.0
    for t in np.unique(x[~cut]):
        fitted, at_risk = np.exp(-(t - bound) / mean), ((entry < t) & (t <= x)).sum()
        largest = max(largest, abs(fitted - surviving))
        surviving *= 1 - (x[~cut] == t).sum() / at_risk
        largest = max(largest, abs(fitted - surviving))
    return largest


# rows in the order of value and entry
VALUE = np.array([1.5, 2, 2, 3, 3.5, 4, 5, 7, 7, 9])
CUT = np.array([0, 1, 0, 0, 1, 0, 1, 0, 1, 0], bool)
ENTRY = np.array([0.5, 0.5, 1.0, 2.5, 0.5, 3, 0.5, 2, 3, 6.5])
LIFE = [0.3, 0.9, 1.7, 0.2, 2.4, 0.4, 0.6, 0.05, 1.3, 0.8]
CHANCE = [0.95, 0.5, 0.3, 0.7, 0.1, 0.6, 0.8, 0.2, 0.45, 0.9]


@pytest.mark.parametrize("entries", [True, False])
def test_a_resample_by_hand(entries: bool) -> None:
    bound = 0.5
    entry = ENTRY if entries else np.full(10, bound)
    order = np.lexsort((entry, VALUE))
    value, cut, entry = VALUE[order], CUT[order], entry[order]
    sample = make_sample(
        np.log(value), cut, float(np.log(bound)), np.log(entry) if entries else None
    )
    family = FAMILIES["exponential"]
    fit = fit_family(family, sample)
    mean = (value - entry).sum() / (~cut).sum()

    def uncut(t: float) -> float:
        """Product-limit estimate of the censoring times; events come first."""
        chance = 1.0
        for c in np.unique(value[cut]):
            if c <= t:
                at_risk = ((entry < c) & (c <= value)).sum() - (value[~cut] == c).sum()
                chance *= 1 - (value[cut] == c).sum() / at_risk
        return chance

    found = ks_distances_of_refits(
        family, fit, sample, resamples=2, bound_is_least=False, rng=Given(LIFE, CHANCE)
    )
    drawn, limits = entry + mean * np.array(LIFE), np.full(10, np.inf)
    for i, (chance, began) in enumerate(zip(CHANCE, entry, strict=True)):
        # without delayed entry censoring times begin at 0
        reached = chance * (uncut(began) if began > bound else 1)
        later = [c for c in np.unique(value[cut]) if uncut(c) <= reached]
        if later:
            limits[i] = max(later[0], began)
    is_cut = limits < drawn
    assert 2 < is_cut.sum() < 8
    expected = distance_by_hand(np.minimum(drawn, limits), is_cut, entry, bound)
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-9)


def test_a_resample_has_the_bound_of_its_least_and_two_values() -> None:
    sample = make_sample(np.log([1.0, 2, 5]), np.zeros(3, bool), "min")
    family = FAMILIES["exponential"]
    fit = fit_family(family, sample)
    assert np.exp(fit.theta[0] + sample.center) == pytest.approx((8 - 3) / 3)
    for lives, n in (([0.2, 0.2, 0.9], 1), ([0.4, 0.4, 0.4], 0)):
        found = ks_distances_of_refits(
            family, fit, sample, resamples=1, bound_is_least=True, rng=Given(lives, [])
        )
        x = 1 + 5 / 3 * np.array(lives)
        expected = distance_by_hand(x, np.zeros(3, bool), np.full(3, x[0] - 1e-12), x[0])
        np.testing.assert_allclose(found, [expected][:n], rtol=1e-9)
