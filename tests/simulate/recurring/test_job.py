"""Expected energy and time of a job, and the best point of its grid."""

from __future__ import annotations

from typing import Any

import pytest

from traceana.errors import DataError
from traceana.simulate.recurring.policies import policy_maker
from traceana.simulate.recurring.read import BatchTrace, Epoch, JobTrace


def job(max_epochs: int) -> JobTrace:
    limits = {200.0: Epoch(2, 150, 300), 100.0: Epoch(3, 80, 240)}
    batches = {
        8: BatchTrace((3, 5), limits, limits[200.0]),
        16: BatchTrace((2, None), limits, limits[200.0]),
        32: BatchTrace((4, 4), {200.0: limits[200.0]}, limits[200.0]),
    }
    return JobTrace("g", "d", 0.5, 8, max_epochs, 250, batches, 0)


def test_expected_energy_and_time_are_means_over_runs_that_reach_the_target() -> None:
    five = job(5)
    assert five.expected(8, 200.0) == (4 * 300, 4 * 2)
    assert five.expected(8, 100.0) == (4 * 240, 4 * 3)
    assert five.expected(16, 200.0) is None
    assert five.expected(32, 100.0) is None
    assert five.expected(64, 200.0) is None
    assert job(4).expected(8, 200.0) is None
    assert job(4).expected(32, 200.0) == (1200, 8)
    # .25 of the energy and .75 of 250 W for the time
    assert five.cost(1200, 8, 0.25) == 300 + 0.75 * 250 * 8
    assert five.best(1.0) == (8, 100.0)
    assert five.best(0.0) == (8, 200.0)
    assert job(3).best(0.5) is None
    assert five.power_limits_w == [200, 100]


def test_a_policy_takes_three_arguments() -> None:
    def of_three(_job: object, _eta: float, _rng: object) -> Any: ...

    assert policy_maker(of_three) == ("of_three", of_three)
    for wrong in (lambda _a, _b: None, lambda _a, _b, _c, _d: None):
        with pytest.raises(DataError, match=r"a function of \(job, eta, rng\)"):
            policy_maker(wrong)  # type: ignore[arg-type]
