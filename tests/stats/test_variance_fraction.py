"""Fraction of the variance between clusters."""

import numpy as np
import pytest
import scipy.stats

from traceana.stats.intervals import variance_fraction


def test_the_example_of_shrout_and_fleiss() -> None:
    # Psychological Bulletin 86, 1979, table 2: six targets, four judges; ICC(1, 1) = .17 (table 4)
    table = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    found = variance_fraction(np.ravel(table), np.repeat(np.arange(6), 4))
    assert found.fraction == pytest.approx(0.17, abs=0.005)
    # MSB = 11.24, MSW = 6.26
    assert found.fraction == pytest.approx((11.24 - 6.26) / (11.24 + 3 * 6.26), abs=5e-4)
    assert np.isnan(found.ci_low)


def test_a_planted_share_is_in_its_interval_as_often_as_it_states() -> None:
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(300):
        size = rng.integers(2, 30, 60)
        user = np.repeat(np.arange(60), size)
        value = rng.normal(0, np.sqrt(0.4), 60)[user] + rng.normal(0, np.sqrt(0.6), len(user))
        found = variance_fraction(value, user)
        covered += found.ci_low <= 0.4 <= found.ci_high
    # 93 to 97 %, with 3 standard errors of 300 trials
    assert 0.89 <= covered / 300 <= 0.99


def test_without_clusters_that_differ_the_share_is_near_0() -> None:
    rng = np.random.default_rng(7)
    found = variance_fraction(rng.normal(size=3000), rng.integers(0, 50, 3000))
    assert found.fraction < 0.02
    assert found.ci_low == 0
    equal = variance_fraction(np.ones(40), np.arange(40) % 20)
    assert np.isnan(equal.fraction)


@pytest.mark.parametrize("k", [19, 20, 21])
def test_the_interval_is_the_jackknife_of_log_f_over_clusters(k: int) -> None:
    rng = np.random.default_rng(k)
    cluster = np.sort(np.append(rng.integers(0, k, 5 * k), np.tile(np.arange(k), 2)))
    value = 300 + rng.normal(size=k)[cluster] + rng.normal(size=len(cluster))

    def anova(kept: np.ndarray) -> tuple[float, float]:
        groups = [value[kept & (cluster == c)] for c in np.unique(cluster[kept])]
        n = np.array([len(group) for group in groups])
        n0 = (n.sum() - (n @ n) / n.sum()) / (len(n) - 1)
        return float(np.log(scipy.stats.f_oneway(*groups).statistic)), n0

    log_f, n0 = anova(cluster >= 0)
    found = variance_fraction(value, cluster, confidence=0.9)
    assert (found.n, found.n_clusters) == (len(value), k)
    ratio = np.exp(log_f)
    assert found.fraction == pytest.approx((ratio - 1) / (ratio + n0 - 1))
    if k < 20:
        assert np.isnan([found.ci_low, found.ci_high]).all()
        return
    left = np.array([anova(cluster != c)[0] for c in range(k)])
    error = np.sqrt((k - 1) / k * ((left - left.mean()) ** 2).sum())
    half = scipy.stats.t.ppf(0.95, k - 1) * error
    ratios = np.exp(log_f + np.array([-half, half]))
    ends = np.maximum((ratios - 1) / (ratios + n0 - 1), 0)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(ends))
