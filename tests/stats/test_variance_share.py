"""Fraction of the variance between clusters."""

import numpy as np
import pytest

from traceana.stats.variance_share import variance_share


def test_the_example_of_shrout_and_fleiss() -> None:
    # Psychological Bulletin 86, 1979, table 2: six targets, four judges; ICC(1, 1) = .17 (table 4)
    table = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    found = variance_share(np.ravel(table), np.repeat(np.arange(6), 4))
    assert found.share == pytest.approx(0.17, abs=0.005)
    # MSB = 11.24, MSW = 6.26
    assert found.share == pytest.approx((11.24 - 6.26) / (11.24 + 3 * 6.26), abs=5e-4)
    assert np.isnan(found.ci_low)


def test_a_planted_share_is_in_its_interval_as_often_as_it_states() -> None:
    rng = np.random.default_rng(6)
    covered = 0
    for _ in range(300):
        size = rng.integers(2, 30, 60)
        user = np.repeat(np.arange(60), size)
        value = rng.normal(0, np.sqrt(0.4), 60)[user] + rng.normal(0, np.sqrt(0.6), len(user))
        found = variance_share(value, user)
        covered += found.ci_low <= 0.4 <= found.ci_high
    # 93 to 97 %, with 3 standard errors of 300 trials
    assert 0.89 <= covered / 300 <= 0.99


def test_without_clusters_that_differ_the_share_is_near_0() -> None:
    rng = np.random.default_rng(7)
    found = variance_share(rng.normal(size=3000), rng.integers(0, 50, 3000))
    assert found.share < 0.02
    assert found.ci_low == 0
    equal = variance_share(np.ones(40), np.arange(40) % 20)
    assert np.isnan(equal.share)
