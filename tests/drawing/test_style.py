"""Figures respect the style and the axes of their user."""

from __future__ import annotations

import doctest
from contextlib import AbstractContextManager
from threading import Thread
from typing import Any, cast

import matplotlib.style
import polars as pl
import pytest
from cycler import cycler
from matplotlib import rc_context, rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text

from traceana.drawing.style import palette, shade, use_paper_colors, use_style
from traceana.figures import figures, plot_concentration, plot_interarrivals, use_width

MAP_ENDS = {"#053061", "#67001f"}
"""Ends of the color bar of straggler maps, whose colors are those of its cells."""
LORENZ = pl.DataFrame(
    {"fraction_of_jobs": [0.0, 0.5, 1.0], "fraction_of_gpu_hours": [0.0, 0.1, 1.0]}
)


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


@pytest.mark.parametrize("context", [use_style(alone=True), use_width(6.5), use_paper_colors()])
def test_a_thread_that_draws_has_the_parameters_to_itself(
    context: AbstractContextManager[None],
) -> None:
    with context:
        waits = Thread(target=plot_concentration, args=(LORENZ,))
        waits.start()
        waits.join(0.2)
        assert waits.is_alive()
    waits.join()
    assert rcParams["font.size"] == 10


def test_text_on_given_axes_has_the_color_of_their_labels() -> None:
    ax = Figure(facecolor="#101010").add_subplot(facecolor="none")
    ax.xaxis.label.set_color("#f0f0f0")
    curve = {"n": [2, 2], "gap_s": [60.0, 86_400.0], "fraction_longer": [0.5, 0.25]}
    plot_interarrivals(pl.DataFrame(curve | {"fraction_longer_poisson": [0.6, 0.1]}), ax=ax)
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


def drawn_example(name: str, monkeypatch: pytest.MonkeyPatch, **options: object) -> Axes:
    """Run the example of a figure's docstring, and return the axes that it draws on."""
    plot = figures()[name].plot
    drawn: list[Axes] = []

    def kept(*args: object, **given: object) -> Axes:
        drawn.append(plot(*args, **(given | options)))
        return drawn[-1]

    monkeypatch.setattr(f"traceana.figures.{plot.__name__}", kept)
    monkeypatch.setattr(f"{plot.__module__}.{plot.__name__}", kept)
    space: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(plot.__doc__ or ""):
        exec(example.source, space)  # noqa: S102  our own examples
    return drawn[0]


def inks(figure: Figure) -> list[tuple[str, float]]:
    """Return what is drawn in a color of its own: the color and its opacity."""
    found: list[Any] = []
    for artist in figure.findobj():
        if not artist.get_visible():
            continue
        if isinstance(artist, Line2D | Text):
            found.append(artist.get_color())
        elif isinstance(artist, Patch):
            found += [artist.get_facecolor(), artist.get_edgecolor()]
        elif isinstance(artist, Collection) and artist.get_array() is None:
            found += [*artist.get_facecolor(), *artist.get_edgecolor()]
    return [(to_hex(color), to_rgba(color)[3]) for color in found]


def is_gray(color: str) -> bool:
    return max(to_rgb(color)) - min(to_rgb(color)) < 0.01


@pytest.mark.parametrize("name", figures())
def test_every_figure_has_the_colors_of_the_users_style(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with matplotlib.style.context("dark_background"):
        cycle = {to_hex(color) for color in rcParams["axes.prop_cycle"].by_key()["color"]}
        figure = cast("Figure", drawn_example(name, monkeypatch).get_figure(root=True))
        assert to_hex(figure.get_facecolor()) == "#000000"
        other = {color for color, part in inks(figure) if part and not is_gray(color)}
        assert other <= cycle | MAP_ENDS
        texts = figure.findobj(Text)
        written = [text for text in texts if text.get_text().strip() and not text.get_bbox_patch()]
        dim = {text.get_text() for text in written if max(to_rgb(text.get_color())) < 0.5}
        assert not dim
        assert not any("mathdefault" in text.get_text() for text in texts)  # $ is no formula


@pytest.mark.parametrize("name", [name for name in figures() if name != "small-multiples"])
def test_a_figure_on_given_axes_keeps_off_their_neighbor(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    drawn_example(name, monkeypatch, ax=left)
    FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    beside, whole = right.get_tightbbox(), left.get_tightbbox()
    assert beside is not None
    assert whole is not None
    for place in (whole, *(text.get_window_extent() for text in left.texts)):
        assert place.x1 <= beside.x0 + 1
        assert place.x0 >= -1
        assert place.y0 >= -1
        assert place.y1 <= figure.bbox.y1 + 1
