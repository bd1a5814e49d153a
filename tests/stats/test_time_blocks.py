"""Blocks of days as the independent unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.errors import DataError
from traceana.stats.time_blocks import DAY_S, time_blocks


def of_days(days: int, correlation: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    level = rng.standard_normal(days)
    for day in range(1, days):
        level[day] = correlation * level[day - 1] + np.sqrt(1 - correlation**2) * level[day]
    of = np.repeat(np.arange(days), 20)
    return (of + rng.random(len(of))) * DAY_S, level[of] + rng.standard_normal(len(of))


def test_independent_days_are_blocks_of_a_day() -> None:
    found = time_blocks(*of_days(100, 0.0))
    assert (found.length_s, found.note) == (DAY_S, None)
    assert abs(found.autocorrelation) < 0.2


def test_dependent_days_are_longer_blocks() -> None:
    times, values = of_days(200, 0.6)
    found = time_blocks(times, values)
    # 3 times (1 + 0.6) / (1 - 0.6) = 12 days
    assert 6 * DAY_S <= found.length_s <= 20 * DAY_S
    # that of the means, less for the noise of 20 rows: 1 / (1 + 1 / 20), and few days
    assert 0.3 < found.autocorrelation < 0.7
    assert found.n_blocks >= 10
    lasting = time_blocks(*of_days(60, 0.97))
    assert (
        lasting.note == "dependence lasts longer than a tenth of the span: intervals are too narrow"
    )


def test_a_short_log_has_blocks_of_hours() -> None:
    times = np.arange(48 * 10) * 360.0
    found = time_blocks(times)
    assert found.length_s == 3600
    assert (
        time_blocks([5.0, 6, 7]).note == "1 blocks of time: fewer than 10, intervals are uncertain"
    )


@given(st.lists(st.floats(0, 1e8), min_size=1, max_size=60))
def test_blocks_follow_time(times: list[float]) -> None:
    found = time_blocks(times, length_s=DAY_S)
    order = np.argsort(times, kind="stable")
    assert (np.diff(found.code[order]) >= 0).all()
    assert found.n_blocks == len(set(found.code.tolist()))


def test_missing_times_have_no_block() -> None:
    found = time_blocks([np.nan, 0.0, 1e6], [1.0, np.nan, 2.0])
    assert found.code.tolist()[0] == -1
    assert found.n_blocks == 2
    with pytest.raises(DataError, match="no finite time"):
        time_blocks([np.nan])
    with pytest.raises(DataError, match="differ in length"):
        time_blocks([1.0], [1.0, 2.0])


def test_a_short_log_may_hide_that_its_days_depend_on_each_other() -> None:
    note = "dependence may go unnoticed in fewer than 60 days (or shorter units)"
    assert time_blocks(*of_days(30, 0.0)).note == f"{note}: intervals may be too narrow"
    assert time_blocks(*of_days(60, 0.0)).note is None
