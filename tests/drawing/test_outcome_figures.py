"""What plot_cumulative_incidence and plot_failure_odds draw."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.drawing.drawn import collection, line, points, texts
from traceana import cumulative_incidence, failure_model
from traceana.drawing.svg import render_svg
from traceana.errors import DataError
from traceana.figures import draw_figure, plot_cumulative_incidence, plot_failure_odds
from traceana.questions.failures.figures import describe_cumulative_incidence, describe_failure_odds
from traceana.questions.failures.tables import OddsRatios
from traceana.tables.declare import schema_of

TASKS = pl.DataFrame(
    {
        "gpu_type": ["T4"] * 5 + ["V100"] * 4 + [None] * 2,
        "status": ["completed", "failed", "completed", "running", "failed"]
        + ["completed"] * 3
        + ["running", "completed", "failed"],
        "runtime_s": [10.0, 20, 200, 300, None, 50, 500, 5000, 9000, 70, 80],
    }
)


def test_lines_are_the_curves_and_reach_the_last_time() -> None:
    ends = cumulative_incidence(TASKS, by="gpu_type")
    ax = plot_cumulative_incidence(ends, event="completed")
    own = ends.curves.filter(event="completed", gpu_type="V100")
    drawn = line(ax, "line-V100")
    np.testing.assert_allclose(drawn[1:-1], own.select("time_s", "incidence").to_numpy())
    assert drawn[0, 1] == 0
    assert drawn[-1].tolist() == [9000, own["incidence"][-1]]
    assert ax.get_title(loc="left") == "Cumulative incidence: completed"
    assert ax.get_xlabel() == "Runtime (logarithmic)"
    assert {"V100", "T4", "not stated"} <= set(texts(ax))


def test_a_group_keeps_its_colour_whatever_the_event() -> None:
    ends = cumulative_incidence(TASKS, by="gpu_type")
    colours = {}
    for event in ("completed", "failed"):
        ax = ends.plot(event=event)
        colours[event] = {str(part.get_gid()): part.get_color() for part in ax.lines}
    # no V100 failed
    assert set(colours["failed"]) == {"line-T4", "line-not-stated"}
    assert colours["failed"].items() <= colours["completed"].items()
    assert describe_cumulative_incidence(ends.only("failed")) == (
        "n = 10 rows: 2 events, 2 censored (still running when last seen); 1 rows without a "
        "runtime are excluded. 2 of 3 groups are drawn."
    )


def test_of_many_groups_the_largest_with_the_event_are_drawn() -> None:
    # ten users of 1 to 10 jobs, of whom the last nine had a failure, one of them at 0 s
    rows = [
        {"user": f"u{user}", "runtime_s": 60.0 * (user != 1), "status": "failed"}
        if job == 0 and user
        else {"user": f"u{user}", "runtime_s": 90.0, "status": "completed"}
        for user in range(10)
        for job in range(user + 1)
    ]
    ends = cumulative_incidence(pl.DataFrame(rows), by="user").only("failed")
    ax = ends.plot()
    assert {str(part.get_gid()) for part in ax.lines} == {f"line-u{user}" for user in range(3, 10)}
    assert len({str(part.get_color()) for part in ax.lines}) == 7
    assert "7 of 10 groups are drawn." in describe_cumulative_incidence(ends)


def test_runtimes_below_any_round_duration_are_drawn() -> None:
    short = pl.DataFrame({"runtime_s": [0.002, 0.003, 1e-300], "status": ["failed"] * 3})
    ax = cumulative_incidence(short).plot(event="failed")
    assert line(ax, "line-all")[-1].tolist() == [0.003, 1.0]


def test_many_steps_stay_small_and_end_where_they_end() -> None:
    rng = np.random.default_rng(1)
    n = 200_000
    many = pl.DataFrame(
        {"status": rng.choice(["completed", "failed"], n), "runtime_s": rng.lognormal(7, 2, n)}
    )
    ends = cumulative_incidence(many)
    figure = draw_figure("cumulative-incidence", ends, event="failed")
    assert len(render_svg(figure, prefix="a")) < 500_000
    own = ends.curves.filter(event="failed")
    drawn = line(figure.axes[0], "line-all")
    assert drawn[-1, 1] == own["incidence"][-1]
    # every point drawn is a step of the curve
    steps = set(own.select("time_s", "incidence").rows())
    assert all(tuple(point) in steps for point in drawn[1:-1].tolist())


def test_curves_that_cannot_be_drawn_are_refused() -> None:
    ends = cumulative_incidence(TASKS, by="gpu_type")
    with pytest.raises(DataError, match="pass event=, one of cancelled, completed, failed"):
        ends.plot()
    with pytest.raises(DataError, match="no row is cancelled"):
        ends.plot(event="cancelled")


TERMS = {
    "feature": ["GPU type", "GPU type", "GPU type", "CPUs doubled"],
    "level": ["T4", "V100", "P100", None],
    "reference": ["MISC", "MISC", None, None],
    "n": [300, 40, 7, 900],
    "odds_ratio": [2.0, 0.5, None, 1.1],
    "ci_low": [1.5, 1e-9, None, 1.0],
    "ci_high": [2.7, 1.2, None, 1.2],
}
MODEL = failure_model(
    TASKS.with_columns(x=pl.int_range(pl.len()) % 3, runtime_s=1.0).drop_nulls(), features="x"
)
ODDS = replace(
    MODEL,
    odds_ratios=pl.DataFrame(dict.fromkeys(OddsRatios.columns()) | TERMS, schema_of(OddsRatios)),
)


def test_finite_odds_ratios_stand_in_rows() -> None:
    ax = plot_failure_odds(ODDS)
    names = [" ".join(label.get_text().split()) for label in ax.get_yticklabels()]
    assert names == ["GPU type T4 versus MISC", "GPU type V100 versus MISC", "CPUs doubled"]
    assert points(ax, "means").tolist() == [[2.0, 0], [0.5, 1], [1.1, 2]]
    ends = np.asarray(collection(ax, "intervals").get_segments())[2, :, 0]
    assert ends.tolist() == [1.0, 1.2]
    assert texts(ax) == ["n = 300", "n = 40", "n = 900"]
    assert ax.get_xscale() == "log"
    assert line(ax, "no-difference")[:, 0].tolist() == [1, 1]
    # an interval without end does not squeeze the others
    assert ax.get_xlim()[0] > 0.01
    assert describe_failure_odds(ODDS) == f"n = {MODEL.fit['n'].item()} rows."


def test_odds_that_are_not_known_are_refused() -> None:
    with pytest.raises(DataError, match="no odds ratio is finite"):
        replace(ODDS, odds_ratios=ODDS.odds_ratios.filter(level="P100")).plot()
