"""Collinear features, reversed signs, and rates standardized to one composition."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import traceana
from traceana.errors import DataError
from traceana.questions.failures import section
from traceana.questions.failures.analyze import fit_failure_model
from traceana.stats.logistic import fit_logistic, joint_test

STATUS = np.array(["completed", "failed"])


def jobs(n: int = 1500, seed: int = 2) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    memory = rng.normal(size=n)
    failed = rng.random(n) < 1 / (1 + np.exp(1 - 0.8 * memory))
    cpus = memory + 0.3 * rng.normal(size=n)
    return pl.DataFrame({"memory": memory, "cpus": cpus, "status": STATUS[failed.astype(int)]})


def test_what_earlier_features_determine_is_left_out_and_named() -> None:
    frame = jobs().with_columns(threads=2 * pl.col("cpus") + 1)
    found = traceana.failure_model(frame, features=("cpus", "threads"), method="ml").odds_ratios
    alone = traceana.failure_model(frame, features="cpus", method="ml").odds_ratios
    assert found["odds_ratio"].to_list() == [pytest.approx(alone["odds_ratio"].item()), None]
    assert found["note"].to_list() == [None, "determined by cpus: left out, not distinguishable"]


def test_collinear_features_are_tested_together() -> None:
    joint = traceana.failure_model(jobs(), features=("memory", "cpus"), method="ml").joint
    row = joint.row(0, named=True)
    assert (row["features"], row["df"], row["df_error"]) == ("memory, cpus", 2, None)
    # close to the likelihood-ratio test of both
    assert row["statistic"] == pytest.approx(190, rel=0.35)
    assert row["pvalue"] == pytest.approx(stats.chi2.sf(row["statistic"], 2))
    assert traceana.failure_model(jobs(), features="memory").joint.is_empty()


def test_the_joint_test_of_one_coefficient_is_its_own() -> None:
    frame = jobs(300)
    design = np.stack([np.ones(300), frame["memory"].to_numpy()], axis=1)
    failed = (frame["status"] == "failed").cast(float).to_numpy()
    cluster = np.arange(300) % 15
    fit = fit_logistic(design, failed, cluster, confidence=0.95)
    assert joint_test(fit, [1], 14).pvalue == pytest.approx(fit.pvalue[1])
    assert np.isnan(joint_test(fit, [0, 1], 1).pvalue)


def simpson() -> pl.DataFrame:
    # Charig and others, BMJ 292, 1986: kidney stones; A fails less in both sizes, more in all
    counts = {
        ("A", "small"): (6, 81),
        ("B", "small"): (36, 234),
        ("A", "large"): (71, 192),
        ("B", "large"): (25, 55),
    }
    rows = []
    for (treatment, size), (failed, done) in counts.items():
        # times 20, so that both are significant
        rows += [(treatment, size, "failed")] * 20 * failed
        rows += [(treatment, size, "completed")] * 20 * done
    return pl.DataFrame(rows, schema=["treatment", "size", "status"], orient="row")


def test_a_sign_that_adjustment_reverses_is_noted() -> None:
    found = traceana.failure_model(simpson(), features=("treatment", "size")).odds_ratios
    row = found.filter(feature="treatment").drop_nulls("odds_ratio").row(0, named=True)
    assert (row["crude_odds_ratio"] - 1) * (row["odds_ratio"] - 1) < 0
    assert "on opposite sides of 1 (Simpson's paradox)" in row["note"]


def test_rates_at_the_same_size_and_user_stand_beside_crude_ones(tmp_path: Path) -> None:
    # failures depend on the size alone, and v100 runs the large jobs
    rng, n = np.random.default_rng(7), 4000
    big = rng.random(n) < 0.5
    table = pl.DataFrame(
        {
            "job_id": [str(at) for at in range(n)],
            "user": [f"u{at % 50}" for at in range(n)],
            "gpus": np.where(big, 8.0, 1.0),
            "gpu_type": np.where(rng.random(n) < np.where(big, 0.8, 0.2), "v100", "a100"),
            "runtime_s": 60.0,
            "status": STATUS[(rng.random(n) < np.where(big, 0.35, 0.1)).astype(int)],
        }
    )
    traceana.add_table(table, trace="t", table="jobs", store=tmp_path / "store")
    page = traceana.build_report(
        tmp_path / "store", out=tmp_path / "out", only="outcomes", formats="md"
    ).read_text()
    [found] = re.findall(
        r"With the same composition of size \(GPUs\) and user: \w+ (\d+) % and \w+ (\d+) %", page
    )
    assert [int(rate) for rate in found] == pytest.approx([22.5, 22.5], abs=3)


def test_standardized_rates_of_kidney_stones() -> None:
    found = traceana.standardized_failure_rates(simpson(), "treatment", strata="size")
    a, b = found.iter_rows(named=True)
    # of 700 patients 357 have small stones
    small, large = 357 / 700, 343 / 700
    assert a["rate"] == pytest.approx(77 / 350)
    assert a["standardized"] == pytest.approx(small * 6 / 87 + large * 71 / 263)
    assert b["standardized"] == pytest.approx(small * 36 / 270 + large * 25 / 80)
    variance = small**2 * (6 / 87) * (81 / 87) / (87 * 20) + large**2 * (71 / 263) * (192 / 263) / (
        263 * 20
    )
    assert a["ci_high"] - a["standardized"] == pytest.approx(1.959964 * variance**0.5, rel=0.01)
    assert a["fraction_covered"] == 1
    assert a["standardized"] < b["standardized"]
    assert a["rate"] > b["rate"]


def test_strata_without_all_groups_are_left_out_and_counted() -> None:
    rows = pl.DataFrame(
        {
            "g": ["a"] * 4 + ["b"] * 4,
            "s": [1, 1, 1, 2, 1, 1, 3, 3],
            "status": ["failed", "completed"] * 4,
        }
    )
    found = traceana.standardized_failure_rates(rows, "g", strata="s")
    assert found["fraction_covered"].to_list() == [5 / 8, 5 / 8]
    assert found["standardized"].to_list() == pytest.approx([2 / 3, 1 / 2])
    never = rows.with_columns(status=pl.when(g="b").then(pl.lit("completed")).otherwise("status"))
    b = traceana.standardized_failure_rates(never, "g", strata="s").row(1, named=True)
    assert (b["standardized"], b["ci_low"], b["ci_high"]) == (0, None, None)
    assert b["note"] == "no row or every row failed: no interval"
    with pytest.raises(DataError, match="no stratum of s has rows of all groups"):
        traceana.standardized_failure_rates(rows.with_columns(s=pl.col("g")), "g", strata="s")
    with pytest.raises(DataError, match="strata names no column"):
        traceana.standardized_failure_rates(rows, "g", strata=())


def test_a_feature_that_differs_by_rounding_only_is_constant() -> None:
    # 60 GiB per GPU, as the difference of two logarithms
    gpus = pl.Series("gpus", [1, 2, 4, 8, 16] * 40)
    failed = np.random.default_rng(3).random(200) < 0.3
    rounded = (60 * gpus).log(2) - gpus.log(2)
    assert rounded.n_unique() > 1
    frame = pl.DataFrame({"gpus": gpus, "memory": rounded, "status": STATUS[failed.astype(int)]})
    rows = traceana.failure_model(frame, features=("gpus", "memory")).odds_ratios
    assert rows["odds_ratio"].is_null().to_list() == [False, True]
    assert rows["note"].to_list() == [None, "the same in every row: 5.90689"]


def test_only_the_types_whose_order_is_reversed_are_named_so(tmp_path: Path) -> None:
    # odds of failure at equal GPUs: v100 3 and h100 .6 times those of a100; h100 runs large jobs
    rng = np.random.default_rng(4)
    shares = {"a100": (0.85, 3000), "v100": (0.85, 2000), "h100": (0.1, 2000)}
    odds = {"a100": 1.0, "v100": 3.0, "h100": 0.6}
    parts = []
    for kind, (small, n) in shares.items():
        size = np.where(rng.random(n) < small, 1, 8)
        chance = odds[kind] * np.where(size == 1, 0.08, 0.4)
        failed = rng.random(n) < chance / (1 + chance)
        parts.append(
            pl.DataFrame({"gpus": size, "gpu_type": kind, "status": STATUS[failed.astype(int)]})
        )
    frame = pl.concat(parts).with_columns(
        job_id=pl.int_range(pl.len()).cast(pl.String),
        user="u" + (pl.int_range(pl.len()) % 97).cast(pl.String),
        runtime_s=pl.lit(60.0),
    )
    traceana.add_table(frame, trace="mine", table="jobs", store=tmp_path)
    trace = traceana.open_store(tmp_path).trace("mine")
    (said,) = [one for one in section.build([trace]).findings if "times as often" in one]
    assert "v100 fail" in said
    assert "less often" not in said
    model, _ = fit_failure_model(trace)
    assert model is not None
    reversed_ = model.odds_ratios.drop_nulls("note").filter(pl.col("note").str.contains("Simpson"))
    assert reversed_["level"].to_list() == ["h100"]


def test_an_association_that_is_not_linear_does_not_bias_the_types() -> None:
    # failure by GPUs is convex in their logarithm; h100 runs large jobs, at .6 times the odds
    rng = np.random.default_rng(6)
    chances = {1: 0.12, 2: 0.09, 4: 0.1, 8: 0.2, 16: 0.4}
    composition = {"a100": (0.55, 0.25, 0.12, 0.06, 0.02), "h100": (0.07, 0.08, 0.15, 0.45, 0.25)}
    parts = []
    for (kind, weights), n, ratio in zip(
        composition.items(), (12_000, 6_000), (1.0, 0.6), strict=True
    ):
        size = rng.choice([*chances], n, p=weights)
        odds = ratio * np.array([chances[one] / (1 - chances[one]) for one in size])
        failed = rng.random(n) < odds / (1 + odds)
        parts.append(
            pl.DataFrame({"kind": kind, "size": np.log2(size), "status": STATUS[1 * failed]})
        )
    frame = pl.concat(parts).with_columns(user=pl.int_range(pl.len()) % 60)
    of_kind, of_size = {}, {}
    for curved in (False, True):
        found = traceana.failure_model(
            frame, features=("kind", "size"), cluster="user", curved=curved
        )
        of_kind[curved], of_size[curved] = found.odds_ratios.rows(named=True)
    assert not of_kind[False]["ci_low"] < 0.6 < of_kind[False]["ci_high"]  # biased
    assert (
        of_kind[True]["ci_low"] < 0.6 < of_kind[True]["ci_high"] < 1 < of_kind[True]["crude_ci_low"]
    )
    assert of_size[False]["note"] is None
    assert of_size[True]["note"].startswith("mean slope; not linear")


def test_a_linear_association_has_no_square() -> None:
    frame = jobs()
    plain, curved = (
        traceana.failure_model(frame, features=("memory", "cpus"), curved=curved).odds_ratios
        for curved in (False, True)
    )
    assert plain.equals(curved)


@pytest.mark.parametrize(
    ("of_cpus", "said"),
    [
        (0.0, "; not certain of each alone: CPUs."),
        (-2.5, "."),
    ],
)
def test_the_page_states_which_of_collinear_features_is_not_certain(
    of_cpus: float, said: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    memory = rng.integers(0, 8, 3000)
    cpus = memory + rng.integers(-1, 2, 3000) * (rng.random(3000) < 0.5)
    score = 0.8 * (memory - 4) + of_cpus * (cpus - memory)
    failed = rng.random(3000) < 1 / (1 + np.exp(1 - score))
    table = pl.DataFrame(
        {
            "job_id": [str(at) for at in range(3000)],
            "user": [f"u{at}" for at in range(3000)],
            "memory_gib": 2.0**memory,
            "cpus": 2.0 ** (cpus + 1),
            "runtime_s": 60.0,
            "status": STATUS[failed.astype(int)],
        }
    )
    traceana.add_table(table, trace="t", table="jobs", store=tmp_path / "store")
    page = traceana.build_report(
        tmp_path / "store", out=tmp_path / "out", only="failure-model", formats="md"
    )
    assert f"together associated with failure (p \\< 0.001, 2 df){said}" in page.read_text()
