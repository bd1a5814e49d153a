"""What plot_runtime_by and plot_outcome_rates draw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

from traceana import failure_rates, outcome_rates, runtime_by
from traceana.errors import DataError
from traceana.figures import plot_outcome_rates, plot_runtime_by

TASKS = pl.DataFrame(
    {
        "gpu_type": ["T4"] * 4 + ["V100"] * 3 + [None],
        "runtime_s": [100.0, 120, 140, None, 400, 500, 900, 250],
        "status": ["completed", "failed", "completed", "running"] + ["completed"] * 3 + ["failed"],
    }
)


def drawn(ax: Axes, gid: str) -> np.ndarray:
    (points,) = (c for c in ax.collections if c.get_gid() == gid)
    if isinstance(points, LineCollection):
        return np.asarray(points.get_segments())
    assert isinstance(points, PathCollection)
    return np.asarray(points.get_offsets())


def test_runtime_rows_are_the_results_values() -> None:
    result = runtime_by(TASKS, "gpu_type")
    ax = plot_runtime_by(result)
    np.testing.assert_allclose(
        drawn(ax, "means"), list(zip(result["mean_s"], range(3), strict=True))
    )
    np.testing.assert_allclose(drawn(ax, "medians")[:, 0], [120, 500, 250])
    # the third group has one runtime, hence no interval
    ends = [
        [[low, row], [high, row]]
        for row, low, high in zip(range(2), *intervals(result), strict=False)
    ]
    np.testing.assert_allclose(drawn(ax, "intervals"), ends)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["T4", "V100", "not stated"]
    assert [text.get_text() for text in ax.texts] == ["n = 3", "n = 3", "n = 1"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first group stands on top"


def intervals(result: pl.DataFrame) -> tuple[list[float], list[float]]:
    return result["ci_low"].drop_nulls().to_list(), result["ci_high"].drop_nulls().to_list()


def test_a_logarithmic_axis_is_chosen_for_a_wide_range_and_says_so() -> None:
    narrow = plot_runtime_by(runtime_by(TASKS, "gpu_type"))
    assert (narrow.get_xscale(), narrow.get_xlabel()) == ("linear", "Mean runtime (s)")
    assert narrow.get_xlim()[0] == 0
    long = TASKS.with_columns(
        pl.when(gpu_type="V100").then(pl.col("runtime_s") * 100).otherwise("runtime_s")
    )
    wide = plot_runtime_by(runtime_by(long, "gpu_type"))
    assert (wide.get_xscale(), wide.get_xlabel()) == ("log", "Mean runtime (logarithmic)")


def test_rates_and_their_intervals_are_the_results_values() -> None:
    result = outcome_rates(TASKS, "gpu_type")
    ax = plot_outcome_rates(result)
    np.testing.assert_allclose(drawn(ax, "means")[:, 0], [2 / 3, 1, 0])
    np.testing.assert_allclose(drawn(ax, "intervals")[:, 0, 0], result["ci_low"])
    np.testing.assert_allclose(drawn(ax, "intervals")[:, 1, 0], result["ci_high"])
    assert [text.get_text() for text in ax.texts] == ["n = 3", "n = 3", "n = 1"]
    assert ax.get_xlim() == (0, 1)


def test_failure_rates_have_a_title() -> None:
    result = failure_rates(TASKS, "gpu_type")
    ax = plot_outcome_rates(result, heading="Failure rate by GPU type")
    np.testing.assert_allclose(drawn(ax, "means")[:, 0], [1 / 3, 0, 1])
    np.testing.assert_allclose(drawn(ax, "intervals")[:, 0, 0], result["ci_low"])
    assert (ax.get_title(loc="left"), ax.get_ylabel()) == ("Failure rate by GPU type", "")
    assert plot_outcome_rates(result).get_ylabel() == "GPU type"
    assert ax.get_xlabel() == "Failure rate"


def test_a_group_without_successes_and_failures_keeps_its_row() -> None:
    waiting = pl.DataFrame({"qos": ["A", "B"], "status": ["completed", "pending"]})
    ax = plot_outcome_rates(outcome_rates(waiting, "qos"))
    assert [text.get_text() for text in ax.texts] == ["n = 1", "n = 0"]
    assert len(drawn(ax, "intervals")) == 1


def test_groups_of_two_columns_have_one_name_and_numbers_no_needless_zero() -> None:
    frame = pl.DataFrame({"qos": ["A"], "gpus": [2.0], "runtime_s": [5.0]})
    ax = plot_runtime_by(runtime_by(frame, ("qos", "gpus")))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["A, 2"]
    assert ax.get_ylabel() == "QoS class, GPUs"


@pytest.mark.parametrize("plot", [plot_runtime_by, plot_outcome_rates])
def test_a_result_without_rows_is_refused(plot: object) -> None:
    empty = runtime_by(TASKS.clear(), "gpu_type")
    with pytest.raises(DataError, match="there is no row"):
        plot(empty)  # type: ignore[operator]


def test_every_interval_above_zero_is_drawn_whole_on_a_logarithmic_axis() -> None:
    result = pl.DataFrame(
        {
            "gpus": ["0", "8"],
            "n": [40, 40],
            "mean_s": [2621.0, 90000.0],
            "ci_low": [1220.0, 80000.0],
            "ci_high": [4022.0, 100000.0],
            "median_s": [2700.0, 70000.0],
        }
    )
    assert plot_runtime_by(result).get_xlim()[0] < 1220
