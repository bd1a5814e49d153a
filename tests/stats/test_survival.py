"""Quantiles with censored durations, against a published table, scipy and the complete case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import CensoredData, ecdf

from traceana.errors import DataError
from traceana.stats.survival import (
    censored_quantiles,
    incidence,
    incidence_variances,
    log_log_interval,
    restricted_mean,
)


def test_the_leukaemia_trial() -> None:
    # Freireich and others, Blood 21 (1963): weeks of remission under 6-MP, + where censored;
    # the median is 23 weeks in every textbook that has it, and S stays at 0.448 after it
    durations = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
    plus = "...+.+.++..+++..+++++"
    median, late = censored_quantiles(durations, [mark == "+" for mark in plus], [0.5, 0.75])
    assert median == 23
    assert np.isnan(late)


@given(
    durations=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    data=st.data(),
    q=st.floats(0.05, 0.95),
)
@settings(max_examples=30)
def test_quantiles_are_where_scipys_curve_comes_down(
    durations: list[int], data: st.DataObject, q: float
) -> None:
    flags = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(durations), max_size=len(durations)))
    )
    found = censored_quantiles(durations, flags, [q])[0]
    t = np.array(durations, dtype=float)
    if flags.all():
        assert np.isnan(found)
        return
    curve = ecdf(CensoredData(uncensored=t[~flags], right=t[flags])).sf
    down = curve.quantiles[curve.probabilities <= 1 - q + 1e-9]
    np.testing.assert_equal(found, down[0] if len(down) else np.nan)


def test_without_censoring_it_is_the_order_statistic() -> None:
    assert censored_quantiles([4, 1, 3, 2], [False] * 4, [0.25, 0.5, 0.75]).tolist() == [1, 2, 3]


def test_a_censored_length_is_never_an_end() -> None:
    # averaging would give 100; half of those at risk at 50 ended there
    assert np.isnan(censored_quantiles([50, 100, 100, 100], [False, True, True, True], [0.5])[0])
    assert censored_quantiles([50, 50, 100], [False, False, True], [0.5])[0] == 50


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="one length: 0 and 0"):
        censored_quantiles([], [], [0.5])
    with pytest.raises(DataError, match="one length: 2 and 1"):
        censored_quantiles([1, 2], [True], [0.5])


@pytest.mark.parametrize("name", ["veteran", "aml_maintained", "aml_nonmaintained"])
def test_survival_and_its_error_as_r_has_them(name: str, r_values: dict[str, Any]) -> None:
    known = r_values[name]
    times, at = np.unique(known["time"], return_inverse=True)
    status = np.array(known["status"]) == 1
    found = incidence(np.bincount(at, status)[:, None], np.bincount(at, ~status))
    here = np.isin(times, known["at"])
    np.testing.assert_array_equal(found.at_risk[here], known["n_risk"])
    np.testing.assert_allclose(found.surviving[here], known["survival"], rtol=1e-9, atol=1e-15)
    errors = np.sqrt(found.surviving_variance[here])
    some = found.surviving[here] > 0
    np.testing.assert_allclose(errors[some], np.array(known["std_error"])[some], rtol=1e-9)
    if "low" in known:
        bounds = log_log_interval(found.surviving[here], errors**2, confidence=0.95)
        for ours, theirs in zip(bounds, (known["low"], known["high"]), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_competing_risks_as_r_has_them(r_values: dict[str, Any]) -> None:
    known = r_values["mgus2"]
    times, at = np.unique(known["time"], return_inverse=True)
    ends = [
        np.bincount(at, np.array(known["end"]) == end) for end in ("completed", "failed", "running")
    ]
    found = incidence(np.stack(ends[:2], axis=1), ends[2])
    here = np.isin(times, known["at"])
    for number, end in enumerate(("completed", "failed")):
        np.testing.assert_allclose(found.incidence[here, number], known[end], rtol=1e-9)
        errors = np.sqrt(found.incidence_variance[here, number])
        np.testing.assert_allclose(errors, known[f"{end}_error"], rtol=1e-9)


def curve(
    durations: np.ndarray, kind: np.ndarray, entry: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Survival and incidence of both kinds at some times, row by row; kind 0 is censored."""
    surviving, f = 1.0, np.zeros(2)
    curves, incidences = [], []
    for time in at:
        n = ((entry < time) & (durations >= time)).sum()
        events = np.array([((durations == time) & (kind == k)).sum() for k in (1, 2)])
        if n:
            f = f + surviving * events / n
            surviving *= 1 - events.sum() / n
        curves.append(surviving)
        incidences.append(f)
    return np.array(curves), np.array(incidences)


def area(at: np.ndarray, surviving: np.ndarray, horizon: float) -> float:
    """Area under a step function, from 1."""
    steps = np.linspace(0, horizon, 40_001)[:-1] + horizon / 80_000
    place = np.searchsorted(at, steps, side="right")
    return float(np.concatenate([[1.0], surviving])[place].mean() * horizon)


@pytest.mark.parametrize("horizon", [4.0, 5.0, 20.0])
def test_clusters_are_left_out_one_by_one(horizon: float) -> None:
    rng = np.random.default_rng(5)
    durations = rng.integers(2, 9, 40) / 1.0
    kind, cluster = rng.integers(0, 3, 40), rng.integers(0, 5, 40)
    entry = np.where(rng.random(40) < 0.3, durations - 1.5, 0.0)
    at = np.unique(durations)
    code = np.searchsorted(at, durations)
    events = np.stack([kind == 1, kind == 2], axis=1)
    rows = [(e, k == 0, 0, c, g) for e, k, c, g in zip(events, kind, code, cluster, strict=True)]
    # rows that enter after a time
    late = [
        (np.zeros(2), 0, 1, int(np.searchsorted(at, e, side="right")) - 1, g)
        for e, g in zip(entry, cluster, strict=True)
        if e >= at[0]
    ]
    e, c, late_rows, time, cell = (np.array(part) for part in zip(*rows, *late, strict=True))

    def variances(cell: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        return incidence_variances(e, c, late_rows, time, cell, durations=at, horizon=horizon)

    found = variances(cell)
    whole = curve(durations, kind, entry, at)
    end = min(horizon, at[-1])
    expected: list[Any] = [0.0, 0.0, 0.0]
    for g in range(5):
        kept = cluster != g
        left = curve(durations[kept], kind[kept], entry[kept], at)
        expected[0] += 4 / 5 * (left[0] - whole[0]) ** 2
        expected[1] += 4 / 5 * (left[1] - whole[1]) ** 2
        expected[2] += 4 / 5 * (area(at, left[0], end) - area(at, whole[0], end)) ** 2
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9, atol=1e-15)
    assert found[2] == pytest.approx(expected[2], rel=1e-3)
    one = variances(0 * cell)
    assert np.isnan(np.concatenate([one[0], one[1].ravel(), [one[2]]])).all()
    assert np.isfinite(variances(cell % 2)[0]).all()


def test_a_restricted_mean_by_hand() -> None:
    # S falls to .75, .5 and .25 at 2, 3 and 7
    times, surviving = np.array([2.0, 3, 7]), np.array([0.75, 0.5, 0.25])
    hazards = np.array([1 / 12, 1 / 6, 1 / 2])  # d / (n (n - d)) of 1 of 4, 3 and 2
    # up to 5: 2 + .75 + 2 * .5; from 2: 1.75, from 3: 1
    mean, variance = restricted_mean(times, surviving, hazards, 5.0)
    assert mean == pytest.approx(3.75)
    assert variance == pytest.approx(1.75**2 / 12 + 1 / 6)
    # up to 7: the last step is not inside
    mean, variance = restricted_mean(times, surviving, hazards, 7.0)
    assert mean == pytest.approx(4.75)
    assert variance == pytest.approx(2.75**2 / 12 + 4 / 6)
    mean, variance = restricted_mean(times, surviving, hazards, 9.0)
    assert mean == pytest.approx(5.25)
    assert variance == pytest.approx(3.25**2 / 12 + 2.5**2 / 6 + 0.5**2 / 2)
    assert restricted_mean(times, surviving, hazards, 0.5) == (0.5, 0)


@pytest.mark.parametrize("df", [7.0, np.inf])
def test_the_log_log_interval_is_symmetric_on_its_scale(df: float) -> None:
    share = np.array([0.0, 0.2, 0.9, 1 - 1e-13, 1.0])
    low, high = log_log_interval(share, np.full(5, 0.01), df=df, confidence=0.9)
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [True, False, False, True, True]
    q = scipy.stats.t.ppf(0.95, df)
    for p, ends in ((0.2, (low[1], high[1])), (0.9, (low[2], high[2]))):
        middle, error = np.log(-np.log(p)), 0.1 / abs(p * np.log(p))
        expected = np.exp(-np.exp(middle + np.array([q, -q]) * error))
        assert ends == pytest.approx(tuple(expected))
