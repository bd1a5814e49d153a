"""What plot_deadline_tightness, plot_throughput and plot_batch_sweep draw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import LineCollection, PathCollection

from traceana.errors import DataError
from traceana.figures import (
    plot_batch_sweep,
    plot_deadline_tightness,
    plot_deadlines_met,
    plot_throughput,
)

TIGHTNESS = pl.DataFrame(
    {
        "plans": ["published", "published", "synthetic", "synthetic"],
        "cluster": ["c10", "c2", "c10", "c2"],
        "n": [10, 20, 10, 20],
        "fraction_met": [0.5, 0.4, 0.6, 0.7],
        "tightness_p05": [0.55, 0.56, 0.57, 0.58],
        "tightness_p25": 0.75,
        "tightness_median": [1.0, 0.9, 1.1, 1.2],
        "tightness_p75": 1.25,
        "tightness_p95": 1.45,
    }
)
RATES = pl.DataFrame(
    {
        "model": ["a", "a", "a", "b"],
        "batch_size": [8, 8, 16, 8],
        "gpus": [1.0, 4.0, 1.0, 4.0],
        "samples_per_s": [10.0, 30.0, 20.0, 5.0],
        "scaling_efficiency": [1.0, 0.75, 1.0, None],
    }
)
SWEEP = pl.DataFrame(
    {
        "limit": ["best", "best", "largest"],
        "batch_size": [8, 16, 8],
        "power_limit_w": [100.0, 100.0, 200.0],
        "eta_j": [4e6, 2e6, 5e6],
        "eta_low_j": [3e6, 2e6, 5e6],
        "eta_high_j": [6e6, 2e6, 5e6],
        "tta_s": [7200.0, 3600.0, 1800.0],
        "tta_low_s": [7200.0, 3600.0, 1800.0],
        "tta_high_s": [7200.0, 3600.0, 1800.0],
    }
)


def test_quantiles_by_cluster_and_kind_of_plans() -> None:
    ax = plot_deadline_tightness(TIGHTNESS)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["c2", "c10"]
    medians = {
        c.get_gid(): np.asarray(c.get_offsets())
        for c in ax.collections
        if isinstance(c, PathCollection)
    }
    assert medians["published-medians"] == pytest.approx(np.array([[1.0, 0.82], [0.9, -0.18]]))
    thin = next(c for c in ax.collections if isinstance(c, LineCollection))
    assert [segment[:, 0].tolist() for segment in thin.get_segments()] == [
        [0.55, 1.45],
        [0.56, 1.45],
    ]
    assert {text.get_text() for text in ax.texts} == {"50 %", "40 %", "60 %", "70 %"}
    with pytest.raises(DataError, match="there is no row"):
        plot_deadline_tightness(TIGHTNESS.clear())


def test_a_line_a_model_and_batch_size() -> None:
    ax = plot_throughput(RATES)
    assert [np.asarray(line.get_ydata()).tolist() for line in ax.lines] == [[10, 30], [20], [5]]
    assert {"a 8", "a 16", "b 8"} <= {text.get_text() for text in ax.texts}
    assert ax.lines[0].get_color() == ax.lines[1].get_color() != ax.lines[2].get_color()
    scaled = plot_throughput(RATES, measure="scaling_efficiency")
    assert [np.asarray(line.get_ydata()).tolist() for line in scaled.lines] == [[1, 0.75], [1]]
    with pytest.raises(DataError, match="known options"):
        plot_throughput(RATES, measure="n")
    with pytest.raises(DataError, match="there is no row"):
        plot_throughput(RATES.clear())


def test_a_sweep_has_two_limits_and_the_range_of_runs() -> None:
    ax = plot_batch_sweep(SWEEP)
    largest, best = ax.lines
    assert best.get_label() == "best power limit"
    assert np.asarray(best.get_xydata()) == pytest.approx(np.array([[0, 4], [1, 2]]))
    assert np.asarray(largest.get_ydata()) == pytest.approx([5])
    (ranges,) = (c for c in ax.collections if c.get_gid() == "best")
    assert isinstance(ranges, LineCollection)
    assert ranges.get_segments()[0][:, 1] == pytest.approx([3, 6])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["8", "16"]
    largest = plot_batch_sweep(SWEEP, measure="tta").lines[0]
    assert np.asarray(largest.get_ydata()) == pytest.approx([0.5])
    assert ax.get_yscale() == "linear"
    far = pl.concat(
        [
            SWEEP,
            SWEEP.tail(1).with_columns(pl.col("^eta.*_j$") * 100, batch_size=pl.lit(32, pl.Int64)),
        ]
    )
    wide = plot_batch_sweep(far)
    assert (wide.get_yscale(), wide.get_ylabel()) == (
        "log",
        "Energy to the target (MJ, logarithmic)",
    )
    with pytest.raises(DataError, match="known options"):
        plot_batch_sweep(SWEEP, measure="cost")
    with pytest.raises(DataError, match="there is no row"):
        plot_batch_sweep(SWEEP.clear())


def test_many_clusters_have_marks_instead_of_bars() -> None:
    groups = pl.DataFrame(
        {
            "policy": ["edf"] * 4 + ["fifo"] * 4,
            "group": [f"cluster{nth}" for nth in (10, 9, 2, 1)] * 2,
            "fraction_met": [0.1, 0.2, 0.3, 0.4, 0.15, 0.25, 0.35, 0.45],
        }
    )
    ax = plot_deadlines_met(groups)
    (edf,) = (c for c in ax.collections if c.get_gid() == "edf")
    assert np.asarray(edf.get_offsets())[:, 0].tolist() == [0.1, 0.2, 0.3, 0.4]
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["cluster1", "cluster2", "cluster9", "cluster10"]
    assert ax.get_xlim() == (0, 0.5)
    assert not ax.patches
