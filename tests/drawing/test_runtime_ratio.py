"""What plot_runtime_ratio draws."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

from traceana import summarize_runtime_ratio
from traceana.errors import DataError
from traceana.figures import plot_runtime_ratio

JOBS = pl.DataFrame(
    {
        "user": ["a"] * 4 + ["b"] * 3 + ["c", None, None],
        "runtime_s": [10.0, 20, 30, 100, 0, 0, 90, None, 5, 15],
    }
)
RESULT = summarize_runtime_ratio(JOBS, by="user")
KNOWN = RESULT.filter(pl.col("n") > 0)


def drawn(ax: Axes, gid: str) -> np.ndarray:
    (points,) = (c for c in ax.collections if c.get_gid() == gid)
    if isinstance(points, LineCollection):
        return np.asarray(points.get_segments())
    assert isinstance(points, PathCollection)
    return np.asarray(points.get_offsets())


def test_bars_and_marks_are_the_results_quantiles() -> None:
    ax = plot_runtime_ratio(RESULT)
    left, _ = ax.get_xlim()
    for gid, low, high in (("middle-90", "p05", "p95"), ("middle-50", "p25", "p75")):
        segments = drawn(ax, gid)
        assert segments[:, 0, 0] == pytest.approx(KNOWN[low].clip(left).to_list())
        assert segments[:, 1, 0] == pytest.approx(KNOWN[high].to_list())
        assert segments[:, :, 1].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert drawn(ax, "medians")[:, 0] == pytest.approx(KNOWN["median"].clip(left).to_list())
    assert drawn(ax, "p99")[:, 0] == pytest.approx(KNOWN["p99"].to_list())
    (mean,) = ax.lines
    assert list(mean.get_xdata()) == [1, 1]  # type: ignore[arg-type]


def test_the_axis_is_logarithmic_and_starts_below_all_that_is_above_0() -> None:
    ax = plot_runtime_ratio(RESULT)
    assert ax.get_xscale() == "log"
    assert "logarithmic" in ax.get_xlabel()
    positive = [value for value in KNOWN["p05"] if value > 0]
    assert 0 < ax.get_xlim()[0] < min(positive)


def test_groups_are_named_with_n_and_those_without_a_runtime_left_out() -> None:
    ax = plot_runtime_ratio(RESULT)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "not stated"]
    assert [text.get_text() for text in ax.texts] == ["n = 4", "n = 3", "n = 2"]


def test_without_any_ratio_there_is_nothing_to_draw() -> None:
    for nothing in (RESULT.filter(user="c"), RESULT.clear()):
        with pytest.raises(DataError, match="plot_runtime_ratio has nothing to draw"):
            plot_runtime_ratio(nothing)
