"""Numbers at which a plan counts, and at which a rule has no test."""

from __future__ import annotations

import random
import uuid

import numpy as np
import polars as pl
import pytest
from scipy import stats

from tests.questions.deadlines.plans import planted
from tests.questions.defaults import numbers_by_default
from traceana import (
    compare_plans,
    deadline_rules,
    deadline_tightness,
    iteration_rates,
    replay_published_draws,
)
from traceana.errors import DataError
from traceana.questions.deadlines.rates import PAIRS


def test_a_runtime_of_one_second_on_a_fraction_of_a_gpu_counts() -> None:
    plans, jobs = planted(30)
    first = pl.int_range(pl.len()) == 0
    jobs = jobs.with_columns(
        runtime_s=pl.when(first).then(1.0).otherwise("runtime_s"),
        gpus=pl.when(first).then(0.5).otherwise("gpus"),
    )
    assert compare_plans(plans, plans, jobs)["n"][0] == 30
    assert iteration_rates(plans, jobs)["n"].sum() == 30
    table = deadline_rules(plans, jobs)
    assert table["n"][0] == 30


def test_no_gpu_is_no_rate() -> None:
    plans, jobs = planted(30)
    first = pl.int_range(pl.len()) == 0
    without = jobs.with_columns(gpus=pl.when(first).then(0.0).otherwise("gpus"))
    found = iteration_rates(plans, without)
    assert found["n"].sum() == 29
    assert found.filter(gpus=0).is_empty()
    for asked in (
        compare_plans(plans, plans, without),
        deadline_rules(plans, without),
        deadline_tightness(plans, without),
    ):
        assert asked["n"][0] == 29


def test_no_runtime_is_no_rate() -> None:
    plans, jobs = planted(30)
    first = pl.int_range(pl.len()) == 0
    at_once = jobs.with_columns(runtime_s=pl.when(first).then(0.0).otherwise("runtime_s"))
    assert iteration_rates(plans, at_once)["n"].sum() == 29
    assert deadline_rules(plans, at_once)["n"][0] == 29
    assert deadline_tightness(plans, at_once)["n"].item() == 29


def test_no_iteration_is_a_rate_without_a_spread() -> None:
    plans, jobs = planted(3)
    one = plans.with_columns(iterations=0, model=pl.lit("m"), batch_size=64)
    row = iteration_rates(one, jobs.with_columns(gpus=1.0)).row(0, named=True)
    assert (row["n"], row["lowest"], row["spread"]) == (3, 0, None)


def test_whole_numbers_up_to_1e15_are_taken() -> None:
    plans, jobs = planted(3)
    large = plans.with_columns(batch_size=10**15)
    assert iteration_rates(large, jobs)["batch_size"].unique().to_list() == [10**15]
    with pytest.raises(DataError, match=r"must hold whole numbers, 1e\+15 at most"):
        iteration_rates(plans.with_columns(batch_size=10**15 + 1), jobs)


def test_what_does_not_vary_has_no_test() -> None:
    plans, jobs = planted(40)
    alone = plans.with_columns(model=pl.lit("m"), batch_size=64)
    table = deadline_rules(alone, jobs.with_columns(gpus=1.0))
    gpus = table.filter(rule="tightness does not depend on GPUs").row(0, named=True)
    assert (gpus["value"], gpus["pvalue"]) == (None, None)
    assert table["rule"].to_list()[1:] == [
        "tightness is uniform on [0.5, 1.5)",
        *(f"tightness does not depend on {name}" for name in ("runtime", "GPUs", "submission")),
    ]
    # as many pairs as plans
    few = plans[:4].with_columns(model=pl.Series(["a", "b", "c", "d"]))
    rules = deadline_rules(few, jobs)["rule"]
    assert "tightness does not depend on model and batch size" not in rules


def test_the_association_of_three_models_with_three_numbers_of_gpus_is_cramers_v() -> None:
    plans, jobs = planted(90)
    draw = np.random.default_rng(4)
    plans = plans.with_columns(model=pl.Series(draw.choice(["a", "b", "c"], 90)), batch_size=8)
    gpus = pl.Series(draw.choice([1.0, 2.0, 4.0], 90))
    # one model does not use four
    jobs = jobs.with_columns(
        gpus=pl.when(plans["model"] == "a").then(gpus.clip(1, 2)).otherwise(gpus)
    )
    cells = stats.contingency.crosstab(plans["model"].to_numpy(), jobs["gpus"].to_numpy()).count
    row = deadline_rules(plans, jobs).filter(rule="models do not depend on GPUs")
    assert row["value"].item() == pytest.approx(stats.contingency.association(cells))


def test_a_pair_that_is_never_drawn_is_not_found() -> None:
    name = str(uuid.UUID(int=random.Random(42).getrandbits(128)))
    plans = pl.DataFrame({"cluster": "c", "job_id": [name], "model": "none", "batch_size": 1})
    row = replay_published_draws(plans).row(0, named=True)
    assert (row["n_ordered"], row["n_as_drawn"], row["n_passed_over"]) == (1, 0, 0)


@pytest.mark.parametrize(("last", "found"), [(("inception3", 64), 3), (("bert", 64), 2)])
def test_the_models_of_three_plans_are_sought_in_60_draws(
    last: tuple[str, int], found: int
) -> None:
    # after (bert, 128) and (bert, 64) the one comes with the 60th draw, the other with the 61st
    ids, drawn = random.Random(42), random.Random(0)
    order = [drawn.choice(PAIRS) for _ in range(61)]
    second = order.index(("bert", 64), order.index(("bert", 128)) + 1)
    assert order.index(last, second + 1) == (59 if found == 3 else 60)
    models, sizes = zip(("bert", 128), ("bert", 64), last, strict=True)
    names = [str(uuid.UUID(int=ids.getrandbits(128))) for _ in models]
    plans = pl.DataFrame({"cluster": "c", "job_id": names, "model": models, "batch_size": sizes})
    row = replay_published_draws(plans).row(0, named=True)
    assert (row["n_ordered"], row["n_as_drawn"]) == (3, found)


def test_numbers_by_default() -> None:
    assert numbers_by_default(deadline_tightness) == {"deadline_tightness": {"confidence": 0.95}}


@pytest.mark.parametrize(
    ("model", "batch", "place"), [("resnet50", 256, 18), ("resnet50", 128, 22), ("bert", 64, 27)]
)
def test_twenty_draws_are_made_for_a_plan(model: str, batch: int, place: int) -> None:
    draws = random.Random(0)
    drawn = [draws.choice(PAIRS) for _ in range(place)]
    assert drawn.index((model, batch)) == place - 1
    name = str(uuid.UUID(int=random.Random(42).getrandbits(128)))
    plans = pl.DataFrame({"cluster": "c", "job_id": [name], "model": model, "batch_size": batch})
    row = replay_published_draws(plans).row(0, named=True)
    found = place <= 20
    assert (row["n_as_drawn"], row["n_passed_over"]) == (int(found), (place - 1) * found)
