"""Names of lines keep apart."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from traceana import failure_rates
from traceana.drawing.labels import (
    Percent,
    as_dates,
    end_of_percent,
    name_group,
    name_tick,
    natural_order,
    split_lines,
    spread,
    use_dates,
    use_log_axis,
)
from traceana.drawing.style import use_style
from traceana.drawing.svg import render_svg
from traceana.errors import DataError
from traceana.figures import (
    draw_figure,
    plot_batch_time_ecdf,
    plot_small_multiples,
    plot_worker_times,
)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20).map(sorted), st.floats(0, 1))
def test_heights_are_spread_within_the_axes(wanted: list[float], tightness: float) -> None:
    gap = tightness / len(wanted)
    heights = spread(wanted, gap=gap)
    assert all(after - before >= gap - 1e-9 for before, after in pairwise(heights))
    assert heights[0] >= -1e-9
    assert heights[-1] <= 1 + 1e-9


@given(st.lists(st.integers(0, 20), min_size=1, unique=True).map(sorted))
def test_heights_that_are_apart_stay_where_they_are(wanted: list[int]) -> None:
    heights = [height / 20 for height in wanted]
    assert spread(heights, gap=0) == heights


def test_a_tie_is_parted_evenly() -> None:
    assert spread([0.5, 0.5], gap=0.2) == [0.4, 0.6]


def test_names_sort_as_people_count() -> None:
    assert natural_order(["job_10", "job_2", "job_1"]) == ["job_1", "job_2", "job_10"]


def test_a_group_is_named_by_its_values() -> None:
    assert name_group((None, 0.5, 8.0, "T4")) == "not stated, 0.5, 8, T4"


def test_of_a_long_name_both_ends_are_kept() -> None:
    assert name_group(["a" * 60]) == "a" * 60
    assert name_group(["a" * 100 + "b" * 100 + "\nc"]) == "a" * 30 + "…" + "b" * 30 + "\nc"
    assert name_tick("a" * 28) == "a" * 28
    assert name_tick("a" * 100 + "b" * 100) == "a" * 14 + "…" + "b" * 14


def test_names_of_any_length_are_drawn_short() -> None:
    long = "x" * 100_000
    samples = pl.DataFrame(
        {"job_id": long, "time_s": [0, 0, 30, 30], "worker_id": ["a", long] * 2, "batch_time": 1.0}
    )
    times, ecdf = plot_worker_times(samples), plot_batch_time_ecdf(samples)
    assert max(len(text.get_text()) for text in times.texts) <= 30
    legend = ecdf.get_legend()
    assert legend is not None
    assert [len(text.get_text()) for text in legend.get_texts()] == [61]
    assert name_group(["a\n" * 100_000]) == "a\na\na\na"


def test_a_name_that_begins_with_an_underscore_is_in_the_legend() -> None:
    samples = pl.DataFrame({"job_id": "_apt", "time_s": [0, 30], "worker_id": "a", "batch_time": 1})
    legend = plot_batch_time_ecdf(samples).get_legend()
    assert legend is not None
    assert [text.get_text().strip("\N{ZERO WIDTH SPACE}") for text in legend.get_texts()] == [
        "_apt"
    ]


def test_more_groups_than_can_be_told_apart_are_refused() -> None:
    names = [f"g{place}" for place in range(4000)]
    statuses = ["failed", "completed"] * 4000
    rates = failure_rates(pl.DataFrame({"queue": names * 2, "status": statuses}), by="queue")
    samples = pl.DataFrame({"job_id": names, "time_s": 0, "worker_id": "a", "batch_time": 1.0})
    workers = samples.with_columns(job_id=pl.lit("a"), worker_id="job_id")
    for draw in (
        lambda: draw_figure("outcome-rates", rates),
        lambda: plot_batch_time_ecdf(samples),
        lambda: plot_worker_times(workers),
        lambda: split_lines(samples, "time_s"),
    ):
        with pytest.raises(DataError, match="more than 3,000 groups"):
            draw()


def test_dollar_signs_in_a_name_are_no_formula() -> None:
    jobs = pl.DataFrame({"queue": ["$x^2$", "$$"], "status": ["failed", "completed"]})
    rates = failure_rates(jobs, by="queue")
    svg = render_svg(draw_figure("outcome-rates", rates), prefix="a")
    assert ">$x^2$</text>" in svg
    assert ">$$</text>" in svg


def test_a_narrow_logarithmic_axis_has_few_ticks() -> None:
    ax = Figure().add_subplot()
    use_log_axis(ax, "x", [0.805, 1.0, 1.197])
    assert [round(tick, 9) for tick in ax.get_xticks()] == [0.8, 1.0, 1.2]


def test_a_logarithmic_axis_with_one_power_of_ten_has_more_ticks() -> None:
    ax = Figure().add_subplot()
    use_log_axis(ax, "x", [0.16, 6.0])
    low, high = ax.get_xlim()
    assert [tick for tick in ax.get_xticks() if low <= tick <= high] == pytest.approx(
        [0.2, 0.5, 1.0, 2.0, 5.0]
    )


@pytest.mark.parametrize(
    ("values", "end"),
    [([0.031, None, 0.048], 0.05), ([0.21, 0.33], 0.4), ([0.97], 1.0), ([0.0], 1.0), ([], 1.0)],
)
def test_an_axis_of_fractions_ends_at_a_round_number(
    values: list[float | None], end: float
) -> None:
    assert end_of_percent(values) == pytest.approx(end)


def test_ticks_in_percent_have_the_decimals_they_need() -> None:
    axis = Figure().subplots().xaxis
    for whole in (1, 100):
        axis.set_major_formatter(Percent(whole))
        ticks = axis.get_major_formatter().format_ticks([0.0, 0.025 * whole, 0.3 * whole])
        assert ticks == ["0 %", "2.5 %", "30 %"]


def test_panels_that_share_an_axis_of_durations_have_ticks_between_its_ends() -> None:
    # runtimes of 1 to 2 h, and of 3 d: ticks of neither panel reach the other
    rows = pl.DataFrame({"status": ["a", "b"], "n": 9, "median_s": [4000.0, 7000.0]})
    limits = {"ci_low": pl.col("median_s") / 1.2, "ci_high": pl.col("median_s") * 1.2}
    short, long = (
        rows.with_columns(median_s=median).with_columns(**limits)
        for median in (pl.col("median_s"), pl.lit(259_200.0))
    )
    panels = [
        SimpleNamespace(figure="runtime-by", result=one, options={"log_x": True})
        for one in (short, long)
    ]
    ax = plot_small_multiples(panels, share_x=True)
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.get_xticks() if low <= tick <= high]
    assert min(ticks) <= 7000
    assert max(ticks) >= 86_400


@pytest.mark.parametrize(
    ("start", "days", "some", "label"),
    [
        ("2026-03-10", 1, "12:00", "in 2026"),
        ("2026-03-10", 3, "11 Mar", "in 2026"),
        ("2026-03-10", 10, "13 Mar", "in 2026"),
        ("2026-03-10", 35, "15 Mar", "in 2026"),
        ("2026-02-01", 120, "Apr", "in 2026"),
        ("2026-01-01", 200, "Jan", "in 2026"),
        ("2025-12-10", 35, "01 Jan", "in 2025 and 2026"),
        ("2025-10-05", 330, "2026", "in 2025 and 2026"),
        ("2025-10-05", 456, "2026", "in 2025 to 2027"),
    ],
)
def test_dates_of_a_small_panel_do_not_overlap(
    start: str, days: int, some: str, label: str
) -> None:
    first = datetime.fromisoformat(start).replace(tzinfo=UTC).timestamp()
    times = pl.Series(np.linspace(first, first + days * 86_400, 50))
    with use_style(alone=True):
        figure = Figure(figsize=(4.4, 1.5))
        ax = figure.subplots(1, 2)[0]
        ax.plot(as_dates(times, "UTC").to_numpy(), np.arange(50))
        use_dates(ax, "UTC")
        figure.canvas.draw()
        texts = [one for one in ax.get_xticklabels() if one.get_text()]
        low, high = ax.get_xlim()
        boxes = [one.get_window_extent() for one in texts if low <= one.get_position()[0] <= high]
    assert some in [one.get_text() for one in texts]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert ax.get_xlabel() == f"Date {label} (UTC)"
