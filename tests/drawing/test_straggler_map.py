"""What plot_straggler_map draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Annotation

from traceana import detect_stragglers
from traceana.drawing.svg import WATERMARK, mark_synthetic, render_svg
from traceana.errors import DataError
from traceana.figures import plot_straggler_map
from traceana.questions.stragglers import detect
from traceana.questions.stragglers.tables import StragglerResult
from traceana.tables.declare import ResultTable, schema_of

TIMES = [1.0, 11, 21, 31, 71, 81]  # nothing between 31 and 71
RATIOS = pl.DataFrame(
    {
        "job_id": "job_1",
        "worker_id": [worker for worker in ("0", "2", "10") for _ in TIMES],
        "time_s": TIMES * 3,
        "ratio_to_peers": [1.0, 1, 1, 1, 1, 1, 1, 1.9, 1.8, 1, 1, 1, 0.9, 0.8, None, 1, 1, 1],
    }
)
LEVELS = pl.DataFrame(
    {
        "job_id": "job_1",
        "worker_id": ["0", "2", "10"],
        "ratio_to_peers": [1.0, 1.25, None],
        "is_slow": [False, True, None],
        "n_samples": [6, 6, 6],
    }
)
EPISODES = pl.DataFrame({"job_id": "job_1", "worker_id": ["2"], "onset_s": [11.0], "end_s": [21.0]})


def filled(frame: pl.DataFrame, table: type[ResultTable]) -> pl.DataFrame:
    """Add what the map does not show, null."""
    types = {name: kind for name, kind in schema_of(table).items() if name not in frame.columns}
    return frame.with_columns(pl.lit(None, kind).alias(name) for name, kind in types.items())


def result_of(
    ratios: pl.DataFrame = RATIOS, episodes: pl.DataFrame = EPISODES, levels: pl.DataFrame = LEVELS
) -> StragglerResult:
    jobs = ratios.select(pl.col("job_id").unique())
    tables = StragglerResult.tables
    return StragglerResult(
        episodes=filled(episodes, tables["episodes"]),
        levels=filled(levels, tables["levels"]),
        jobs=filled(jobs, tables["jobs"]),
        ratios=ratios,
    )


def drawn(ratios: pl.DataFrame = RATIOS, episodes: pl.DataFrame = EPISODES) -> Axes:
    shuffled = ratios.sample(fraction=1, shuffle=True, seed=2)
    return plot_straggler_map(result_of(shuffled, episodes))


def mesh_of(ax: Axes) -> QuadMesh:
    (mesh,) = (c for c in ax.collections if isinstance(c, QuadMesh))
    return mesh


def outlines(ax: Axes) -> list[Patch]:
    return [patch for patch in ax.patches if str(patch.get_gid()).startswith("episode-")]


def test_a_row_a_worker_with_its_ratios_and_nothing_where_there_is_no_sample() -> None:
    ax = drawn()
    values: Any = mesh_of(ax).get_array()
    shown = np.ma.filled(np.ma.masked_invalid(values), np.nan)
    nan = np.nan
    np.testing.assert_array_equal(
        shown,
        [
            [1, 1, 1, 1, nan, 1, 1],
            [1, 1.9, 1.8, 1, nan, 1, 1],
            [0.9, 0.8, nan, 1, nan, 1, 1],
        ],
    )
    edges = np.asarray(mesh_of(ax).get_coordinates())[0, :, 0]
    np.testing.assert_array_equal(edges, [1, 11, 21, 31, 41, 71, 81, 91])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "2", "10"]
    assert ax.get_ylim() == (2.5, -0.5), "the first on top"
    assert ax.get_title(loc="left") == "Stragglers of job_1"


def test_episodes_are_outlined_from_the_first_slow_sample_through_the_last() -> None:
    (outline,) = outlines(drawn())
    assert isinstance(outline, Rectangle)
    assert (outline.get_x(), outline.get_x() + outline.get_width()) == (11, 31)
    middle = outline.get_y() + outline.get_height() / 2
    assert middle == pytest.approx(1), "the row of worker 2"
    assert not outlines(drawn(episodes=EPISODES.clear()))


def test_levels_stand_beside_their_rows_and_slow_ones_are_bold() -> None:
    names = [
        (text.xy[1], text.get_text(), text.get_fontweight())
        for text in drawn().texts
        if isinstance(text, Annotation) and str(text.get_gid()).startswith("level-")
    ]
    assert names == [(0, "1.00", "normal"), (1, "1.25", "bold"), (2, "\N{EN DASH}", "normal")]


def test_the_scale_is_as_wide_to_both_sides_and_holds_nearly_all() -> None:
    for factor, limit in ((1, 2.0), (3, 8.0), (100, 16.0)):
        raised = RATIOS.with_columns(
            pl.when(pl.col("ratio_to_peers") > 1)
            .then(pl.col("ratio_to_peers") * factor)
            .otherwise("ratio_to_peers")
        )
        norm = mesh_of(drawn(raised)).norm
        assert isinstance(norm, LogNorm)
        assert (norm.vmin, norm.vmax) == (1 / limit, limit)


def test_the_watermark_stands_on_the_map_and_not_on_its_scale() -> None:
    figure = drawn().get_figure(root=True)
    assert isinstance(figure, Figure)
    assert len(figure.axes) == 2
    mark_synthetic(figure)
    assert render_svg(figure, prefix="a").count(WATERMARK) == 1


def test_it_stays_small_and_the_same_at_the_longest_jobs_ticks() -> None:
    rng = np.random.default_rng(3)
    ticks = 2183
    noise = pl.DataFrame(
        {
            "job_id": "job_1",
            "worker_id": [str(worker) for worker in range(10) for _ in range(ticks)],
            "time_s": [1.0 + 10 * tick for _ in range(10) for tick in range(ticks)],
            "ratio_to_peers": rng.lognormal(0, 0.3, 10 * ticks),
        }
    )
    levels = LEVELS.filter(worker_id="2")
    texts = []
    for _ in range(2):
        ax = plot_straggler_map(result_of(noise, levels=levels))
        figure = ax.get_figure(root=True)
        assert isinstance(figure, Figure)
        texts.append(render_svg(figure, prefix="a"))
    assert texts[0] == texts[1]
    assert len(texts[0]) < 300_000


def test_it_is_drawn_from_the_analysis_alone() -> None:
    times = np.full((2, 3, 60), 10.0)
    times[1, 2, 20:40] = 25
    job, worker, step = np.indices(times.shape)
    samples = pl.DataFrame(
        {
            "job": job.ravel(),
            "rank": worker.ravel(),
            "step": step.ravel(),
            "seconds": times.ravel(),
        }
    )
    result = detect_stragglers(samples, by="job", time="step", worker="rank", value="seconds")
    ax = result.plot(job=1, time="step")
    assert (ax.get_title(loc="left"), ax.get_xlabel()) == ("Stragglers of 1", "Step")
    (outline,) = outlines(ax)
    assert isinstance(outline, Rectangle)
    assert (outline.get_x(), outline.get_width()) == (20, 20)
    shown: Any = mesh_of(ax).get_array()
    assert np.asarray(shown)[2, 20:40].tolist() == [2.5] * 20
    with pytest.raises(DataError, match="draws one job of 2; pass job="):
        result.plot()
    with pytest.raises(DataError, match="job= is 7; no job has this key"):
        result.plot(job=7)


def test_ratios_are_kept_for_the_first_jobs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "RATIOS_KEPT", 100)
    row = np.arange(200)
    samples = pl.DataFrame(
        {"job_id": "a", "worker_id": row % 4, "time_s": row // 4, "batch_time": 1.0 + row % 4}
    )
    result = detect_stragglers(samples)
    assert result.ratios.is_empty()
    with pytest.raises(DataError, match="the ratios of this job were not kept"):
        result.plot()


def test_nothing_above_zero_is_refused() -> None:
    nothing = RATIOS.with_columns(ratio_to_peers=pl.lit(None, pl.Float64))
    with pytest.raises(DataError, match="needs a ratio above 0"):
        drawn(nothing)
