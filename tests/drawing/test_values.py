"""Values that the page shows under the pointer."""

from __future__ import annotations

import html
import re

from matplotlib.figure import Figure

from traceana.drawing.svg import render_svg


def values_of(figure: Figure) -> tuple[list[str], list[tuple[float, float, str]]]:
    text = render_svg(figure, prefix="a")
    found = re.search('data-axes="([^"]*)" data-values="([^"]*)"', text)
    assert found is not None
    marks = [one.split(" ", 2) for one in html.unescape(found[2]).split("|")]
    return html.unescape(found[1]).split(";"), [(float(x), float(y), t) for x, y, t in marks]


def test_bars_have_their_category_and_value_at_their_tip() -> None:
    figure = Figure(figsize=(4, 3))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.bar([0, 1], [1234.0, 0.5], label="jobs; all")
    ax.set_xticks([0, 1], ["A|100", "V100"])
    ax.set(xlim=(-0.5, 1.5), ylim=(0, 2000), xlabel="GPU", ylabel="Hours")
    labels, marks = values_of(figure)
    assert labels == ["GPU", "Hours"]
    # a quarter and three quarters of 288 points; 216 points are 2,000 hours
    assert marks == [
        (72, round(216 * (1 - 0.617)), "jobs, all;A/100;1,234"),
        (216, 216, "jobs, all;V100;0.5"),
    ]


def test_marks_have_their_values_and_intervals_and_rules_have_none() -> None:
    figure = Figure(figsize=(4, 3))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.errorbar([1.0, 2.0], [3.0, 4.0], yerr=[0.5, 1.0], fmt="o", label="mean")
    ax.axhline(2.0)
    ax.set(xlim=(0, 3), ylim=(0, 6))
    assert [text for *_, text in values_of(figure)[1]] == [
        "mean;1;3 (2.5 to 3.5)",
        "mean;2;4 (3 to 5)",
    ]


def test_a_long_line_has_some_of_its_values_and_what_is_off_the_axes_none() -> None:
    figure = Figure(figsize=(4, 3))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.plot(range(1000), range(1000))
    ax.set(xlim=(0, 499), ylim=(0, 999))
    marks = values_of(figure)[1]
    assert 5 <= len(marks) <= 20
    assert all(0 <= x <= 290 for x, *_ in marks)
