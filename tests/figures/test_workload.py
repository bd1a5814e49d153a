"""What plot_arrivals and plot_gpu_demand draw."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.dates import num2date

from tests.figures.drawn import line
from traceana.analysis import arrival_rhythm, gpu_demand, interarrival_curve
from traceana.errors import DataError
from traceana.figures import plot_arrivals, plot_gpu_demand, plot_interarrivals
from traceana.figures.workload import describe_arrivals, describe_gpu_demand, describe_interarrivals

JOBS = pl.DataFrame(
    {
        "submit_s": [0.0, 1800, 3600, 90_000, 172_800],
        "start_s": [0.0, 3600, 3600, 90_000, None],
        "end_s": [3600.0, 7200, 9000, 97_200, None],
        "gpus": [1.0, 2, 4, 8, 1],
    }
)


def heights(ax: Axes) -> list[float]:
    return [bar.get_height() for bar in ax.patches]  # type: ignore[attr-defined]


def test_a_bar_an_hour_is_its_rate() -> None:
    rhythm = arrival_rhythm(JOBS, per="hour")
    ax = plot_arrivals(rhythm)
    # over two days: hour 0 has three jobs, hour 1 has two
    assert heights(ax) == pytest.approx([1.5, 1, *[0] * 22])
    (mean,) = (line for line in ax.lines if line.get_gid() == "mean")
    assert np.asarray(mean.get_ydata()).tolist() == pytest.approx([5 / 48] * 2)
    assert ax.get_xlabel() == "Hour of the trace's own day"
    assert ax.get_ylabel() == "Jobs per hour"


def test_weekdays_have_names_only_where_the_clock_has() -> None:
    rhythm = arrival_rhythm(JOBS, per="weekday", utc_offset_h=8)
    local = plot_arrivals(rhythm, clock="UTC+8")
    assert next(label.get_text() for label in local.get_xticklabels()) == "Mon"
    assert local.get_xlabel() == "Weekday (UTC+8)"
    own = plot_arrivals(rhythm)
    assert own.get_xlabel() == "Day of the trace's own week (1: its first day)"
    # second 0 of the clock is a Thursday, the fourth day, which is the first of its own week
    rates = dict(rhythm.select("weekday", pl.col("jobs_per_h").fill_null(0)).rows())
    bars = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in own.patches}  # type: ignore[attr-defined]
    assert bars == {(day - 4) % 7 + 1: rate for day, rate in rates.items()}
    unobserved = rhythm.filter(pl.col("jobs_per_h").is_null()).height
    assert unobserved > 0
    assert heights(local).count(0) >= unobserved


def test_two_groups_at_once_are_refused() -> None:
    rhythm = arrival_rhythm(JOBS, per="hour")
    with pytest.raises(DataError, match="the hours or weekdays of one group"):
        plot_arrivals(pl.concat([rhythm, rhythm]))
    with pytest.raises(DataError, match="the hours or weekdays of one group"):
        plot_arrivals(rhythm.drop("hour"))


def test_demand_is_drawn_by_bin_in_days() -> None:
    demand = gpu_demand(JOBS)
    ax = plot_gpu_demand(demand)
    (line,) = ax.lines
    assert line.get_drawstyle() == "steps-post"
    np.testing.assert_allclose(np.asarray(line.get_xdata()), demand["bin_start_s"] / 86_400)
    np.testing.assert_allclose(np.asarray(line.get_ydata())[:3], [1, 6, 2])
    assert ax.get_ylabel() == "Requested GPUs"
    assert "if jobs had started" in plot_gpu_demand(demand, starts_assumed=True).get_ylabel()


def test_demand_at_absolute_times_is_drawn_over_dates() -> None:
    begin = datetime(2026, 3, 29, tzinfo=UTC).timestamp()
    demand = gpu_demand(JOBS.with_columns(pl.col("start_s", "end_s") + begin))
    ax = plot_gpu_demand(demand, timezone="Europe/Berlin")
    assert ax.get_xlabel() == "Date (Europe/Berlin)"
    (line,) = ax.lines
    first, *_ = num2date(np.asarray(line.get_xdata(orig=False)))  # type: ignore[no-untyped-call]
    # an hour ahead of UTC until clocks are set forward at one
    assert first.replace(tzinfo=None) == datetime(2026, 3, 29, 1)  # noqa: DTZ001


def test_demand_that_is_not_known_is_refused() -> None:
    nothing = gpu_demand(JOBS.with_columns(start_s=pl.lit(None, pl.Float64)))
    with pytest.raises(DataError, match="each bin once"):
        plot_gpu_demand(nothing)
    twice = pl.concat([gpu_demand(JOBS)] * 2)
    with pytest.raises(DataError, match="each bin once"):
        plot_gpu_demand(twice)


def test_descriptions_count_what_is_drawn() -> None:
    assert describe_arrivals(arrival_rhythm(JOBS, per="hour")) == (
        "5 jobs over 2.0 days; quietest hour 2 (0 jobs per hour), busiest 0 (1.5 jobs per hour)."
    )
    assert describe_arrivals(arrival_rhythm(JOBS, per="weekday")).startswith(
        "5 jobs over 2.0 days; by weekday from "
    )
    one = arrival_rhythm(JOBS.head(1), per="weekday")
    assert describe_arrivals(one) == "1 jobs over 0.0 days."
    assert describe_gpu_demand(gpu_demand(JOBS)) == (
        "28 bins, mean 0.9 GPUs, maximum 8.0; 1 jobs without times or GPUs excluded."
    )


def test_times_between_submissions_are_drawn_beside_a_poisson_process() -> None:
    times = pl.DataFrame({"submit_s": [0.0, 0, 1, 2, 102]})
    curve = interarrival_curve(times, points=3)
    ax = plot_interarrivals(curve)
    # what no time is longer than has no place on a logarithmic axis
    assert line(ax, "gaps").tolist() == curve["gap_s", "share_longer"].head(3).to_numpy().tolist()
    np.testing.assert_allclose(line(ax, "poisson")[:, 1], curve["share_longer_poisson"])
    assert (ax.get_xscale(), ax.get_yscale()) == ("symlog", "log")
    assert describe_interarrivals(curve) == (
        "n = 4 times between submissions: 25.0 % are 0 s, the longest is 100 s."
    )
    with pytest.raises(DataError, match="each time once"):
        plot_interarrivals(pl.concat([curve, curve]))
