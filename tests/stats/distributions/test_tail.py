"""Hill's estimate by hand, with delayed entry and censoring."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from traceana.stats.distributions.goodness import Tail, hill

VALUES = np.array([1.0, 8.0, 2.0, 4.0])


def expected(k: int, n: int, threshold: float, logs: float, confidence: float) -> Tail:
    ends = ((1 - confidence) / 2, (1 + confidence) / 2)
    low, high = (stats.chi2.ppf(p, 2 * n) / (2 * logs) for p in ends)
    return Tail(k, threshold, n / logs, low, high)


def same(found: Tail | None, known: Tail) -> bool:
    assert found is not None
    return list(vars(found).values()) == pytest.approx(list(vars(known).values()))


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_complete_values(confidence: float) -> None:
    log = np.log(2)
    assert same(hill(VALUES, 2, confidence=confidence), expected(2, 2, 2, 3 * log, confidence))
    assert same(hill(VALUES, 3, confidence=confidence), expected(3, 3, 1, 6 * log, confidence))
    # a value equal to the threshold is not above it
    tied = np.array([1.0, 2, 2, 4, 8])
    assert same(hill(tied, 3, confidence=confidence), expected(2, 2, 2, 3 * log, confidence))
    assert hill(np.array([1.0, 2.0, 2.0]), 1, confidence=confidence) is None


def test_delayed_entry_and_censoring() -> None:
    log = np.log(2)
    # 4 was observed from its half on, which is the threshold, and 8 from 4 on
    entry = np.array([0.5, 4.0, 1.0, 1.5])
    assert same(hill(VALUES, 2, entry=entry, confidence=0.9), expected(2, 2, 2, 2 * log, 0.9))
    observed = np.array([True, False, True, True])
    found = hill(VALUES, 2, observed=observed, confidence=0.9)
    assert same(found, expected(2, 1, 2, 3 * log, 0.9))
    assert hill(VALUES, 1, observed=observed, confidence=0.9) is None
