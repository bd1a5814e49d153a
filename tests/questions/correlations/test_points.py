"""The points of group-mean correlations, and the counts of rows behind them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana import correlate, joint_counts, mean_by_value
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


def test_bins_are_centered_on_the_ends_and_zeros_have_their_own() -> None:
    rows = pl.DataFrame({"x": [0.0, 1, 10, 100, 100], "y": [2.0, 2, 0, 8, 8]})
    counts = joint_counts(rows, "x", "y")
    assert counts.equals(joint_counts(rows, "x", "y", bins=40))
    assert not counts.equals(joint_counts(rows, "x", "y", bins=41))
    counts = joint_counts(rows, "x", "y", bins=3)
    # the edges lie half way, on logarithmic scales, between centers 1, 10, 100 and 2, 4, 8
    tenth, half = 10**0.5, 2**0.5
    expected = [
        (0, 0, 2 / half, 2 * half, 1),
        (1 / tenth, tenth, 2 / half, 2 * half, 1),
        (tenth, 10 * tenth, 0, 0, 1),
        (10 * tenth, 100 * tenth, 4 * half, 8 * half, 2),
    ]
    np.testing.assert_allclose(counts.to_numpy(), expected)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.none() | st.floats(0, 1e9),
            st.none() | st.floats(0, 1e9),
        ),
        max_size=40,
    ),
    st.integers(2, 9),
)
def test_every_row_with_both_values_is_in_one_bin_that_holds_it(
    rows: list[tuple[Any, Any, Any]], bins: int
) -> None:
    frame = pl.DataFrame(
        rows, schema={"by": pl.String, "x": pl.Float64, "y": pl.Float64}, orient="row"
    )
    counts = joint_counts(frame, "x", "y", by="by", bins=bins)
    for group in ("a", "b", None):
        known = [(x, y) for by, x, y in rows if by == group and None not in (x, y)]
        boxes = counts.filter(pl.col("by").eq_missing(pl.lit(group))).drop("by").rows()
        assert sum(n for *_, n in boxes) == len(known)
        for x, y in known:
            holding = [
                box for box in boxes if _holds(box[0], box[1], x) and _holds(box[2], box[3], y)
            ]
            assert holding


def _holds(low: float, high: float, value: float) -> bool:
    if value == 0:
        return high == 0
    return low * (1 - 1e-6) <= value <= high * (1 + 1e-6)


def test_one_value_has_one_bin() -> None:
    counts = joint_counts(pl.DataFrame({"x": [4.0, 4], "y": [0.0, 0]}), "x", "y")
    assert counts.row(0) == (pytest.approx(2), pytest.approx(8), 0, 0, 2)
    assert joint_counts(pl.DataFrame({"x": [], "y": []}), "x", "y").is_empty()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bins": 1}, "bins must be a whole number from 2 to 1,000; it is 1"),
        ({"bins": 2.5}, "bins must be a whole number from 2 to 1,000; it is 2.5"),
        ({"by": "n"}, "by cannot name n"),
        ({"by": "gone"}, "column gone is missing"),
    ],
)
def test_what_cannot_be_counted_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        joint_counts(ROWS.with_columns(n=1), "gpus", "runtime_s", **options)


def test_values_that_are_none_are_refused() -> None:
    with pytest.raises(DataError, match="column runtime_s holds inf"):
        mean_by_value(pl.DataFrame({"x": [1.0], "runtime_s": [math.inf]}), "x", "runtime_s")
    with pytest.raises(DataError, match="column x is named for more than one part"):
        mean_by_value(pl.DataFrame({"x": [1.0]}), "x", "x")


def test_counts_have_from_2_to_1000_bins() -> None:
    frame = pl.DataFrame({"x": [1.0, 8, 8], "y": [2.0, 2, 3]})
    assert joint_counts(frame, "x", "y", bins=1000)["n"].sum() == 3
    assert joint_counts(frame, "x", "y").equals(joint_counts(frame, "x", "y", bins=40))
    for bins in (1, 1001, 2.0):
        with pytest.raises(DataError, match="bins must be a whole number from 2 to 1,000"):
            joint_counts(frame, "x", "y", bins=bins)  # type: ignore[arg-type]
