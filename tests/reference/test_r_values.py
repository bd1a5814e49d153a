"""Our values against R's (r_values.toml, made by r_values.R), to nine digits where R has them."""

from __future__ import annotations

import tomllib
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from traceana import (
    cause_specific_hazards,
    compare_runtimes,
    correlate,
    cumulative_incidence,
    failure_model,
    failure_odds,
    fit_distributions,
    kaplan_meier,
    outcome_association,
)
from traceana.stats.correlation import (
    correlation,
    correlation_pvalue,
    fisher_interval,
    kendall_pvalue,
)
from traceana.stats.multiplicity import ADJUSTMENTS, adjust_pvalues
from traceana.stats.segments import kmeans_1d
from traceana.stats.survival import incidence
from traceana.stats.time_blocks import autocorrelation

HERE = Path(__file__).parent
R = tomllib.loads((HERE / "r_values.toml").read_text(encoding="utf-8"))
TYPED = {
    name: tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("correlation", "outcomes")
}


def nine(expected: Any) -> Any:
    """Nine digits of it."""
    return pytest.approx(expected, rel=1e-9, abs=1e-12)


def table_frame(first: list[int], second: list[int]) -> pl.DataFrame:
    """Failures and completions of groups a, b, ..."""
    rows = [
        (group, status)
        for group, counts in zip("abcdef", zip(first, second, strict=True), strict=False)
        for status, n in zip(("failed", "completed"), counts, strict=True)
        for _ in range(n)
    ]
    return pl.DataFrame(rows, schema=["g", "status"], orient="row")


@pytest.mark.parametrize("name", ["hunter", "tied"])
def test_correlations(name: str) -> None:
    known = R[f"correlation_{name}"]
    x, y = known["x"], known["y"]
    for method in ("pearson", "spearman"):
        r = correlation(x, y, method=method)
        assert r == nine(known[method])
        assert correlation_pvalue(r, len(x), method=method) == nine(known[f"{method}_p"])
    r = correlation(x, y, method="pearson")
    assert fisher_interval(r, len(x), method="pearson") == nine(
        (known["pearson_low"], known["pearson_high"])
    )
    tau = correlation(x, y, method="kendall")
    assert tau == nine(known["kendall"])
    assert kendall_pvalue(x, y) == nine(known["kendall_p"])
    if name == "hunter":
        asymptotic = correlation_pvalue(tau, len(x), method="kendall")
        assert asymptotic == nine(known["kendall_asymptotic_p"])


def test_the_interval_of_rows_takes_the_larger_error() -> None:
    known = R["jackknife"]
    x, y = np.array(known["x"]), np.array(known["y"])
    frame = pl.DataFrame(
        {"x": x, "y": y, "skewed x": np.exp(2 * x), "skewed y": np.exp(y / 5), "g": 1}
    )
    for names, error in ((("x", "y"), "error"), (("skewed x", "skewed y"), "error_of_exp")):
        for by in ((), "g"):
            row = correlate(frame, *names, by=by).table.row(0, named=True)
            half = 1.959963984540054 * max(known[error], 1 / np.sqrt(len(x) - 3))
            ends = np.tanh(np.arctanh(row["r"]) + np.array([-half, half]))
            assert (row["ci_low"], row["ci_high"]) == nine(tuple(ends))
    skewed = frame.with_columns(y=pl.Series(np.where(np.arange(60) == 7, 1e3, y)))
    decided = correlate(skewed, "x", "y").table.row(0, named=True)
    assert decided["ci_low"] is None
    assert decided["note"] == "one row decides r: no interval"


def test_adjusted_p() -> None:
    for method in ADJUSTMENTS:
        found = adjust_pvalues(R["adjusted"]["pvalues"], method=method)
        np.testing.assert_allclose(found, R["adjusted"][method], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "value", "group"),
    [("airquality", "ozone", "month"), ("plant_growth", "weight", "group")],
)
def test_groups_compared_by_ranks(name: str, value: str, group: str) -> None:
    known = R[name]
    found = compare_runtimes(
        pl.DataFrame({"runtime_s": known[value], "g": known[group]}),
        "g",
        method="mann-whitney",
        adjust="holm",
    )
    row = found.test.row(0, named=True)
    for column in ("statistic", "df", "pvalue"):
        assert row[column] == nine(known[column])
    assert row["epsilon_squared"] == nine(known["statistic"] / (row["n"] - 1))
    pairs = list(combinations(sorted(set(known[group])), 2))
    assert found.pairs.select("g_a", "g_b").rows() == pairs
    np.testing.assert_allclose(found.pairs["pvalue_adjusted"], known["pair_holm"], rtol=1e-9)
    if name == "airquality":
        np.testing.assert_allclose(found.pairs["pvalue"], known["pair_pvalues"], rtol=1e-9)


def test_tables() -> None:
    party, few = R["party"], R["few"]
    row = outcome_association(table_frame(party["first"], party["second"]), "g").row(0, named=True)
    for column in ("statistic", "df", "pvalue", "cramers_v"):
        assert row[column] == nine(party[column])
    row = outcome_association(table_frame(few["first"], few["second"]), "g", rng=1).row(
        0, named=True
    )
    assert row["method"] == "Monte Carlo, 9,999 tables"
    assert row["statistic"] == nine(few["statistic"])
    # four standard errors of a share of 9,999 tables
    assert row["pvalue"] == pytest.approx(few["pvalue"], abs=4 * np.sqrt(few["pvalue"] / 9999))


def test_rows_are_at_risk_after_their_entry() -> None:
    known = R["heart"]
    features = ["age", "surgery", "transplanted"]
    names = ("start", "stop", "event", *features)
    jobs = pl.DataFrame({name: np.array(known[name], dtype=float) for name in names})
    assert set(known["start"]) & set(jobs.filter(event=1)["stop"])  # some enter when others end
    status = pl.when(pl.col("event") == 1).then(pl.lit("failed")).otherwise(pl.lit("running"))
    found = cause_specific_hazards(
        jobs.with_columns(status=status),
        features=features,
        causes="failed",
        runtime="stop",
        entry="start",
    )
    for column, name in (("log_hazard", "coefficient"), ("std_error", "std_error")):
        np.testing.assert_allclose(found[column], known[name], rtol=1e-6)


def test_odds_over_strata() -> None:
    known = R["admissions"]
    rows = [
        (department, gender, status)
        for department, cells in enumerate(np.reshape(known["cells"], (6, 4)).tolist())
        for (gender, status), n in zip(
            [("m", "failed"), ("m", "completed"), ("w", "failed"), ("w", "completed")],
            cells,
            strict=True,
        )
        for _ in range(n)
    ]
    frame = pl.DataFrame(rows, schema=["s", "g", "status"], orient="row")
    row = failure_odds(frame, "g", strata="s").row(0, named=True)
    ours = [row[name] for name in ("odds_ratio", "ci_low", "ci_high")]
    theirs = [known[name] for name in ("odds_ratio", "ci_low", "ci_high")]
    # which of the two genders comes first is ours to choose
    if row["g"] == "w":
        ours = [1 / ours[0], 1 / ours[2], 1 / ours[1]]
    assert ours == nine(theirs)
    assert row["pvalue"] == nine(known["pvalue"])


def test_logistic_regression() -> None:
    known = R["birth_weight"]
    frame = pl.DataFrame({name: known[name] for name in ("lwt", "smoke", "age")}).with_columns(
        status=pl.Series(np.where(known["low"], "failed", "completed"))
    )
    for cluster, error in ((None, "hc1_error"), ("age", "jackknife_error")):
        found = failure_model(frame, features=("lwt", "smoke"), cluster=cluster).odds_ratios
        np.testing.assert_allclose(found["log_odds"], known["coefficient"][1:], rtol=1e-8)
        np.testing.assert_allclose(found["odds_ratio"], known["odds_ratio"][1:], rtol=1e-8)
        np.testing.assert_allclose(found["std_error"], known[error][1:], rtol=1e-8)
    # one step stands for each fit made anew, and is above the sandwich
    np.testing.assert_allclose(found["std_error"], known["refitted_error"][1:], rtol=0.02)
    assert (found["std_error"] > known["cluster_hc1_error"][1:]).all()


def test_survival() -> None:
    known = R["veteran"]
    status = np.where(known["status"], "failed", "running")
    found = kaplan_meier(pl.DataFrame({"runtime_s": known["time"], "status": status}))
    assert found.curves["time_s"].to_list() == known["at"]
    assert found.curves["n_at_risk"].to_list() == known["n_risk"]
    for column, theirs in (("survival", "survival"), ("ci_low", "low"), ("ci_high", "high")):
        ours = found.curves[column].cast(float).fill_null(np.nan).to_numpy()
        np.testing.assert_allclose(ours, known[theirs], rtol=1e-9, atol=1e-12)
    row = found.groups.row(0, named=True)
    median = [row[name] for name in ("median_s", "ci_low", "ci_high")]
    assert median == [known[name] for name in ("median", "median_low", "median_high")]


def test_competing_risks() -> None:
    known = R["mgus2"]
    found = cumulative_incidence(pl.DataFrame({"runtime_s": known["time"], "status": known["end"]}))
    times, at = np.unique(known["time"], return_inverse=True)
    counts = [
        np.bincount(at, np.array(known["end"]) == name)
        for name in ("completed", "failed", "running")
    ]
    raw = incidence(np.stack(counts[:2], axis=1), counts[2])
    for number, event in enumerate(("completed", "failed")):
        curve = found.curves.filter(event=event)
        here = np.searchsorted(known["at"], curve["time_s"].to_numpy())
        np.testing.assert_allclose(curve["incidence"], np.array(known[event])[here], rtol=1e-9)
        errors = np.sqrt(raw.incidence_variance[np.isin(times, curve["time_s"]), number])
        np.testing.assert_allclose(errors, np.array(known[f"{event}_error"])[here], rtol=1e-9)


def test_clusters_on_a_line_and_a_series() -> None:
    values = np.array(R["rivers"]["values"], dtype=float)
    for at, k in enumerate(range(2, 6)):
        cluster = kmeans_1d(values, k=k)
        parts = [values[cluster == one] for one in range(k)]
        within = sum(((part - part.mean()) ** 2).sum() for part in parts)
        assert within == nine(R["rivers"]["within"][at])
        assert len(parts[0]) == R["rivers"]["smallest"][at]
    found = autocorrelation(R["lh"]["values"], lags=12)
    np.testing.assert_allclose(found, R["lh"]["autocorrelation"], rtol=1e-9)


def test_fitted_distributions() -> None:
    families = ("lognormal", "gamma", "weibull", "exponential")
    fits = fit_distributions(R["fit_values"]["values"], families=families)
    for family in families:
        known = R[f"fit_{family}"]
        ours = fits.parameters.filter(family=family)
        value = dict(zip(ours["parameter"], ours["estimate"], strict=True))
        # their search ends where ln L is flat to 1e-14, so that parameters have six digits
        likelihood = fits.table.filter(family=family)["log_likelihood"].item()
        assert likelihood == pytest.approx(known["log_likelihood"], rel=1e-11)
        if family == "lognormal":
            assert [value["mu"], value["sigma"]] == nine(known["estimate"])
        elif family == "exponential":
            assert 1 / value["scale"] == nine(known["estimate"][0])
        else:
            assert [value["shape"], value["scale"]] == pytest.approx(known["estimate"], rel=3e-6)


def test_what_was_typed_elsewhere_is_what_r_says() -> None:
    def agree(typed: Any, theirs: Any, digits: float) -> None:
        np.testing.assert_allclose(np.ravel(typed), np.ravel(theirs)[: np.size(typed)], atol=digits)

    hunter, known = TYPED["correlation"]["hunter"], R["correlation_hunter"]
    for method in ("pearson", "kendall"):
        agree(hunter[method]["r"], known[method], 5e-8)
        agree(hunter[method]["pvalue"], known[f"{method}_p"], 5e-5)
    typed = TYPED["outcomes"]
    for arm, digits in (("maintained", 5e-4), ("nonmaintained", 5e-5)):
        known = R[f"aml_{arm}"]
        agree(typed["aml"][arm]["survival"], known["survival"], digits)
        agree(typed["aml"][arm]["std_error"], known["std_error"], 5e-5)
        assert typed["aml"][arm]["at_risk"] == known["n_risk"]
        assert typed["aml"][arm]["median"] == known["median"]
    for name, statistic, pvalue in (("party", 5e-3, 5e-11), ("plant_growth", 5e-5, 5e-6)):
        agree(typed[name]["statistic"], R[name]["statistic"], statistic)
        agree(typed[name]["pvalue"], R[name]["pvalue"], pvalue)
    for column in ("odds_ratio", "ci_low", "ci_high"):
        agree(typed["admissions"][column], R["admissions"][column], 5e-8)
    assert np.ravel(typed["admissions"]["departments"]).tolist() == R["admissions"]["cells"]
