"""Bootstrap intervals: against resampling by hand, and whether they cover."""

from __future__ import annotations

import numpy as np
import pytest

from traceana.errors import DataError
from traceana.stats.bootstrap import (
    RESAMPLES,
    _quantiles_of_counts,
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
        bounds = cluster_quantile_intervals(values, np.arange(50) // 5, QUANTILES, rng=rng)
        return [bound.tolist() for bound in bounds]

    assert interval(7) == interval(7) == interval(np.random.default_rng(7))
    assert interval(7) != interval(8)
    generator = np.random.default_rng(7)
    assert interval(generator) != interval(generator)


def test_one_job_has_no_interval_over_jobs() -> None:
    low, high = cluster_quantile_intervals([1, 2, 3], [0, 0, 0], QUANTILES, rng=0)
    assert np.isnan([low, high]).all()


@pytest.mark.parametrize(
    ("values", "confidence", "text"),
    [([], 0.95, "at least one value"), ([1, 2], 95, "confidence must lie between 0 and 1")],
)
def test_options_out_of_range_are_refused(
    values: list[float], confidence: float, text: str
) -> None:
    of = np.arange(len(values))
    with pytest.raises(DataError, match=text):
        cluster_quantile_intervals(values, of, QUANTILES, rng=0, confidence=confidence)
