"""Order statistics with missing values, against numpy one row at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceana.stats.quantiles import median_present, peers_at_rank, peers_median

ROWS = st.lists(st.just(np.nan) | st.sampled_from([0.0, 1.0, 2.5, 7.0, 1e150]), max_size=9)


def present(row: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    there: np.ndarray[Any, Any] = row[~np.isnan(row)]
    return there


def median(values: np.ndarray[Any, Any]) -> float:
    return float(np.median(values)) if len(values) else np.nan


@given(row=ROWS)
def test_medians_of_what_is_present_and_of_the_others(row: list[float]) -> None:
    values = np.array(row, dtype=float)
    np.testing.assert_allclose(median_present(values[None]), [median(present(values))], rtol=1e-12)
    if row:
        others = [median(present(np.delete(values, place))) for place in range(len(row))]
        np.testing.assert_allclose(peers_median(values[None])[0], others, rtol=1e-12)


@given(row=st.lists(st.integers(0, 5), min_size=2, max_size=9), data=st.data())
def test_the_others_at_a_rank(row: list[int], data: st.DataObject) -> None:
    values = np.array(row, dtype=float)
    rank = data.draw(st.integers(0, len(row) - 2))
    found = peers_at_rank(values[None], np.sort(values)[None], np.array([rank]))[0]
    others = [sorted(row[:place] + row[place + 1 :])[rank] for place in range(len(row))]
    assert found.tolist() == others


def test_without_a_place_there_is_no_median() -> None:
    assert median_present(np.zeros((4, 3, 0))).shape == (4, 3)
    assert np.isnan(median_present(np.zeros((2, 0)))).all()
