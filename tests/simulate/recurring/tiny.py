"""A trace of two batch sizes and two power limits, small enough to be played by hand."""

from __future__ import annotations

import polars as pl


def tiny_runs(epochs: dict[int, list[int | None]]) -> pl.DataFrame:
    """Runs to cifar100's default target with these epochs by batch size."""
    rows = [
        ("cifar100", "net", size, "sgd", 0.1, run, 0.6, epoch)
        for size, each in epochs.items()
        for run, epoch in enumerate(each, 1)
    ]
    columns = ["dataset", "network", "batch_size", "optimizer", "learning_rate", "run"]
    schema = dict.fromkeys([*columns, "target_metric"])
    return pl.DataFrame(rows, schema={**schema, "target_epoch": pl.Int64}, orient="row")


def tiny_power(epochs: dict[tuple[int, float], tuple[float, float]]) -> pl.DataFrame:
    """Seconds and watts of an epoch by (batch size, power limit)."""
    rows = [
        ("g", "cifar100", "net", size, "sgd", limit, *epoch)
        for (size, limit), epoch in epochs.items()
    ]
    columns = ["gpu", "dataset", "network", "batch_size", "optimizer", "power_limit_w"]
    return pl.DataFrame(rows, schema=[*columns, "epoch_s", "mean_power_w"], orient="row")


# what an epoch costs with eta 0.5 and 200 W: 1750, 2175, 3200 and 3080 J
POWER = tiny_power(
    {
        (4, 200.0): (10.0, 150.0),
        (4, 100.0): (15.0, 90.0),
        (2, 200.0): (20.0, 120.0),
        (2, 100.0): (22.0, 80.0),
    }
)
RUNS = tiny_runs({2: [3], 4: [6]})
