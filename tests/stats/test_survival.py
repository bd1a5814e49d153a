"""Quantiles with censored durations, against a published table, scipy and the complete case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import CensoredData, ecdf

from traceana.errors import DataError
from traceana.stats.survival import censored_quantiles, incidence, log_log_interval


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
@settings(max_examples=80)
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
