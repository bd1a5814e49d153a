"""What plot_arrivals and plot_gpu_demand draw."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.dates import num2date

from tests.drawing.drawn import legend, line
from traceana import arrival_rhythm, gpu_demand, interarrival_curve
from traceana.errors import DataError
from traceana.figures import plot_arrivals, plot_gpu_demand, plot_interarrivals
from traceana.questions.workload.figures import (
    describe_gpu_demand,
    describe_interarrivals,
)

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
    assert ax.get_xlabel() == "Hour, modulo 24 (clock of the trace; time of day unknown)"
    assert ax.get_ylabel() == "Jobs per hour"


def test_hours_of_several_traces_are_multiples_of_their_means() -> None:
    rhythm = arrival_rhythm(JOBS, per="hour")
    both = pl.concat([rhythm.select(pl.lit(name).alias("trace"), pl.all()) for name in "ab"])
    ax = plot_arrivals(both, clock="UTC+8")
    # 5 jobs over two days: the mean rate is 5 / 48, that of hour 0 is 1.5
    np.testing.assert_allclose(line(ax, "hours-b")[:2, 1], [1.5 * 48 / 5, 48 / 5])
    assert legend(ax) == ["a", "b"]
    assert ax.get_xlabel() == "Hour of the day (UTC+8)"
    assert ax.get_ylabel() == "Jobs per hour / mean"


def test_weekdays_are_named() -> None:
    # 1970-01-01 was a Thursday, which has three jobs in the 24 h that were observed of it
    rhythm = arrival_rhythm(JOBS, per="weekday")
    ax = plot_arrivals(rhythm, clock="UTC")
    assert [label.get_text() for label in ax.get_xticklabels()][:4] == ["Mon", "Tue", "Wed", "Thu"]
    assert heights(ax)[:3] == [0, 0, 0]
    assert heights(ax)[3] == pytest.approx(rhythm.filter(weekday=4)["jobs"].item() / 24)
    assert ax.get_title(loc="left") == "Arrivals by weekday"


def test_two_groups_without_names_are_refused() -> None:
    rhythm = arrival_rhythm(JOBS, per="hour")
    with pytest.raises(DataError, match="each hour once per group"):
        plot_arrivals(pl.concat([rhythm, rhythm]))
    with pytest.raises(DataError, match="column hour or weekday is missing"):
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


def test_demand_has_its_window_and_capacity() -> None:
    demand = gpu_demand(JOBS)
    ax = plot_gpu_demand(demand, window=(7200.0, None), capacity=20.0)
    (outside,) = (patch for patch in ax.patches if patch.get_gid() == "outside")
    assert outside.get_extents().width > 0
    assert line(ax, "capacity")[:, 1].tolist() == [20, 20]
    assert legend(ax) == ["outside the observation window", "capacity: 20 GPUs"]
    # the maximum is 8 GPUs: 100 GPUs would leave no room for them
    far = plot_gpu_demand(demand, capacity=100.0)
    assert legend(far) == ["capacity: 100 GPUs, beyond the axis"]
    assert far.get_ylim()[1] < 20


def test_demand_at_absolute_times_is_drawn_over_dates() -> None:
    begin = datetime(2026, 3, 29, tzinfo=UTC).timestamp()
    demand = gpu_demand(JOBS.with_columns(pl.col("submit_s", "start_s", "end_s") + begin))
    ax = plot_gpu_demand(demand, timezone="Europe/Berlin")
    assert ax.get_xlabel() == "Date in 2026 (Europe/Berlin)"
    (line,) = ax.lines
    first, *_ = num2date(np.asarray(line.get_xdata(orig=False)))  # type: ignore[no-untyped-call]
    # an hour ahead of UTC until clocks are set forward at one
    assert first.replace(tzinfo=None) == datetime(2026, 3, 29, 1)  # noqa: DTZ001


@pytest.mark.parametrize("days", [0.15, 2.9, 3.6, 45, 1100, 1820])
def test_dates_have_a_few_ticks_over_any_span(days: float) -> None:
    begin = datetime(2026, 2, 1, 9, tzinfo=UTC).timestamp()
    times = pl.DataFrame({"start_s": [begin, begin + 86400 * days]})
    jobs = times.with_columns(gpus=1.0, end_s=pl.col("start_s") + 600)
    ax = plot_gpu_demand(gpu_demand(jobs), timezone="UTC")
    low, high = ax.get_xlim()
    assert 2 <= sum(low <= tick <= high for tick in ax.get_xticks()) <= 8


def test_demand_that_is_not_known_is_refused() -> None:
    nothing = gpu_demand(JOBS.with_columns(gpus=pl.lit(None, pl.Float64)))
    with pytest.raises(DataError, match="each bin once"):
        plot_gpu_demand(nothing)
    twice = pl.concat([gpu_demand(JOBS)] * 2)
    with pytest.raises(DataError, match="each bin once"):
        plot_gpu_demand(twice)


def test_descriptions_count_what_is_drawn() -> None:
    assert describe_gpu_demand(gpu_demand(JOBS)) == ("48 bins, maximum 8.0 GPUs.")


def test_times_between_submissions_are_drawn_beside_a_poisson_process() -> None:
    times = pl.DataFrame({"submit_s": [0.0, 0, 1, 2, 102]})
    curve = interarrival_curve(times, points=3)
    ax = plot_interarrivals(curve)
    # what no time is longer than has no place on a logarithmic axis
    assert (
        line(ax, "gaps").tolist() == curve["gap_s", "fraction_longer"].head(3).to_numpy().tolist()
    )
    np.testing.assert_allclose(line(ax, "poisson")[:, 1], curve["fraction_longer_poisson"])
    assert (ax.get_xscale(), ax.get_yscale()) == ("symlog", "log")
    assert describe_interarrivals(curve) == (
        "n = 4 interarrival times: 25.0 % are 0 s, the longest is 1.67 min."
    )
    with pytest.raises(DataError, match="each gap_s once"):
        plot_interarrivals(pl.concat([curve, curve]))
    both = pl.concat([curve.select(pl.lit(name).alias("trace"), pl.all()) for name in "ab"])
    ax = plot_interarrivals(both)
    assert (
        line(ax, "gaps-b").tolist() == curve["gap_s", "fraction_longer"].head(3).to_numpy().tolist()
    )
    assert legend(ax) == ["a", "b"]
    assert describe_interarrivals(both) == (
        "n = 4 and 4 interarrival times; the longest is 1.67 min and 1.67 min."
    )
