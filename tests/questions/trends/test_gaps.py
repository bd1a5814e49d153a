"""Gaps without a running job: usual starts in closed form, and waits by hand."""

from __future__ import annotations

import numpy as np
import pytest

from traceana.questions.trends.gaps import expected_starts, gap_pvalues, waits_in_gaps

HOUR = 3600.0


def test_starts_by_day_alone_make_nights_short() -> None:
    # half of the hours from 8 to 16 have a start, on 70 days: a rate of log 2 per hour
    days = np.arange(70)[:, None] * 24
    begin = np.sort((days + 8 + 2 * np.arange(4) + 0.5).ravel()) * HOUR
    gaps = expected_starts(begin, 0.0, 70 * 24 * HOUR)
    per_hour = -np.log1p(-(70 * 4 / (70 * 24 + 1)))  # all hours alike but for the bounds of few
    assert gaps[0] == pytest.approx(gaps[4], rel=0.02)
    assert gaps[3] < 0.2 * gaps[0] * 9  # a night of 18 h, of which few have starts
    assert per_hour < gaps[0]


def test_a_constant_rate_is_that_of_a_poisson_process() -> None:
    rng = np.random.default_rng(2)
    begin = np.sort(rng.uniform(0, 200 * 24 * HOUR, 200 * 24))  # one per hour
    assert expected_starts(begin, 0.0, 200 * 24 * HOUR).mean() == pytest.approx(1, rel=0.05)


def test_waits_begin_with_the_second_submission_of_a_gap() -> None:
    # 60 gaps of 2 h in which one job waits for some minutes; in one, jobs wait for 5 and 4 h
    rng = np.random.default_rng(3)
    begin = np.linspace(0, 600 * HOUR, 61)
    until = begin + 8 * HOUR
    until[30] = begin[31] - 6 * HOUR
    wait = rng.exponential(300, 60)
    submit = np.append(begin[1:] - wait, begin[31] - np.array([5, 4]) * HOUR)
    start = np.append(begin[1:], [begin[31] + 1, begin[31] + 2])
    found = waits_in_gaps(begin, until, submit, start)
    assert found[30] < 1e-5
    assert waits_in_gaps(begin, until, submit[:-1], start[:-1]).get(30, 1.0) > 0.01
    of_all = gap_pvalues(begin, until, submit, start, (0.0, 610 * HOUR))
    assert len(of_all) == 60
    assert of_all[30] < 0.01
    assert min(p for place, p in of_all.items() if place != 30) > 0.01
