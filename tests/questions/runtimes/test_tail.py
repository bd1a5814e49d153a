"""Hill's estimate by hand, in closed form, and on a tail whose index is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from traceana import tail_index
from traceana.errors import DataError


def test_by_hand() -> None:
    # the two above 2 are 4 and 8: 2 / (ln 2 + ln 4) = 2 / (3 ln 2)
    row = tail_index([1, 8, None, 2, 4], k=2).row(0, named=True)
    assert np.isclose(row["tail_index"], 2 / (3 * np.log(2)))
    assert (row["n"], row["k"], row["threshold"], row["n_missing"]) == (4, 2, 2, 1)
    ends = scipy.stats.chi2.ppf([0.025, 0.975], 4) * row["tail_index"] / 4
    np.testing.assert_allclose((row["ci_low"], row["ci_high"]), ends, rtol=1e-12)


def test_a_threshold_that_is_repeated_counts_none_of_its_values() -> None:
    row = tail_index([1, 3, 3, 3, 9], k=2).row(0, named=True)
    assert (row["k"], row["threshold"]) == (1, 3)
    assert np.isclose(row["tail_index"], 1 / np.log(3))


@pytest.mark.parametrize("index", [0.8, 1.5, 3.0])
def test_a_pareto_tail_is_found_at_every_k(index: float) -> None:
    x = np.random.default_rng(1).pareto(index, 20_000) + 1
    table = tail_index(x * 600, k=[200, 2000, 19_000], confidence=0.999)
    assert ((table["ci_low"] < index) & (table["ci_high"] > index)).all()
    widths = (table["ci_high"] - table["ci_low"]).to_numpy()
    assert (np.diff(widths) < 0).all()


def test_it_takes_the_root_of_n_of_its_own() -> None:
    x = np.random.default_rng(2).pareto(2, 1000) + 1
    assert tail_index(x).equals(tail_index(x, k=31))


def test_one_value_has_no_tail() -> None:
    assert tail_index([5.0])["note"].item() == "fewer than two values"
    with pytest.raises(DataError, match="one less than the 1 values"):
        tail_index([5.0], k=1)


def test_many_values_of_few_units_are_noted() -> None:
    rng = np.random.default_rng(3)
    x, user = rng.pareto(1.5, 400) + 1, rng.integers(0, 12, 400).astype(str)
    few, many = tail_index(x, k=[20, 200], cluster=user)["note"]
    assert few is None
    assert many == "equivalent to fewer than 30 units of equal size: the interval may be too narrow"
    assert tail_index(x, k=200)["note"].item() is None
