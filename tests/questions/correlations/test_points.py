"""The points of group-mean correlations, and the counts of rows behind them."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from traceana import correlate, mean_by_value
from traceana.errors import DataError

ROWS = pl.DataFrame(
    {
        "gpus": [0.0, 1, 1, 2, None, 2, 8],
        "runtime_s": [5.0, 10, 30, 7, 9, None, 0],
        "status": ["a", "a", "b", "a", "a", "b", None],
    }
)


def test_a_point_is_a_distinct_value_with_its_rows_and_their_mean() -> None:
    means = mean_by_value(ROWS, "gpus", "runtime_s")
    assert means.rows() == [(0, 1, 5), (1, 2, 20), (2, 1, 7), (8, 1, 0)]
    by = mean_by_value(ROWS.lazy(), "gpus", "runtime_s", by="status")
    assert by.rows() == [
        ("a", 0, 1, 5),
        ("a", 1, 1, 10),
        ("a", 2, 1, 7),
        ("b", 1, 1, 30),
        (None, 8, 1, 0),
    ]


def test_pearsons_r_of_the_points_is_that_of_group_means() -> None:
    rng = np.random.default_rng(1)
    rows = pl.DataFrame({"x": rng.integers(1, 9, 200), "y": rng.lognormal(1, 1, 200)})
    means = mean_by_value(rows, "x", "y")
    found = correlate(rows, "x", "y", level="group_mean").table["r"].item()
    assert np.corrcoef(means["value"], means["mean"])[0, 1] == pytest.approx(found)


def test_values_that_are_none_are_refused() -> None:
    with pytest.raises(DataError, match="column runtime_s holds inf"):
        mean_by_value(pl.DataFrame({"x": [1.0], "runtime_s": [math.inf]}), "x", "runtime_s")
    with pytest.raises(DataError, match="column x is named for more than one part"):
        mean_by_value(pl.DataFrame({"x": [1.0]}), "x", "x")
