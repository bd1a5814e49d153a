"""Groups pair by pair, against scipy and a known difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats

from traceana import compare_distributions
from traceana.errors import DataError

RNG = np.random.default_rng(1)
GROUPS = {
    "calm": RNG.lognormal(2, 0.3, 300),
    "same": RNG.lognormal(2, 0.3, 200),
    "wild": RNG.lognormal(2, 1.5, 250),
}
ROWS = pl.concat(
    [pl.DataFrame({"group": name, "runtime_s": values}) for name, values in GROUPS.items()]
)


def test_each_pair_is_what_scipy_has() -> None:
    table = compare_distributions(ROWS, "runtime_s", "group", rng=1)
    assert table.select("group", "group_other").rows() == [
        ("calm", "same"),
        ("calm", "wild"),
        ("same", "wild"),
    ]
    for row in table.iter_rows(named=True):
        x, y = GROUPS[row["group"]], GROUPS[row["group_other"]]
        ks = scipy.stats.ks_2samp(x, y)
        assert np.isclose(row["ks_distance"], ks.statistic)
        assert np.isclose(row["ks_pvalue"], ks.pvalue)
        assert row["ks_low"] <= row["ks_distance"] <= row["ks_high"]


def test_two_groups_are_one_pair_and_one_is_none() -> None:
    few = ROWS.filter(pl.col("group") != "wild")
    assert compare_distributions(few, "runtime_s", "group", resamples=9).height == 1
    with pytest.raises(DataError, match="two groups are needed"):
        compare_distributions(few.filter(group="calm"), "runtime_s", "group")


def test_a_difference_of_shape_is_seen() -> None:
    table = compare_distributions(ROWS, "runtime_s", "group", rng=1)
    calm_wild = table.filter(group="calm", group_other="wild").row(0, named=True)
    assert calm_wild["ks_pvalue_adjusted"] < 1e-6
    calm_same = table.filter(group="calm", group_other="same").row(0, named=True)
    assert calm_same["ks_pvalue_adjusted"] > 0.05
    assert calm_same["ks_low"] == 0


def test_p_is_adjusted_over_all_pairs() -> None:
    table = compare_distributions(ROWS, "runtime_s", "group", rng=1)
    expected = scipy.stats.false_discovery_control(table["ks_pvalue"].to_numpy())
    np.testing.assert_allclose(table["ks_pvalue_adjusted"], expected)


def test_a_seed_repeats_whatever_the_order_of_rows() -> None:
    one = compare_distributions(ROWS, "runtime_s", "group", rng=3)
    shuffled = ROWS.sample(fraction=1, shuffle=True, seed=1).lazy()
    assert one.equals(compare_distributions(shuffled, "runtime_s", ["group"], rng=3))


def test_the_interval_in_clusters_begins_at_0_where_the_test_does_not_reject() -> None:
    rng = np.random.default_rng(6)
    lows = []
    for _ in range(40):
        user = np.arange(200) % 20
        rows = pl.DataFrame(
            {
                "user": user,
                "group": np.where(user % 2 == 0, "a", "b"),
                "runtime_s": np.exp(rng.standard_normal(20)[user] + rng.standard_normal(200)),
            }
        )
        options: Any = {"cluster": "user", "resamples": 99}
        row = compare_distributions(rows, "runtime_s", "group", **options).row(0, named=True)
        lows.append((row["ks_pvalue"] < 0.05, row["ks_low"]))
    assert {low for rejected, low in lows if not rejected} == {0}
    assert sum(rejected for rejected, _ in lows) <= 6  # 5 %, and three standard errors
