"""The best shift, held against trying every one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana.stats.segments import best_alignment

values = st.one_of(st.floats(-5, 5), st.just(float("nan")))
series = st.lists(values, min_size=1, max_size=12).map(np.array)


@settings(max_examples=100, deadline=None)
@given(a=series, b=series, least=st.integers(1, 4))
def test_no_shift_is_better(a: np.ndarray, b: np.ndarray, least: int) -> None:
    tried = {}
    for shift in range(1 - len(a), len(b)):
        pairs = [(a[i], b[i + shift]) for i in range(len(a)) if 0 <= i + shift < len(b)]
        squares = [(x - y) ** 2 for x, y in pairs if np.isfinite(x) and np.isfinite(y)]
        if len(squares) >= least:
            tried[shift] = (float(np.mean(squares)), len(squares))
    found = best_alignment(a, b, min_overlap=least)
    if found is None:
        assert not tried
        return
    mean_square, overlap = tried[found.shift]
    assert found.overlap == overlap
    assert found.mean_square == pytest.approx(mean_square, abs=1e-9)
    assert mean_square <= min(square for square, _ in tried.values()) + 1e-9


def test_a_cut_out_stretch_is_found_where_it_was_cut() -> None:
    b = np.random.default_rng(3).normal(size=500)
    found = best_alignment(b[123:300], b, min_overlap=30)
    assert found is not None
    assert (found.shift, found.overlap) == (123, 177)
    assert found.mean_square == pytest.approx(0, abs=1e-14)  # of values about 1
    back = best_alignment(b, b[123:300], min_overlap=30)
    assert back is not None
    assert (back.shift, back.overlap) == (-123, 177)
