"""Bootstrap intervals: against resampling by hand, and whether they cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from traceana.errors import DataError
from traceana.stats.bootstrap import (
    RESAMPLES,
    _quantiles_of_counts,
    autoregressive_block,
    block_quantile_intervals,
    cluster_quantile_intervals,
)

QUANTILES = [0.05, 0.5, 0.95]


def test_quantiles_of_counts_are_numpys_of_the_repeated_values() -> None:
    rng = np.random.default_rng(0)
    ordered = np.sort(rng.normal(size=30))
    counts = rng.integers(0, 4, size=(50, 30))
    found = _quantiles_of_counts(ordered, counts, [0, 0.1, 0.5, 0.77, 1])
    for row, count in zip(found, counts, strict=True):
        expected = np.quantile(np.repeat(ordered, count), [0, 0.1, 0.5, 0.77, 1])
        np.testing.assert_allclose(row, expected, rtol=1e-13)


def test_blocks_drawn_by_hand_give_the_same_interval() -> None:
    values = np.random.default_rng(1).gamma(2, size=25)
    low, high = block_quantile_intervals(values, QUANTILES, block=4, confidence=0.9, rng=5)
    starts = np.random.default_rng(5).integers(0, 22, size=(RESAMPLES, 7))
    blocks = values[starts[:, :, None] + np.arange(4)].reshape(RESAMPLES, 28)[:, :25]
    expected = np.quantile(np.quantile(blocks, QUANTILES, axis=1), [0.05, 0.95], axis=1)
    np.testing.assert_allclose([low, high], expected, rtol=1e-12)


def test_jobs_drawn_by_hand_give_the_same_interval() -> None:
    rng = np.random.default_rng(2)
    jobs = [rng.gamma(2, size=size) for size in (3, 10, 40, 7)]
    clusters = np.repeat(np.arange(4), [len(job) for job in jobs])
    low, high = cluster_quantile_intervals(np.concatenate(jobs), clusters, QUANTILES, rng=5)
    drawn = np.random.default_rng(5).multinomial(4, [0.25] * 4, size=RESAMPLES)
    found = [
        np.quantile(
            np.concatenate([np.tile(job, k) for job, k in zip(jobs, row, strict=True)]), QUANTILES
        )
        for row in drawn
    ]
    np.testing.assert_allclose([low, high], np.quantile(found, [0.025, 0.975], axis=0), rtol=1e-12)


def test_the_same_seed_repeats_and_a_generator_goes_on() -> None:
    values = np.random.default_rng(3).gamma(2, size=50)

    def interval(rng: int | np.random.Generator) -> list[list[float]]:
        bounds = block_quantile_intervals(values, QUANTILES, block=3, rng=rng)
        return [bound.tolist() for bound in bounds]

    assert interval(7) == interval(7) == interval(np.random.default_rng(7))
    assert interval(7) != interval(8)
    generator = np.random.default_rng(7)
    assert interval(generator) != interval(generator)


def test_a_held_series_median_is_covered_with_blocks_and_not_without() -> None:
    a, n, times = 0.9, 300, 60
    noise = np.random.default_rng(4).normal(size=(times, n + 200))
    series = lfilter([1], [1, -a], noise)[:, 200:]
    block = autoregressive_block(n, n * (1 - a) / (1 + a))
    covered = {}
    for length in (1, block):
        bounds = [
            block_quantile_intervals(x, [0.5], block=length, rng=i) for i, x in enumerate(series)
        ]
        covered[length] = sum(low[0] <= 0 <= high[0] for low, high in bounds)
    # with blocks near the nominal 95 %, somewhat below as block bootstraps are; without, far off
    assert covered[block] >= binom.ppf(1e-4, times, 0.85)
    assert covered[1] <= binom.ppf(1 - 1e-4, times, 0.5)


def test_a_block_grows_with_dependence_and_has_its_bounds() -> None:
    # (3/2 (2a / (1 - a^2))^2 n)^(1/3) at a = 0.5: 2a / (1 - a^2) = 4/3
    assert autoregressive_block(1000, 1000 / 3) == math.ceil((1.5 * (4 / 3) ** 2 * 1000) ** (1 / 3))
    assert autoregressive_block(1000, 1000) == autoregressive_block(1000, 5000) == 1
    assert autoregressive_block(1000, 2) == 333
    assert autoregressive_block(2, 1) == 1


def test_one_job_has_no_interval_over_jobs() -> None:
    low, high = cluster_quantile_intervals([1, 2, 3], [0, 0, 0], QUANTILES, rng=0)
    assert np.isnan([low, high]).all()


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ([1, 2, 3], {"block": 0}, "block must lie from 1 to the 3 values there are; it is 0"),
        ([1, 2, 3], {"block": 4}, "block must lie from 1 to the 3 values there are; it is 4"),
        ([], {"block": 1}, "block must lie from 1 to the 0 values"),
        ([1, 2], {"block": 1, "confidence": 95}, "confidence must lie between 0 and 1"),
    ],
)
def test_options_out_of_range_are_refused(
    values: list[float], options: dict[str, float], text: str
) -> None:
    with pytest.raises(DataError, match=text):
        block_quantile_intervals(values, QUANTILES, rng=0, **options)  # type: ignore[arg-type]
