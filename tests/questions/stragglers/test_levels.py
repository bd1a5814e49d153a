"""Levels of workers: blocks that count, and whether a level changes, by their definitions."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.questions.stragglers.test_detect import calm, samples_of
from traceana import detect_stragglers
from traceana.questions.stragglers import detect
from traceana.questions.stragglers.blocks import read_reports
from traceana.questions.stragglers.episodes import (
    Rules,
    Stretch,
    _leads_or_lags,
    measure_levels,
    measure_noise,
)


def changes(blocks: list[float], slow_level: float) -> bool:
    """Whether a worker with these log ratios to its only peer, one per block, changes."""
    x = np.repeat(np.exp([blocks, [0.0] * len(blocks)]), 4, axis=1)
    return bool(measure_levels(x[None], slow_level).changes[0, 0])


@pytest.mark.parametrize(("step", "expected"), [(0.995, False), (1.005, True)])
def test_a_step_beyond_the_range_of_eight_normal_numbers_is_a_change(
    step: float, expected: bool
) -> None:
    # signs that alternate have second differences of 4 units; those of normal numbers have a
    # median of 0.6745 sqrt(6) standard deviations
    unit = 0.05
    deviation = 4 * unit / (0.6745 * np.sqrt(6))
    edge = 4.3 * deviation - 2 * unit
    blocks = [unit * (-1) ** k + (step * edge if k >= 4 else 0) for k in range(8)]
    assert changes(blocks, 1.01) == expected


@pytest.mark.parametrize(("top", "expected"), [(1.19, False), (1.21, True)])
def test_a_change_begins_at_a_slow_level(top: float, expected: bool) -> None:
    assert changes([0.0] * 4 + [float(np.log(top))] * 4, 1.2) == expected


@pytest.mark.parametrize(("bottom", "expected"), [(1.24, True), (1.26, False)])
def test_a_change_ends_below_half_of_the_excess(bottom: float, expected: bool) -> None:
    assert changes([float(np.log(bottom))] * 4 + [float(np.log(1.5))] * 4, 1.2) == expected


@pytest.mark.parametrize(("length", "known", "counts"), [(4, 2, True), (5, 2, False)])
def test_a_block_counts_if_half_of_its_times_are_known(
    length: int, known: int, counts: bool
) -> None:
    x = np.random.default_rng(4).lognormal(0, 0.1, (1, 2, 8 * length))
    x[0, 0, known:length] = np.nan
    ends = []
    for above in (1.5, 1.9):  # the median of all stays as it is
        x[0, 0, :known] = above
        ends.append(measure_levels(x, 1.2).ci_high[0, 0])
    assert (ends[0] != ends[1]) == counts


def test_results_do_not_depend_on_the_unit() -> None:
    value = calm(5, 200)
    value[1] *= 3
    value[4, 60:120] *= 4
    once, thousandth = (detect_stragglers(samples_of(value * unit)) for unit in (1.0, 1e-3))
    for name in ("episodes", "levels", "jobs", "ratios"):
        a, b = getattr(once, name), getattr(thousandth, name)
        for column in set(a.columns) - {"median", "median_batch_time"}:
            if a[column].dtype.is_float():
                np.testing.assert_allclose(a[column].to_numpy(), b[column].to_numpy(), rtol=1e-9)
            else:
                assert a[column].to_list() == b[column].to_list()
    assert once.episodes.height == 1


@pytest.mark.parametrize(("kept", "height"), [(80, 80), (79, 0)])
def test_ratios_are_kept_up_to_a_number_of_samples(
    monkeypatch: pytest.MonkeyPatch, kept: int, height: int
) -> None:
    monkeypatch.setattr(detect, "RATIOS_KEPT", kept)
    assert detect_stragglers(samples_of(calm(4, 20))).ratios.height == height


def test_one_time_of_each_worker_is_no_noise() -> None:
    value = np.full((1, 3, 3), np.nan)
    value[0, :, 0] = [1, 2, 3]
    slowdown, as_one = measure_noise(value)
    assert np.isnan(slowdown).tolist() == [True]
    assert as_one.tolist() == [False]


def test_a_worker_whose_median_is_half_of_its_samples_is_not_constant() -> None:
    value = np.repeat([1.0, 5, 2, 5, 9, 5, 8, 5], 3)
    one = np.where(np.arange(24) == 4, 7.0, np.nan)  # a series of a single sample
    for more, begins in ((0, 8), (3, 27)):
        x = np.append(value, np.full(more, 5.0))
        both = np.stack([x, np.append(one, np.full(more, np.nan))])
        reports = read_reports(both, ~np.isnan(both), np.array([5.0, 7]))
        assert reports.n.tolist() == [begins, 1]


def test_peers_may_be_slower_than_an_episode() -> None:
    value = calm(4)
    value[1] = 50
    value[1, 60:80] = 80
    result = detect_stragglers(samples_of(value))
    row = result.episodes.row(0, named=True)
    assert (row["severity"], row["ratio_to_peers"]) == pytest.approx((1.6, 0.8))


def test_a_job_without_a_value_has_no_worker_and_no_episode() -> None:
    empty = samples_of(calm(2, 9), job="none").with_columns(batch_time=pl.lit(None, pl.Float64))
    jobs = detect_stragglers(pl.concat([samples_of(calm(2, 9)), empty])).jobs
    counts = jobs.select("job_id", "n_workers", "n_episodes", "n_slow_workers", "max_at_once")
    assert counts.rows() == [("job", 2, 0, 0, 0), ("none", 0, 0, 0, 0)]


@pytest.mark.parametrize(("peers", "expected"), [(0.99, False), (1.01, True)])
def test_an_edge_of_a_slowdown_has_peers_half_as_slow(peers: float, expected: bool) -> None:
    # the worker is 4 times as slow in 3 of 40 samples, and its peers about 2 times right after
    rules = Rules(1.15, 3, 0.0, 2, 14.0)
    slow, others = np.zeros(40), np.zeros(40)
    slow[10:13], others[13:20] = np.log(4), np.log(2) * peers
    stretch = Stretch(0, 0, 10, 12, 3, 4.0, 4.0)
    assert _leads_or_lags(stretch, slow, others, rules) == expected


@pytest.mark.parametrize(("min_severity", "expected"), [(2.0, False), (2.01, True)])
def test_a_worker_as_slow_beside_slow_peers_as_is_asked_is_no_edge(
    min_severity: float, expected: bool
) -> None:
    rules = Rules(min_severity, 3, 0.0, 2, 14.0)
    stretch = Stretch(0, 0, 0, 39, 40, 4.0, 4.0)
    slow, others = np.full(40, np.log(2)), np.full(40, np.log(3))
    assert _leads_or_lags(stretch, slow, others, rules) == expected


@pytest.mark.parametrize(("n_together", "expected"), [(10, True), (11, False)])
def test_ten_reports_beside_slow_peers_are_an_edge(n_together: int, expected: bool) -> None:
    # of 21 reports the peers are slow in so many, and the worker is in ten more; in the last one
    # both are exactly half as slow, which is neither
    rules = Rules(1.15, 3, 0.0, 2, 14.0)
    slow, others = np.full(21, np.log(4)), np.zeros(21)
    others[:n_together] = np.log(3)
    slow[20] = others[20] = np.log(4) / 2
    assert _leads_or_lags(Stretch(0, 0, 0, 20, 21, 4.0, 4.0), slow, others, rules) == expected


def test_a_worker_exactly_as_slow_as_a_slow_level_is_not_slow() -> None:
    steady = np.full((4, 40), 2.0)
    steady[1] = 3
    at, below = (
        detect_stragglers(samples_of(steady), slow_level=level).levels.filter(worker_id="w1")
        for level in (1.5, 1.49)
    )
    assert (at["ratio_to_peers"].item(), at["is_slow"].item()) == (1.5, False)
    assert below["is_slow"].item()


@pytest.mark.parametrize(("n_near", "expected"), [(3, False), (4, True)])
def test_peers_slow_in_a_quarter_of_an_edge_are_not_slow(n_near: int, expected: bool) -> None:
    # 24 samples are 20 reports, so that an edge of 10 reports is 12 samples
    rules = Rules(1.15, 3, 0.0, 2, 14.0)
    slow, others = np.zeros(60), np.zeros(60)
    slow[10:22], others[34 : 34 + n_near] = np.log(4), np.log(3)
    assert _leads_or_lags(Stretch(0, 0, 10, 33, 20, 4.0, 4.0), slow, others, rules) == expected


@pytest.mark.parametrize(("slow_level", "expected"), [(1.99, True), (2.0, False)])
def test_a_change_ends_above_a_slow_level(slow_level: float, expected: bool) -> None:
    x = np.array([np.repeat([1.0, 2], 16), np.ones(32)])
    assert measure_levels(x[None], slow_level).changes[0].tolist() == [expected, False]


def test_peers_slow_from_the_first_time_on_may_lead() -> None:
    rules = Rules(1.15, 3, 0.0, 2, 14.0)
    slow, others = np.zeros(40), np.zeros(40)
    slow[5:15], others[:3] = np.log(4), np.log(3)  # three of ten reports before
    assert _leads_or_lags(Stretch(0, 0, 5, 14, 10, 4.0, 4.0), slow, others, rules)
