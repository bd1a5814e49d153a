"""Fits against closed forms, published fits, scipy, planted truth, and what must always hold."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana import fit_distributions
from traceana.store import Store

REFERENCE = tomllib.loads(
    (Path(__file__).parents[2] / "reference" / "distribution_fits.toml").read_text()
)
FAMILIES = ("lognormal", "gamma", "weibull", "exponential", "lomax", "loglogistic")
# a truth for each, as scipy has it, and its parameters as they are told
TRUTH: dict[str, tuple[Any, dict[str, float]]] = {
    "lognormal": (scipy.stats.lognorm(1.3, scale=np.exp(9)), {"mu": 9, "sigma": 1.3}),
    "gamma": (scipy.stats.gamma(1.7, scale=5000), {"scale": 5000, "shape": 1.7}),
    "weibull": (scipy.stats.weibull_min(0.7, scale=9000), {"scale": 9000, "shape": 0.7}),
    "exponential": (scipy.stats.expon(scale=8000), {"scale": 8000}),
    "lomax": (scipy.stats.lomax(1.5, scale=6000), {"scale": 6000, "shape": 1.5}),
    "loglogistic": (scipy.stats.fisk(1.4, scale=8000), {"scale": 8000, "shape": 1.4}),
}


def cell(fits: Any, family: str, column: str) -> Any:
    return fits.table.filter(family=family)[column].item()


@pytest.mark.parametrize("censoring", [False, True])
@pytest.mark.parametrize("truncation", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_planted_parameters_are_found(name: str, truncation: bool, censoring: bool) -> None:
    peer, params = TRUTH[name]
    rng = np.random.default_rng([FAMILIES.index(name), truncation, censoring])
    bound = float(peer.ppf(0.2)) if truncation else None
    low = 0.0 if bound is None else 0.2
    x = peer.ppf(low + (1 - low) * rng.random(8_000))
    limit = peer.ppf(low + (1 - low) * rng.random(8_000)) if censoring else np.inf
    fits = fit_distributions(
        np.minimum(x, limit),
        observed=limit >= x if censoring else None,
        truncated_below=bound,
        confidence=0.9999,
    )
    assert list(fits.params(name)) == list(params)
    told = fits.parameters.filter(family=name)
    for row in told.iter_rows(named=True):
        truth = params[row["parameter"]]
        assert row["ci_low"] < truth < row["ci_high"]
        assert row["ci_high"] - row["ci_low"] < 0.9 * max(truth, 1)
    # no other family is much better than the truth, and its own limits aside most are worse
    assert cell(fits, name, "delta") < 12
    if bound is not None:
        assert abs(cell(fits, name, "fraction_above_bound") - 0.8) < 0.1


@pytest.mark.parametrize("case", ["life_test", "ball_bearings", "air_conditioning"])
def test_published_fits(case: str) -> None:
    published = REFERENCE[case]
    ends, cuts = published["ends"], published.get("cuts", [])
    fits = fit_distributions(
        ends + cuts, observed=[True] * len(ends) + [False] * len(cuts), resamples=0
    )
    for family in ("weibull", "exponential"):
        for name, value in published.get(family, {}).items():
            assert np.isclose(fits.params(family)[name], value, rtol=5e-5)
    if "gamma_shape" in published:
        assert abs(fits.params("gamma")["shape"] - published["gamma_shape"]) < 1e-3
    for column, value in published.items():
        family, _, of = column.partition("_")
        if of in {"aic", "log_likelihood"}:
            assert abs(cell(fits, family, of) - value) < 0.005


def test_closed_forms() -> None:
    rng = np.random.default_rng(1)
    x = rng.lognormal(8, 2, 500)
    cut = rng.random(500) < 0.3
    plain = fit_distributions(x, resamples=0)
    assert np.isclose(plain.params("exponential")["scale"], x.mean(), rtol=1e-12)
    assert np.isclose(plain.params("lognormal")["mu"], np.log(x).mean(), rtol=1e-10)
    assert np.isclose(plain.params("lognormal")["sigma"], np.log(x).std(), rtol=1e-8)
    # time at risk over ends; above a bound only the time since it
    censored = fit_distributions(x, observed=~cut, families=["exponential"], resamples=0)
    assert np.isclose(censored.params("exponential")["scale"], x.sum() / (~cut).sum())
    low = float(x.min()) * 0.9
    truncated = fit_distributions(
        x, observed=~cut, families=["exponential"], resamples=0, truncated_below=low
    )
    assert np.isclose(truncated.params("exponential")["scale"], (x - low).sum() / (~cut).sum())


@pytest.mark.parametrize(
    ("family", "peer"),
    [
        ("lognormal", scipy.stats.lognorm),
        ("gamma", scipy.stats.gamma),
        ("weibull", scipy.stats.weibull_min),
        ("lomax", scipy.stats.lomax),
        ("loglogistic", scipy.stats.fisk),
    ],
)
def test_no_parameters_of_scipy_are_better(family: str, peer: Any) -> None:
    x = np.random.default_rng(2).lognormal(1, 1.5, 800)
    cut = np.random.default_rng(3).random(800) < 0.4
    data = scipy.stats.CensoredData.right_censored(x, cut)
    found = peer.fit(data, floc=0)
    likelihood = peer.logpdf(x[~cut], *found).sum() + peer.logsf(x[cut], *found).sum()
    fits = fit_distributions(x, observed=~cut, resamples=0)
    mine = cell(fits, family, "log_likelihood")
    assert likelihood - 1e-6 < mine < likelihood + 1e-3
    shape = fits.params(family)["sigma" if family == "lognormal" else "shape"]
    assert np.isclose(shape, found[0], rtol=1e-3)


@given(
    # apart by more than rounding, by which equal values may differ in another unit
    st.lists(st.integers(10, 10**9), min_size=2, max_size=40, unique=True),
    st.floats(1e-6, 1e6),
)
@settings(max_examples=40, deadline=None)
def test_another_unit_changes_the_scale_alone(values: list[int], unit: float) -> None:
    x = np.array(values) / 1000
    here, there = (fit_distributions(scaled, resamples=0) for scaled in (x, x * unit))
    for name in FAMILIES:
        one, other = here.params(name), there.params(name)
        assert one.keys() == other.keys()
        for parameter, value in one.items():
            moved = {"scale": value * unit, "mu": value + np.log(unit)}.get(parameter, value)
            assert np.isclose(other[parameter], moved, rtol=1e-3, atol=1e-4)
        shift = cell(there, name, "log_likelihood") or 0
        same = cell(here, name, "log_likelihood")
        if same is not None:
            assert np.isclose(shift, same - len(x) * np.log(unit), rtol=1e-6, atol=1e-3)


@given(st.sampled_from(FAMILIES), st.integers(0, 2**32), st.booleans(), st.booleans())
@settings(max_examples=30, deadline=None)
def test_the_truth_is_never_more_likely_than_the_fit(
    name: str, seed: int, truncation: bool, censoring: bool
) -> None:
    peer, _ = TRUTH[name]
    rng = np.random.default_rng(seed)
    low = 0.3 if truncation else 0.0
    x = peer.ppf(low + (1 - low) * rng.random(60))
    limit = peer.ppf(low + (1 - low) * rng.random(60)) if censoring else np.full(60, np.inf)
    cut, x = limit < x, np.minimum(x, limit)
    bound = float(peer.ppf(low)) if truncation else None
    fits = fit_distributions(x, observed=~cut, truncated_below=bound, resamples=0)
    truth = peer.logpdf(x[~cut]).sum() + peer.logsf(x[cut]).sum() - 60 * np.log(1 - low)
    assert cell(fits, name, "log_likelihood") >= truth - 1e-6
    larger = max(cell(fits, other, "log_likelihood") for other in ("weibull", "gamma", "lomax"))
    assert larger >= cell(fits, "exponential", "log_likelihood") - 1e-6


def test_equal_values_count_as_often_as_they_come() -> None:
    x = np.array([3.0, 3, 3, 8, 8, 20, 41, 41])
    cut = np.array([0, 0, 1, 0, 0, 0, 1, 0], dtype=bool)
    once = fit_distributions(x, observed=~cut, families=["weibull"])
    peer = scipy.stats.weibull_min.fit(scipy.stats.CensoredData.right_censored(x, cut), floc=0)
    assert np.isclose(once.params("weibull")["shape"], peer[0], rtol=1e-4)


def test_p_repeats_whichever_families_are_asked_for() -> None:
    x = np.random.default_rng(4).weibull(2, 80)
    both = fit_distributions(x, rng=7, resamples=39)
    alone = fit_distributions(x, rng=7, resamples=39, families=["gamma"])
    assert cell(both, "gamma", "ks_pvalue") == cell(alone, "gamma", "ks_pvalue")
    assert cell(both, "weibull", "ks_pvalue") > 0.05
    assert cell(both, "lomax", "ks_pvalue") == 1 / 40
    assert both.table["resamples"].to_list() == [39] * 6


def test_a_bound_of_min_is_the_least_value() -> None:
    x = np.random.default_rng(5).lognormal(3, 1, 400) + 2
    named = fit_distributions(x, truncated_below=float(x.min()), resamples=0)
    least = fit_distributions(x, truncated_below="min", rng=1, resamples=19)
    assert least.table["truncated_below"].unique().to_list() == [x.min()]
    assert named.parameters.equals(least.parameters)
    assert least.table["ks_pvalue"].null_count() == 0


def test_power_laws_above_a_bound_have_no_maximum_inside() -> None:
    x = np.random.default_rng(1).pareto(1.5, 1000) + 1
    fits = fit_distributions(x, truncated_below=1, resamples=0)
    row = fits.table.filter(family="lomax").row(0, named=True)
    assert fits.params("lomax") == {}
    assert "the whole fit moves below the bound" in row["note"]
    # the limit is Pareto's: its likelihood in closed form
    index = 1000 / np.log(x).sum()
    pareto = 1000 * np.log(index) - (index + 1) * np.log(x).sum()
    assert abs(row["log_likelihood"] - pareto) < 1e-3


def test_comparisons_are_adjusted_over_their_own_family() -> None:
    x = np.random.default_rng(7).lognormal(3, 1, 3000)
    fits = fit_distributions(x, criterion="bic", resamples=0)
    assert fits.best == "lognormal"
    table = fits.comparisons
    assert table["best"].unique().to_list() == ["lognormal"]
    assert table["family"].to_list() == fits.table["family"][1:].to_list()
    adjusted = scipy.stats.false_discovery_control(table["pvalue"])
    np.testing.assert_allclose(table["pvalue_adjusted"], adjusted)
    assert table.filter(family="gamma")["pvalue_adjusted"].item() < 0.001


def test_it_prints_itself() -> None:
    x = np.random.default_rng(8).weibull(1.5, 100)
    text = str(fit_distributions([*x, None], rng=1, resamples=9, families=["weibull", "lomax"]))
    head, first, second, *_ = text.splitlines()
    assert head.split()[:3] == ["Family", "n", "Delta"]
    assert first.startswith("weibull ")
    assert "towards the exponential" in second


def test_itp_runtimes_as_published(real_store: Store) -> None:
    jobs = real_store.scan("microsoft-itp-2021", "jobs").collect()
    fits = fit_distributions(jobs["runtime_s"], truncated_below="min", criterion="bic")
    assert fits.table["n"].unique().to_list() == [69_351]
    assert fits.table["truncated_below"].unique().to_list() == [600]
    # what does not depend on a search: the exponential's mean above the bound
    excess = jobs.select(pl.col("runtime_s").mean() - 600).item()
    assert np.isclose(fits.params("exponential")["scale"], excess)


def test_ks_pvalues_with_delayed_entry_are_uniform_and_reject_a_wrong_family() -> None:
    # planted: 40 % of the values seen from an entry on, censoring from the entry
    rng = np.random.default_rng(3)
    found: dict[bool, list[float]] = {True: [], False: []}
    for trial in range(30):
        for right, pvalues in found.items():
            x = rng.lognormal(3, 1, 600)
            if not right:
                x = rng.choice([10.0, 30.0], 600) * rng.lognormal(0, 0.15, 600)
            entry = np.where(rng.random(600) < 0.4, rng.uniform(0, 40, 600), 0)
            seen = np.flatnonzero(x > entry)[:150]
            x, entry = x[seen], entry[seen]
            limit = entry + rng.exponential(60, 150)
            table = fit_distributions(
                np.minimum(x, limit),
                families=["lognormal"],
                entry=entry,
                observed=x <= limit,
                resamples=19,
                rng=trial,
            ).table
            pvalues.append(table["ks_pvalue"].item())
    # at most 6 of 30 below .1, and at least 8 above a half: .97 and .99 of binomial samples
    assert sum(p <= 0.1 for p in found[True]) <= 6
    assert sum(p > 0.5 for p in found[True]) >= 8
    assert max(found[False]) == 1 / 20


def test_two_distinct_values_are_enough_and_p_is_of_the_samples_with_a_fit() -> None:
    fits = fit_distributions([1.0, 2.0, 2.0], families=["lognormal"])
    row = fits.table.row(0, named=True)
    mu, sigma = fits.params("lognormal").values()
    # the mean and deviation of 0, ln 2, ln 2
    assert (mu, sigma) == pytest.approx((np.log(2) * 2 / 3, np.log(2) * np.sqrt(2) / 3))
    assert row["resamples"] == 199
    # where half of the values are censored, some samples have fewer than two exact ones
    values, exact = [1.0, 2.0, 0.5, 0.5], [True, True, False, False]
    row = fit_distributions(values, families=["lognormal"], observed=exact).table.row(0, named=True)
    assert 100 < row["resamples"] < 199
    of_samples = row["ks_pvalue"] * (row["resamples"] + 1)
    assert of_samples == pytest.approx(round(of_samples))
    assert fit_distributions([2.0, 2.0], families=["lognormal"]).table["note"].item() is not None


@pytest.mark.parametrize(("clusters", "index"), [(10, None), (30, 1.5)])
def test_intervals_over_few_clusters_cover(clusters: int, index: float | None) -> None:
    # of 2,000 such samples 95 to 98 %; by the sandwich with t(k - 1) 88 and 91 % of sigma
    rng = np.random.default_rng(7)
    covered = {"mu": 0, "sigma": 0}
    for _ in range(120):
        size = np.ones(clusters) if index is None else rng.pareto(index, clusters) + 0.2
        of = rng.choice(clusters, 400, p=size / size.sum())
        own, common = rng.standard_normal(400), rng.standard_normal(clusters)
        values = np.exp(5 + np.sqrt(0.7) * own + np.sqrt(0.3) * common[of])
        fits = fit_distributions(
            values, families=["lognormal"], cluster=pl.Series(of), resamples=0
        ).parameters.fill_null(np.inf)
        for row, truth in zip(fits.iter_rows(named=True), (5, 1), strict=True):
            covered[row["parameter"]] += row["ci_low"] <= truth <= row["ci_high"]
    # with 95 % at least 109 of 120 in all but 2 % of the seeds; with 90 % in a third
    assert min(covered.values()) >= 109


def test_intervals_over_many_clusters_are_those_of_rows() -> None:
    runtimes = np.random.default_rng(3).lognormal(5, 1, size=2000)
    rows, clusters = (
        fit_distributions(runtimes, cluster=of, resamples=0).parameters.filter(
            pl.col("family").is_in(["lognormal", "loglogistic"])
        )
        for of in (None, pl.Series(np.arange(2000)))
    )
    for end in ("ci_low", "ci_high"):
        width = (rows["ci_high"] - rows["ci_low"]).to_numpy()
        assert np.abs((clusters[end] - rows[end]).to_numpy() / width).max() < 0.1


@pytest.mark.parametrize("rounded", [np.round, np.ceil, np.floor])
@pytest.mark.parametrize("in_clusters", [True, False])
def test_rounding_rejects_no_true_family(rounded: Any, in_clusters: bool) -> None:
    rng = np.random.default_rng(4)
    cluster = rng.integers(0, 40, 4000) if in_clusters else None
    x = 60 * rounded(rng.lognormal(6.5, 1, 4000) / 60)  # minutes, with a median of 11
    kept = x > 0
    families = ["lognormal", "exponential"]
    units = None if cluster is None else cluster[kept]
    found = fit_distributions(x[kept], families=families, cluster=units, resamples=39)
    p = dict(found.table.select("family", "ks_pvalue").iter_rows())
    assert p["lognormal"] > 0.05
    assert p["exponential"] == pytest.approx(1 / 40)
