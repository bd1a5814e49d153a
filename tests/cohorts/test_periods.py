"""The period of a time, counted where periods are equal, against a search of all edges."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from traceana.cohorts.overlap import find_period

DAYS = [
    (datetime(2026, 3, 20, tzinfo=ZoneInfo("Europe/Berlin")) + timedelta(days=n)).timestamp()
    for n in range(250)
]
"""Midnights over both changes of the clock: days of 23, 24 and 25 hours."""
LENGTHS = st.lists(st.sampled_from([0.5, 1.0, 3.0, 86_400.0]), min_size=1, max_size=12)


def check(edges: np.ndarray, times: np.ndarray) -> None:
    found = nw.from_native(pl.DataFrame({"time": times}))
    index, end = find_period(nw.col("time"), edges.tolist())
    found = found.select(index.alias("index"), end.alias("end"))
    expected = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)
    np.testing.assert_array_equal(found["index"].to_numpy(), expected)
    np.testing.assert_array_equal(found["end"].to_numpy(), edges[expected + 1])


def test_days_over_changes_of_the_clock() -> None:
    edges = np.array(DAYS)
    assert {*np.diff(edges)} == {82_800, 86_400, 90_000}
    rng = np.random.default_rng(1)
    inside = rng.uniform(edges[0], edges[-1], 10_000)
    check(edges, np.concatenate([inside, edges, np.nextafter(edges[1:], 0)]))


@given(LENGTHS, st.lists(st.floats(0, 1), max_size=20))
def test_periods_of_any_lengths(lengths: list[float], parts: list[float]) -> None:
    edges = 1_772_000_000.0 + np.cumsum([0.0, *lengths])
    check(edges, np.append(edges[0] + np.array(parts) * (edges[-1] - edges[0]), edges))
