"""What the figures of dynamic batching draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from matplotlib.patches import Rectangle

from traceana import compare_clusters
from traceana.errors import DataError
from traceana.figures import (
    draw_figure,
    plot_batching_clusters,
    plot_batching_iterations,
    plot_batching_replay,
    plot_batching_speedup,
    plot_batching_trajectory,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCHES = pl.DataFrame(
    {"step": [0, 0, 3, 3], "worker_id": ["a", "b", "a", "b"], "batch": [8, 8, 12, 4]}
)
STEPS = pl.DataFrame(
    {
        "job_id": "job_1",
        "controller": ["uniform", "uniform", "oracle", "oracle"],
        "time_s": [1.0, 11.0, 1.0, 11.0],
        "step_time": [4.0, 6.0, 3.0, 3.0],
    }
)
WORKERS = pl.DataFrame(
    {
        "job_id": "job_1",
        "controller": ["uniform", "uniform", "proportional", "proportional"],
        "worker_id": ["0", "10", "0", "10"],
        "p05": [1.0, 2.0, 1.5, 1.5],
        "p25": [2.0, 3.0, 2.5, 2.5],
        "median": [3.0, 4.0, 3.5, 3.5],
        "p75": [4.0, 5.0, 4.5, 4.5],
        "p95": [5.0, 6.0, 5.5, 5.5],
    }
)
SUMMARY = pl.DataFrame(
    {
        "level": ["1/1", "1/1", "1/3", "1/3"],
        "mean_over_min": [1.0, 1.0, 2.0, 2.0],
        "overhead_s": 0.0,
        "noise_cv": 0.1,
        "controller": ["uniform", "oracle"] * 2,
        "n": 4,
        "speedup": [1.0, 1.1, 1.0, 1.9],
        "speedup_ci_low": [None, 1.05, None, 1.8],
        "speedup_ci_high": [None, 1.15, None, 2.0],
    }
)


def dots(ax: Axes) -> dict[str, list[list[float]]]:
    return {
        str(each.get_gid()): np.asarray(each.get_offsets()).tolist()
        for each in ax.collections
        if each.get_gid()
    }


def segments(ax: Axes) -> list[list[list[float]]]:
    return [
        np.asarray(part).tolist()
        for each in ax.collections
        if not each.get_gid()
        for part in each.get_segments()  # type: ignore[attr-defined]
    ]


def test_a_step_line_a_worker_to_the_end_of_the_job() -> None:
    ax = plot_batching_trajectory(BATCHES, steps=6)
    drawn = {line.get_gid(): np.asarray(line.get_xydata()).tolist() for line in ax.get_lines()}
    assert drawn == {
        "worker-a": [[0, 8], [3, 12], [5, 12]],
        "worker-b": [[0, 8], [3, 4], [5, 4]],
    }
    assert {line.get_drawstyle() for line in ax.get_lines()} == {"steps-post"}
    with pytest.raises(DataError, match="there is no row"):
        plot_batching_trajectory(BATCHES.clear())


def test_a_negative_batch_is_seen() -> None:
    ax = plot_batching_trajectory(BATCHES.with_columns(batch=pl.Series([8, 8, 20, -4])))
    assert ax.get_ylim()[0] == -4


def test_steps_by_controller_and_episodes_shaded() -> None:
    episodes = pl.DataFrame({"onset_s": [1.0, 1.0], "end_s": [11.0, 11.0]})
    ax = plot_batching_replay(STEPS, episodes=episodes)
    drawn = {line.get_gid(): list(line.get_ydata()) for line in ax.get_lines()}  # type: ignore[arg-type]
    assert drawn == {"uniform": [4, 6], "oracle": [3, 3]}
    (span,) = (patch for patch in ax.patches if patch.get_gid())
    extent = span.get_extents().transformed(ax.transData.inverted())
    assert extent.intervalx.tolist() == pytest.approx([1, 11])
    with pytest.raises(DataError, match="there is no row"):
        plot_batching_replay(STEPS.clear())


def test_quantiles_by_worker_and_controller() -> None:
    ax = plot_batching_iterations(WORKERS)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "10"]
    marks = dots(ax)
    assert [x for x, _ in marks["uniform"]] == [3, 4]
    assert [x for x, _ in marks["proportional"]] == [3.5, 3.5]
    rows = [y for name in marks for _, y in marks[name]]
    assert rows == pytest.approx([-0.175, 0.825, 0.175, 1.175])
    spans = [(low[0], high[0]) for low, high in segments(ax)]
    assert spans == [(1, 5), (2, 6), (2, 4), (3, 5), *[(1.5, 5.5)] * 2, *[(2.5, 4.5)] * 2]
    with pytest.raises(DataError, match="workers of one job"):
        plot_batching_iterations(WORKERS.with_columns(job_id=pl.Series([*"aabb"])))


def test_speedups_with_intervals_and_their_limit() -> None:
    ax = plot_batching_speedup(SUMMARY)
    assert dots(ax) == {
        "limit": [[1, 0], [2, 1]],
        "uniform": [[1, 0], [1, 1]],
        "oracle": [[1.1, 0], [1.9, 1]],
    }
    assert segments(ax) == [[[1.05, 0], [1.15, 0]], [[1.8, 1], [2, 1]]]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1/1", "1/3"]
    with pytest.raises(DataError, match="of one overhead and noise"):
        plot_batching_speedup(SUMMARY.with_columns(overhead_s=pl.Series([0.0, 0, 1, 1])))


def test_they_are_registered() -> None:
    for figure, result in (
        ("batching-trajectory", BATCHES),
        ("batching-replay", STEPS),
        ("batching-iterations", WORKERS),
        ("batching-speedup", SUMMARY),
    ):
        assert draw_figure(figure, result).axes


def test_clusters_have_a_bar_for_each_system_and_a_diamond_for_each_published_factor() -> None:
    comparison = compare_clusters()
    ax = plot_batching_clusters(comparison)
    widths = sorted(bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle))
    times = comparison.filter(pl.col("workers") != "published")["relative_time"]
    assert widths == pytest.approx(sorted(times))
    diamonds = [c for c in ax.collections if (c.get_gid() or "").startswith("published-")]
    assert len({c.get_gid() for c in diamonds}) == len(diamonds), "ids are unique"
    assert len(diamonds) == 10
    assert [text.get_text() for text in ax.get_yticklabels()][3] == "P100\nand 48-core Xeon"
    with pytest.raises(DataError, match="there is no row"):
        plot_batching_clusters(comparison.clear())
