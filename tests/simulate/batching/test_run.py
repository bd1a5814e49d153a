"""Limits of a simulation of batch sizes."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from traceana import simulate_batching
from traceana.errors import DataError
from traceana.simulate import OmniLearn
from traceana.simulate.batching.controllers import Seen, Uniform
from traceana.simulate.batching.simulate import check_memory, check_setting
from traceana.simulate.batching.workers import share


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        # global batch, workers, least, most, steps
        ((1, 1, 1, 1, 1), None),
        ((10**12, 1, 1, math.inf, 10**12), None),
        ((10**12, 1, 10**12, 10**12, 1), None),
        ((12, 3, 4, 4, 1), None),
        ((11, 3, 4, 4, 1), "split over 3 workers with 4 to 4 samples each; 12 to 12 can"),
        ((13, 3, 4, 4, 1), "split over 3 workers with 4 to 4 samples each; 12 to 12 can"),
        ((2, 3, 1, math.inf, 1), "with 1 to inf samples each; 3 or more can"),
        ((0, 1, 1, 1, 1), "global_batch must be a whole number from 1 to 1,000,000,000,000"),
        ((10**12 + 1, 1, 1, math.inf, 1), "global_batch must be a whole number"),
        ((1.5, 1, 1, 4, 1), "global_batch must be a whole number"),
        ((1, 1, 1, 1, 0), "steps must be a whole number"),
        ((1, 1, 1, 1, 10**12 + 1), "steps must be a whole number"),
        ((4, 2, 0, 4, 1), "bounds must be whole numbers"),
        ((4, 2, 3, 2, 1), "bounds must be whole numbers"),
        ((4, 2, 1.5, 4, 1), "bounds must be whole numbers"),
        ((4, 2, 1, 2.5, 1), "bounds must be whole numbers"),
        ((4, 2, 1, 10**12 + 1, 1), "bounds must be whole numbers"),
    ],
)
def test_a_setting_that_no_split_satisfies_is_refused(
    setting: tuple[int, int, int, float, int], says: str | None
) -> None:
    if says is None:
        check_setting(*setting)
        return
    with pytest.raises(DataError, match=says):
        check_setting(*setting)


@pytest.mark.parametrize(("runs", "workers"), [(1, 2), (3, 5), (40, 100)])
def test_steps_fit_into_two_gibibytes(runs: int, workers: int) -> None:
    # numbers of 8 bytes: 10 and 6 per worker for a step, 4 per pair of workers for a split
    most = (2**31 - 8 * 4 * runs * workers**2) // (8 * runs * (10 + 6 * workers))
    check_memory(most, runs, workers)
    with pytest.raises(DataError, match=f"more than 2 GiB; pass at most {most:,} steps"):
        check_memory(most + 1, runs, workers)
    with pytest.raises(DataError, match="pass fewer workers or runs"):
        check_memory(1, runs, 60_000)


def test_samples_are_shared_up_to_the_bounds_whatever_the_unit_of_the_rates() -> None:
    for unit in (0.1, 1.0, 100.0):
        rates = unit * np.array([1.0, 2, 1])
        # the second is at its bound; the others share the rest
        assert share(8, rates, min_batch=1, max_batch=3) == pytest.approx([2.5, 3, 2.5])
        assert share(8, rates, min_batch=1, max_batch=8) == pytest.approx([2, 4, 2])
        assert share(12, rates, min_batch=4, max_batch=4).tolist() == [4, 4, 4]
        assert share(9, rates, min_batch=3, max_batch=8).tolist() == [3, 3, 3]


def test_settings_with_a_negative_batch_are_counted() -> None:
    free = OmniLearn(bounds=(0, math.inf))
    crew = [(0, 24), (0, 24), (0, 0.1), (0, 0.1)]
    found = simulate_batching(crew, controller=free, steps=3, global_batch=192)
    sizes = found.batches.group_by("step").agg(pl.col("batch").min())
    negative = (sizes["batch"] < 0).sum()
    assert negative == 1  # of two workers
    assert found.note == f"a batch size is negative in {negative} settings; no job could run it"


def test_workers_reach_their_bounds_one_after_the_other() -> None:
    # 27, then 16.4 samples would be too many; the first takes what the others cannot
    found = share(30, [1, 10, 100], min_batch=1, max_batch=12)
    assert found.tolist() == pytest.approx([6, 12, 12])
    # the last two have 1 each, and the first the rest
    found = share(10, [100, 10, 1], min_batch=1, max_batch=30)
    assert found.tolist() == pytest.approx([8, 1, 1])


class Alone(Uniform):
    """The first worker has all samples."""

    def first(self, seen: Seen) -> NDArray[np.int64]:
        return np.array([seen.global_batch, 0])


def test_a_batch_of_0_is_not_negative() -> None:
    found = simulate_batching([(0.1, 24), (0.1, 24)], controller=Alone(), steps=3)
    assert found.batches["batch"].to_list()[:2] == [128, 0]
    assert found.note is None
