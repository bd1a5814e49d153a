"""What plot_energy_savings and plot_energy_front draw."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.text import Annotation

from traceana.errors import DataError
from traceana.figures import (
    plot_energy_front,
    plot_energy_map,
    plot_energy_savings,
    plot_power_sweep,
)

CHOICES = ("baseline", "batch_size", "power_limit", "both")
SAVINGS = pl.DataFrame(
    {
        "gpu": "v100",
        "dataset": ["squad"] * 4 + ["cifar100"] * 4,
        "objective": "energy",
        "choice": CHOICES * 2,
        "ratio": [1.0, 0.9, 0.8, 0.7, None, None, None, None],
    }
)
ENERGY = pl.DataFrame(
    {
        "batch_size": [8, 16, 16, 32, 64],
        "power_limit_w": [100.0, 100, 150, 100, 100],
        "tta_s": [3600.0, 7200, 9000, 10_800, 360_000],
        "eta_j": [4e6, 3e6, 3.5e6, 2e6, 9e6],
        "on_front": [True, True, False, True, False],
    }
)

FRONT = np.array([[1, 4], [2, 3], [3, 2]])
"""Hours and MJ of its front."""


def points(ax: Axes, gid: str) -> np.ndarray:
    (found,) = (c for c in ax.collections if c.get_gid() == gid)
    assert isinstance(found, PathCollection)
    return np.asarray(found.get_offsets())


def line_of(ax: Axes, gid: str) -> np.ndarray:
    (found,) = (line for line in ax.lines if line.get_gid() == gid)
    assert found.get_drawstyle() == "steps-post"
    return np.asarray(found.get_xydata(), dtype=float)


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_three_bars_a_data_set_are_the_ratios() -> None:
    ax = plot_energy_savings(SAVINGS)
    bars = [c for c in ax.containers if isinstance(c, BarContainer)]
    assert [bar.get_label() for bar in bars] == ["batch size only", "power limit only", "both"]
    for bar, ratio in zip(bars, (0.9, 0.8, 0.7), strict=True):
        (one,) = bar.patches
        assert one.get_width() == pytest.approx(ratio)
        assert round(one.get_y() + one.get_height() / 2) == 1
    assert [label.get_text() for label in ax.get_yticklabels()] == ["cifar100", "squad"]
    assert sorted(texts(ax)) == ["70.0 %", "80.0 %", "90.0 %", *["unknown"] * 3]
    assert ax.get_title(loc="left").startswith("V100, ")
    assert ax.get_xlabel().startswith("Energy")


def test_savings_of_two_gpus_or_objectives_are_refused() -> None:
    two = pl.concat([SAVINGS, SAVINGS.with_columns(objective=pl.lit("cost"))])
    with pytest.raises(DataError, match="energy_savings of one GPU and objective"):
        plot_energy_savings(two)
    with pytest.raises(DataError, match="there is no row"):
        plot_energy_savings(SAVINGS.clear())


def test_the_front_is_what_the_result_says() -> None:
    ax = plot_energy_front(ENERGY.reverse())
    np.testing.assert_allclose(points(ax, "front"), FRONT)
    np.testing.assert_allclose(points(ax, "dominated"), np.array([[2.5, 3.5], [100, 9]]))
    np.testing.assert_allclose(line_of(ax, "bound"), FRONT)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "dominated (2, 1 out of the frame)",
        "on the front (3)",
    ]
    left, right = ax.get_xlim()
    assert left < 1
    assert 3 < right < 100


def test_points_of_the_front_are_named_where_there_is_room() -> None:
    ax = plot_energy_front(ENERGY)
    named = {text.get_text(): text.xy for text in ax.texts if isinstance(text, Annotation)}
    assert named == {"8, 100 W": (1, 4), "16, 100 W": (2, 3), "32, 100 W": (3, 2)}
    many = pl.DataFrame(
        {
            "batch_size": range(60),
            "power_limit_w": 100.0,
            "tta_s": [3600.0 + i for i in range(60)],
            "eta_j": [9e6 - i for i in range(60)],
            "on_front": True,
        }
    )
    assert texts(plot_energy_front(many)) == []
    assert len(points(plot_energy_front(many), "front")) == 60


def test_no_configuration_is_refused() -> None:
    with pytest.raises(DataError, match="there is no row"):
        plot_energy_front(ENERGY.clear())


def test_the_map_has_a_cell_for_each_configuration_and_a_star_at_the_least() -> None:
    energy = ENERGY.with_columns(cost_j=pl.col("eta_j"))
    ax = plot_energy_map(energy)
    (cells,) = (c for c in ax.collections if c.get_gid() == "cells")
    values = np.ma.masked_invalid(np.asarray(cells.get_array()).reshape(2, 4))
    assert values.count() == 5
    assert values[0].tolist() == [4.0, 3.0, 2.0, 9.0]  # MJ at 100 W
    assert values[1, 1] == 3.5
    assert points(ax, "least").tolist() == [[2, 0]]
    hours = plot_energy_map(energy, measure="time")
    assert points(hours, "least").tolist() == [[0, 0]]
    with pytest.raises(DataError, match="known options"):
        plot_energy_map(energy, measure="eta")


def test_a_line_for_each_batch_size_over_the_power_limits() -> None:
    energy = ENERGY.with_columns(cost_j=pl.col("eta_j"))
    ax = plot_power_sweep(energy)
    lines = {line.get_gid(): np.asarray(line.get_xydata()).tolist() for line in ax.lines}
    assert lines["batch-16"] == [[100, 3], [150, 3.5]]
    legend = ax.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["batch size 32 (least)", "batch size 64 (largest)"]
    with pytest.raises(DataError, match="there is no row"):
        plot_power_sweep(energy.clear())
