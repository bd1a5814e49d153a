"""Columns of a simulator, and intervals over seeds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from traceana.errors import DataError
from traceana.simulate.frames import over_seeds, read_columns, with_intervals


@pytest.mark.parametrize("value", [1e15, -1e15])
def test_numbers_up_to_1e15_are_whole(value: float) -> None:
    kinds: dict[str, type[pl.DataType]] = {"x": pl.Int64}
    frame = pl.DataFrame({"x": [value, None, float("nan")]})
    assert read_columns(frame, kinds, "table")["x"].to_list() == [int(value), None, None]
    for wrong in (value + np.sign(value), np.inf):
        with pytest.raises(DataError, match=r"table: column x must be finite, 1e\+15 at most"):
            read_columns(pl.DataFrame({"x": [wrong]}), kinds, "table")
    with pytest.raises(DataError, match="table: column x must hold whole numbers"):
        read_columns(pl.DataFrame({"x": [1.5]}), kinds, "table")
    assert read_columns(pl.DataFrame({"x": [1.5]}), {"x": pl.Float64}, "table")["x"].item() == 1.5


def test_the_interval_over_seeds_is_students() -> None:
    rows = pl.DataFrame(
        {"key": ["a"] * 3 + ["b"] * 3 + ["c"], "x": [1.0, 2, 6, 0.1, 0.1, 0.1, 4.0]}
    )
    grouped = rows.group_by("key", maintain_order=True).agg(*over_seeds(["x"]))
    found = with_intervals(grouped, ["x"], confidence=0.9)
    assert found["x"].to_list() == pytest.approx([3, 0.1, 4])
    assert found["x_n"].to_list() == [3, 3, 1]
    low, high = stats.t.interval(0.9, 2, 3, stats.sem([1, 2, 6]))
    assert found["x_ci_low"].to_list() == [pytest.approx(low), None, None]
    assert found["x_ci_high"].to_list() == [pytest.approx(high), None, None]
    # a spread of a few parts in 10^12 is one
    near = pl.DataFrame({"key": "a", "x": [1.0, 1 + 1e-11]})
    grouped = near.group_by("key").agg(*over_seeds(["x"]))
    assert with_intervals(grouped, ["x"], confidence=0.9)["x_ci_low"].null_count() == 0
    for small, large, n_null in ((1e6, 1e6 + 1e-8, 1), (1e-6, 1.001e-6, 0)):
        frame = pl.DataFrame({"key": "a", "x": [small, large]})
        found = with_intervals(frame.group_by("key").agg(*over_seeds(["x"])), ["x"], confidence=0.9)
        assert found["x_ci_low"].null_count() == n_null
