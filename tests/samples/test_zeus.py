"""The Zeus sample has the real grids, and values of its own on them."""

from __future__ import annotations

from collections import defaultdict
from math import isnan
from statistics import mean
from typing import TYPE_CHECKING

import pytest

from tests.samples.published import columns, contents

if TYPE_CHECKING:
    from pathlib import Path

Table = dict[str, list[str]]
GPUS = ["a40", "p100", "rtx6000", "v100"]
# data set: default target, default batch size, most epochs (papers' defaults)
DEFAULTS = {
    "cifar100": ("0.6", 1024, 100),
    "imagenet": ("0.65", 256, 100),
    "squad": ("84.0", 32, 6),
    "librispeech": ("40", 256, 16),
    "movielens-1m": ("0.41", 1024, 100),
    "sentiment140": ("0.84", 128, 10),
}


@pytest.fixture(scope="module")
def ours(sample: Path) -> dict[str, Table]:
    found = contents(sample / "zeus-2023")
    return {name.removesuffix(".csv"): columns(content) for name, content in found.items()}


def grid(table: Table, *names: str) -> list[tuple[str, ...]]:
    return list(zip(*(table[name] for name in names), strict=True))


def test_train_grid_is_the_real_one(ours: dict[str, Table], real_data: Path) -> None:
    real = columns(contents(real_data / "zeus-2023")["summary_train.csv"])
    # but for the numbers of the runs, which have gaps there
    names = ("dataset", "network", "batch_size", "optimizer", "target_metric")
    assert sorted(grid(ours["summary_train"], *names)) == sorted(grid(real, *names))


@pytest.mark.parametrize("gpu", GPUS)
def test_power_grid_is_the_real_one(gpu: str, ours: dict[str, Table], real_data: Path) -> None:
    real = columns(contents(real_data / "zeus-2023")[f"summary_power_{gpu}.csv"])
    names = ("dataset", "network", "batch_size", "optimizer", "power_limit")
    assert sorted(grid(ours[f"summary_power_{gpu}"], *names)) == sorted(grid(real, *names))


def test_a_harder_target_is_reached_later_or_never(ours: dict[str, Table]) -> None:
    runs = defaultdict(list)
    names = ("dataset", "batch_size", "run", "target_epoch")
    for dataset, batch, run, epoch in grid(ours["summary_train"], *names):
        runs[dataset, batch, run].append(float(epoch))
    assert any(isnan(epochs[-1]) for epochs in runs.values())  # never reached
    for epochs in runs.values():
        reached = [epoch for epoch in epochs if not isnan(epoch)]
        assert reached == sorted(reached)
        assert reached == epochs[: len(reached)]


@pytest.mark.parametrize("gpu", GPUS)
def test_the_default_batch_size_reaches_the_default_target(
    gpu: str, ours: dict[str, Table]
) -> None:
    largest: dict[str, int] = defaultdict(int)
    for name, size in grid(ours[f"summary_power_{gpu}"], "dataset", "batch_size"):
        largest[name] = max(largest[name], int(size))
    names = ("dataset", "batch_size", "target_metric", "target_epoch")
    epochs = defaultdict(list)
    for name, size, target, epoch in grid(ours["summary_train"], *names):
        epochs[name, int(size), target].append(float(epoch))
    for dataset, (target, batch, most) in DEFAULTS.items():
        assert max(epochs[dataset, min(batch, largest[dataset]), target]) <= most


@pytest.mark.parametrize("gpu", GPUS)
def test_a_lower_power_limit_slows_an_epoch_and_saves_power(
    gpu: str, ours: dict[str, Table]
) -> None:
    table = ours[f"summary_power_{gpu}"]
    names = ("dataset", "batch_size", "power_limit", "time_per_epoch", "average_power")
    seen = defaultdict(list)
    for name, size, *values in grid(table, *names):
        seen[name, int(size)].append(tuple(map(float, values)))
    limited = 0
    for dataset, (_, batch, _) in DEFAULTS.items():
        largest = max(b for of, b in seen if of == dataset)
        (lowest, slow, low), *_, (_, fast, high) = sorted(seen[dataset, min(batch, largest)])
        if high > 1.1 * lowest:  # who draws less feels no limit
            limited += 1
            assert slow > fast
            assert low < high
    assert limited >= 3


def test_mean_power_may_exceed_its_limit_a_little(ours: dict[str, Table]) -> None:
    names = ("power_limit", "average_power")
    cells = [pair for gpu in GPUS for pair in grid(ours[f"summary_power_{gpu}"], *names)]
    over = [float(power) / float(limit) for limit, power in cells]
    assert 0 < mean(ratio > 1 for ratio in over) < 0.1
    assert max(over) < 1.1


def test_runtime_ratio_averages_1_within_a_data_set(ours: dict[str, Table]) -> None:
    groups = ours["alibaba_groups"]
    of_dataset = defaultdict(list)
    for dataset, *numbers in grid(groups, "dataset", "start_time", "end_time", "runtime_ratio"):
        start, end, ratio = map(float, numbers)
        of_dataset[dataset].append((end - start, ratio))
    assert set(of_dataset) == set(DEFAULTS)
    for values in of_dataset.values():
        runtime = mean(seconds for seconds, _ in values)
        for seconds, printed in values:
            assert printed == pytest.approx(seconds / runtime)
        assert mean(printed for _, printed in values) == pytest.approx(1)
