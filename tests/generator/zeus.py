"""Sample of training runs, power and recurring jobs: `zeus-2023`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tests.generator.draw import (
    DAY_S,
    ZEUS_KEY,
    apportion,
    arrivals,
    generator,
    heavy_tail,
    hex_ids,
)
from tests.generator.files import write_tables
from tests.generator.zeus_grid import GPUS, WORKLOADS, Gpu, Workload, limits_of

if TYPE_CHECKING:
    from pathlib import Path

RECURRING_JOBS: Final = 100_000
"""Rows of the group trace at scale 1: a choice, the real file's rows are not stated anywhere."""

_FEWEST_JOBS: Final = 60
_JOBS_A_GROUP: Final = 20
_GROUPS_KEY, _TRAIN_KEY, _POWER_KEY = 0, 1, 2


def write_zeus(folder: Path, *, scale: float, seed: int) -> dict[str, int]:
    """Write the train, power and group traces; return the rows by file.

    The grids of the first two are whole at every scale; the group trace alone is scaled.
    """
    tables = {"summary_train.csv": _draw_runs(generator(seed, ZEUS_KEY, _TRAIN_KEY))}
    for name, gpu in GPUS.items():
        rng = generator(seed, ZEUS_KEY, _POWER_KEY, len(tables))
        tables[f"summary_power_{name}.csv"] = _draw_power(rng, name, gpu)
    tables["alibaba_groups.csv.xz"] = _draw_recurring_jobs(
        generator(seed, ZEUS_KEY, _GROUPS_KEY), max(round(RECURRING_JOBS * scale), _FEWEST_JOBS)
    )
    return write_tables(folder, tables)


def _draw_runs(rng: np.random.Generator) -> pl.DataFrame:
    rows: list[dict[str, object]] = []
    for dataset, work in WORKLOADS.items():
        # the publisher's order: batch sizes and runs as text
        for batch in sorted(work.runs, key=str):
            for run in sorted(range(1, work.runs[batch] + 1), key=str):
                epochs = _epochs_to(rng, work, batch)
                rows += [
                    {
                        "dataset": dataset,
                        "network": work.network,
                        "batch_size": batch,
                        "optimizer": work.optimizer,
                        "learning_rate": _learning_rate(work, batch),
                        "run": run,
                        "target_metric": target,
                        "target_epoch": epoch,
                    }
                    for target, epoch in zip(work.targets, epochs, strict=True)
                ]
    return pl.DataFrame(rows)


def _learning_rate(work: Workload, batch: int) -> str:
    """Adadelta's is fixed, the others grow with the square root of the batch size."""
    if work.optimizer == "adadelta":
        return f"{work.learning_rate:.0e}".replace("e-0", "e-")
    return f"{work.learning_rate * math.sqrt(batch / work.best_batch):.2e}"


def _epochs_to(rng: np.random.Generator, work: Workload, batch: int) -> list[str]:
    """Return the epoch at which one run reaches each target, or nan where it never does."""
    doublings = math.log2(batch / work.best_batch)
    span = work.best_metric - work.first_metric
    default = (work.default_target - work.first_metric) / span
    scale = work.epochs / -math.log1p(-default) * (1 + work.slower * doublings**2)
    scale *= math.exp(0.05 * rng.standard_normal())
    reached = span * (1 - work.worse * doublings**2)
    epochs = []
    for target in work.targets:
        done = (float(target) - work.first_metric) / reached
        epoch = max(math.ceil(-scale * math.log1p(-done)), 1) if done < 1 else math.inf
        epochs.append(str(epoch) if epoch <= work.most_epochs else "nan")
    return epochs


def _draw_power(rng: np.random.Generator, name: str, gpu: Gpu) -> pl.DataFrame:
    rows: list[dict[str, object]] = []
    for dataset, batches in gpu.batches.items():
        work = WORKLOADS[dataset]
        two = (name, dataset) == ("v100", "cifar100")
        for batch in sorted(batches, key=str):
            full = batch / (batch + work.half_batch)
            wanted_w = gpu.idle_w + (gpu.peak_w - gpu.idle_w) * work.use * full
            for limit in limits_of(name, dataset, batch):
                for optimizer in (work.optimizer, "adam")[: 1 + two]:
                    # under a limit the part of the power above idle is what does the work
                    above = (wanted_w - gpu.idle_w) / max(limit - gpu.idle_w, 1)
                    slow = max(above, 1) ** 0.6 * math.exp(0.01 * rng.standard_normal())
                    rows.append(
                        {
                            "dataset": dataset,
                            "network": work.network,
                            "batch_size": batch,
                            "optimizer": optimizer,
                            "power_limit": limit,
                            "time_per_epoch": work.epoch_s * gpu.slower / full * slow,
                            "average_power": min(wanted_w, limit - 2)
                            * math.exp(0.01 * rng.standard_normal()),
                        }
                    )
    return pl.DataFrame(rows)


def _draw_recurring_jobs(rng: np.random.Generator, n: int) -> pl.DataFrame:
    """Draw groups of alike jobs; the longer a group's jobs, the larger its data set."""
    groups = max(n // _JOBS_A_GROUP, 2 * len(WORKLOADS))
    sizes = 1 + apportion(n - groups, list(rng.lognormal(0, 1.5, groups)), least=0)
    mean_s = np.sort(heavy_tail(rng, 3000, groups, sigma=1.5))
    group = np.repeat(np.arange(groups), sizes)
    runtime = np.ceil(heavy_tail(rng, mean_s[group], len(group), sigma=0.4))
    by_size = sorted(WORKLOADS, key=lambda dataset: WORKLOADS[dataset].epoch_s)
    start = arrivals(rng, len(group), first_s=7 * DAY_S, days=62)
    return (
        pl.DataFrame(
            {
                "group": hex_ids(rng, groups, digits=32).gather(group),
                "start_time": start.astype(float),
                "end_time": start + runtime,
                "dataset": pl.Series(by_size).gather(group * len(by_size) // groups),
                "runtime": runtime,
            }
        )
        .with_columns(runtime_ratio=pl.col("runtime") / pl.col("runtime").mean().over("dataset"))
        .drop("runtime")
        .sort("group", "start_time")
    )
