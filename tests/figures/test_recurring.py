"""What the figures of recurring jobs draw."""

from __future__ import annotations

import polars as pl
import pytest

from traceana.errors import DataError
from traceana.figures import draw_figure, plot_recurring_choices, plot_regret
from traceana.figures.recurring_choices import describe_recurring_choices
from traceana.figures.regret import describe_regret

REGRET = pl.DataFrame(
    {
        "policy": ["zeus", "zeus", "default", "default"],
        "recurrence": [1, 2, 1, 2],
        "cumulative_regret_j": [1e6, 1.5e6, 2e6, 4e6],
    }
)
HISTORY = pl.DataFrame(
    {
        "recurrence": [1, 2, 2],
        "batch_size": [8, 16, 8],
        "power_limit_w": [100.0, 200.0, 100.0],
        "reached": [True, False, True],
    }
)


def test_a_line_a_policy() -> None:
    ax = plot_regret(REGRET)
    drawn = {str(line.get_label()): list(line.get_ydata()) for line in ax.get_lines()}  # type: ignore[arg-type]
    assert drawn == {"zeus": [1.0, 1.5], "default": [2.0, 4.0]}
    assert "MJ" in ax.get_ylabel()
    told = "2 recurrences; in the end zeus 1.50 MJ, default 4.00 MJ."
    assert describe_regret(REGRET) == told


def test_no_regret_without_an_oracle() -> None:
    for rows in (REGRET.clear(), REGRET.with_columns(cumulative_regret_j=None)):
        with pytest.raises(DataError, match="no oracle"):
            plot_regret(rows)


def test_a_mark_a_run_on_the_row_of_its_batch_size() -> None:
    ax = plot_recurring_choices(HISTORY, batch_sizes=[4, 8, 16])
    marks = {str(dots.get_gid()): dots.get_offsets() for dots in ax.collections if dots.get_gid()}
    assert [tuple(each) for each in marks["reached"]] == [(1, 1), (2, 1)]  # type: ignore[union-attr, arg-type]
    assert [tuple(each) for each in marks["missed"]] == [(2, 2)]  # type: ignore[union-attr, arg-type]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["4", "8", "16"]
    told = "3 runs in 2 recurrences, 1 missed; batch size 8 in 67 % of them."
    assert describe_recurring_choices(HISTORY) == told
    with pytest.raises(DataError, match="no run"):
        plot_recurring_choices(HISTORY.clear())


def test_they_are_registered() -> None:
    assert draw_figure("regret", REGRET).axes
    assert draw_figure("recurring-choices", HISTORY).axes
