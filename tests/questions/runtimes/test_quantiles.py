"""Quantiles of values beside those of fitted families."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from traceana import fit_distributions, fitted_quantiles
from traceana.errors import DataError
from traceana.stats.distributions.families import FAMILIES

VALUES = np.random.default_rng(11).gamma(1.5, 1000, 300)


def scipys(name: str, params: dict[str, float]) -> Any:
    if name == "lognormal":
        return stats.lognorm(params["sigma"], scale=np.exp(params["mu"]))
    if name == "exponential":
        return stats.expon(scale=params["scale"])
    law = {
        "gamma": stats.gamma,
        "weibull": stats.weibull_min,
        "lomax": stats.lomax,
        "loglogistic": stats.fisk,
    }[name]
    return law(params["shape"], scale=params["scale"])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("bound", [None, 200.0])
def test_a_familys_quantiles_are_scipys(name: str, bound: float | None) -> None:
    # heavy enough for Lomax, light enough for gamma
    values = np.random.default_rng(3).lognormal(7, 1.2, 400)
    values = values if bound is None else values[values > bound]
    fits = fit_distributions(values, families=[name], truncated_below=bound, resamples=0)
    found = fitted_quantiles(values, fits)
    law = scipys(name, fits.params(name))
    longer = (1 - found["fraction_below"].to_numpy()) * (1 if bound is None else law.sf(bound))
    np.testing.assert_allclose(found[name], law.isf(longer), rtol=1e-6)
    if bound is not None:
        assert min(found[name]) >= bound


def test_values_are_order_statistics_and_shares_stand_at_their_middles() -> None:
    found = fitted_quantiles(VALUES, fit_distributions(VALUES, families=["gamma"], resamples=0))
    ranks = found["fraction_below"].to_numpy() * 300 + 0.5
    np.testing.assert_allclose(ranks, np.round(ranks))
    np.testing.assert_array_equal(found["value"], np.sort(VALUES)[np.round(ranks).astype(int) - 1])
    assert found["value"][-1] == VALUES.max()
    assert found["n"].unique().to_list() == [300]


def test_intervals_are_the_order_statistics_of_the_binomial() -> None:
    found = fitted_quantiles(
        VALUES, fit_distributions(VALUES, families=["gamma"], resamples=0), points=9
    )
    ordered = np.sort(VALUES)
    for row in found.iter_rows(named=True):
        count = stats.binom(300, row["fraction_below"])
        for end in ("ci_low", "ci_high"):
            if row[end] is None:
                continue
            rank = int(np.searchsorted(ordered, row[end])) + 1
            if end == "ci_low":  # fewer below the quantile than that rank: at most 2.5 %
                assert count.cdf(rank - 1) <= 0.025 < count.cdf(rank)
            else:
                assert count.sf(rank - 1) <= 0.025 < count.sf(rank - 2)
    # so near the ends no order statistic is far enough out
    assert found["ci_high"][-1] is None


def test_the_best_families_come_first_and_those_without_parameters_not_at_all() -> None:
    fits = fit_distributions(VALUES, resamples=0)
    have = [name for name in fits.table["family"] if fits.params(name)]
    assert fitted_quantiles(VALUES, fits).columns[5:] == have
    assert fitted_quantiles(VALUES, fits, families=["weibull"]).columns[5:] == ["weibull"]


def test_censored_values_are_quantiles_of_the_survival_function() -> None:
    values, cut = np.sort(VALUES)[::15], np.arange(20) >= 17
    fits = fit_distributions(values, families=["gamma"], observed=~cut, resamples=0)
    found = fitted_quantiles(values, fits, observed=~cut)
    # the product limit is one minus the fraction of values up to the first censored one
    np.testing.assert_allclose(found["value"], values[:17])
    np.testing.assert_allclose(found["fraction_below"], (np.arange(17) + 0.5) / 20)


def test_entries_from_0_on_are_taken() -> None:
    entry = np.minimum(VALUES, 0.5)
    fits = fit_distributions(VALUES, families=["gamma"], entry=entry, resamples=0)
    assert fits.table["n_truncated"].item() == 300
    with pytest.raises(DataError, match="entry must lie from 0 to its value"):
        fit_distributions(VALUES, families=["gamma"], entry=entry - 1, resamples=0)


def test_ties_and_nulls_are_taken_as_they_are() -> None:
    values = pl.Series([1.0, 1, 1, 5, None, 9])
    found = fitted_quantiles(
        values, fit_distributions(values, families=["exponential"], resamples=0)
    )
    assert found["n"][0] == 5
    assert set(found["value"]) <= {1.0, 5.0, 9.0}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"confidence": 1.0}, "confidence must lie between 0 and 1"),
        ({"points": 1}, "points must be a whole number from 2 to 100,000; it is 1"),
        (
            {"families": ["lomax"]},
            "family 'lomax' has no parameters in the fits;",
        ),
    ],
)
def test_arguments_out_of_range_are_refused(options: dict[str, Any], text: str) -> None:
    fits = fit_distributions(VALUES, families=["gamma"], resamples=0)
    with pytest.raises(DataError, match=text):
        fitted_quantiles(VALUES, fits, **options)


def test_values_that_are_not_those_of_the_fit_are_refused() -> None:
    fits = fit_distributions(VALUES, families=["gamma"], resamples=0)
    with pytest.raises(DataError, match="the fits are to 300 values; pass them, not 299 others"):
        fitted_quantiles(VALUES[1:], fits)
    cut = np.zeros(300, dtype=bool)
    cut[:3] = True
    fits = fit_distributions(VALUES, families=["gamma"], observed=~cut, resamples=0)
    with pytest.raises(DataError, match="other entries or censored values"):
        fitted_quantiles(VALUES, fits)
