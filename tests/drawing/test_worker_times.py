"""What plot_worker_times and draw_worker_times draw."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from traceana.errors import DataError
from traceana.figures import draw_worker_times, plot_worker_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def samples(job: str = "job_1", workers: int = 3, ticks: int = 5) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "job_id": job,
                "worker_id": str(worker),
                "time_s": 1.0 + 10 * tick,
                "batch_time": 100.0 * worker + tick,
            }
            for tick in range(ticks)
            for worker in range(workers)
        ]
    )


def texts(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts]


def test_stragglers_have_colors_of_their_own_and_the_others_share_gray() -> None:
    ax = plot_worker_times(samples(workers=10), stragglers=["7", "2"])
    colors = {str(line.get_gid()): line.get_color() for line in ax.lines}
    two, seven = colors.pop("worker-2"), colors.pop("worker-7")
    assert len({*colors.values()}) == 1
    assert len({two, seven, *colors.values()}) == 3
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "straggler 2",
        "straggler 7",
        "other workers",
    ]
    names = {text.get_text(): text.get_color() for text in ax.texts}
    assert (names["2"], names["7"]) == (two, seven)
    assert {*names} >= {str(worker) for worker in range(10)}
    # a legend with a line per straggler would be wider than the figure
    many = plot_worker_times(samples(workers=10), stragglers=[str(worker) for worker in range(9)])
    legend = many.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "stragglers, a color each",
        "other workers",
    ]


def test_one_step_line_a_worker_with_its_values_and_name() -> None:
    frame = samples().sample(fraction=1, shuffle=True, seed=3)
    ax = plot_worker_times(frame)
    assert [line.get_gid() for line in ax.lines] == ["worker-0", "worker-1", "worker-2"]
    for worker, line in enumerate(ax.lines):
        assert line.get_drawstyle() == "steps-post"
        assert np.asarray(line.get_xdata()).tolist() == [1, 11, 21, 31, 41]
        assert np.asarray(line.get_ydata()).tolist() == [100.0 * worker + tick for tick in range(5)]
    assert sorted(texts(ax)) == ["0", "1", "2", "worker"]
    assert ax.get_title(loc="left") == "Mini-batch time of the workers, job_1"
    assert ax.get_xlim() == (1, 41)
    assert ax.get_ylim()[0] == 0
    assert "(s)" in ax.get_xlabel()
    assert ax.get_ylabel() == "Mini-batch time (s)"


def test_a_line_is_broken_where_its_worker_is_absent() -> None:
    ticks = [1.0, 11, 21, 61, 71, 74]  # absent at 31, 41 and 51; the last step is a short one
    frame = pl.DataFrame(
        {"job_id": "job_1", "worker_id": "a", "time_s": ticks, "batch_time": [5.0, 6, 7, 8, 9, 1]}
    )
    (line,) = plot_worker_times(frame).lines
    x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    # the value before the gap is held for one usual step, then nothing
    assert x.tolist() == [1, 11, 21, 31, 31, 61, 71, 74]
    assert [int(value) for value in y if not math.isnan(value)] == [5, 6, 7, 7, 8, 9, 1]
    assert np.flatnonzero(np.isnan(y)).tolist() == [4]


def test_a_worker_with_one_sample_has_a_point_and_a_name() -> None:
    ax = plot_worker_times(
        samples(workers=2).filter((pl.col("worker_id") == "0") | (pl.col("time_s") == 41))
    )
    assert np.asarray(ax.lines[1].get_xydata()).tolist() == [[41, 104]]
    assert "1" in texts(ax)


def test_names_are_left_out_where_they_do_not_fit() -> None:
    assert texts(plot_worker_times(samples(workers=60))) == []


def test_a_worker_that_ends_early_is_named_where_it_ends() -> None:
    frame = samples(workers=2, ticks=20).filter(
        (pl.col("worker_id") == "0") | (pl.col("time_s") < 100)
    )
    ax = plot_worker_times(frame)
    (name,) = (text for text in ax.texts if text.get_text() == "1")
    assert name.xy == (91, 109)  # type: ignore[attr-defined]
    assert name.arrow_patch is None  # type: ignore[attr-defined]


def test_several_jobs_are_refused() -> None:
    frame = pl.concat([samples("job_1"), samples("job_2")])
    with pytest.raises(DataError, match="draws one job; the samples have 2"):
        plot_worker_times(frame)


def test_several_jobs_have_a_panel_each_in_natural_order() -> None:
    frame = pl.concat([samples(job) for job in ("job_10", "job_2", "job_1")])
    figure = draw_worker_times(frame)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert [title.split()[-1] for title in titles] == ["job_1", "job_2", "job_10"]
    assert all(len(ax.lines) == 3 for ax in figure.axes)


def test_other_columns_units_and_types_of_keys_are_drawn() -> None:
    frame = samples(ticks=3).select(
        pl.col("job_id").cast(pl.Categorical),
        rank=pl.col("worker_id").cast(pl.Int64),
        at=pl.datetime(2026, 1, 1) + pl.duration(seconds=pl.col("time_s")),
        took="batch_time",
    )
    ax = plot_worker_times(frame, time="at", worker="rank", value="took", unit="ms")
    assert [line.get_gid() for line in ax.lines] == ["worker-0", "worker-1", "worker-2"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("At", "Mini-batch time (ms)")
    steps = samples().rename({"time_s": "step"})
    assert plot_worker_times(steps).get_xlabel() == "Step"
    with pytest.raises(DataError, match="column time_s or step or sample is missing; found"):
        plot_worker_times(steps.drop("step"))
