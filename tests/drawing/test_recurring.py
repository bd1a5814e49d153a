"""What the figures of recurring jobs draw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import LineCollection

from traceana.errors import DataError
from traceana.figures import (
    draw_figure,
    plot_energy_saved,
    plot_ratio_distribution,
    plot_recurring_choices,
    plot_regret,
)

REGRET = pl.DataFrame(
    {
        "policy": ["zeus", "zeus", "default", "default"],
        "recurrence": [1, 2, 1, 2],
        "cumulative_regret_j": [1e6, 1.5e6, 2e6, 4e6],
    }
)
HISTORY = pl.DataFrame(
    {
        "recurrence": [1, 2, 2],
        "batch_size": [8, 16, 8],
        "power_limit_w": [100.0, 200.0, 100.0],
        "reached": [True, False, True],
    }
)


def test_a_line_a_policy() -> None:
    ax = plot_regret(REGRET)
    drawn = {str(line.get_label()): list(line.get_ydata()) for line in ax.get_lines()}  # type: ignore[arg-type]
    assert drawn == {"zeus": [1.0, 1.5], "default": [2.0, 4.0]}
    assert "MJ" in ax.get_ylabel()


def test_no_regret_without_an_oracle() -> None:
    with pytest.raises(DataError, match="no oracle"):
        plot_regret(REGRET.with_columns(cumulative_regret_j=None))


def test_a_mark_a_run_on_the_row_of_its_batch_size() -> None:
    ax = plot_recurring_choices(HISTORY)
    marks = {str(dots.get_gid()): dots.get_offsets() for dots in ax.collections if dots.get_gid()}
    assert [tuple(each) for each in marks["reached"]] == [(1, 0), (2, 0)]  # type: ignore[union-attr, arg-type]
    assert [tuple(each) for each in marks["missed"]] == [(2, 1)]  # type: ignore[union-attr, arg-type]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["8", "16"]
    with pytest.raises(DataError, match="there is no row"):
        plot_recurring_choices(HISTORY.clear())


def test_a_mark_a_data_set_and_gpu_with_its_interval() -> None:
    summary = pl.DataFrame(
        {
            "gpu": ["a40", "v100", "v100"],
            "dataset": ["squad", "cifar100", "squad"],
            "seeds": [2, 2, 1],
            "energy_saved": [0.2, -0.1, None],
            "energy_saved_ci_low": [0.1, None, None],
            "energy_saved_ci_high": [0.3, None, None],
        }
    )
    ax = plot_energy_saved(summary)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["cifar100", "squad"]
    marks = {line.get_label(): np.asarray(line.get_xydata()) for line in ax.lines}
    assert marks["A40"] == pytest.approx(np.array([[0.2, 0.84]]))
    assert marks["V100"] == pytest.approx(np.array([[-0.1, 0.16]]))
    bars = {c.get_gid(): c for c in ax.collections if isinstance(c, LineCollection)}
    assert bars["a40"].get_segments()[0][:, 0] == pytest.approx([0.1, 0.3])
    assert not len(bars["v100"].get_segments())
    with pytest.raises(DataError, match="one to six GPUs, not 0"):
        plot_energy_saved(summary.tail(1))


def test_they_are_registered() -> None:
    assert draw_figure("regret", REGRET).axes
    assert draw_figure("recurring-choices", HISTORY).axes


def test_ratios_of_two_stages_as_steps_and_as_bins() -> None:
    ratios = pl.DataFrame(
        {
            "stage": ["before"] * 4 + ["after"] * 2,
            "runtime_ratio": [0.5, 1.0, 0.25, 2.25, 0.5, 1.5],
        }
    )
    ax = plot_ratio_distribution(ratios)
    (before,) = (line for line in ax.lines if line.get_gid() == "before")
    assert np.asarray(before.get_xydata()).tolist() == [
        [0.25, 0.25],
        [0.5, 0.5],
        [1.0, 0.75],
        [2.25, 1.0],
    ]
    bins = plot_ratio_distribution(ratios, kind="histogram")
    for stairs in bins.patches:
        assert np.sum(stairs.get_data().values) == pytest.approx(1)  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="plot_ratio_distribution draws"):
        plot_ratio_distribution(ratios.with_columns(runtime_ratio=pl.lit(0.0)))
    with pytest.raises(DataError, match="kind must be one of"):
        plot_ratio_distribution(ratios, kind="pie")
