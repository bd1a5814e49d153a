"""Numbers at which a distribution is fitted, compared or described in another way."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.stats

from tests.questions.defaults import numbers_by_default
from traceana import (
    compare_distributions,
    empirical_distribution,
    fit_distributions,
    fitted_quantiles,
    kaplan_meier,
    tail_index,
)
from traceana.errors import DataError
from traceana.questions.runtimes.distributions import read_values

VALUES = np.random.default_rng(11).gamma(1.5, 1000, 300)


@pytest.mark.parametrize("n", [500, 501])
def test_p_of_the_distance_is_exact_up_to_500_values(n: int) -> None:
    x, y = np.random.default_rng(n).lognormal(0, 1, (2, n))
    y = y[:20] * 1.5
    rows = pl.DataFrame({"g": ["x"] * n + ["y"] * 20, "v": np.concatenate([x, y])})
    found = compare_distributions(rows, "v", "g", resamples=1)["ks_pvalue"].item()
    exact, limit = (scipy.stats.ks_2samp(x, y, method=how).pvalue for how in ("exact", "asymp"))
    assert exact != pytest.approx(limit, rel=1e-3)
    assert found == pytest.approx(exact if n == 500 else limit, rel=1e-9)


def test_defaults_of_a_comparison_are_those_documented() -> None:
    rows = pl.DataFrame({"g": ["x"] * 30 + ["y"] * 30, "v": VALUES[:60]})
    found = compare_distributions(rows, "v", "g")
    same = compare_distributions(rows, "v", "g", resamples=499, rng=1, confidence=0.95)
    assert found.equals(same)


def test_criteria_are_twice_and_log_n_times_the_parameters_less_twice_the_likelihood() -> None:
    fits = fit_distributions(VALUES, families=["gamma", "exponential"], resamples=0)
    for row in fits.table.iter_rows(named=True):
        own = fits.params(row["family"])
        likelihood = scipy.stats.gamma(own.get("shape", 1), scale=own["scale"]).logpdf(VALUES).sum()
        assert row["aic"] == pytest.approx(2 * len(own) - 2 * likelihood)
        assert row["bic"] == pytest.approx(np.log(300) * len(own) - 2 * likelihood)
        assert row["note"].startswith("no p: pass resamples")


def test_a_fit_has_the_defaults_documented() -> None:
    one = fit_distributions(VALUES[:40], families=["exponential"])
    same = fit_distributions(
        VALUES[:40],
        families=["exponential"],
        resamples=199,
        rng=1,
        criterion="aic",
        confidence=0.95,
    )
    assert one.table.equals(same.table)
    assert one.parameters.equals(same.parameters)


def test_values_may_be_as_small_as_a_bound_and_that_is_above_0() -> None:
    found = fit_distributions([1, 2, 5], families=["exponential"], truncated_below=1, resamples=0)
    assert found.table["truncated_below"].item() == 1
    for bound in (0, 0.0):
        with pytest.raises(DataError, match="truncated_below must be a positive number"):
            fit_distributions([1, 2], truncated_below=bound)


def test_probabilities_stand_in_the_middles_of_the_steps() -> None:
    fits = fit_distributions(VALUES[:4], families=["exponential"], resamples=0)
    # evenly at 1/3 and 2/3, and 1 - 1/8 and 1 - 1/2: of four values the second to the last
    found = fitted_quantiles(VALUES[:4], fits, points=4)
    assert found["fraction_below"].to_list() == [0.375, 0.625, 0.875]
    every = fit_distributions(VALUES, families=["exponential"], resamples=0)
    found = fitted_quantiles(VALUES, every)
    assert found["fraction_below"].to_list()[-1] == pytest.approx(1 - 0.5 / 300)
    assert found.equals(fitted_quantiles(VALUES, every, points=200, confidence=0.95))
    assert found.height != fitted_quantiles(VALUES, every, points=201).height


@pytest.mark.parametrize("first", [0, 1])
def test_intervals_of_censored_quantiles_are_those_of_the_survival_function(first: int) -> None:
    values, cut = np.sort(VALUES)[::6], np.arange(50) % 4 == first
    fits = fit_distributions(values, families=["gamma"], observed=~cut, resamples=0)
    found = fitted_quantiles(values, fits, observed=~cut, points=20).drop_nulls()
    rows = pl.DataFrame({"runtime_s": values, "observed": ~cut})
    theirs = kaplan_meier(
        rows, status=None, observed="observed", quantiles=found["fraction_below"].to_list()
    ).quantiles
    assert found.height > 5
    for own, other in (("value", "time_s"), ("ci_low", "ci_low"), ("ci_high", "ci_high")):
        np.testing.assert_allclose(found[own], theirs[other])


def test_two_values_have_a_tail() -> None:
    row = tail_index([1, 2]).row(0, named=True)
    assert (row["k"], row["tail_index"]) == (1, pytest.approx(1 / np.log(2)))


def test_values_are_read_from_the_smallest_to_the_largest_number() -> None:
    ends = [1e-150, 1e150]
    assert read_values(ends)[0].tolist() == ends
    for beyond in (0.9e-150, 1.1e150):
        with pytest.raises(DataError, match="are not above 0 and finite"):
            read_values([beyond])
    entered = read_values([2.0, 3.0], None, [0.0, 3.0])[2]
    assert entered is not None
    assert entered.tolist() == [0, 3]
    with pytest.raises(DataError, match="entry must lie from 0 to its value"):
        read_values([2.0], None, [2.5])


def test_an_entry_is_one_number_per_value() -> None:
    for wrong in ([1.0], ["a", "b"]):
        with pytest.raises(DataError, match="entry must be one number per value: 2 values"):
            read_values([1.0, 2.0], None, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "observed", "why"),
    [
        ([], None, "no value"),
        ([1.0, 2], [False, False], "all values are censored"),
        ([1.0, 1], [True, True], "one distinct uncensored value"),
    ],
)
def test_why_nothing_is_fitted(values: list[float], observed: list[bool] | None, why: str) -> None:
    table = fit_distributions(values, observed=observed, families=["gamma"], resamples=0).table
    note = f"{why}: at least two distinct uncensored values are needed"
    assert table["note"].to_list() == [note]


def test_numbers_by_default() -> None:
    assert numbers_by_default(
        compare_distributions,
        empirical_distribution,
        fit_distributions,
        fitted_quantiles,
        tail_index,
    ) == {
        "compare_distributions": {"confidence": 0.95, "resamples": 499, "rng": 1},
        "empirical_distribution": {"points": 101},
        "fit_distributions": {"confidence": 0.95, "rng": 1},
        "fitted_quantiles": {"points": 200, "confidence": 0.95},
        "tail_index": {"confidence": 0.95},
    }


def test_from_1_to_one_less_than_all_values_make_a_tail() -> None:
    found = tail_index([1, 2, 8], k=[1, 2])["tail_index"].to_list()
    assert found == pytest.approx([1 / np.log(8 / 2), 2 / np.log(8 * 2 / 1)])
    for k in (0, 3):
        with pytest.raises(DataError, match="k must lie from 1 to 2"):
            tail_index([1, 2, 8], k=k)


def test_two_distinct_values_are_fitted() -> None:
    table = fit_distributions([1.0, 2, 1, 2], families=["exponential"], resamples=0).table
    assert table["log_likelihood"].item() == pytest.approx(-4 * (np.log(1.5) + 1))
    found = fit_distributions([1.0, 2], families=["exponential"], resamples=0).quantiles
    assert found is not None
    assert found["value"].unique().to_list() == [1, 2]


def test_an_entry_of_0_truncates_nothing() -> None:
    found = fit_distributions([1.0, 2, 3], families=["exponential"], entry=[0, 0.5, 0], resamples=0)
    assert found.table["n_truncated"].item() == 1
    quantiles = fitted_quantiles([1.0, 2, 3], found, entry=[0, 0.5, 0])
    assert quantiles["value"].unique().to_list() == pytest.approx([1, 2, 3])


@pytest.mark.parametrize(("n", "simulated"), [(5000, True), (5001, False)])
def test_p_of_a_fit_is_simulated_up_to_5000_values(n: int, simulated: bool) -> None:
    values = np.random.default_rng(1).exponential(60, n)
    table = fit_distributions(values, families=["exponential"]).table
    assert (table["ks_pvalue"].item() is not None) == simulated


def test_intervals_of_quantiles_are_order_statistics() -> None:
    values = np.sort(VALUES[:40])
    fits = fit_distributions(values, families=["exponential"], resamples=0)
    found = fitted_quantiles(values, fits)
    for share, low, high in found.select("fraction_below", "ci_low", "ci_high").iter_rows():
        below = int(scipy.stats.binom.ppf(0.025, 40, share))
        above = int(scipy.stats.binom.ppf(0.975, 40, share)) + 1
        assert low == (values[below - 1] if below > 0 else None)
        assert high == (values[above - 1] if above < 41 else None)
    assert (found["ci_high"] == values[-1]).any()
    assert (found["ci_low"] == values[0]).any()


def test_a_curve_has_two_points_at_least() -> None:
    fits = fit_distributions([1.0, 2, 3], families=["exponential"], resamples=0)
    assert fitted_quantiles([1.0, 2, 3], fits, points=2).height == 2
    for points in (1, 100_001):
        with pytest.raises(DataError, match="points must be a whole number from 2 to 100,000"):
            fitted_quantiles([1.0, 2, 3], fits, points=points)


def test_a_survival_of_exactly_a_half_is_reached() -> None:
    observed = [False, True, True]
    fits = fit_distributions([1.0, 2, 3], families=["exponential"], observed=observed, resamples=0)
    found = fitted_quantiles([1.0, 2, 3], fits, observed=observed)
    # of the two rows at risk at 2 one ends
    assert found.filter(fraction_below=0.5)["value"].to_list() == pytest.approx([2])
