"""Histories against the publisher's sums, a plain pandas simulation, and arithmetic by hand."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.recurring import plain_history, same
from tests.simulate.recurring.tiny import POWER, RUNS, tiny_power, tiny_runs
from traceana import simulate_recurring
from traceana.errors import DataError
from traceana.ingesters import ingest
from traceana.schema import TRAINING_DEFAULTS
from traceana.simulate import RecurringResult
from traceana.simulate.recurring.policies import JustInTime, Unlearned
from traceana.store import open_store

REFERENCE = tomllib.loads(
    (Path(__file__).parents[2] / "reference" / "zeus_recurring.toml").read_text()
)["history"]
CONTRACT = ["recurrence", "batch_size", "power_limit_w", "energy_j", "time_s", "cost_j", "reached"]


@pytest.fixture(scope="module")
def zeus(
    real_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[pl.DataFrame, pl.DataFrame]:
    store = tmp_path_factory.mktemp("zeus")
    ingest(real_data / "zeus-2023", store=store)
    zeus = open_store(store).trace("zeus-2023")
    return zeus.table("training_runs"), zeus.table("power_profiles")


def simulate(runs: pl.DataFrame = RUNS, power: pl.DataFrame = POWER, **asked: Any) -> Any:
    return simulate_recurring(runs, power, **({"gpu": "g", "dataset": "cifar100"} | asked))


@pytest.mark.parametrize("reference", REFERENCE, ids=lambda each: each["gpu"])
def test_the_publishers_histories(
    zeus: tuple[pl.DataFrame, pl.DataFrame], reference: dict[str, Any]
) -> None:
    which = {name: reference[name] for name in ("gpu", "dataset", "seed")}
    which["rng"] = which.pop("seed")
    result = simulate_recurring(*zeus, **which)
    summary = result.totals.to_dicts()[0]
    for count in ("recurrences", "runs", "runs_missed"):
        assert summary[count] == reference[count]
    for measure in ("energy_j", "time_s"):
        assert summary[measure] == pytest.approx(reference[measure], abs=0.05, rel=0)
    assert result.history.columns[: len(CONTRACT)] == CONTRACT


@pytest.mark.parametrize(
    "setting",
    [
        ("v100", "imagenet", 3, 0.5, 2.0),
        ("p100", "squad", 4, 0.0, 1.5),
        ("rtx6000", "movielens-1m", 5, 1.0, 2.0),
        ("a40", "sentiment140", 6, 0.3, math.inf),
        ("v100", "cifar100", 7, 0.9, 1.2),
        ("rtx6000", "librispeech", 0, 0.7, 3.0),
    ],
    ids=lambda each: "-".join(map(str, each)),
)
def test_it_is_the_plain_simulation_run_for_run(
    zeus: tuple[pl.DataFrame, pl.DataFrame], setting: tuple[str, str, int, float, float]
) -> None:
    names = ("gpu", "dataset", "seed", "eta", "beta")
    asked: dict[str, Any] = dict(zip(names, setting, strict=True)) | {"recurrences": 40}
    expected = plain_history(*(frame.to_pandas() for frame in zeus), **asked)
    asked["rng"] = asked.pop("seed")
    assert same(simulate_recurring(*zeus, **asked).history, expected)


def test_a_history_by_hand() -> None:
    result: RecurringResult = simulate()
    assert result.job.default_batch_size == 4  # 1024, cut to the largest that was profiled
    thompson = (2, 100.0, 5280.0, 66.0, 9240.0, True)
    rows = [
        # pruning, first round: 4 is the default, 200 W its cheapest limit; then 2 below it.
        # the first epoch of each is half at 200 W and half at 100 W
        (4, 200.0, 1425 + 5 * 1500.0, 12.5 + 5 * 10.0, 10_712.5, True),
        (2, 100.0, 2080 + 2 * 1760.0, 21 + 2 * 22.0, 9300.0, True),
        # second round: 2 was cheaper and is the default; 4 is above it
        thompson,
        (4, 200.0, 9000.0, 60.0, 10_500.0, True),
        # 2 costs 9270 +- 21, 4 costs 10606 +- 75
        *[thompson] * 4,
    ]
    expected = [(number, *row) for number, row in enumerate(rows, 1)]
    assert result.history.select(CONTRACT).rows() == expected
    assert result.references.rows() == [
        ("default", 4, 200.0, 9000.0, 60.0, 10_500.0, None),
        ("oracle", 2, 100.0, 5280.0, 66.0, 9240.0, None),
    ]
    regret = [10_712.5 - 9240, 60.0, 0.0, 10_500.0 - 9240, 0.0, 0.0, 0.0, 0.0]
    assert result.recurrences["regret_j"].to_list() == regret
    summary = result.totals.to_dicts()[0]
    # of the last five one is 4's
    assert summary["energy_saved"] == pytest.approx(1 - (9000 + 4 * 5280) / 5 / 9000)
    assert summary["time_saved"] == pytest.approx(1 - (60 + 4 * 66) / 5 / 60)
    assert summary["regret_j"] == pytest.approx(sum(regret))
    assert "saved:" in str(result)


def test_a_run_is_stopped_before_it_costs_more_than_beta_times_the_least() -> None:
    result = simulate(tiny_runs({2: [30], 4: [6]}))
    history, totals = result.history, result.totals.row(0, named=True)
    assert totals["runs_missed"] == history.filter(reached=False).height > 0
    assert totals["runs"] == history.height > 2 * totals["runs_missed"]
    # 2 * 10712.5 J are 6 epochs of 3080 J; the recurrence goes on with the next batch size
    stopped = (2, 2, 100.0, 2080 + 5 * 1760.0, 21 + 5 * 22.0, 0.5 * 10_880 + 13_100, False)
    assert history.select(CONTRACT).rows()[1:3] == [
        stopped,
        (2, 4, 200.0, 9000.0, 60.0, 10_500.0, True),
    ]


def test_a_batch_size_whose_first_epoch_is_too_dear_does_not_run() -> None:
    slow = POWER.with_columns(
        epoch_s=pl.when(pl.col("batch_size") == 2).then(10).otherwise(1) * pl.col("epoch_s")
    )
    history = simulate(power=slow).history
    assert history["batch_size"].to_list() == [4] * 8
    assert history["recurrence"].to_list() == list(range(1, 9))


def test_without_early_stopping_a_run_takes_all_its_epochs() -> None:
    history = simulate(tiny_runs({2: [30], 4: [6]}), beta=math.inf).history
    assert history.row(1)[:3] == (2, 2, 100.0)
    assert history["reached"].all()


def test_the_named_policies() -> None:
    default, oracle = (simulate(policy=name).history for name in ("default", "oracle"))
    assert default.select("batch_size", "power_limit_w").unique().rows() == [(4, 200.0)]
    assert oracle.select("batch_size", "power_limit_w").unique().rows() == [(2, 100.0)]
    grid = simulate(policy="grid").history.select("batch_size", "power_limit_w").rows()
    assert grid == [(4, 200.0), (2, 200.0), (4, 100.0), (2, 100.0), *[(2, 100.0)] * 4]


class Alternating:
    """A policy of a user's own."""

    def __init__(self) -> None:
        self.told: list[tuple[int, float, float, bool]] = []

    def predict(self) -> int:
        return (4, 2)[len(self.told) % 2]

    def observe(self, batch_size: int, power_limit_w: float, cost_j: float, reached: bool) -> None:
        self.told.append((batch_size, power_limit_w, cost_j, reached))


class Lowest:
    def predict(self, batch_size: int) -> float:
        assert batch_size in (2, 4)
        return 100.0

    def observe(self, batch_size: int, power_limit_w: float, epoch_cost_j: float) -> None:
        raise AssertionError(
            f"nothing is to be profiled: {batch_size, power_limit_w, epoch_cost_j}"
        )


def test_a_users_own_policies() -> None:
    mine = Alternating()
    result = simulate(policy=lambda *_: (mine, Lowest()), recurrences=3)
    assert mine.told == [(4, 100.0, 13_050.0, True), (2, 100.0, 9240.0, True), mine.told[0]]
    assert not result.history["profiled"].any()
    with pytest.raises(DataError, match="chose batch size 3; found 2, 4"):
        simulate(policy=lambda *_: (_fixed(3), Lowest()))
    only = POWER.filter(pl.col("power_limit_w") == 200)
    with pytest.raises(DataError, match=r"power limit 100.0 W at batch size 4; found 200"):
        simulate(power=only, policy=lambda *_: (_fixed(4), Lowest()))


def test_a_batch_size_whose_first_epoch_costs_too_much_is_observed_at_100_times_the_bound() -> None:
    mine = Alternating()
    with pytest.raises(DataError, match="missed target"):
        simulate(policy=lambda *_: (mine, Lowest()), recurrences=2, beta=0.2)
    (first, *_, least, _), (size, *_, cost_j, reached) = mine.told[:2]
    assert (first, size, reached) == (4, 2, False)
    assert cost_j == pytest.approx(100 * 0.2 * least)


def _fixed(size: int) -> Alternating:
    policy = Alternating()
    policy.predict = lambda: size  # type: ignore[method-assign]
    return policy


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"gpu": "h100"}, "gpu: 'h100' is unknown; found g"),
        ({"dataset": "mnist"}, "dataset on g: 'mnist' is unknown; found cifar100"),
        ({"target": 0.7}, "no run of cifar100 has target 0.7; found 0.6"),
        ({"eta": 1.5}, "eta must lie from 0"),
        ({"beta": 0.0}, "beta must be above 0"),
        ({"beta": math.nan}, "beta must be above 0"),
        ({"beta": "2"}, "beta must be above 0"),
        ({"recurrences": 0}, "recurrences must be a whole number"),
        ({"recurrences": 2.5}, "recurrences must be a whole number"),
        ({"rng": -1}, "rng must be a whole number from 0 on or a numpy Generator; it is -1"),
        ({"rng": 1.5}, "rng must be a whole number"),
        ({"rng": "first"}, "rng must be a whole number"),
        ({"policy": 3}, "there are zeus, zeus-no-pruning, zeus-no-profiling, default, grid"),
        ({"policy": lambda *_: 3}, "must return a pair"),
        ({"policy": lambda job: job}, r"or a function of \(job, eta, rng\)"),
        (
            {"policy": lambda *_: (Unlearned, JustInTime())},
            "the batch size policy type must have predict, which takes 0 arguments, and observe",
        ),
        (
            {"policy": lambda *_: (Unlearned(lambda: 8), Unlearned(lambda: 8))},
            "the power limit policy Unlearned must have predict, which takes 1 arguments",
        ),
        ({"policy": "best"}, "'best'; there are zeus, zeus-no-pruning, zeus-no-profiling, default"),
        ({"beta": 0.2}, "both rounds of pruning; a larger beta"),
        ({"beta": 0.2, "policy": "default"}, "recurrence 2 .* in 20 runs"),
    ],
)
def test_an_impossible_setting_is_told_in_a_line(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        simulate(**asked)
    assert "\n" not in str(error.value)


def test_a_target_that_no_run_or_not_the_first_reached() -> None:
    other = RUNS.with_columns(target_metric=pl.lit(0.5))
    never = pl.concat([other, tiny_runs({2: [None], 4: [101]})])
    with pytest.raises(DataError, match=r"reached target 0.6 in 100 epochs; some run reached 0.5"):
        simulate(never)
    with pytest.raises(DataError, match=r"4 did not in 100 epochs; every run .* does: 2"):
        simulate(tiny_runs({2: [3], 4: [None]}))


def test_what_is_wrong_with_a_table() -> None:
    with pytest.raises(DataError, match=r"training_runs: expected a .* frame, got list"):
        simulate_recurring([], POWER, gpu="g", dataset="cifar100")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="column target_epoch is missing"):
        simulate(RUNS.drop("target_epoch"))
    with pytest.raises(DataError, match="several learning rates"):
        simulate(pl.concat([RUNS, RUNS.with_columns(learning_rate=pl.lit(0.2))]))
    with pytest.raises(DataError, match=r"default batch size 8 .* found 2, 4"):
        simulate(power=pl.concat([POWER, tiny_power({(8, 200.0): (1.0, 1.0)})]))


def test_what_the_trace_cannot_answer_is_counted() -> None:
    power = pl.concat([POWER.slice(0, 3), tiny_power({(1, 200.0): (9.0, 9.0)})])
    result = simulate(pl.concat([RUNS, tiny_runs({8: [1, 1]})]), power)
    # of 1 and 8 both limits, of 2 one
    assert result.totals["points_missing"].item() == 5


def test_no_default_is_no_saving() -> None:
    result = simulate(tiny_runs({2: [3], 4: [6, 6, None]}), recurrences=1, rng=1)
    assert result.references["note"][0].startswith("no default: a run missed the target")
    assert result.totals["energy_saved"].item() is None


sizes = st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=1, max_size=4, unique=True)
measure = st.floats(1, 100)


@st.composite
def traces(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame]:
    epochs: dict[int, list[int | None]] = {
        size: draw(st.lists(st.none() | st.integers(1, 120), min_size=1, max_size=4))
        for size in draw(sizes)
    }
    epochs[max(epochs)] = draw(st.lists(st.integers(1, 100), min_size=1, max_size=4))
    limits = draw(st.lists(st.sampled_from([50.0, 100.0, 150.0]), min_size=1, unique=True))
    points = {
        (size, limit): draw(st.tuples(measure, measure)) for size in epochs for limit in limits
    }
    return tiny_runs(epochs), tiny_power(points)


@given(
    traces(),
    st.integers(0, 9),
    st.floats(0, 1),
    st.floats(1, 4),
    st.sampled_from(["zeus", "grid", "default"]),
)
@settings(max_examples=30)
def test_what_always_holds(
    trace: tuple[pl.DataFrame, pl.DataFrame], seed: int, eta: float, beta: float, policy: str
) -> None:
    asked: dict[str, Any] = {"rng": seed, "eta": eta, "beta": beta, "policy": policy}
    try:
        result: RecurringResult = simulate(*trace, **asked)
    except DataError as error:
        if "larger beta" not in str(error):  # no batch size can be kept to
            raise
        return
    history = result.history
    assert history.equals(simulate(*trace, **asked).history)
    # a recurrence is its misses and then the one run that gets there
    ends = history.group_by("recurrence").agg(
        pl.col("reached").sum(), pl.col("reached").last().alias("last")
    )
    assert (ends["reached"] == 1).all()
    assert ends["last"].all()
    weighed = eta * history["energy_j"] + (1 - eta) * result.job.max_power_w * history["time_s"]
    assert history["cost_j"].to_list() == pytest.approx(weighed.to_list())
    assert result.recurrences["cost_j"].sum() == pytest.approx(history["cost_j"].sum())
    assert result.recurrences["runs"].sum() == history.height
    for row in history.rows(named=True):
        paths = result.job.batches[row["batch_size"]].epochs
        assert row["epochs"] <= TRAINING_DEFAULTS["cifar100"].max_epochs
        assert not row["reached"] or row["epochs"] in paths
        # a run that missed was stopped before the path got there
        assert row["reached"] or any(path is None or path > row["epochs"] for path in paths)


def test_the_regret_is_of_the_best_point_at_every_recurrence() -> None:
    # 3 epochs of 3,080 J with a batch size of 2 and 100 W
    row = simulate(recurrences=7).totals.row(0, named=True)
    assert row["regret_j"] == pytest.approx(row["cost_j"] - 7 * 9240)
    assert row["regret_fraction"] == pytest.approx(row["cost_j"] / (7 * 9240) - 1)
    assert row["regret_fraction"] > 0


def test_an_ablation_leaves_one_part_out() -> None:
    by_size = simulate(policy="zeus-no-pruning").history
    # each size once, the default first, and power limits are profiled as ever
    assert by_size.select("batch_size", "power_limit_w").rows()[:2] == [(4, 200.0), (2, 100.0)]
    by_run = simulate(policy="zeus-no-profiling").history
    # the rounds of pruning, in which each limit has a run of its own, from the highest
    assert by_run.select("batch_size", "power_limit_w", "cost_j").rows()[:4] == [
        (4, 200.0, 10_500.0),
        (2, 200.0, 9600.0),
        (2, 100.0, 9240.0),
        (4, 100.0, 13_050.0),
    ]
