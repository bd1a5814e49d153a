"""What falls out of the join of runs and profiles, by hand and against pandas' outer join."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from tests.questions.energy.test_accuracy import PAIRS
from tests.questions.energy.zeus_tables import POWER, RUNS
from traceana import energy_coverage, energy_to_accuracy
from traceana.errors import DataError
from traceana.schema import TRAINING_DEFAULTS
from traceana.store import Store


def test_coverage_by_hand() -> None:
    runs = RUNS.filter(
        ~((pl.col("batch_size") == 64) & (pl.col("run") == 1)) | (RUNS["target_metric"] != 0.5)
    )
    result = energy_coverage(runs, POWER, gpu="g", dataset="cifar100", target=0.5)
    assert result.select(
        "optimizer",
        "batch_size",
        "runs",
        "runs_reached",
        "runs_unknown",
        "power_limits",
        "power_limits_missing",
        "feasible",
        "note",
    ).rows() == [
        ("adam", 64, 0, 0, 0, 1, 1, False, "profiled only"),
        ("sgd", 64, 2, 1, 1, 2, 0, False, "a run has no row at the target"),
        ("sgd", 128, 1, 1, 0, 1, 1, True, None),
        ("sgd", 256, 2, 1, 0, 2, 0, False, "a run never reached the target"),
        ("sgd", 512, 1, 1, 0, 0, 2, False, "trained only"),
        ("sgd", 1024, 0, 0, 0, 1, 1, False, "profiled only"),
    ]
    assert set(result.select("gpu", "dataset", "target", "network").rows()) == {
        ("g", "cifar100", 0.5, "net")
    }
    feasible = energy_to_accuracy(runs, POWER, gpu="g", dataset="cifar100", target=0.5)
    assert set(feasible["batch_size"]) == set(result.filter("feasible")["batch_size"])


@pytest.mark.parametrize(("gpu", "dataset"), PAIRS)
def test_the_published_traces(real_store: Store, real_data: Path, gpu: str, dataset: str) -> None:
    runs, power = (real_store.scan("zeus-2023", t) for t in ("training_runs", "power_profiles"))
    result = energy_coverage(runs, power, gpu=gpu, dataset=dataset)
    folder = real_data / "zeus-2023"
    train = pd.read_csv(folder / "summary_train.csv")
    train = train[train["dataset"] == dataset]
    train = train[train["target_metric"] == TRAINING_DEFAULTS[dataset].target]
    watts = pd.read_csv(folder / f"summary_power_{gpu}.csv")
    watts = watts[watts["dataset"] == dataset]
    key = ["network", "optimizer", "batch_size"]
    both = (
        train.groupby(key)["target_epoch"]
        .agg(["size", "count"])
        .join(watts.groupby(key)["power_limit"].nunique(), how="outer")
    )
    assert result.select(key).rows() == both.index.to_list()
    counts = both.fillna(0).astype(int).to_numpy().tolist()
    assert [list(row) for row in result.select("runs", "runs_reached", "power_limits").rows()] == (
        counts
    )
    assert result["feasible"].to_list() == [
        size > 0 and size == reached and limits > 0 for size, reached, limits in counts
    ]
    grid = watts["power_limit"].nunique()
    assert result["power_limits_missing"].to_list() == [grid - limits for *_, limits in counts]
    assert result["note"].is_null().to_list() == result["feasible"].to_list()


def test_without_names_every_pair_is_covered() -> None:
    twice = pl.concat([POWER, POWER.with_columns(gpu=pl.lit("h"))])
    both = energy_coverage(RUNS, twice, target=0.5)
    one = energy_coverage(RUNS, POWER, gpu="g", dataset="cifar100", target=0.5)
    assert both.filter(gpu="g").equals(one)
    assert both.filter(gpu="h").drop("gpu").equals(one.drop("gpu"))
    assert energy_coverage(RUNS, twice, gpu="h", target=0.5).equals(both.filter(gpu="h"))


def test_a_pair_is_trained_and_has_a_default() -> None:
    one = energy_coverage(RUNS, POWER, target=0.5)
    # imagenet has a default and no run, and the third one runs and no default
    names = [pl.lit("imagenet").alias("dataset"), pl.lit("third").alias("dataset")]
    assert "imagenet" in TRAINING_DEFAULTS
    power = pl.concat([POWER, *(POWER.with_columns(name) for name in names)])
    runs = pl.concat([RUNS, RUNS.with_columns(names[1])])
    assert energy_coverage(runs, power, target=0.5).equals(one)


def test_a_named_dataset_that_was_not_trained_is_unknown() -> None:
    power = POWER.filter(dataset="cifar100").with_columns(dataset=pl.lit("imagenet"))
    with pytest.raises(DataError, match="dataset of the training runs: 'imagenet' is unknown"):
        energy_coverage(RUNS, power, dataset="imagenet", target=0.5)
