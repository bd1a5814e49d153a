"""Figures in the style of a paper: no inner title, and colors that differ in gray."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from traceana.drawing.style import adapt_to_paper, palette, use_paper_colors


def _lightness(color: str) -> float:
    """CIE 1976 L*, from sRGB by the standard's formula."""
    c = np.array(to_rgb(color))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return float(116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16)


def test_colors_differ_in_gray_and_lines_in_style() -> None:
    with use_paper_colors():
        colors = palette()
        figure = Figure()
        ax = figure.add_subplot()
        lines = [ax.plot([0, 1], [place, 1], color=color)[0] for place, color in enumerate(colors)]
        ax.set_title("A title", loc="left")
    adapt_to_paper(figure)
    assert min(abs(_lightness(a) - _lightness(b)) for a, b in combinations(colors, 2)) > 10
    assert len({str(line.get_linestyle()) for line in lines[:4]}) == 4
    assert ax.get_title(loc="left") == ""


def test_titles_of_several_panels_stay() -> None:
    figure = Figure()
    for ax in figure.subplots(2):
        ax.set_title("A panel", loc="left")
    adapt_to_paper(figure)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["A panel", "A panel"]
