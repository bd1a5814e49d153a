"""Failure against features: published tables and models, separation, clusters, confounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency
from scipy.stats.contingency import association
from statsmodels.datasets import spector
from statsmodels.stats.contingency_tables import StratifiedTable

from traceana import failure_model, failure_odds, failure_rates, outcome_association
from traceana.errors import DataError
from traceana.schema import STATUSES
from traceana.stats.intervals import wilson_interval
from traceana.stats.logistic import fit_firth

WORDS = np.array(["completed", "failed"])


def table_frame(counts: dict[str, tuple[int, int]]) -> pl.DataFrame:
    rows = [
        (group, status)
        for group, cells in counts.items()
        for status, n in zip(("failed", "completed"), cells, strict=True)
        for _ in range(n)
    ]
    return pl.DataFrame(rows, schema=["g", "status"], orient="row")


EVERY_OTHER = ("failed", "cancelled", "running", "pending", "unknown")


def test_the_definition_of_a_failure_is_an_argument() -> None:
    words = ["completed"] * 6 + ["failed"] * 2 + ["running"] * 3 + ["pending", "unknown", None]
    frame = pl.DataFrame({"status": words})
    strict = failure_rates(frame, ()).row(0, named=True)
    every_other = failure_rates(frame, (), failure=EVERY_OTHER).row(0, named=True)
    assert (every_other["n"], every_other["failures"], every_other["rate"]) == (13, 7, 7 / 13)
    assert (strict["n"], strict["failures"], strict["rate"]) == (8, 2, 0.25)
    assert [strict[word] for word in (*STATUSES, "n_missing")] == [6, 2, 0, 3, 1, 1, 1]
    assert (strict["n_excluded"], every_other["n_excluded"]) == (6, 1)
    low, high = wilson_interval(2, 8)
    assert (strict["ci_low"], strict["ci_high"]) == (low[0], high[0])
    empty = failure_rates(pl.DataFrame({"status": ["running"]}), ()).row(0, named=True)
    assert (empty["n"], empty["rate"], empty["running"]) == (0, None, 1)


def test_a_column_may_have_its_own_status_values() -> None:
    words = ["DONE"] * 6 + ["ERR"] * 2 + ["KILLED"]
    frame = pl.DataFrame(
        {"g": list("abababaab"), "state": words}, schema_overrides={"state": pl.Categorical}
    )
    own: dict[str, Any] = {"success": "DONE", "failure": ("ERR", "KILLED"), "status": "state"}
    row = failure_rates(frame, (), **own).row(0, named=True)
    assert (row["n"], row["failures"]) == (9, 3)
    assert "completed" not in row
    assert outcome_association(frame, "g", **own)["failures"].item() == 3
    with pytest.raises(DataError, match=r"status 'DONE' is found; .* pass success= and failure="):
        failure_rates(frame, (), status="state")
    with pytest.raises(DataError, match=r"failure names status 'Err'; .* in column state"):
        failure_rates(frame, (), status="state", success="DONE", failure="Err")
    with pytest.raises(
        DataError, match="column status is missing; found g, state; pass status='state'"
    ):
        failure_rates(frame, "g")


def test_party_and_gender_as_r_has_it(published: dict[str, Any]) -> None:
    known = published["party"]
    cells = zip(known["groups"], zip(known["first"], known["second"], strict=True), strict=True)
    row = outcome_association(table_frame(dict(cells)), "g").row(0, named=True)
    assert row["statistic"] == pytest.approx(known["statistic"], abs=5e-3)
    assert row["df"] == known["df"]
    assert row["pvalue"] == pytest.approx(known["pvalue"], abs=5e-11)
    expected = association([known["first"], known["second"]], method="cramer")
    assert row["cramers_v"] == pytest.approx(expected)
    assert 0 < row["ci_low"] < row["cramers_v"] < row["ci_high"]


@given(cells=st.lists(st.tuples(st.integers(5, 40), st.integers(5, 40)), min_size=2, max_size=4))
@settings(max_examples=40, deadline=None)
def test_chi_square_is_scipys(cells: list[tuple[int, int]]) -> None:
    row = outcome_association(table_frame({str(i): c for i, c in enumerate(cells)}), "g").row(
        0, named=True
    )
    expected = chi2_contingency(cells, correction=False)
    assert row["statistic"] == pytest.approx(expected.statistic, rel=1e-9, abs=1e-9)
    if row["method"] == "chi-squared":
        assert row["pvalue"] == pytest.approx(expected.pvalue, rel=1e-8)


def test_small_counts_get_a_monte_carlo_p_that_is_fishers() -> None:
    # the tea of Fisher, The Design of Experiments (1935): 3 of 4 right; two-sided p is 34 / 70
    frame = table_frame({"milk": (3, 1), "tea": (1, 3)})
    row = outcome_association(frame, "g", rng=4).row(0, named=True)
    assert row["method"] == "Monte Carlo, 9,999 tables"
    assert row["pvalue"] == pytest.approx(34 / 70, abs=0.02)
    assert row["pvalue"] == outcome_association(frame, "g", rng=4)["pvalue"][0]


def test_one_outcome_and_one_group_are_told() -> None:
    row = outcome_association(table_frame({"a": (3, 0), "b": (4, 0)}), "g").row(0, named=True)
    assert (row["note"], row["pvalue"], row["cramers_v"]) == ("every row failed", None, None)
    row = outcome_association(table_frame({"a": (0, 3), "b": (0, 4)}), "g").row(0, named=True)
    assert (row["note"], row["pvalue"], row["cramers_v"]) == ("no row failed", None, None)
    apart = outcome_association(table_frame({"a": (30, 0), "b": (0, 40)}), "g").row(0, named=True)
    assert apart["cramers_v"] == pytest.approx(1)
    assert apart["ci_low"] is None
    assert apart["note"].startswith("null if outcomes do not vary")
    with pytest.raises(DataError, match="g has 1 group of comparable rows"):
        outcome_association(table_frame({"a": (3, 2)}), "g")
    with pytest.raises(DataError, match="status 'Done' is found"):
        outcome_association(pl.DataFrame({"g": [1, 2], "status": ["Done", "failed"]}), "g")


def test_alike_rows_are_not_taken_for_many() -> None:
    rng = np.random.default_rng(2)
    naive = aware = 0
    for _ in range(60):
        user = rng.integers(0, 50, 500)
        chance = rng.beta(0.5, 0.5, 50)[user]
        frame = pl.DataFrame(
            {
                "g": rng.integers(0, 2, 50)[user],
                "user": user,
                "status": WORDS[(rng.random(500) < chance).astype(int)],
            }
        )
        naive += outcome_association(frame, "g")["pvalue"][0] < 0.05
        aware += outcome_association(frame, "g", cluster="user")["pvalue"][0] < 0.05
    assert naive > 25
    assert aware < 9


def test_copies_of_rows_are_worth_the_rows() -> None:
    alone = table_frame({"a": (30, 70), "b": (60, 50)}).with_row_index("user")
    once, four = (
        outcome_association(rows, "g", cluster="user").row(0, named=True)
        for rows in (alone, pl.concat([alone] * 4))
    )
    assert four["n"] == 840
    assert once["n_effective"] == pytest.approx(210, rel=0.01)
    # but for N - 1 in the variance of all outcomes
    assert four["n_effective"] == pytest.approx(once["n_effective"] * 4 * 209 / 839)
    for name in ("cramers_v", "df", "pvalue"):
        assert four[name] == pytest.approx(once[name]), name


def admissions(published: dict[str, Any]) -> pl.DataFrame:
    rows = [
        (department, gender, status)
        for department, cells in enumerate(published["admissions"]["departments"])
        for (gender, status), n in zip(
            [("m", "failed"), ("m", "completed"), ("w", "failed"), ("w", "completed")],
            cells,
            strict=True,
        )
        for _ in range(n)
    ]
    return pl.DataFrame(rows, schema=["s", "g", "status"], orient="row")


def test_admissions_to_berkeley_as_r_has_them(published: dict[str, Any]) -> None:
    known = published["admissions"]
    row = failure_odds(admissions(published), "g", strata="s").row(0, named=True)
    # men are the reference: as published turned round
    assert (row["g"], row["g_reference"]) == ("w", "m")
    assert 1 / row["odds_ratio"] == pytest.approx(known["odds_ratio"], abs=5e-8)
    assert 1 / row["ci_high"] == pytest.approx(known["ci_low"], abs=5e-8)
    assert 1 / row["ci_low"] == pytest.approx(known["ci_high"], abs=5e-8)
    assert row["pvalue"] == pytest.approx(known["pvalue"], abs=5e-5)
    assert 1 / row["crude_odds_ratio"] == pytest.approx(known["crude_odds_ratio"], abs=5e-6)
    tables = [np.reshape(cells, (2, 2)).astype(float) for cells in known["departments"]]
    expected = StratifiedTable(tables).test_equal_odds(adjust=True).pvalue
    assert row["pvalue_homogeneity"] == pytest.approx(expected, rel=1e-6)


def test_equal_strata_and_strata_that_tell_nothing() -> None:
    same = pl.concat([table_frame({"a": (5, 5), "b": (5, 5)}).with_columns(s=s) for s in (1, 2)])
    row = failure_odds(same, "g", strata="s").row(0, named=True)
    assert (row["odds_ratio"], row["pvalue"], row["pvalue_homogeneity"]) == pytest.approx((1, 1, 1))
    split = table_frame({"a": (5, 2), "b": (3, 9)}).with_columns(s=pl.col("g"))
    row = failure_odds(split, "g", strata="s").row(0, named=True)
    assert row["odds_ratio"] is None
    assert row["note"] == "no stratum has both groups and both outcomes"
    never = failure_odds(table_frame({"a": (5, 2), "b": (0, 9)}), "g", strata=()).row(0, named=True)
    assert never["odds_ratio"] is None
    assert "0 or infinite" in never["note"]


def spector_frame() -> pl.DataFrame:
    data = spector.load().data
    return pl.DataFrame(
        {
            "status": WORDS[data["GRADE"].to_numpy().astype(int)],
            "gpa": data["GPA"].to_numpy(),
            "tuce": data["TUCE"].to_numpy(),
            "psi": data["PSI"].to_numpy(),
        }
    )


def test_spector_and_mazzeo_as_in_greene(published: dict[str, Any]) -> None:
    model = failure_model(spector_frame(), features=("gpa", "tuce", "psi"), method="ml")
    for row in model.odds_ratios.iter_rows(named=True):
        known = published["spector"][row["feature"]]
        assert row["log_odds"] == pytest.approx(known, abs=6e-4)
        assert row["odds_ratio"] == pytest.approx(np.exp(row["log_odds"]))
        assert row["ci_low"] < row["odds_ratio"] < row["ci_high"]
    assert model.calibration["n"].sum() == 32
    assert "16.9    1.05 to 271" in str(model)


def test_one_binary_feature_has_the_odds_ratio_of_the_table() -> None:
    frame = table_frame({"a": (30, 70), "b": (60, 50)})
    row = failure_model(frame, features="g").odds_ratios.row(0, named=True)
    assert (row["level"], row["reference"]) == ("a", "b")
    assert row["odds_ratio"] == pytest.approx((30 / 70) / (60 / 50), rel=1e-8)
    # Woolf's error, with the small-sample factor of HC1
    error = np.sqrt((1 / 30 + 1 / 70 + 1 / 60 + 1 / 50) * 210 / 208)
    assert row["std_error"] == pytest.approx(error, rel=1e-6)


def test_a_scale_changes_nothing_but_the_unit() -> None:
    frame = spector_frame()
    plain = failure_model(frame, features=("gpa", "psi"), method="ml").odds_ratios
    wide = failure_model(
        frame.with_columns(pl.col("gpa") * 1e6), features=("gpa", "psi"), method="ml"
    ).odds_ratios
    assert wide["log_odds"][0] * 1e6 == pytest.approx(plain["log_odds"][0], rel=1e-6)
    assert wide["pvalue"][0] == pytest.approx(plain["pvalue"][0], rel=1e-6)


def test_a_planted_model_is_recovered_and_calibrated() -> None:
    rng = np.random.default_rng(6)
    cpus, gpu = rng.integers(1, 9, 20_000), rng.choice(["t4", "v100"], 20_000)
    log_odds = -2 + 0.3 * cpus - 0.7 * (gpu == "v100")
    failed = rng.random(20_000) < 1 / (1 + np.exp(-log_odds))
    frame = pl.DataFrame({"cpus": cpus, "gpu_type": gpu, "status": WORDS[failed.astype(int)]})
    model = failure_model(frame, features=("cpus", "gpu_type"))
    cpu, kind = model.odds_ratios.rows(named=True)
    assert cpu["log_odds"] == pytest.approx(0.3, abs=0.03)
    sign = -1 if kind["level"] == "v100" else 1
    assert kind["log_odds"] == pytest.approx(0.7 * sign, abs=0.13)
    score = model.fit.row(0, named=True)
    assert score["calibration_slope"] == pytest.approx(1, abs=0.1)
    assert score["calibration_intercept"] == pytest.approx(0, abs=0.1)
    assert 0.6 < score["auc"] < 0.8
    assert score["brier"] < score["brier_of_rate"]


def test_a_level_without_a_failure_is_told_and_changes_nothing_else() -> None:
    frame = table_frame({"a": (30, 70), "b": (60, 50), "c": (0, 40), "d": (7, 0)})
    model = failure_model(frame, features="g")
    assert model.odds_ratios["odds_ratio"].drop_nulls().len() == 1
    notes = dict(model.odds_ratios.select("level", "note").rows())
    assert notes["c"].startswith("no row of the 40 failed: no finite odds ratio")
    assert notes["d"].startswith("every row of the 7 failed")
    alone = failure_model(frame.filter(pl.col("g").is_in(["a", "b"])), features="g")
    assert alone.odds_ratios["odds_ratio"][0] == model.odds_ratios["odds_ratio"][0]
    assert model.fit["n_excluded"].item() == 47


def test_constants_and_nulls_are_told() -> None:
    frame = spector_frame().with_columns(
        same=pl.lit(3.0),
        word=pl.lit("x"),
        tuce=pl.when(pl.int_range(pl.len()) > 1).then("tuce"),
    )
    model = failure_model(frame, features=("gpa", "tuce", "same", "word"))
    notes = model.odds_ratios["note"].to_list()
    assert notes == [None, None, "the same in every row: 3", "the same in every row"]
    assert model.fit["n_excluded"].item() == 2


def test_features_may_have_any_name_but_the_outcomes() -> None:
    frame = spector_frame().with_columns(g=pl.col("psi").cast(pl.String))
    known = failure_model(frame, features=("g", "gpa"), method="ml").odds_ratios
    for name in ("n", "failures", "level", "0"):
        found = failure_model(frame.rename({"g": name}), features=(name, "gpa"), method="ml")
        assert found.odds_ratios.drop("feature").equals(known.drop("feature"))
    with pytest.raises(DataError, match="column failure needs another name"):
        failure_model(frame.rename({"g": "failure"}), features=("failure", "gpa"))
    with pytest.raises(DataError, match="column failure needs another name"):
        outcome_association(frame.rename({"g": "failure"}), "failure")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pl.col("gpa") / 0, "column bad holds a value beyond 1e.150"),
        (
            pl.lit(None, pl.String),
            "no success or failure has a value in each of gpa, bad",
        ),
        (pl.col("status") + "!", "levels of bad determine every outcome .separation."),
        ((pl.col("status") == "failed") * 5 + pl.col("gpa") / 9, "no finite odds ratios"),
        (pl.int_range(pl.len()).cast(pl.String) + "x", "levels of bad determine every outcome"),
    ],
)
def test_features_that_allow_no_model_are_refused(column: pl.Expr, text: str) -> None:
    with pytest.raises(DataError, match=text) as refusal:
        failure_model(
            spector_frame().with_columns(bad=column), features=("gpa", "bad"), method="ml"
        )
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"features": ()}, "features names no column"),
        ({"features": "gpa", "failure": "loose"}, "failure names status 'loose'; statuses are"),
        ({"features": "gpa", "confidence": 2}, "confidence must lie between 0 and 1"),
        ({"features": "gpa", "cluster": "one"}, "column one has one cluster"),
        ({"features": "gpa", "cluster": "psi", "method": "firth"}, "cannot be firth with cluster"),
        ({"features": "gpa", "method": "probit"}, "it is 'probit'"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        failure_model(spector_frame().with_columns(one=pl.lit(1)), **options)
    failed = spector_frame().filter(status="failed")
    with pytest.raises(DataError, match="every row of the 11 failed: there is nothing to model"):
        failure_model(failed, features="gpa")


@pytest.mark.parametrize("cells", [(3, 9, 7, 2), (0, 12, 5, 6), (4, 1, 0, 8)])
def test_firth_of_a_table_adds_half_to_each_cell(cells: tuple[int, int, int, int]) -> None:
    # saturated model: Jeffreys' prior is half a row in each cell (Firth, Biometrika 80, 1993)
    a, b, c, d = cells
    design = np.array([[1.0, 1]] * (a + b) + [[1.0, 0]] * (c + d))
    failed = np.array([1.0] * a + [0.0] * b + [1.0] * c + [0.0] * d)
    fit = fit_firth(design, failed, confidence=0.95)
    assert fit.coefficient[1] == pytest.approx(
        np.log((a + 0.5) * (d + 0.5) / ((b + 0.5) * (c + 0.5))), abs=1e-5
    )
    assert fit.ci_low[1] < fit.coefficient[1] < fit.ci_high[1]


def test_few_events_have_firths_estimate() -> None:
    frame = table_frame({"a": (2, 9), "b": (7, 2)})
    model = failure_model(frame, features="g")
    row = model.odds_ratios.row(0, named=True)
    expected = (2.5 * 2.5 / (9.5 * 7.5)) ** (1 if row["level"] == "a" else -1)
    assert row["odds_ratio"] == pytest.approx(expected, rel=1e-4)
    assert model.fit["events_per_parameter"].item() == 9
    assert "Firth" in model.fit["errors"].item()
    chosen = failure_model(frame, features="g", method="firth")
    assert chosen.odds_ratios.equals(model.odds_ratios)


def test_levels_without_common_support_are_not_compared() -> None:
    rng = np.random.default_rng(8)
    big = rng.random(4000) < 0.2
    frame = pl.DataFrame(
        {
            "gpus": np.where(big, "8", "1"),
            "cpus": np.where(big, rng.uniform(64, 120, 4000), rng.uniform(1, 24, 4000)),
            "status": WORDS[(rng.random(4000) < 0.5).astype(int)],
        }
    )
    row = failure_model(frame, features=("gpus", "cpus")).odds_ratios.row(0, named=True)
    assert row["odds_ratio"] is None
    assert row["note"].startswith("not comparable: no common support in cpus (64")
    assert row["crude_ci_low"] < 1 < row["crude_ci_high"]
    assert row["vif"] > 3
    mixed = frame.with_columns(cpus=pl.Series(rng.uniform(1, 120, 4000)))
    assert failure_model(mixed, features=("gpus", "cpus")).odds_ratios["odds_ratio"].count() == 2
