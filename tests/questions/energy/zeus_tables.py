"""Small tables of training runs and power profiles, written down by hand."""

from __future__ import annotations

import polars as pl

# every number of epochs and every profile is chosen so that the results can be had in one's head
RUNS = pl.DataFrame(
    [
        # batch size, run, target, epoch; a null epoch: never reached
        (64, 1, 0.5, 4),
        (64, 2, 0.5, 6),
        (64, 1, 0.6, 9),
        (64, 2, 0.6, None),
        (128, 1, 0.5, 8),
        (128, 1, 0.6, 120),
        (256, 1, 0.5, None),
        (256, 2, 0.5, 3),
        (256, 1, 0.6, None),
        (256, 2, 0.6, None),
        (512, 1, 0.5, 7),
        (512, 1, 0.6, 8),
    ],
    schema=["batch_size", "run", "target_metric", "target_epoch"],
    orient="row",
).select(
    pl.lit("cifar100").alias("dataset"),
    pl.lit("net").alias("network"),
    "batch_size",
    pl.lit("sgd").alias("optimizer"),
    pl.lit(0.1).alias("learning_rate"),
    "run",
    "target_metric",
    "target_epoch",
)
PROFILES = pl.DataFrame(
    [
        # batch size, optimizer, power limit, seconds and watts of an epoch
        (64, "sgd", 100.0, 20.0, 100.0),
        (64, "sgd", 200.0, 10.0, 180.0),
        (128, "sgd", 100.0, 10.0, 110.0),
        (256, "sgd", 100.0, 5.0, 90.0),
        (256, "sgd", 200.0, 4.0, 150.0),
        (1024, "sgd", 200.0, 1.0, 100.0),
        (64, "adam", 200.0, 1.0, 1.0),
    ],
    schema=["batch_size", "optimizer", "power_limit_w", "epoch_s", "mean_power_w"],
    orient="row",
).select(
    pl.lit("g").alias("gpu"),
    pl.lit("cifar100").alias("dataset"),
    pl.lit("net").alias("network"),
    "batch_size",
    "optimizer",
    "power_limit_w",
    "epoch_s",
    "mean_power_w",
)
# another data set of the same GPU went up to 250 W: that is the GPU's largest limit
OTHER = PROFILES.head(1).with_columns(
    dataset=pl.lit("other"), power_limit_w=pl.lit(250.0), batch_size=pl.lit(8, pl.Int64)
)
POWER = pl.concat([PROFILES, OTHER])
