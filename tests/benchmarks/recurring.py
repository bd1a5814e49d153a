"""A sweep of recurring jobs beside the same semantics with pandas lookups at every run.

The plain way is what one writes first: the two traces merged, and at every run filtered by job,
batch size and power limit to sample one path, profile, and fit the bandit anew. It is written
from the definitions alone and is the reference that the tests hold the simulation to.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
from rich.console import Console

from traceana import simulate_recurring, sweep_recurring
from traceana.schema import TRAINING_DEFAULTS

KEY = ["dataset", "network", "batch_size", "optimizer"]


@dataclass
class PlainJob:
    """A job of the traces, every question put to a data frame."""

    runs: pd.DataFrame
    power: pd.DataFrame
    gpu: str
    dataset: str
    eta: float
    trace: pd.DataFrame = field(init=False)
    most_power: float = field(init=False)

    def __post_init__(self) -> None:
        profiles = self.power[self.power.gpu == self.gpu]
        self.trace = self.runs.merge(profiles, on=KEY, how="inner")
        self.trace["epoch_j"] = self.trace.epoch_s * self.trace.mean_power_w
        self.most_power = float(self.trace.power_limit_w.max())

    def rows(self) -> pd.DataFrame:
        goal = TRAINING_DEFAULTS[self.dataset].target
        return self.trace[
            (self.trace.dataset == self.dataset) & np.isclose(self.trace.target_metric, goal)
        ]

    def sizes(self) -> list[int]:
        return sorted(self.trace[self.trace.dataset == self.dataset].batch_size.unique().tolist())

    def default(self) -> int:
        profiled = self.power[(self.power.gpu == self.gpu) & (self.power.dataset == self.dataset)]
        return min(TRAINING_DEFAULTS[self.dataset].batch_size, int(profiled.batch_size.max()))

    def cost(self, joules: float, seconds: float) -> float:
        return self.eta * joules + (1 - self.eta) * self.most_power * seconds

    def best_limit(self, size: int) -> float:
        rows = self.rows()
        rows = rows[rows.batch_size == size].groupby("power_limit_w", as_index=False).first()
        watts = self.eta * rows.mean_power_w + (1 - self.eta) * self.most_power
        ordered = rows.assign(cost=watts * rows.epoch_s).sort_values(
            "power_limit_w", ascending=False
        )
        return float(ordered.loc[ordered.cost.idxmin(), "power_limit_w"])

    def run(
        self, size: int, limit: float, first: bool, bound: float, rng: np.random.Generator
    ) -> tuple[float, float, bool]:
        rows = self.rows()
        of_size = rows[rows.batch_size == size]
        path = of_size[of_size.power_limit_w == limit].sample(n=1, random_state=rng).iloc[0]
        most: float = TRAINING_DEFAULTS[self.dataset].max_epochs
        if bound != math.inf:
            most = min(float(bound // self.cost(path.epoch_j, path.epoch_s)), most)
        reached = bool(pd.notna(path.target_epoch) and path.target_epoch <= most)
        epochs = float(path.target_epoch) if reached else most
        if epochs == 0 or not first:
            return float(path.epoch_j * epochs), float(path.epoch_s * epochs), reached
        joules = of_size.epoch_j.mean() + path.epoch_j * (epochs - 1)
        seconds = of_size.epoch_s.mean() + path.epoch_s * (epochs - 1)
        return float(joules), float(seconds), reached


def plain_history(
    runs: pd.DataFrame,
    power: pd.DataFrame,
    *,
    gpu: str,
    dataset: str,
    seed: int,
    eta: float = 0.5,
    beta: float = 2.0,
    recurrences: int | None = None,
) -> list[tuple[int, int, float, float, float, bool]]:
    """Return (recurrence, batch size, power limit, energy, time, reached) of every run."""
    job = PlainJob(runs, power, gpu, dataset, eta)
    rng = np.random.default_rng(seed)
    if recurrences is None:
        recurrences = 2 * len(job.sizes()) * job.rows().power_limit_w.nunique()
    told = pd.DataFrame({"size": [], "cost": []})  # every cost that the chooser was told
    sizes, default = job.sizes(), job.default()
    rounds, queue, kept = 2, downwards(sizes, default), pd.Series(dtype=float)
    went_down, bandit = True, np.random.default_rng(seed)
    limits: dict[int, float] = {}
    least, history = math.inf, []
    for recurrence in range(1, recurrences + 1):
        spent = 0.0
        while True:
            # which batch size
            size = queue[0] if rounds else sampled_cheapest(told, sizes, bandit)
            # one run
            first = size not in limits
            if first:
                limits[size] = job.best_limit(size)
            limit = limits[size]
            joules, seconds, reached = job.run(size, limit, first, beta * least, rng)
            ran = seconds > 0
            cost = job.cost(joules, seconds) if ran else 100 * beta * least
            told = pd.concat([told, pd.DataFrame({"size": [size], "cost": [cost]})])
            # pruning goes on
            if rounds:
                if reached:
                    kept[size] = cost
                queue = queue[1:] if reached else []
                if not queue and went_down:
                    went_down, queue = False, [each for each in sizes if each > default]
                if not queue:
                    rounds, went_down = rounds - 1, True
                    default, sizes = int(kept.idxmin()), sorted(map(int, kept.index))
                    queue, kept = downwards(sizes, default), pd.Series(dtype=float)
            if ran:
                spent += cost
                history.append((recurrence, size, limit, joules, seconds, reached))
            if reached:
                least = min(least, spent)
                break
    return history


def sampled_cheapest(told: pd.DataFrame, arms: list[int], bandit: np.random.Generator) -> int:
    bandit.choice(arms, len(arms), replace=False)
    draws = {}
    for arm in arms:
        rewards = -told[told["size"] == arm].cost.to_numpy()
        spread = math.sqrt(rewards.var() / len(rewards))
        draws[arm] = bandit.normal(rewards.mean(), spread)
    return max(draws, key=lambda arm: draws[arm])


def downwards(sizes: list[int], default: int) -> list[int]:
    return [size for size in reversed(sizes) if size <= default]


def main(arguments: list[str]) -> None:
    """Time both ways, hold their histories against each other, and print the ratio."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks recurring")
    parser.add_argument("store", type=Path, help="folder of a store that holds zeus-2023")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5, help="of the fast way; median")
    options = parser.parse_args(arguments)
    runs, power = (
        pl.read_parquet(options.store / "zeus-2023" / f"{table}.parquet")
        for table in ("training_runs", "power_profiles")
    )
    sweep_recurring(runs, power, seeds=[0], recurrences=1)  # libraries are loaded
    fast = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        sweep_recurring(runs, power, seeds=range(options.seeds))
        fast.append(time.perf_counter() - start)
    plain_runs, plain_power = runs.to_pandas(), power.to_pandas()
    plain, number, unequal = 0.0, 0, []
    for gpu, dataset in power.select("gpu", "dataset").unique().sort("gpu", "dataset").rows():
        for seed in range(options.seeds):
            pair = {"gpu": gpu, "dataset": dataset, "seed": seed}
            start = time.perf_counter()
            expected = plain_history(plain_runs, plain_power, **pair)
            plain += time.perf_counter() - start
            found = simulate_recurring(runs, power, **pair).history
            number += len(expected)
            if not same(found, expected):
                unequal.append(pair)
    seconds = statistics.median(fast)
    Console().print(
        f"{number:,} runs: sweep_recurring {seconds:.2f} s, pandas lookups {plain:.1f} s, "
        f"{plain / seconds:.0f} times; histories that differ: {unequal or 'none'}"
    )


def same(found: pl.DataFrame, expected: list[tuple[int, int, float, float, float, bool]]) -> bool:
    """Whether two histories are equal: choices exactly, energy and time to 9 digits."""
    columns = ["recurrence", "batch_size", "power_limit_w", "energy_j", "time_s", "reached"]
    rows = found.select(columns).rows()
    return len(rows) == len(expected) and all(
        (a[0], a[1], a[2], a[5]) == (b[0], b[1], b[2], b[5])
        and math.isclose(a[3], b[3], rel_tol=1e-9)
        and math.isclose(a[4], b[4], rel_tol=1e-9)
        for a, b in zip(rows, expected, strict=True)
    )
