"""A sweep is its simulations; its intervals are Student's."""

from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

from tests.simulate.recurring.tiny import POWER, RUNS, tiny_runs
from traceana import simulate_recurring, summarize_recurring, sweep_recurring
from traceana.errors import DataError
from traceana.schema import TRAINING_DEFAULTS
from traceana.simulate import frames

NOISY = tiny_runs({2: [3, 5, 4], 4: [6, 4, 9]})


def test_a_replication_is_the_simulation_with_its_seed() -> None:
    shares: list[float] = []
    sweep = sweep_recurring(NOISY, POWER, seeds=[3, 5], progress=shares.append)
    assert shares == [1.0]
    for row in sweep.rows(named=True):
        asked = {"gpu": row["gpu"], "dataset": row["dataset"], "rng": row["seed"]}
        alone = simulate_recurring(NOISY, POWER, **asked).totals.to_dicts()[0]
        assert {name: row[name] for name in alone} == alone
    assert sweep["note"].to_list() == [None, None]


def test_the_interval_over_seeds() -> None:
    sweep = sweep_recurring(NOISY, POWER, seeds=range(8), recurrences=6, beta=4)
    row = summarize_recurring(sweep, confidence=0.9).to_dicts()[0]
    values = sweep["energy_saved"].to_numpy()
    low, high = stats.t.interval(0.9, 7, values.mean(), stats.sem(values))
    found = (row["energy_saved"], row["energy_saved_ci_low"], row["energy_saved_ci_high"])
    assert found == pytest.approx((values.mean(), low, high))
    assert (row["seeds"], row["seeds_failed"]) == (8, 0)
    one = summarize_recurring(sweep.head(1)).to_dicts()[0]
    assert one["energy_saved"] == values[0]
    assert one["energy_saved_ci_low"] is None


def test_what_cannot_be_simulated_is_null_and_said() -> None:
    power = pl.concat([POWER, POWER.with_columns(dataset=pl.lit("squad"))])
    sweep = sweep_recurring(RUNS, power, seeds=[1])
    assert sweep["runs"].null_count() == 1
    notes = summarize_recurring(sweep).select("dataset", "seeds", "seeds_failed", "note").rows()
    unknown = "dataset of the training runs: 'squad' is unknown; found cifar100"
    assert notes == [("cifar100", 1, 0, None), ("squad", 0, 1, unknown)]
    failing = sweep_recurring(RUNS, POWER, seeds=[1], beta=0.2)
    assert "larger beta" in failing["note"][0]
    no_default = sweep_recurring(
        tiny_runs({2: [3], 4: [6, 6, None]}), POWER, seeds=[1], recurrences=1
    )
    assert no_default["energy_saved"].to_list() == [None]
    assert "missed the target" in no_default["note"][0]


def test_names_that_are_not_there() -> None:
    with pytest.raises(DataError, match="gpu: 'x' is unknown; found g"):
        sweep_recurring(RUNS, POWER, gpu_types=["x"])
    with pytest.raises(DataError, match="dataset: 'x' is unknown; found cifar100"):
        sweep_recurring(RUNS, POWER, datasets=["x"])
    with pytest.raises(DataError, match="seeds must be 1 to 100,000"):
        sweep_recurring(RUNS, POWER, seeds=[])
    with pytest.raises(DataError, match="recurrences must be a whole number"):
        sweep_recurring(RUNS, POWER, recurrences=0)


def test_a_sweep_that_passed_through_another_engine_is_summarized() -> None:
    sweep = sweep_recurring(RUNS, POWER, seeds=[1, 2], recurrences=6)
    expected = summarize_recurring(sweep)
    assert_frame_equal(summarize_recurring(sweep.to_pandas()), expected)
    assert_frame_equal(summarize_recurring(sweep.to_arrow()), expected)
    for wrong, line in (
        (sweep.drop("runs"), "summarize_recurring: column runs is missing"),
        (
            sweep.with_columns(energy_saved=pl.lit("x")),
            "summarize_recurring: the frame cannot be read",
        ),
        ([1], "summarize_recurring: expected a .* frame, got list"),
    ):
        with pytest.raises(DataError, match=line):
            summarize_recurring(wrong)  # type: ignore[arg-type]


def test_a_sweep_is_of_the_gpus_and_data_sets_named() -> None:
    power = pl.concat([POWER, POWER.with_columns(gpu=pl.lit("h"))])
    sweep = sweep_recurring(
        NOISY, power, gpu_types="h", datasets="cifar100", seeds=[1], recurrences=2
    )
    assert sweep["gpu"].to_list() == ["h"]
    assert sweep_recurring(NOISY, power, seeds=[1], recurrences=2)["gpu"].to_list() == ["g", "h"]


def test_a_target_reached_in_the_last_epoch_is_reached() -> None:
    last = TRAINING_DEFAULTS["cifar100"].max_epochs
    found = simulate_recurring(tiny_runs({4: [last]}), POWER, gpu="g", dataset="cifar100")
    assert found.history["epochs"].unique().to_list() == [last]
    with pytest.raises(DataError, match=f"no run of cifar100 on g reached target 0.6 in {last}"):
        simulate_recurring(tiny_runs({4: [last + 1]}), POWER, gpu="g", dataset="cifar100")


def test_more_seeds_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_MOST_SEEDS", 3)
    assert sweep_recurring(RUNS, POWER, seeds=range(3), recurrences=1).height == 3
    with pytest.raises(DataError, match="seeds must be 1 to 3"):
        sweep_recurring(RUNS, POWER, seeds=range(4), recurrences=1)


def test_progress_is_the_fraction_of_the_jobs() -> None:
    power = pl.concat(
        [POWER, POWER.with_columns(gpu=pl.lit("h")), POWER.with_columns(gpu=pl.lit("i"))]
    )
    shares: list[float] = []
    sweep_recurring(RUNS, power, seeds=[1], recurrences=1, progress=shares.append)
    assert shares == [1 / 3, 2 / 3, 1]
