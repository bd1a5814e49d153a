"""Numbers at which a correlation has another test, an interval or a note."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats

from tests.questions.defaults import numbers_by_default
from traceana import correlate, failure_correlations, implied_n, joint_counts, runtime_correlations
from traceana.errors import DataError


def line_of(x: Any, y: Any, **options: Any) -> dict[str, Any]:
    rows = pl.DataFrame({"x": x, "y": y} | options.pop("more", {}))
    found: dict[str, Any] = correlate(rows, "x", "y", **options).table.row(0, named=True)
    return found


def with_tails(n: int, some: int, at: int) -> np.ndarray:
    """Numbers of excess kurtosis n / some - 3: so many are 1 or -1, the others 0."""
    return np.repeat([0.0, 1, -1, 0], [at, some // 2, some // 2, n - some - at])


@pytest.mark.parametrize(("some", "permuted"), [(44, False), (42, True)])
def test_p_is_of_permutations_if_the_product_of_the_kurtoses_is_above_a_tenth_of_n(
    some: int, permuted: bool
) -> None:
    x, y = with_tails(400, 42, 0), with_tails(400, some, 15)
    assert ((400 / 42 - 3) * (400 / some - 3) > 40) == permuted
    line = line_of(x, y)
    assert (line["pvalue"] != line["pvalue_t"]) == permuted


def test_p_of_two_outliers_in_one_row_is_near_their_chance_to_meet() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(0, 0.1, size=(2, 50))
    x[0], y[0] = 1, 1
    drawn = rng.permuted(np.tile(x - x.mean(), (20_000, 1)), axis=1) @ y
    above = np.mean(drawn >= (x - x.mean()) @ y)
    line = line_of(x, y)
    assert line["pvalue"] == pytest.approx(2 * above, rel=0.3)
    assert line["pvalue_t"] < line["pvalue"] / 4


def test_a_line_has_no_interval() -> None:
    x = np.repeat([-1.0, 1], 8)
    line = line_of(x, 2 * x)
    assert (line["r"], line["ci_low"], line["ci_high"]) == (1, None, None)
    assert line["note"] == "all rows are on a line: no interval"
    assert (line["n_carrying"], line["r_without"]) == (None, None)
    line = line_of(np.arange(9.0), np.arange(9.0) ** 3, method="kendall")
    assert (line["r"], line["note"]) == (1, "all pairs have the same order: no interval")


def test_rows_carry_a_correlation_that_differs_from_none_only() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 40))
    x[0], y[0] = 2.5, 2.5
    r, p = scipy.stats.pearsonr(x, y)
    line = line_of(x, y)
    assert (line["r"], line["pvalue"]) == pytest.approx((r, p))
    assert p > 0.05
    assert (line["n_carrying"], line["r_without"]) == (None, None)


@pytest.mark.parametrize(("sizes", "known"), [((12, 4, 1, 1), False), ((11, 4, 1, 1), True)])
def test_a_published_p_needs_more_than_two_effective_groups(
    sizes: tuple[int, ...], known: bool
) -> None:
    n = sum(sizes)
    assert (n**2 / sum(size**2 for size in sizes) > 2) == known
    y = np.random.default_rng(2).normal(size=n)
    line = line_of(np.repeat(np.arange(4.0), sizes), y, level="group_mean_weighted")
    assert (line["pvalue_t"] is not None) == known


def test_the_interval_in_clusters_is_students_with_one_degree_less_than_clusters() -> None:
    rng = np.random.default_rng(7)
    of = np.repeat(np.arange(12), 5)
    x = rng.normal(size=60) + rng.normal(size=12)[of]
    y = x + rng.normal(size=60) + rng.normal(size=12)[of]
    r = np.corrcoef(x, y)[0, 1]
    left = [np.arctanh(np.corrcoef(x[of != one], y[of != one])[0, 1]) for one in range(12)]
    error = np.sqrt(11 / 12 * np.sum((np.array(left) - np.mean(left)) ** 2))
    half = scipy.stats.t.ppf(0.975, 11) * error
    line = line_of(x, y, more={"of": of}, cluster="of")
    expected = np.tanh([np.arctanh(r) - half, np.arctanh(r) + half])
    assert (line["ci_low"], line["ci_high"]) == pytest.approx(expected, rel=1e-6)


def test_so_many_points_that_a_double_does_not_number_them_are_none() -> None:
    # r of 5e-8 with p of 5 % would need (1.96 / 5e-8)^2 = 1.5e15 points
    assert implied_n("5.0e-8", "5.0e-2").low is None
    found = implied_n("1.0e-7", "5.0e-2")
    assert found.low is not None
    assert found.low == pytest.approx((scipy.stats.norm.isf(0.0505 / 2) / 1.05e-7) ** 2, rel=0.01)


def test_r_of_a_line_is_at_most_1_in_clusters_too() -> None:
    for n in range(40, 70):
        x = 0.1 * np.arange(n)
        for sign in (1, -1):
            line = line_of(x, sign * x / 3, more={"of": np.arange(n) % 20}, cluster="of")
            assert sign * line["r"] <= 1
    for n in (40, 43, 44, 51):  # by a rounding
        assert line_of(0.1 * np.arange(n), -0.1 * np.arange(n) / 3)["r"] >= -1


def test_each_status_must_be_known() -> None:
    rows = pl.DataFrame({"gpus": [1, 2, 4, 8], "runtime_s": [6, 5, 9, 20], "status": "completed"})
    with pytest.raises(DataError, match="success names status 'DONE'; statuses are"):
        runtime_correlations(rows, success=("completed", "DONE"))


def test_one_row_decides_the_error_of_r() -> None:
    x, y = np.random.default_rng(6).normal(size=(2, 20))
    x[0], y[0] = 40, 40
    line = line_of(x, y)
    assert (line["ci_low"], line["ci_high"]) == (None, None)
    assert line["note"] == "one row decides r: no interval"


def test_r_in_clusters_does_not_depend_on_the_unit() -> None:
    x, y = np.random.default_rng(7).normal(size=(2, 60))
    of = np.arange(60) % 20
    units = (1.0, 1e-6, 1e6)
    found = [line_of(x * unit, y * unit, more={"of": of}, cluster="of")["r"] for unit in units]
    assert found == pytest.approx([np.corrcoef(x, y)[0, 1]] * 3)


def test_p_of_1_is_reached_by_an_r_of_nearly_0() -> None:
    assert implied_n("1e-20", "1").low == 3


def test_a_row_carries_all_of_an_r_of_1() -> None:
    for n in (41, 64):  # r is 1, or less by a rounding
        line = line_of(np.append(np.zeros(n - 1), n), np.append(np.zeros(n - 1), n))
        assert line["r"] == pytest.approx(1)
        assert (line["n_carrying"], line["r_without"]) == (1, 0)


def test_runtime_correlations_draw_the_same_by_default() -> None:
    gpus = np.repeat(np.arange(1, 13), 3)
    runtime = gpus * np.random.default_rng(4).lognormal(4, 1, 36)
    rows = pl.DataFrame({"gpus": gpus, "runtime_s": runtime, "status": "completed"})
    default, same, other = (
        found.table["pvalue"].to_list()
        for found in (
            runtime_correlations(rows),
            runtime_correlations(rows, rng=1),
            runtime_correlations(rows, rng=2),
        )
    )
    assert default == same
    assert default != other


def test_numbers_by_default() -> None:
    of_tests = {"confidence": 0.95, "resamples": 200, "rng": 1}
    assert numbers_by_default(
        correlate, failure_correlations, runtime_correlations, joint_counts
    ) == {
        "correlate": of_tests,
        "failure_correlations": of_tests,
        "runtime_correlations": of_tests,
        "joint_counts": {"bins": 40},
    }


@pytest.mark.parametrize("of_row", [-3.0, 0.1])
def test_a_row_without_which_x_is_constant_decides_r(of_row: float) -> None:
    x, y = np.zeros(20), np.random.default_rng(1).normal(size=20)
    x[3], y[3] = 1, y.mean() + of_row
    line = line_of(x, y)
    assert (line["r"], line["ci_low"]) == (pytest.approx(np.corrcoef(x, y)[0, 1]), None)
    assert line["note"] == "one row decides r: no interval"


def test_the_largest_number_is_a_value() -> None:
    x, y = [1.0, 2, 3, 4, 1e150], [1.0, 2, 3, 1e150, 4]
    line = line_of(x, y, method="spearman")
    # of the ranks two are exchanged: 1 - 6 (1 + 1) / (5 * 24)
    assert (line["n"], line["r"], line["note"]) == (5, pytest.approx(0.9), None)
    assert line_of(x, np.array(y) * 1.1)["note"].startswith("1 row(s) with a value beyond 1e+150")


@pytest.mark.parametrize(("n_clusters", "tested"), [(19, False), (20, True)])
def test_a_mean_of_group_means_needs_20_clusters(n_clusters: int, tested: bool) -> None:
    of = np.repeat(np.arange(n_clusters), 4)  # each has one row of each group
    y = np.random.default_rng(2).normal(size=4 * n_clusters)
    x = np.tile([-3.0, -1, 1, 3], n_clusters)
    line = line_of(x, y, more={"of": of}, cluster="of", level="group_mean")
    assert (line["pvalue"] is not None) == tested
    why = "no test (fewer than 20 units of equal size decide the group means)"
    assert line["note"].startswith(why) != tested


@pytest.mark.parametrize(("n_clusters", "few"), [(29, True), (30, False)])
def test_an_interval_of_fewer_than_30_clusters_has_a_note(n_clusters: int, few: bool) -> None:
    x, y = np.random.default_rng(3).normal(size=(2, 4 * n_clusters))
    line = line_of(x, y, more={"of": np.arange(4 * n_clusters) // 4}, cluster="of")
    why = "equivalent to fewer than 30 units of equal size: the interval may be too narrow"
    assert line["note"] == (why if few else None)


@pytest.mark.parametrize(
    ("method", "n", "permuted"),
    [("spearman", 9, True), ("spearman", 10, False), ("pearson", 9, False)],
)
def test_p_of_up_to_nine_ranks_is_of_all_permutations(method: str, n: int, permuted: bool) -> None:
    line = line_of(*np.random.default_rng(7).normal(size=(2, n)), method=method)
    assert (line["pvalue"] != line["pvalue_t"]) == permuted


@pytest.mark.parametrize(("n", "heavy"), [(52, False), (53, True)])
def test_an_excess_kurtosis_above_10_has_a_note(n: int, heavy: bool) -> None:
    # n / 4 - 3
    line = line_of(with_tails(n, 4, 0), np.random.default_rng(1).normal(size=n))
    assert line["note"] == ("heavy tails: the interval may be too narrow" if heavy else None)


def test_as_many_clusters_as_resamples_are_left_out_one_by_one() -> None:
    x, y = np.random.default_rng(8).normal(size=(2, 240))
    more = {"of": np.arange(240) % 120}
    found = [line_of(x, y, more=more, cluster="of", resamples=n) for n in (120, 121)]
    assert found[0] == found[1]


def test_rows_carry_pearsons_r_alone() -> None:
    x, y = np.random.default_rng(6).normal(size=(2, 40))
    x[0], y[0] = 40, 40
    assert line_of(x, y)["n_carrying"] == 1
    x += y  # ranks agree as well
    assert line_of(x, y, method="spearman")["pvalue"] < 0.05
    assert line_of(x, y, method="spearman")["n_carrying"] is None


def test_a_p_that_no_double_holds_is_told() -> None:
    x = np.arange(400.0)
    line = line_of(x, x + 0.01 * np.random.default_rng(2).normal(size=400))
    assert line["pvalue"] == np.finfo(float).tiny
    assert "p is below 2.2e-308" in line["note"]


def test_four_rows_have_no_interval_of_kendalls_tau() -> None:
    x, y = [2.0, 0, 0, 0], [0.0, 2, 2, 1]
    line = line_of(x, y, method="kendall")
    assert line["r"] == pytest.approx(scipy.stats.kendalltau(x, y).statistic)
    assert (line["ci_low"], line["ci_high"]) == (None, None)
    assert line["note"] == "no interval: too few rows, or few rows decide r"
