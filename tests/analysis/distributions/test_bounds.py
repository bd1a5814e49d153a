"""Numbers at which a distribution is fitted, compared or described in another way."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.stats

from traceana.analysis import (
    compare_distributions,
    fit_distributions,
    fitted_quantiles,
    kaplan_meier,
    tail_index,
)
from traceana.analysis.distributions.values import read_values
from traceana.errors import DataError

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
    table = fit_distributions(VALUES, families=["gamma", "exponential"], resamples=0).table
    for row in table.iter_rows(named=True):
        own = {each["name"]: each["value"] for each in row["params"]}
        likelihood = scipy.stats.gamma(own.get("shape", 1), scale=own["scale"]).logpdf(VALUES).sum()
        assert row["aic"] == pytest.approx(2 * len(own) - 2 * likelihood)
        assert row["bic"] == pytest.approx(np.log(300) * len(own) - 2 * likelihood)
        assert row["note"] == "no p: pass resamples"


def test_a_fit_has_the_defaults_documented() -> None:
    one = fit_distributions(VALUES[:40], families=["exponential"])
    same = fit_distributions(
        VALUES[:40], families=["exponential"],
        resamples=199, rng=1, criterion="aic", confidence=0.95,
    )  # fmt: skip
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
    assert found["share_below"].to_list() == [0.375, 0.625, 0.875]
    every = fit_distributions(VALUES, families=["exponential"], resamples=0)
    found = fitted_quantiles(VALUES, every)
    assert found["share_below"].to_list()[-1] == pytest.approx(1 - 0.5 / 300)
    assert found.equals(fitted_quantiles(VALUES, every, points=200, confidence=0.95))
    assert found.height != fitted_quantiles(VALUES, every, points=201).height


def test_intervals_of_censored_quantiles_are_those_of_the_survival_function() -> None:
    values, cut = np.sort(VALUES)[::6], np.arange(50) % 4 == 1
    fits = fit_distributions(values, families=["gamma"], observed=~cut, resamples=0)
    found = fitted_quantiles(values, fits, observed=~cut, points=20).drop_nulls()
    rows = pl.DataFrame({"runtime_s": values, "observed": ~cut})
    theirs = kaplan_meier(
        rows, status=None, observed="observed", quantiles=found["share_below"].to_list()
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
    [([], None, "no value"), ([1.0, 2], [False, False], "all values are censored"),
     ([1.0, 1], [True, True], "one distinct uncensored value")],
)  # fmt: skip
def test_why_nothing_is_fitted(values: list[float], observed: list[bool] | None, why: str) -> None:
    table = fit_distributions(values, observed=observed, families=["gamma"], resamples=0).table
    note = f"{why}: at least two distinct uncensored values are needed"
    assert table["note"].to_list() == [note]
