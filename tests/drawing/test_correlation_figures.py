"""What plot_runtime_against, plot_correlations and plot_small_multiples draw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.drawing.drawn import collection, legend, points
from traceana import mean_by_value
from traceana.drawing.registry import describe_small_multiples
from traceana.drawing.svg import render_svg
from traceana.errors import DataError
from traceana.figures import (
    draw_figure,
    get_figure,
    plot_correlations,
    plot_runtime_against,
    plot_small_multiples,
)
from traceana.page.blocks import Drawing

MEANS = pl.DataFrame(
    {"value": [0.0, 25, 50, 100, 800], "n": [2, 1, 8, 4, 1], "mean": [50.0, 400, 100, 300, 9000]}
)


def test_a_point_is_a_value_at_its_mean_all_alike() -> None:
    ax = plot_runtime_against(MEANS, x_label="GPUs (%)")
    np.testing.assert_array_equal(points(ax, "means"), MEANS.select("value", "mean").to_numpy())
    assert len(set(collection(ax, "means").get_sizes())) == 1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("GPUs (%)", "Mean runtime (s)")
    assert ax.get_ylim()[0] == 0
    assert ax.get_title(loc="left") == ""


def test_a_logarithmic_view_has_its_title_and_a_place_for_0() -> None:
    ax = plot_runtime_against(MEANS, x_label="GPUs (%)", log_x=True, heading="below 350 s")
    assert ax.get_title(loc="left") == "below 350 s"
    assert ax.get_xlabel() == "GPUs (%), logarithmic"
    # a 0 has its place on the logarithmic axis
    assert ax.get_xscale() == "symlog"
    ticks = ax.get_xticks()
    assert ticks[0] == 0
    assert all(tick >= 25 for tick in ticks[1:])
    assert plot_runtime_against(MEANS[1:], x_label="", log_x=True).get_xscale() == "log"


def test_a_million_rows_stay_small() -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    frame = pl.DataFrame({"gpus": rng.integers(1, 1500, n), "runtime_s": rng.lognormal(6, 2, n)})
    means = mean_by_value(frame, "gpus", "runtime_s")
    drawn = draw_figure("runtime-against", means, x_label="GPUs")
    assert len(render_svg(drawn, prefix="a")) < 500_000


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(DataError, match="the means of one group, each value once"):
        plot_runtime_against(pl.concat([MEANS, MEANS]), x_label="")
    with pytest.raises(DataError, match="no correlation is known"):
        plot_correlations(CORRELATIONS.filter(group="V100"))
    for panels, ax in (([], None), ([PANEL], plot_correlations(CORRELATIONS))):
        with pytest.raises(DataError, match="need at least one panel and a figure of their own"):
            plot_small_multiples(panels, ax=ax)


def test_descriptions_count() -> None:
    assert get_figure("correlations").describe(CORRELATIONS) == "n = 90 rows."
    assert describe_small_multiples([PANEL, PANEL]) == "2 panels. First panel: n = 16 rows."


CORRELATIONS = pl.DataFrame(
    [
        ("GPUs", "success", None, 90, 0.4, 0.2, 0.6),
        ("GPUs", "failure", None, 10, -0.1, -0.5, 0.3),
        ("GPUs", "success", "T4", 80, 0.3, 0.1, 0.5),
        ("GPUs", "failure", "T4", 4, 0.9, None, None),
        ("GPUs", "success", "V100", 2, None, None, None),
    ],
    schema=["feature", "outcome", "group", "n", "r", "ci_low", "ci_high"],
    orient="row",
)
PANEL = Drawing(
    "runtime-against", MEANS, None, "key", "about", options={"x_label": "GPUs", "heading": "all"}
)


def test_a_correlation_is_a_dot_in_the_row_of_its_group() -> None:
    ax = plot_correlations(CORRELATIONS, x_label="Spearman's rho")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["GPUs", "T4"]
    assert legend(ax) == ["success", "failure"]
    # success above failure in each row
    drawn = {tuple(points(ax, gid)[0]) for gid in ("dot--0.175", "dot-0.175", "dot-0.825")}
    assert drawn == {(0.4, -0.175), (-0.1, 0.175), (0.3, 0.825)}
    ends = np.asarray(collection(ax, "interval-0.825").get_segments())[0, :, 0]
    assert ends.tolist() == [0.1, 0.5]
    intervals = [one for one in ax.collections if str(one.get_gid()).startswith("interval")]
    assert len(intervals) == 3, "none for r without an interval"
    dots = [collection(ax, f"dot-{place}") for place in ("-0.175", "0.175", "0.825", "1.175")]
    is_open = [not (one.get_facecolor() == one.get_edgecolor()).all() for one in dots]
    assert is_open == [False, False, False, True]
    assert ax.get_xlim() == (-1, 1)
    assert ax.get_xlabel() == "Spearman's rho"


def test_panels_are_the_figures_of_their_kind_on_one_axis() -> None:
    few = replace(PANEL, result=MEANS[:2])
    ax = plot_small_multiples([PANEL, few, PANEL], columns=2, share_x=True)
    drawn = ax.get_figure(root=True)
    assert drawn is not None
    assert len(drawn.axes) == 3
    np.testing.assert_array_equal(points(drawn.axes[1], "means-2")[:, 0], [0, 25])
    assert len({one.get_xlim() for one in drawn.axes}) == 1
    assert ax.get_xlim()[1] >= 800
    # only the lowest panel of a column names the axis
    assert [one.get_xlabel() for one in drawn.axes] == ["", "GPUs", "GPUs"]
    assert [one.get_title(loc="left") for one in drawn.axes] == ["all"] * 3
