"""The published family on a million tasks, with a bootstrap over jobs, beside pandas and scipy.

Four features by two outcomes, Pearson and Spearman, over rows and over group means. The plain way
draws jobs, puts their rows together and asks pandas and scipy again. As a thousand such resamples
take the better part of an hour, it does as many as --resamples says; what one more costs is told
below the table, the difference to none over their number.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import scipy.stats
from rich.console import Console

from tests.benchmarks.race import Contender, race
from traceana import runtime_correlations

FEATURES = ["gpus", "cpus", "memory_gib", "n_instances"]
RESAMPLES = "TRACEANA_BENCHMARK_RESAMPLES"  # to the process of a contender


def with_traceana(path: Path) -> object:
    return runtime_correlations(pl.scan_parquet(path), cluster="job_id", resamples=1000)


def without_bootstrap(path: Path) -> object:
    return runtime_correlations(pl.scan_parquet(path))


def plain_family(tasks: pd.DataFrame) -> list[float]:
    found = []
    for x in FEATURES:
        means = tasks.groupby(x, as_index=False)["runtime_s"].mean()
        for points in (tasks, means):
            found += [
                test(points[x], points["runtime_s"]).statistic
                for test in (scipy.stats.pearsonr, scipy.stats.spearmanr)
            ]
    return found


def plain(path: Path) -> object:
    tasks = pd.read_parquet(path)
    return [plain_family(part) for _, part in tasks.groupby(tasks["status"] == "completed")]


def plain_bootstrap(path: Path) -> object:
    tasks, rng = pd.read_parquet(path), np.random.default_rng(1)
    found = []
    for _, part in tasks.groupby(tasks["status"] == "completed"):
        of = part.groupby("job_id", sort=False).indices
        rows = list(of.values())
        for _ in range(int(os.environ[RESAMPLES])):
            drawn = rng.integers(0, len(rows), len(rows))
            found.append(plain_family(part.iloc[np.concatenate([rows[job] for job in drawn])]))
    return np.std(found, axis=0)


CONTENDERS: dict[str, Contender] = {
    "traceana, 1000 resamples": with_traceana,
    "traceana, no bootstrap": without_bootstrap,
    "pandas and scipy, few resamples": plain_bootstrap,
    "pandas and scipy, no bootstrap": plain,
}


def write_tasks(folder: Path, n: int) -> Path:
    """Write synthetic tasks, three a job on average."""
    rng = np.random.default_rng(0)
    tasks = {
        "job_id": rng.integers(0, max(n // 3, 1), n),
        "status": rng.choice(["completed", "failed", "running"], n, p=[0.7, 0.2, 0.1]),
        "runtime_s": rng.lognormal(7, 2, n),
        "gpus": rng.choice([0.1, 0.25, 0.5, 1, 2, 4, 8], n),
        "cpus": np.round(rng.lognormal(2, 0.8, n)),
        "memory_gib": np.round(rng.lognormal(3.3, 0.8, n)),
        "n_instances": rng.geometric(0.3, n),
    }
    path = folder / f"tasks-{n}.parquet"
    pl.DataFrame(tasks).write_parquet(path)
    return path


def main(arguments: list[str]) -> None:
    """Run the race at the size that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks correlations")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--resamples", type=int, default=5, help="of pandas and scipy")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    os.environ[RESAMPLES] = str(options.resamples)
    with tempfile.TemporaryDirectory() as folder:
        small = write_tasks(Path(folder), 2000)
        files = {"tasks": write_tasks(Path(folder), options.tasks)}
        unit = "traceana, 1000 resamples"
        medians = race(__name__, files, warm_up=small, rounds=options.rounds, unit=unit)
    peer = "pandas and scipy"
    more = medians["tasks", f"{peer}, few resamples"] - medians["tasks", f"{peer}, no bootstrap"]
    Console().print(f"{peer}: {more / options.resamples:.2f} seconds a resample")
