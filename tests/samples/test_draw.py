from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.generator.draw import (
    DAY_S,
    apportion,
    arrivals,
    generator,
    heavy_tail,
    hex_ids,
    pick,
)

weights = st.lists(st.floats(0.01, 100), min_size=1, max_size=30)


@given(total=st.integers(0, 10_000), of=weights)
def test_parts_sum_to_the_total_and_are_within_one_of_their_share(
    total: int, of: list[float]
) -> None:
    parts = apportion(total, of, least=0)
    assert parts.sum() == total
    assert np.all(np.abs(parts - np.array(of) / sum(of) * total) < 1)


@given(total=st.integers(0, 100), of=weights, least=st.integers(1, 5))
def test_no_part_is_below_the_least(total: int, of: list[float], least: int) -> None:
    assert apportion(total, of, least=least).min() >= least


@given(of=weights, seed=st.integers(0, 2**40))
def test_an_index_is_always_one_of_the_shares(of: list[float], seed: int) -> None:
    drawn = pick(generator(seed), of, 50)
    assert drawn.min() >= 0
    assert drawn.max() < len(of)


def test_the_mean_of_the_heavy_tail_is_the_one_asked_for() -> None:
    # the standard error of a lognormal's mean: mean * sqrt(exp(sigma^2) - 1) / sqrt(n)
    n, sigma = 200_000, 0.7
    drawn = heavy_tail(generator(1), 5000.0, n, sigma=sigma)
    error = 5000 * np.sqrt(np.expm1(sigma**2) / n)
    assert drawn.mean() == pytest.approx(5000, abs=4 * error)


@given(first=st.integers(0, 200), days=st.integers(1, 70), seed=st.integers(0, 1000))
def test_arrivals_lie_in_their_days(first: int, days: int, seed: int) -> None:
    times = arrivals(generator(seed), 50, first_s=first * DAY_S, days=days)
    assert times.min() >= first * DAY_S
    assert times.max() < (first + days) * DAY_S


def test_identifiers_are_hexadecimal_and_distinct() -> None:
    ids = hex_ids(generator(1), 10_000, digits=12)
    assert ids.str.contains("^[0-9a-f]{12}$").all()
    assert ids.n_unique() == 10_000


def test_parts_of_the_seed_are_independent() -> None:
    draws = {
        tuple(generator(*key).integers(0, 2**60, 4)) for key in ((1,), (2,), (1, 0), (1, 0, 0))
    }
    assert len(draws) == 4
