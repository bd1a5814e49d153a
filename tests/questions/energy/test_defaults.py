"""Defaults derived from runs, for data sets that state none."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from traceana import training_defaults
from traceana.schema import TRAINING_DEFAULTS


def runs(
    targets: Mapping[float, Mapping[int, int | None]], *, dataset: str = "own"
) -> pl.DataFrame:
    rows = [
        (dataset, "net", size, "sgd", 0.1, 1, target, epoch)
        for target, epochs in targets.items()
        for size, epoch in epochs.items()
    ]
    names = ["dataset", "network", "batch_size", "optimizer", "learning_rate", "run"]
    return pl.DataFrame(rows, schema=[*names, "target_metric", "target_epoch"], orient="row")


def profiles(*sizes: int, dataset: str = "own") -> pl.DataFrame:
    rows = [("g", dataset, "net", size, "sgd", 100.0, 10.0, 90.0) for size in sizes]
    names = ["gpu", "dataset", "network", "batch_size", "optimizer", "power_limit_w"]
    return pl.DataFrame(rows, schema=[*names, "epoch_s", "mean_power_w"], orient="row")


def test_the_hardest_target_that_most_batch_sizes_reach() -> None:
    accuracy: dict[float, dict[int, int | None]] = {
        0.5: {8: 2, 16: 3, 32: 4},
        0.6: {8: 4, 16: 5, 32: 9},
        0.7: {4: 7, 8: 8, 16: None, 32: None},
    }
    found = training_defaults(runs(accuracy), profiles(4, 8, 16, 32))["own"]
    assert (found.target, found.batch_size, found.max_epochs) == (0.6, 16, 9)
    assert not found.lower_is_harder
    # no batch size reaches it in every run
    first, second = runs({0.5: {8: 2, 16: None}}), runs({0.5: {8: None, 16: 3}})
    both = pl.concat([first, second.with_columns(run=pl.lit(2, pl.Int64))])
    assert training_defaults(both, profiles(8, 16))["own"].batch_size == 8


def test_of_an_error_the_hardest_target_is_the_lowest() -> None:
    error: dict[float, dict[int, int | None]] = {
        50.0: {8: 2, 16: 3},
        40.0: {8: 4, 16: 5},
        30.0: {8: 9, 16: None},
    }
    found = training_defaults(runs(error), profiles(8, 16))["own"]
    assert (found.target, found.lower_is_harder) == (40.0, True)


def test_stated_defaults_need_runs_of_their_target() -> None:
    stated = runs({0.6: {1024: 3}}, dataset="cifar100")
    power = profiles(1024, dataset="cifar100")
    assert training_defaults(stated, power)["cifar100"] == TRAINING_DEFAULTS["cifar100"]
    other = runs({0.1: {1024: 3}}, dataset="cifar100")
    assert training_defaults(other, power)["cifar100"].target == 0.1
    assert training_defaults(stated, profiles(8)) == {}


def test_a_single_target_is_no_harder_than_another() -> None:
    found = training_defaults(runs({0.5: {64: 4, 128: 8}}), profiles(64, 128))["own"]
    assert (found.target, found.lower_is_harder) == (0.5, False)
