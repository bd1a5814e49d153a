"""Noise of a job and of reports, and the evidence of a report, report by report from their text."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize, stats

from traceana.questions.stragglers.blocks import coming_report, read_reports
from traceana.questions.stragglers.detect import at_once
from traceana.questions.stragglers.episodes import (
    NOISE_BLOCKS,
    Stretch,
    evidence_of_reports,
    excess_over_peers,
    log_ratio,
    measure_levels,
    measure_noise,
    noise_of_reports,
)

ROOT = np.sqrt


@pytest.mark.parametrize(("n_times", "used"), [(6, [6]), (8, [6]), (30, [9, 19, 29]), (29, [27])])
def test_the_slowdown_of_noise_is_the_mean_of_the_largest_draw(
    n_times: int, used: list[int]
) -> None:
    # whole triples of the job, or of its thirds of 10 times
    x = np.random.default_rng(1).lognormal(0, 0.1, (3, n_times)) * np.array([[1], [2], [5]])
    parts = [x[:, end - (9 if len(used) == 3 else end) : end] for end in used]
    relative = [part / part.mean(axis=1, keepdims=True) for part in parts]
    left = np.concatenate([(part / part.mean(axis=0)).ravel() for part in relative]) - 1
    largest = np.maximum(np.maximum.outer(left, left)[..., None], left).mean()
    slowdown, as_one = measure_noise(x[None])
    freedom = (1 - 1 / parts[0].shape[1]) * (1 - 1 / 3)
    assert slowdown[0] - 1 == pytest.approx(largest / ROOT(freedom), rel=1e-9)
    assert not as_one[0]


def own_and_shared(x: np.ndarray, thirds: list[slice]) -> tuple[float, float]:
    """Mean deviation from the workers' mean, and median second difference of this mean."""
    own, shared = [], []
    for third in thirds:
        relative = np.array([worker[third] / worker[third].mean() for worker in x])
        mean = relative.mean(axis=0)
        own += [abs(one / mean - 1) for one in relative]
        triples = mean.reshape(-1, 3)  # consecutive times
        shared += np.abs(triples @ [1, -2, 1]).tolist()
    return float(np.mean(own)), float(np.median(shared) / ROOT(6))


@pytest.mark.parametrize(
    ("n_times", "thirds"),
    [
        (30, [slice(0, 9), slice(10, 19), slice(20, 29)]),
        (32, [slice(0, 9), slice(10, 19), slice(20, 29)]),
        (29, [slice(0, 27)]),
        (291, [slice(0, 96), slice(97, 193), slice(194, 290)]),
        (9, [slice(0, 9)]),
    ],
)
def test_workers_move_as_one_where_their_own_noise_is_seven_tenths_of_the_common(
    n_times: int, thirds: list[slice]
) -> None:
    rng = np.random.default_rng(6)
    common, own = 1 + 0.03 * rng.standard_normal(n_times), rng.standard_normal((3, n_times))

    def workers(part: float) -> np.ndarray:
        result: np.ndarray = 7 * common * np.exp(part * own) * [[1], [1.01], [1.02]]
        return result

    def excess(part: float) -> float:
        alone, shared = own_and_shared(workers(part), thirds)
        return alone - 0.7 * shared

    edge = optimize.brentq(excess, 1e-4, 0.3)
    for part, as_one in ((0.995 * edge, True), (1.005 * edge, False)):
        assert measure_noise(workers(part)[None])[1].tolist() == [as_one]
    # a level of 5 % more is another level, and one worker has no others
    calm = workers(edge / 2)
    last = calm[2] * calm[0, :n_times].mean() / calm[2, :n_times].mean()
    used = np.concatenate([np.arange(n_times)[third] for third in thirds])
    last *= calm[0, used].mean() / last[used].mean()
    for level, as_one in ((1.049, True), (1.051, False)):
        both = np.array([calm[0], level * last])
        assert measure_noise(both[None])[1].tolist() == [as_one]
    assert measure_noise(calm[None, :1])[1].tolist() == [False]
    # nothing varies
    assert measure_noise(np.ones((1, 3, n_times)))[1].tolist() == [False]


@pytest.mark.parametrize("n_times", [2, 3, 5, 8 * 3, 8 * 3 + 2])
def test_the_interval_of_two_workers_is_that_of_paired_blocks(n_times: int) -> None:
    x = np.random.default_rng(4).lognormal(0, 0.2, (2, n_times)) * [[3], [2]]
    length = max(n_times // NOISE_BLOCKS, 1)
    blocks = [np.median(own[: n_times // length * length].reshape(-1, length), axis=1) for own in x]
    found = measure_levels(x[None], 1.2)
    ratio = np.median(x[0]) / np.median(x[1])
    assert found.ratio_to_peers[0] == pytest.approx([ratio, 1 / ratio])
    paired = stats.ttest_rel(*np.log(blocks)).confidence_interval()
    half = np.exp((paired.high - paired.low) / 2)
    ends = [ratio / half, ratio * half] if n_times > 2 else [np.nan, np.nan]
    assert [found.ci_low[0, 0], found.ci_high[0, 0]] == pytest.approx(ends, nan_ok=True)


def of_reports(mean: np.ndarray, calm: np.ndarray) -> np.ndarray:
    """Noise of the workers of one job."""
    steps, factors = [], []
    for own, quiet in zip(mean, calm, strict=True):
        known = np.sort(quiet[~np.isnan(quiet)])
        quarter, three = known[(len(known) - 1) // 4], known[3 * (len(known) - 1) // 4]
        step = max(1.4826 * np.nanmedian(np.abs(np.diff(own))) / ROOT(2), 0.005)
        most = 3 * max((three - quarter) / 1.349, step)
        z = np.clip(own - np.median(known), -most, most) / step
        blocks = {
            size: [z[at : at + size].mean() for at in range(0, len(z) - size + 1, size)]
            for size in (1, 4, 16)
            if (~np.isnan(own)).sum() >= 5 * size
        }
        factors.append(
            {
                size: 1.4826 * np.nanmedian(np.abs(each)) * ROOT(size)
                for size, each in blocks.items()
            }
        )
        steps.append(step)
    # the lower median over the workers that have so many blocks
    of_size = [sorted(f[size] for f in factors if size in f) for size in (1, 4, 16)]
    factor = max(1, *(each[(len(each) - 1) // 2] for each in of_size if each))
    reports: np.ndarray = (~np.isnan(mean)).sum(axis=1)
    result: np.ndarray = np.array(steps) * factor * (1 + 1 / ROOT(reports))
    return result


@pytest.mark.parametrize(("n", "wander"), [(83, 0.0), (83, 0.9), (80, 0.9), (22, 0.9), (7, 0.9)])
def test_noise_of_reports_counts_what_lasts(n: int, wander: float) -> None:
    rng = np.random.default_rng(2)
    mean = np.zeros((8, n))
    for at in range(n):
        mean[:, at] = wander * mean[:, at - 1] + 0.05 * rng.standard_normal(8)
    mean[0, 3] += 9  # a spike
    mean[5, 2:6] = np.nan
    calm = np.where(np.arange(n) % 9 == 4, np.nan, mean)
    found = noise_of_reports(mean, calm, n_workers=4)
    expected = [*of_reports(mean[:4], calm[:4]), *of_reports(mean[4:], calm[4:])]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    still = noise_of_reports(np.zeros((2, 25)), np.zeros((2, 25)), n_workers=2)
    np.testing.assert_allclose(still, 0.005 * 1.2)


@pytest.mark.parametrize("least", [0.02, 0.3])
def test_evidence_of_a_report_has_the_limit_of_its_frequency(least: float) -> None:
    rng = np.random.default_rng(3)
    mean = 0.1 * rng.standard_t(2, (6, 40))
    mean[0, 0], mean[1, 5] = 5, np.nan
    mean[[2, 4]] = np.clip(mean[[2, 4]], -0.1, 0.1)  # without spikes, but for one
    mean[4, 9] = 0.35
    mean[3, [5, 6, 8]] = [0.25, 0.375, 0.5]  # exactly at a tail
    calm = np.where(np.arange(40) % 7 == 3, np.nan, mean)
    noise = np.array([0.08, 0.1, 0.12, 0.125, 0.1, 0.05])
    found = evidence_of_reports(mean, calm, noise, n_workers=3, least=least, enough=1.5)
    reports = (~np.isnan(calm)).sum(axis=1)

    def frequency(worker: int, tail: float) -> float:
        others = (calm[worker] > tail * noise[worker]).sum() - 1
        return float(max(others, 0) / reports[worker])

    for (worker, at), excess in np.ndenumerate(mean):
        s = float(noise[worker])
        a = max(least / 2, 0.75 * s)
        expected = 2 * a * (excess - a) / s**2
        tail = min(float(np.ceil(excess / s)) - 1, 4.0) if excess > 2 * s else 0.0
        if tail:
            own = frequency(worker, tail)
            own += ROOT(own / reports[worker])  # a standard error more
            of_job = sorted(frequency(3 * (worker // 3) + k, tail) for k in range(3))
            expected = min(expected, max(-np.log(max(own, of_job[1], 1e-9)), 1.5))
        np.testing.assert_allclose(found[worker, at], expected, rtol=1e-9)


def test_a_job_without_an_episode_has_none_at_once() -> None:
    by_job, of_each = at_once((3, 2, 5), [])
    assert (by_job.tolist(), of_each) == ([0, 0, 0], [])


def test_episodes_that_follow_each_other_are_not_at_once() -> None:
    first, second = Stretch(0, 0, 2, 4, 3, 2.0, 2.0), Stretch(0, 1, 5, 7, 3, 2.0, 2.0)
    by_job, of_each = at_once((1, 3, 10), [first, second])
    assert (by_job.tolist(), of_each) == ([1], [1, 1])
    by_job, of_each = at_once((1, 3, 10), [first, second, Stretch(0, 2, 7, 9, 3, 2.0, 2.0)])
    assert (by_job.tolist(), of_each) == ([2], [1, 2, 2])


def excess_by_hand(
    own: np.ndarray, as_peer: np.ndarray, calm: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Severity, excess and peers of the workers of one job, one value after the other."""
    peers = np.full(own.shape, np.nan)
    for (w, t), value in np.ndenumerate(own):
        others = sorted(x for v, x in enumerate(as_peer[:, t]) if v != w and not np.isnan(x))
        if others and not np.isnan(value):
            peers[w, t] = others[int((len(others) - 1) / 4)]
    severity, excess = own.copy(), np.full(own.shape, np.nan)
    for w, quiet in enumerate(calm):
        peers[w] -= np.nanmedian(peers[w, quiet])
        moved = own[w] - peers[w]
        excess[w] = own[w] - np.maximum(peers[w], 0)
        moved -= np.nanmedian(moved[quiet])
        if np.nansum(np.abs(moved[quiet])) < 0.9 * np.nansum(np.abs(excess[w, quiet])):
            severity[w] = excess[w] = moved
    return severity, excess, peers


def test_the_excess_over_a_low_quantile_of_the_peers() -> None:
    followed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = 2 + seed % 9
        common = rng.normal(0, 0.1, 20)
        own = rng.uniform(0, 1.2, (n, 1)) * common + rng.normal(0, 0.05, (n, 20))
        own[rng.random((n, 20)) < 0.1] = np.nan
        own[:, 3] = np.where(np.arange(n) == 0, 0.2, np.nan)  # alone
        as_peer = own + np.where(rng.random((n, 20)) < 0.2, -0.1, 0)
        calm = np.ones((n, 20), bool) if seed % 3 else rng.random((n, 20)) < 0.8
        found = excess_over_peers(own[None], as_peer[None], calm[None])
        expected = excess_by_hand(own, as_peer, calm)
        for one, known in zip(found, expected, strict=True):
            np.testing.assert_allclose(one[0], known, rtol=1e-9, atol=1e-12)
        followed += int((expected[1] == expected[0]).any(axis=1).sum())
    assert followed > 20


def test_ratios_have_a_lower_bound() -> None:
    found = log_ratio(np.array([[2.0, 1, 1 / 32, 0.01, 0, np.nan], [1.0] * 6]), np.array([1.0, 0]))
    assert found[0] == pytest.approx(
        [np.log(2), 0, -np.log(32), -np.log(32), -np.log(32), np.nan], nan_ok=True
    )
    assert np.isnan(found[1]).all()


def reports_by_hand(values: list[float]) -> list[int]:
    """Where the reports of one series begin."""
    runs = [i for i, v in enumerate(values) if i == 0 or v != values[i - 1]]
    middle = float(np.median(values))
    if 2 * values.count(middle) > len(values):
        return list(range(len(values)))
    lengths = sorted(end - begin for begin, end in pairwise([*runs, len(values)]))
    usual = lengths[math.ceil(0.97 * len(lengths)) - 1]
    hold = max(min(usual, len(values) // 10), 1)
    begins = []
    for begin, end in pairwise([*runs, len(values)]):
        begins += [begin + k * hold for k in range(max((end - begin) // hold, 1))]
    return begins


def test_reports_are_runs_as_long_as_the_usual_hold() -> None:
    cases = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        often = rng.integers(1, 2 + seed % 7, 60)
        if seed % 4 == 0:
            often[7] = 30
        values = np.repeat(rng.normal(size=60), often)
        cases.append(values[: 9 + 6 * seed].tolist())
    cases += [[1.0] * 6 + [2.0] * 5, [1.0] * 6 + [2.0] * 6, [1.0, 2.0, 3.0]]
    for values in cases:
        series = np.array([values, values[::-1], np.arange(len(values))])
        series[1] *= 2
        found = read_reports(series, np.ones(series.shape, bool), np.median(series, axis=1))
        ends = [reports_by_hand(row.tolist()) for row in series]
        assert found.n.tolist() == [len(each) for each in ends]
        for at, each in enumerate(ends):
            first, last = found.of(at)
            assert first.tolist() == each
            assert last.tolist() == [*(begin - 1 for begin in each[1:]), len(values) - 1]
        following = coming_report(series, np.ones(series.shape, bool), found)
        for row, each, next_report in zip(series, ends, following, strict=True):
            expected = row.copy()
            if len(each) < len(row):
                for begin, end in pairwise([*each, len(row)]):
                    expected[begin:end] = row[end] if end < len(row) else row[begin]
            np.testing.assert_array_equal(next_report, expected)


def test_a_worker_without_a_sample_has_no_report() -> None:
    value = np.array([np.repeat([1.0, 2, 3, 4], 10), np.full(40, np.nan), np.arange(40.0)])
    found = read_reports(value, ~np.isnan(value), np.array([2.5, np.nan, 19.5]))
    # a hold is at most a tenth of 40 samples: a run of 10 is two reports
    assert found.n.tolist() == [8, 0, 40]
    assert found.holds.tolist() == [True, False, False]
