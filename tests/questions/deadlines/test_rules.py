"""Rules of generated plans: kept by planted ones, broken on purpose, held on the real files."""

from __future__ import annotations

import random
import uuid

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tests.questions.deadlines.plans import planted
from traceana import deadline_rules, replay_published_draws
from traceana.questions.deadlines import rates
from traceana.questions.deadlines.rates import PAIRS
from traceana.store import Store


def rule(table: pl.DataFrame, text: str) -> dict[str, float]:
    return table.filter(pl.col("rule").str.contains(text, literal=True)).row(0, named=True)


def test_rules_hold_on_planted_plans_and_fail_where_broken() -> None:
    plans, jobs = planted(4000)
    kept = deadline_rules(plans, jobs)
    assert rule(kept, "iterations are")["value"] == 1
    of_deadlines = kept.filter(pl.col("rule").str.starts_with("tightness"))
    assert of_deadlines.height == 5
    assert (of_deadlines["pvalue_adjusted"] > 0.01).all()
    # the planted models know of the GPUs: not all pairs are offered on four
    assert rule(kept, "models do not depend")["pvalue_adjusted"] < 1e-6
    slack = pl.when(pl.col("gpus") > 1).then(2.0).otherwise(0.7)
    loose = jobs.select(deadline_s=pl.col("submit_s") + slack * pl.col("runtime_s")).to_series()
    broken = deadline_rules(plans.with_columns(loose, iterations=pl.Series(range(4000))), jobs)
    assert rule(broken, "iterations are")["value"] < 0.9
    assert rule(broken, "uniform")["pvalue_adjusted"] < 1e-6
    assert rule(broken, "depend on GPUs")["pvalue_adjusted"] < 1e-6


def test_values_of_the_rules_are_scipys(monkeypatch: pytest.MonkeyPatch) -> None:
    plans, jobs = planted(400)
    late = 0.2 * jobs["runtime_s"] * (plans["batch_size"] == 128)
    plans = plans.with_columns(deadline_s=plans["deadline_s"] + late)
    draws = pl.DataFrame({"n_ordered": [8, 2], "n_as_drawn": [6, 0], "n_passed_over": [5, None]})
    monkeypatch.setattr(rates, "replay_published_draws", lambda _: draws)
    table = deadline_rules(plans, jobs)
    assert table.filter(rule="models are one seeded sequence")["value"].to_list() == [0.6, 0.5]
    pairs = (plans["model"] + plans["batch_size"].cast(pl.String)).to_numpy()
    tightness = ((plans["deadline_s"] - jobs["submit_s"] + 0.5) / jobs["runtime_s"]).to_numpy()
    h = stats.kruskal(*(tightness[pairs == pair] for pair in np.unique(pairs)))
    k, n = len(np.unique(pairs)), len(pairs)
    # Kelley's: the unexplained variance, each with its degrees of freedom
    epsilon = 1 - (1 - h.statistic / (n - 1)) * (n - 1) / (n - k)
    row = rule(table, "on model and batch size")
    assert (row["value"], row["pvalue"]) == pytest.approx((epsilon, h.pvalue))
    cells = stats.contingency.crosstab(pairs, jobs["gpus"].to_numpy()).count
    row = rule(table, "models do not depend")
    assert row["value"] == pytest.approx(stats.contingency.association(cells))
    assert row["pvalue"] == pytest.approx(stats.chi2_contingency(cells, correction=False).pvalue)
    chi = stats.chisquare(cells.sum(axis=1))
    row = rule(table, "equally likely")
    assert (row["value"], row["pvalue"]) == pytest.approx(((chi.statistic / n) ** 0.5, chi.pvalue))


def test_a_planted_sequence_is_found_and_another_is_not() -> None:
    ids, models = random.Random(42), random.Random(0)
    names = [str(uuid.UUID(int=ids.getrandbits(128))) for _ in range(500)]
    draws = [models.choice(PAIRS) for _ in range(501)]
    del draws[100]  # a job that is not in the file
    plans = pl.DataFrame(
        {
            "cluster": ["c"] * 500,
            "job_id": names,
            "model": [model for model, _ in draws],
            "batch_size": [batch for _, batch in draws],
        }
    )
    shuffled = plans.sample(fraction=1, shuffle=True, seed=1)
    found = replay_published_draws(shuffled).row(0, named=True)
    assert (found["n_ordered"], found["n_as_drawn"]) == (500, 500)
    assert found["n_passed_over"] == 1
    other = random.Random(1)
    drawn = [other.choice(PAIRS) for _ in range(500)]
    chance = plans.with_columns(
        model=pl.Series([model for model, _ in drawn]),
        batch_size=pl.Series([batch for _, batch in drawn]),
    )
    passed = replay_published_draws(chance)["n_passed_over"].item()
    assert passed == pytest.approx(13 * 500, rel=0.2)


def test_ids_of_another_kind_are_not_ordered() -> None:
    plans, _ = planted(30)
    row = replay_published_draws(plans).row(0, named=True)
    assert (row["n"], row["n_ordered"], row["n_passed_over"]) == (30, 0, None)


def test_real_files_repeat_one_sequence(real_store: Store) -> None:
    replayed = replay_published_draws(real_store.scan("elasticflow-2023", "training_plans"))
    assert replayed["n"].sum() == 69_546
    assert replayed["n_as_drawn"].equals(replayed["n_ordered"])
    exact = replayed.filter(n_passed_over=0)["cluster"].to_list()
    assert exact == ["195job", *(f"cluster{i:02}" for i in (5, 6, 7, 8, 9, 10))]
    # by chance there would be 13 a job
    assert replayed["n_passed_over"].sum() < replayed["n"].sum() // 200
