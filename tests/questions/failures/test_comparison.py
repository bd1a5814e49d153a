"""Runtimes compared by ranks, against published results, scipy and planted differences."""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from traceana import compare_runtimes
from traceana.errors import DataError
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.permutation import permuted_superiority
from traceana.stats.ranks import placements, rank_anova, superiority


def test_plant_growth_as_r_has_it(published: dict[str, Any]) -> None:
    known = published["plant_growth"]
    rows = [(name, x) for name in ("ctrl", "trt1", "trt2") for x in known[name]]
    frame = pl.DataFrame(rows, schema=["g", "runtime_s"], orient="row")
    row = compare_runtimes(frame, "g", method="mann-whitney").test.row(0, named=True)
    assert row["statistic"] == pytest.approx(known["statistic"], abs=5e-5)
    assert row["df"] == known["df"]
    assert row["pvalue"] == pytest.approx(known["pvalue"], abs=5e-6)
    assert row["epsilon_squared"] == pytest.approx(known["statistic"] / 29, abs=1e-5)
    assert (row["n"], row["n_effective"], row["n_clusters"]) == (30, 30, None)


@given(
    values=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=12, max_size=60)
)
@settings(max_examples=30, deadline=None)
def test_tests_and_effects_are_scipys(values: list[tuple[str, int]]) -> None:
    parts = {g: [x for name, x in values if name == g] for g in sorted({g for g, _ in values})}
    if len(parts) < 2 or len({x for _, x in values}) < 2:
        return
    frame = pl.DataFrame(values, schema=["g", "runtime_s"], orient="row")
    found = compare_runtimes(frame, "g", method="mann-whitney")
    expected = stats.kruskal(*parts.values())
    row = found.test.row(0, named=True)
    assert row["statistic"] == pytest.approx(expected.statistic, rel=1e-8, abs=1e-9)
    if min(map(len, parts.values())) >= 5:
        assert row["pvalue"] == pytest.approx(expected.pvalue, rel=1e-8, abs=1e-9)
    if row["ci_low"] is not None:
        assert 0 <= row["ci_low"] <= row["epsilon_squared"] <= row["ci_high"] <= 1
    for pair, (a, b) in zip(found.pairs.iter_rows(named=True), combinations(parts, 2), strict=True):
        assert (pair["g_a"], pair["g_b"]) == (a, b)
        u = (
            stats.mannwhitneyu(
                parts[a],
                parts[b],
                use_continuity=False,
                alternative="two-sided",
                method="asymptotic",
            )
            if len({*parts[a], *parts[b]}) > 1
            else None
        )
        if u is None:
            assert pair["pvalue"] is None
            continue
        assert pair["pvalue"] == pytest.approx(u.pvalue, rel=1e-7, abs=1e-12)
        chance = u.statistic / (len(parts[a]) * len(parts[b]))
        assert pair["superiority"] == pytest.approx(chance)
        assert pair["cliffs_delta"] == pytest.approx(2 * chance - 1)
        assert (pair["ci_low"] is None) == (pair["note"] is not None)
        if pair["ci_low"] is not None:
            assert 0 < pair["ci_low"] < chance < pair["ci_high"] < 1


def test_the_error_of_superiority_is_brunner_and_munzels() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.lognormal(0, 1, 30), rng.lognormal(0.4, 2, 50)
    frame = pl.DataFrame({"g": ["a"] * 30 + ["b"] * 50, "runtime_s": [*a, *b]})
    pair = compare_runtimes(frame, "g", confidence=0.9).pairs.row(0, named=True)
    t = stats.brunnermunzel(a, b)
    p = pair["superiority"]
    se = (p - 0.5) / -t.statistic * -1
    # their p-value, at their statistic, has their degrees of freedom in it
    low, high = (np.log(x / (1 - x)) for x in (pair["ci_low"], pair["ci_high"]))
    center = np.log(p / (1 - p))
    assert low + high == pytest.approx(2 * center)
    quantile = (high - center) * p * (1 - p) / abs(se)
    assert 1.66 < quantile < 1.68  # Student's t of 50 to 100 degrees of freedom at 0.95


def test_the_p_of_superiority_is_scipys_and_agrees_with_the_interval() -> None:
    rng = np.random.default_rng(6)
    for spread in (0.3, 1, 4):
        for shift in (0.0, 0.3, 0.5, 0.7):
            a, b = rng.normal(0, 1, 20), rng.normal(shift, spread, 60)
            values = np.exp([*a, *b])
            frame = pl.DataFrame({"g": ["a"] * 20 + ["b"] * 60, "runtime_s": values})
            found = compare_runtimes(frame, "g")
            pair = found.pairs.row(0, named=True)
            assert pair["pvalue"] == pytest.approx(stats.brunnermunzel(a, b).pvalue)
            excluded = not pair["ci_low"] <= 0.5 <= pair["ci_high"]
            assert excluded == (pair["pvalue"] < 0.05)
            assert found.test["pvalue"].item() == pair["pvalue"]


def test_permuted_statistics_are_scipys() -> None:
    rng = np.random.default_rng(7)
    for values in (rng.normal(size=11), rng.integers(0, 4, 11).astype(float)):
        smaller = np.arange(11) < 4
        subsets = [np.isin(np.arange(11), one) for one in combinations(range(11), 4)]

        def t(chosen: np.ndarray, values: np.ndarray = values) -> float:
            a, b = values[chosen], values[~chosen]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # no variance
                found = stats.brunnermunzel(a, b)
            chance = (a[:, None] > b).mean() + (a[:, None] == b).mean() / 2
            if chance in {0, 1}:
                return np.inf
            slope = chance * (1 - chance) / max(abs(chance - 0.5), 1e-12)
            return float(abs(found.statistic * np.log(chance / (1 - chance))) * slope)

        every = np.nan_to_num([t(one) for one in subsets], nan=0.0, posinf=np.inf)
        expected = np.mean(every >= t(smaller) * (1 - 1e-9))
        assert permuted_superiority(values, smaller, 0.95)[0] == pytest.approx(expected)


@pytest.mark.parametrize(("small", "large", "spread"), [(6, 400, 3), (10, 400, 3), (12, 40, 1 / 3)])
def test_small_groups_of_other_spread_reject_at_their_level(
    small: int, large: int, spread: float
) -> None:
    rng = np.random.default_rng(8)
    group = np.repeat([0, 1], [small, large])
    rejected = 0
    for _ in range(150):
        values = np.r_[rng.normal(0, spread, small), rng.normal(size=large)]
        found = superiority(group, placements(values, group), None, 0, 1, confidence=0.95)
        rejected += found.pvalue < 0.05
    assert 1 <= rejected <= 15  # 7.5 expected; more has a chance below one in 100


def test_groups_of_other_spread_have_no_other_mean_rank() -> None:
    rng = np.random.default_rng(9)
    group = np.repeat([0, 1, 2], [10, 30, 100])
    rejected = old = 0
    for _ in range(200):
        placed = placements(rng.normal(size=140) * np.array([5, 2, 1])[group], group)
        welch, equal = (
            rank_anova(group, placed, None, confidence=0.95, equal_spreads=equal_spreads)[0]
            for equal_spreads in (False, True)
        )
        rejected += welch.pvalue < 0.05
        old += equal.pvalue < 0.05
    assert 2 <= rejected <= 18  # 10 expected
    assert old > 20  # Kruskal and Wallis' test assumes equal spreads


def make_clustered(rng: np.random.Generator, n: int = 400) -> pl.DataFrame:
    cluster = rng.integers(0, 40, n)
    common = rng.standard_normal(40)[cluster]
    group = rng.integers(0, 2, 40)[cluster]
    runtime = np.exp(common + rng.standard_normal(n) / 2)
    return pl.DataFrame({"g": group, "user": cluster, "runtime_s": runtime})


def test_alike_rows_are_not_taken_for_many() -> None:
    rng = np.random.default_rng(8)
    naive = aware = 0
    for _ in range(60):
        frame = make_clustered(rng)
        naive += compare_runtimes(frame, "g").test["pvalue"].item() < 0.05
        test = compare_runtimes(frame, "g", cluster="user").test.row(0, named=True)
        aware += test["pvalue"] < 0.05
        assert test["n_clusters"] == 40
        assert test["n_effective"] < 200
    assert naive > 25
    assert aware < 9  # 3 are expected; 9 or more has a chance below one in 200


def test_clusters_of_one_row_are_as_independent_rows() -> None:
    rng = np.random.default_rng(9)
    frame = pl.DataFrame(
        {"g": rng.integers(0, 3, 500), "row": np.arange(500), "runtime_s": rng.lognormal(0, 1, 500)}
    )
    plain, own = compare_runtimes(frame, "g"), compare_runtimes(frame, "g", cluster="row")
    for name in ("epsilon_squared", "statistic", "df", "pvalue", "ci_high", "n_effective"):
        assert own.test[name].item() == pytest.approx(plain.test[name].item(), rel=0.05)
    np.testing.assert_allclose(own.pairs["ci_low"], plain.pairs["ci_low"], rtol=0.02)
    np.testing.assert_allclose(own.groups["ci_low"], plain.groups["ci_low"], rtol=0.1)


def test_a_planted_difference_is_found_and_told() -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {"g": ["a"] * 300 + ["b"] * 300, "runtime_s": [*rng.random(300), *(rng.random(300) + 0.5)]}
    )
    found = compare_runtimes(frame, "g")
    pair = found.pairs.row(0, named=True)
    assert pair["ci_low"] < 0.125 < pair["ci_high"]  # half of the square of one half
    assert "P(first is longer)" in str(found)
    assert found.groups["median_s"].to_list() == pytest.approx([0.5, 1.0], abs=0.1)


def test_holm_and_benjamini_hochberg_as_published(published: dict[str, Any]) -> None:
    known = published["adjusted"]
    for method in ("fdr_bh", "holm"):
        adjusted = adjust_pvalues([*known["pvalues"], np.nan], method=method)
        assert np.isnan(adjusted[-1])
        assert (adjusted[:-1] < 0.05).sum() == known[f"rejected_{method}"]
    # by the definition of Holm's
    adjusted = adjust_pvalues([0.01, 0.04, 0.03], method="holm")
    np.testing.assert_allclose(adjusted, [0.03, 0.06, 0.06])
    adjusted = adjust_pvalues([0.01, 0.04, 0.03], method="fdr_bh")
    np.testing.assert_allclose(adjusted, [0.03, 0.04, 0.04])


def test_what_cannot_be_compared_is_null_with_its_reason() -> None:
    equal = compare_runtimes(pl.DataFrame({"g": [1, 1, 2, 2], "runtime_s": [3.0] * 4}), "g")
    assert equal.test["note"].item() == "all runtimes are equal"
    assert equal.test["pvalue"].item() is None
    assert "all runtimes are equal" in str(equal)
    apart = compare_runtimes(
        pl.DataFrame({"g": ["a", "a", "b", "b", "c", None], "runtime_s": [1.0, 2, 3, 4, 5, None]}),
        "g",
    )
    assert apart.pairs["ci_low"].to_list() == [0, None, None]
    assert apart.pairs["note"][1] == "no interval: all runtimes of one group are longer"
    assert apart.pairs["superiority"].to_list() == [0, 0, 0]
    assert apart.test["ci_low"].item() is None
    assert apart.groups["n_missing"].to_list() == [0, 0, 0, 1]
    assert "no interval" in str(apart)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"by": "one"}, "one has 1 group of comparable rows; from 2 to 50"),
        ({"by": "row"}, "row has 60 groups"),
        ({"by": ()}, "by names no column"),
        ({"by": "g", "cluster": "one"}, "column one has one cluster"),
        ({"by": "g", "adjust": "sidak"}, "adjust must be one of none, bonferroni, holm"),
        ({"by": "g", "confidence": 95}, "confidence must lie between 0 and 1"),
        ({"by": "none"}, "column none is missing"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], text: str) -> None:
    frame = pl.DataFrame(
        {"g": [0, 1] * 30, "one": [1] * 60, "row": range(60), "runtime_s": np.arange(60.0)}
    )
    with pytest.raises(DataError, match=text):
        compare_runtimes(frame, options.pop("by"), **options)


@pytest.mark.parametrize("bad", [np.inf, -1.0])
def test_what_cannot_be_a_runtime_is_refused(bad: float) -> None:
    with pytest.raises(DataError, match="column runtime_s holds"):
        compare_runtimes(pl.DataFrame({"g": [1, 2], "runtime_s": [1.0, bad]}), "g")
    nothing = pl.DataFrame({"g": [1, 2], "runtime_s": [None, None]})
    with pytest.raises(DataError, match="g has 0 groups"):
        compare_runtimes(nothing, "g")


def test_p_of_a_group_of_five_rows_is_approximate() -> None:
    x = np.random.default_rng(3).lognormal(0, 1, 18)
    for few, text in ((5, "a group has fewer than 6 rows: p is approximate"), (6, None)):
        frame = pl.DataFrame({"g": np.repeat([0, 1, 2], [few, 12 - few, 6]), "runtime_s": x})
        assert compare_runtimes(frame, "g").test["note"].item() == text
        assert compare_runtimes(frame, "g", method="mann-whitney").test["note"].item() is None
        users = frame.with_columns(user=pl.int_range(pl.len()))
        assert compare_runtimes(users, "g", cluster="user").test["note"].item() is None


@pytest.mark.parametrize(("users", "tested"), [(9, False), (10, True)])
def test_few_clusters_have_no_rank_anova(users: int, tested: bool) -> None:
    rows = pl.int_range(30 * users)
    frame = pl.select(user=rows % users, g=rows % 3 + 0 * rows, runtime_s=(rows * 7919) % 1009 + 1)
    test = compare_runtimes(frame, "g", cluster="user").test.row(0, named=True)
    known = [test[name] is not None for name in ("pvalue", "ci_low", "ci_high")]
    assert known == [tested] * 3
    assert test["note"] == (
        None if tested else "equivalent to 9.0 units of equal size; 10 are needed"
    )
    assert test["epsilon_squared"] is not None


def test_three_against_three_are_exact() -> None:
    # 20 permutations, 2 as extreme as groups that do not overlap
    frame = pl.DataFrame({"g": list("aaabbb"), "runtime_s": [1.0, 2, 3, 4, 5, 6]})
    found = compare_runtimes(frame, "g")
    assert found.test["pvalue"].item() == pytest.approx(0.1)
    assert found.pairs["pvalue"].item() == pytest.approx(0.1)
    # the score interval of Newcombe, 2006, method 5
    t = found.pairs["ci_high"].item()
    variance = t * (1 - t) * (1 + 2 * ((1 - t) / (2 - t) + t / (1 + t))) / 9
    assert found.pairs["ci_low"].item() == 0
    assert t == pytest.approx(max(0.5, 1.959964 * variance**0.5), rel=1e-6)


@pytest.mark.parametrize("rows", [15, 3000])
def test_groups_that_do_not_overlap_have_the_smallest_p(rows: int) -> None:
    values, first = np.arange(2.0 * rows), np.arange(2 * rows) < rows
    found = compare_runtimes(pl.DataFrame({"g": first, "runtime_s": values}), "g").pairs
    # none of 9,999 permutations is as extreme: 2 of 155,117,520 are, of 15 rows each
    assert found["pvalue"].item() == pytest.approx(1e-4)
    assert permuted_superiority(values[:30], values[:30] < 15, 0.95)[0] == pytest.approx(1e-4)
    assert found["ci_low"].item() > 0.8


@pytest.mark.parametrize(("n", "m", "spread"), [(7, 7, 4.0), (30, 60, 4.0), (40, 16, 0.25)])
def test_unequal_spreads_keep_the_level_and_p_agrees_with_its_interval(
    n: int, m: int, spread: float
) -> None:
    rng = np.random.default_rng(12)
    rejected = 0
    for _ in range(200):
        x = np.exp([*rng.normal(0, 1, n), *rng.normal(0, spread, m)])
        pair = compare_runtimes(pl.DataFrame({"g": ["a"] * n + ["b"] * m, "runtime_s": x}), "g")
        row = pair.pairs.row(0, named=True)
        rejected += row["pvalue"] < 0.05
        if row["ci_low"] is not None:
            excluded = not row["ci_low"] <= 0.5 <= row["ci_high"]
            assert (row["pvalue"] < 0.05) == excluded
    assert rejected <= 20  # 10 are expected; more than 20 has a chance below one in 500


def test_superiority_of_clusters_of_very_unequal_sizes_covers() -> None:
    rng = np.random.default_rng(12)
    covered, chance = 0, stats.norm.cdf(-0.7 / np.sqrt(2))
    for _ in range(150):
        size = np.ceil(4 * (1 + rng.pareto(1.5, 60))).astype(int)
        cluster = np.repeat(np.arange(60), size)
        group = (np.arange(60) % 2)[cluster]
        own = np.sqrt(0.3) * rng.standard_normal(60)[cluster]
        values = own + np.sqrt(0.7) * rng.standard_normal(len(cluster)) + 0.7 * group
        found = superiority(group, placements(values, group), cluster, 0, 1, confidence=0.95)
        covered += not (found.ci_low > chance or found.ci_high < chance)
    assert covered >= 150 * 0.95 - 3 * np.sqrt(150 * 0.95 * 0.05)
