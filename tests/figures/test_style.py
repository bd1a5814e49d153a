"""Figures respect the style and the axes of their user."""

from __future__ import annotations

import matplotlib.style
import polars as pl
import pytest
from cycler import cycler
from matplotlib import rc_context
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from traceana.figures import plot_concentration, plot_interarrivals, use_style
from traceana.figures.style import palette, shade

LORENZ = pl.DataFrame({"share_of_jobs": [0.0, 0.5, 1.0], "share_of_gpu_hours": [0.0, 0.1, 1.0]})


def test_a_dark_style_of_the_user_stays_dark() -> None:
    with matplotlib.style.context("dark_background"):
        ax = plot_concentration(LORENZ)
        assert to_hex(ax.get_facecolor()) == "#000000"
        (line,) = (line for line in ax.lines if line.get_gid() == "all")
        assert to_hex(line.get_color()) == to_hex("#8dd3c7")  # the first of that style
        legend = ax.get_legend()
        assert legend is not None
        assert {to_hex(text.get_color()) for text in legend.get_texts()} == {"#ffffff"}
    light = plot_concentration(LORENZ)
    assert to_hex(light.get_facecolor()) == "#ffffff"
    assert to_hex(light.xaxis.label.get_color()) == "#222222"


def test_a_parameter_that_the_user_set_wins_unless_the_house_style_is_alone() -> None:
    with rc_context({"font.size": 13.0, "figure.figsize": (7.2, 2.6)}):
        ax = plot_concentration(LORENZ)
        figure = ax.get_figure(root=True)
        assert figure is not None
        assert figure.get_size_inches().tolist() == [7.2, 2.6]
        with use_style():
            assert matplotlib.rcParams["font.size"] == 13
        with use_style(alone=True):
            assert matplotlib.rcParams["font.size"] == 7.5
    assert matplotlib.rcParams["font.size"] == 10


def test_text_on_given_axes_has_the_color_of_their_labels() -> None:
    ax = Figure(facecolor="#101010").add_subplot(facecolor="none")
    ax.xaxis.label.set_color("#f0f0f0")
    curve = {"n": [2, 2], "gap_s": [60.0, 86_400.0], "share_longer": [0.5, 0.25]}
    plot_interarrivals(pl.DataFrame(curve | {"share_longer_poisson": [0.6, 0.1]}), ax=ax)
    legend = ax.get_legend()
    assert legend is not None
    assert {to_hex(text.get_color()) for text in legend.get_texts()} == {"#f0f0f0"}
    assert (shade(ax, 0), shade(ax)) == ("#101010", "#f0f0f0")
    # by hand: 16 + 0.5 * (240 - 16) = 128
    assert shade(ax, 0.5) == "#808080"
    labels = ax.xaxis.get_major_formatter().format_ticks([60, 3600, 86_400])
    assert labels == ["1 min", "1 h", "1 d"]


@pytest.mark.parametrize("cycle", [["red", "blue", "red"], ["#0072B2"]])
def test_the_palette_has_each_color_once(cycle: list[str]) -> None:
    with rc_context({"axes.prop_cycle": cycler(color=cycle)}):
        assert palette() == list(dict.fromkeys(map(to_hex, cycle)))
