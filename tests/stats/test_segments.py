"""Deviating segments of series whose values depend on each other."""

from __future__ import annotations

import numpy as np
from scipy.signal import lfilter

from traceana.stats.segments import deviating_ranks, deviating_segment, long_gaps


def test_a_planted_segment_is_found_and_dated() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal(80)
    x[30:50] += 3
    found = deviating_segment(x, np.ones(80), resamples=1990)
    assert (found.first, found.after) == (30, 50)
    assert found.pvalue == 1 / 200  # of a tenth of the resamples
    late = np.where(np.arange(80) >= 60, 3.0, 0.0) + rng.standard_normal(80)
    assert deviating_segment(late, np.ones(80), resamples=199)[:2] == (60, 80)


def test_series_that_depend_on_the_day_before_have_no_change_by_chance() -> None:
    rng = np.random.default_rng(2)
    rejected = 0
    for _ in range(25):
        x = lfilter([1.0], [1.0, -0.8], rng.standard_normal(140))[50:]
        rejected += deviating_segment(x, np.ones(90), resamples=500, rng=rng).pvalue <= 0.05
    assert rejected <= 4  # 1.25 expected; with an estimated autocorrelation 3 on average


def test_a_constant_series_has_no_segment() -> None:
    assert deviating_segment(np.ones(40), np.ones(40), resamples=49).pvalue == 1


def test_ranks_find_a_step_that_an_outlier_hides() -> None:
    x = np.where(np.arange(60) >= 40, 3.0, 0.0) + np.random.default_rng(4).standard_normal(60)
    x[5] = 1e6
    assert deviating_segment(x, np.ones(60), resamples=199).pvalue > 0.5
    found = deviating_ranks(x, min_length=7)
    assert abs(found.first - 40) <= 1
    assert found.after == 60
    assert found.pvalue < 1e-4
    assert deviating_ranks(np.ones(40)).pvalue == 1
    assert deviating_ranks(x[:6]).pvalue == 1


def test_ranks_of_series_that_depend_on_the_day_before_reject_at_most_nominally() -> None:
    rng = np.random.default_rng(4)
    low = {
        r: sum(
            deviating_ranks(lfilter([1.0], [1.0, -r], rng.standard_normal(140))[50:]).pvalue < 0.05
            for _ in range(200)
        )
        for r in (0.0, 0.5)
    }
    assert low[0.0] <= 10
    assert low[0.5] <= 18  # two standard errors above 5 %


def test_a_gap_among_equal_ones_stands_out_only_where_it_is_far_longer() -> None:
    # jobs at fixed times: whole hours that differ by one are no outage, a day and a half is
    assert long_gaps([5.0] * 1000 + [6.0]) == []
    [(place, p)] = long_gaps([5.0] * 1000 + [36.0])
    assert place == 1000
    assert p < 1e-3
