"""Numbers at which an analysis of outcomes adds a note or refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats

import traceana
from tests.questions.defaults import numbers_by_default
from traceana.cohorts.observation import estimate_unlisted
from traceana.errors import DataError
from traceana.questions.failures.curves import incidence_and_survival
from traceana.questions.failures.events import Columns
from traceana.questions.failures.model import make_design, variance_inflation, why_not_comparable

WORDS = {True: "failed", False: "completed"}


def jobs(group: str, failures: int, successes: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"group": group, "status": ["failed"] * failures + ["completed"] * successes}
    )


@pytest.mark.parametrize(
    ("failures", "note"),
    [
        (0, "the ratio is 0 or infinite: within strata one group never or always failed"),
        (4, "fewer than 5 rows with an outcome in a group: interval and p are approximate"),
        (5, None),
    ],
)
def test_odds_of_few_failures_have_a_note(failures: int, note: str | None) -> None:
    both = pl.concat([jobs("a", failures, 40), jobs("b", 20, 20)])
    found = traceana.failure_odds(both, "group", strata=()).row(0, named=True)
    assert (found["group"], found["group_reference"]) == ("a", "b")
    assert (found["n"], found["failures"], found["n_reference"]) == (40 + failures, failures, 40)
    assert found["note"] == note
    if failures:
        assert found["odds_ratio"] == pytest.approx(failures / 40)


@pytest.mark.parametrize(
    ("clusters", "note"),
    [(99, "fewer than 100 clusters: interval and p are conservative"), (100, None)],
)
def test_odds_of_few_clusters_have_a_note(clusters: int, note: str | None) -> None:
    of = np.repeat(np.arange(clusters), 4)
    group, failed = np.tile([0, 0, 1, 1], clusters), np.random.default_rng(1).random(4 * clusters)
    rows = pl.DataFrame(
        {"group": group, "user": of, "status": [WORDS[bool(x < 0.4)] for x in failed]}
    )
    found = traceana.failure_odds(rows, "group", strata=(), cluster="user").row(0, named=True)
    assert found["n_clusters"] == clusters
    assert found["note"] == note


@pytest.mark.parametrize("groups", [1, 2, 50, 51])
def test_from_2_to_50_groups_are_compared(groups: int) -> None:
    rows = pl.DataFrame(
        {
            "group": np.arange(groups * 2) % groups,
            "status": ["failed"] * groups + ["completed"] * groups,
        }
    )
    if 2 <= groups <= 50:
        assert traceana.failure_odds(rows, "group", strata=()).height == groups - 1
    else:
        with pytest.raises(DataError, match="from 2 to 50 are needed"):
            traceana.failure_odds(rows, "group", strata=())


@pytest.mark.parametrize(("inside", "overlaps"), [(4, False), (5, True)])
def test_groups_overlap_from_5_percent_on(inside: int, overlaps: bool) -> None:
    # the larger of both fractions counts: of 100 rows of a so many lie in the range of b
    numbers = np.concatenate([np.arange(100 - inside) - 200.0, np.full(inside, 5.0)])
    rows = pl.DataFrame(
        {
            "g": ["a"] * 100 + ["b"] * 100,
            "x": np.concatenate([numbers, np.linspace(4.0, 1e6, 100)]),
            "c": ["p"] * (100 - inside) + ["q"] * (100 + inside),
        }
    )
    term = {"feature": "g", "level": "a", "reference": "b"}
    note = "not comparable: no common support in x (-200 to 5 against 4 to 1e+06)"
    assert why_not_comparable(rows, term, ("g", "x")) == (None if overlaps else note)
    # all of b are in the level of a few of a
    assert why_not_comparable(rows, term, ("g", "c")) is None
    apart = rows.with_columns(c=pl.when(pl.col("g") == "a").then(pl.lit("p")).otherwise("c"))
    assert why_not_comparable(apart, term, ("c",)) == (
        "not comparable: no common support in c (other levels)"
    )


def test_the_variance_inflation_is_one_over_what_the_others_leave() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(200, 3)) @ np.array([[1.0, 0.5, 0], [0, 1, 0.8], [0, 0, 1]])
    found = variance_inflation(np.column_stack([np.ones(200), x]))
    for column in range(3):
        others = np.column_stack([np.ones(200), np.delete(x, column, axis=1)])
        rest = x[:, column] - others @ np.linalg.lstsq(others, x[:, column], rcond=None)[0]
        assert found[column] == pytest.approx(x[:, column].var() / rest.var())
    alone = variance_inflation(np.column_stack([np.ones(9), np.arange(9.0)]))
    assert alone.tolist() == [1]


def test_the_odds_of_both_groups_are_counted() -> None:
    both = pl.concat([jobs("a", 6, 40), jobs("b", 20, 30)])
    row = traceana.failure_odds(both, "group", strata=()).row(0, named=True)
    assert (row["group_reference"], row["n_reference"], row["failures_reference"]) == ("b", 50, 20)


def test_equal_rates_of_few_rows_have_a_p_of_1() -> None:
    both = pl.concat([jobs("a", 2, 4), jobs("b", 2, 4)])
    row = traceana.outcome_association(both, "group").row(0, named=True)
    assert row["pvalue"] == 1
    assert row["method"] == "Monte Carlo, 9,999 tables"


def test_from_the_101st_on_clusters_are_combined() -> None:
    of = np.repeat(np.arange(101), 3)
    rng = np.random.default_rng(8)
    rows = pl.DataFrame(
        {"user": of, "runtime_s": rng.exponential(60, 303) + of, "status": "failed"}
    )
    joined = rows.with_columns(pl.col("user").replace(100, 0))
    for ask, part in ((traceana.kaplan_meier, "groups"), (traceana.cumulative_incidence, "groups")):
        each, both = (getattr(ask(frame, cluster="user"), part) for frame in (rows, joined))
        assert (each["n_clusters"][0], both["n_clusters"][0]) == (101, 100)
        for name in ("ci_low", "ci_high", "restricted_ci_low"):
            if name in each.columns:
                assert each[name].to_list() == pytest.approx(both[name].to_list())


def test_two_runtimes_have_an_interval_and_equal_ones_no_skewness() -> None:
    frame = pl.DataFrame({"group": ["a", "a", "b", "c", "c"], "runtime_s": [1.0, 3, 5, 7, 7]})
    means = traceana.runtime_means(frame, by="group")
    assert means["note"].to_list() == [None, "fewer than two runtimes: no interval", None]
    assert means["geometric_ci_low"].null_count() == 1


def test_the_brier_score_of_the_rate_alone_is_its_variance() -> None:
    rng = np.random.default_rng(2)
    rows = pl.DataFrame({"x": rng.normal(size=120), "status": ["failed"] * 30 + ["completed"] * 90})
    fit = traceana.failure_model(rows, features="x").fit.row(0, named=True)
    assert fit["brier_of_rate"] == pytest.approx(0.25 * 0.75)


def test_cliffs_delta_is_the_difference_of_both_chances() -> None:
    frame = pl.DataFrame({"g": list("aaabbb"), "runtime_s": [5.0, 6, 9, 1, 7, 2]})
    compared = traceana.compare_runtimes(frame, by="g")
    # of nine pairs a is the longer in seven
    row = compared.pairs.row(0, named=True)
    assert (compared.test["n_groups"].item(), compared.test["n"].item()) == (2, 6)
    assert (row["superiority"], row["cliffs_delta"]) == (pytest.approx(7 / 9), pytest.approx(5 / 9))
    assert compared.groups["mean_rank"].to_list() == pytest.approx(
        [(3 + 4 + 6) / 3, (1 + 5 + 2) / 3]
    )
    apart = frame.with_columns(runtime_s=pl.Series([7.0, 8, 9, 1, 2, 3]))
    for turned in (apart, apart.reverse().with_columns(g=pl.Series(list("aaabbb")))):
        pair = traceana.compare_runtimes(turned, by="g").pairs.row(0, named=True)
        # permutations of three and three cannot reject 1/2
        assert pair["ci_low"] <= 0.5 <= pair["ci_high"]
        assert pair["note"] is None


def test_the_restricted_mean_of_ended_rows_has_students_interval() -> None:
    seconds = np.random.default_rng(1).gamma(4, 0.1, 60).round(3)
    rows = pl.DataFrame({"runtime_s": seconds, "status": "failed"})
    row = traceana.kaplan_meier(rows).groups.row(0, named=True)
    assert row["restricted_mean_s"] == pytest.approx(seconds.mean())
    expected = scipy.stats.t.interval(0.95, 59, seconds.mean(), scipy.stats.sem(seconds))
    assert (row["restricted_ci_low"], row["restricted_ci_high"]) == pytest.approx(expected)
    assert row["note"] is None


@pytest.mark.parametrize(("n", "longer", "skewed"), [(53, 11, False), (54, 11, True)])
def test_a_restricted_mean_of_fewer_rows_than_25_squares_of_skewness_has_a_note(
    n: int, longer: int, skewed: bool
) -> None:
    seconds = np.repeat([1.0, 2], [n - longer, longer])
    assert (n < 25 * scipy.stats.skew(seconds) ** 2) == skewed
    note = traceana.kaplan_meier(pl.DataFrame({"runtime_s": seconds, "status": "failed"})).groups
    why = "skewed: the interval of the restricted mean is too narrow"
    assert note["note"].item() == (why if skewed else None)


@pytest.mark.parametrize("horizon_s", [0, -1, np.inf, "1"])
def test_a_horizon_is_a_positive_number(horizon_s: Any) -> None:
    rows = pl.DataFrame({"runtime_s": [1.0, 2], "status": "failed"})
    with pytest.raises(DataError, match="horizon_s must be a positive number of seconds"):
        traceana.kaplan_meier(rows, horizon_s=horizon_s)
    assert traceana.kaplan_meier(rows, horizon_s=0.5).groups["restricted_mean_s"].item() == 0.5


def test_the_lower_end_of_a_survival_of_0_is_0() -> None:
    rows = pl.DataFrame({"runtime_s": np.arange(1.0, 21), "status": "failed"})
    found = traceana.kaplan_meier(rows, quantiles=(0.999,)).quantiles.row(0, named=True)
    # of 20 the lower end before the last is exp(log(.05) exp(1.96 error)) = .0035: above .001
    assert (found["time_s"], found["ci_low"], found["ci_high"]) == (20, 20, None)


def test_a_feature_may_be_as_large_as_the_largest_number() -> None:
    rows = pl.DataFrame({"x": [1e150, 0, 1, 2], "failure": [True, False, True, False]})
    column = make_design(rows, ["x"]).matrix[:, 1]
    assert column == pytest.approx(np.array([3, -1, -1, -1]) / np.sqrt(3))
    with pytest.raises(DataError, match="column x holds a value beyond"):
        make_design(rows.with_columns(pl.col("x") * 1.1), ["x"])


def test_the_size_of_a_sample_of_runtimes_does_not_depend_on_their_unit() -> None:
    of = np.repeat(np.arange(30), 4)
    rng = np.random.default_rng(3)
    seconds = rng.gamma(4, 10, 120) + rng.gamma(4, 10, 30)[of]
    rows = pl.DataFrame({"runtime_s": seconds, "g": 1, "of": of})
    few = rows.with_columns(pl.col("runtime_s") * 1e-3)
    sizes = [
        traceana.runtime_by(each, "g", cluster="of")["n_effective"].item() for each in (rows, few)
    ]
    assert sizes[0] < 120
    assert sizes[1] == pytest.approx(sizes[0])


def test_a_skewed_sample_with_a_deviation_below_its_mean_has_a_note() -> None:
    seconds = 100 + np.random.default_rng(4).gamma(1, 10, 40)
    skewness = scipy.stats.skew(seconds)
    assert 25 * skewness**2 > 40
    note = traceana.runtime_by(pl.DataFrame({"runtime_s": seconds, "g": 1}), "g")["note"].item()
    assert f"(skewness {skewness:.1f})" in note


def test_incidence_and_survival_of_rows_counted_once_are_those_counted_twice() -> None:
    rng = np.random.default_rng(6)
    rows = pl.DataFrame(
        {
            "status": rng.choice(["completed", "failed", "running"], 60),
            "runtime_s": rng.integers(1, 30, 60).astype(float),
            "g": np.arange(60) % 2,
        }
    )
    columns = Columns("status", "runtime_s")
    names = ("completed", "failed")
    both = incidence_and_survival(rows, ("g",), names, columns=columns, cluster=None)
    incidence = traceana.cumulative_incidence(rows, by="g", events=names)
    survival = traceana.kaplan_meier(rows, by="g")
    for found, expected in (
        (both[0].curves, incidence.curves),
        (both[0].groups, incidence.groups),
        (both[1].curves, survival.curves),
        (both[1].quantiles, survival.quantiles),
    ):
        assert found.equals(expected)


def test_numbers_by_default() -> None:
    names = (
        "outcome_association",
        "compare_runtimes",
        "cumulative_incidence",
        "kaplan_meier",
        "runtime_means",
        "failure_model",
        "failure_odds",
        "outcome_rates",
        "failure_rates",
        "runtime_by",
        "variance_fraction",
    )
    beside: dict[str, dict[str, float]] = {
        "outcome_association": {"rng": 1},
        "runtime_means": {"trim": 0.2},
        "failure_model": {"rng": 1},
    }
    functions = (getattr(traceana, name) for name in names)
    assert numbers_by_default(*functions) == {
        name: {"confidence": 0.95, **beside.get(name, {})} for name in names
    }


def test_two_clusters_are_enough_to_count_and_one_is_not() -> None:
    rows = pl.DataFrame({"group": list("abab"), "user": [1, 1, 2, 2], "runtime_s": [1.0, 5, 2, 9]})
    assert traceana.compare_runtimes(rows, by="group", cluster="user").test["n_clusters"][0] == 2
    with pytest.raises(DataError, match="user has one cluster of comparable rows"):
        traceana.compare_runtimes(rows.with_columns(user=1), by="group", cluster="user")


def test_a_group_of_one_row_is_too_few_for_an_interval() -> None:
    frame = pl.DataFrame({"group": list("abbb"), "runtime_s": [5.0, 1, 7, 9]})
    row = traceana.compare_runtimes(frame, by="group").pairs.row(0, named=True)
    assert (row["superiority"], row["ci_low"]) == (pytest.approx(1 / 3), None)
    assert row["note"] == "no interval: a group has too few rows or one cluster"


def test_unlisted_rows_are_counted_by_lynden_bells_weights() -> None:
    # runtimes 1, 2, 5 with 2, 10, 5 s left: at risk in reversed time are 2 rows at 5, 2 at 2 and
    # 1 at 1; F(2) is 1 / 2 and F(5) is 1, so that the row with 2 s left stands for 2
    rows = pl.DataFrame({"start_s": [0.0, 8, 5], "runtime_s": [2.0, 1, 5]})
    assert estimate_unlisted(rows, "start_s", 10) == pytest.approx(1)
    # F below the only row at risk is 0, and the other one says nothing
    assert estimate_unlisted(rows[1:], "start_s", 10) == 0
    # a clock may be off by a second
    late = [
        estimate_unlisted(rows.with_columns(runtime_s=pl.Series([2.0, 1, end])), "start_s", 10)
        for end in (6.0, 6.5)
    ]
    assert late == [pytest.approx(1), None]
    assert estimate_unlisted(rows.clear(), "start_s", 10) is None


@pytest.mark.parametrize(("n", "few"), [(19, True), (20, False)])
def test_a_restricted_mean_of_fewer_than_20_rows_has_a_note(n: int, few: bool) -> None:
    rows = pl.DataFrame({"runtime_s": np.arange(1.0, n + 1), "status": "failed"})
    note = "fewer than 20 rows: the interval of the restricted mean may be too narrow"
    assert traceana.kaplan_meier(rows).groups["note"].item() == (note if few else None)


def test_equal_runtimes_have_a_mean_without_an_interval() -> None:
    rows = pl.DataFrame({"runtime_s": [7.0] * 3, "status": "failed"})
    row = traceana.kaplan_meier(rows).groups.row(0, named=True)
    assert (row["restricted_mean_s"], row["restricted_ci_low"]) == (7, None)


def test_a_value_of_0_has_no_logarithm() -> None:
    rng = np.random.default_rng(9)
    rows = pl.DataFrame({"v": rng.lognormal(size=40), "of": np.arange(40) % 8})
    more = pl.concat([rows, rows.head(3).with_columns(v=0.0)])
    known, found = (
        traceana.variance_fraction(frame, value="v", cluster="of", log=True).row(0, named=True)
        for frame in (rows, more)
    )
    assert found.pop("n_missing") - known.pop("n_missing") == 3
    assert found == known


@pytest.mark.parametrize(
    ("failures", "method"), [(5, "chi-squared"), (4, "Monte Carlo, 9,999 tables")]
)
def test_five_expected_rows_in_each_cell_have_an_asymptotic_test(
    failures: int, method: str
) -> None:
    both = pl.concat([jobs("a", failures, 10 - failures), jobs("b", failures, 10 - failures)])
    row = traceana.outcome_association(both, "group").row(0, named=True)
    assert row["method"] == method


def test_nothing_may_be_trimmed() -> None:
    rows = pl.DataFrame({"runtime_s": [1.0, 2, 9]})
    assert traceana.runtime_means(rows, trim=0)["trimmed_mean_s"].item() == 4
    for trim in (-0.1, 0.5):
        with pytest.raises(DataError, match="trim must be from 0 to below"):
            traceana.runtime_means(rows, trim=trim)
