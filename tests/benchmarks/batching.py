"""A sweep of dynamic batching beside a plain Python loop of the same semantics.

The plain way is what one writes first: step by step, worker by worker, sample by sample. It is
written from the definitions alone and is a reference that the tests hold the simulation to.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from traceana import sweep_batching
from traceana.simulate.batching.workers import LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTROLLERS = ("uniform", "static", "proportional", "damped", "oracle")
RATE, GLOBAL_BATCH, OVERHEADS, CV = 4.0, 192, (0.0, 0.1), 0.1


def plain_split(
    total: int, shares: Sequence[float], sample_s: Sequence[float], fixed_s: Sequence[float]
) -> list[int]:
    """Cut shares of 1 or more down to whole samples, and give the rest away one by one."""
    batches = [math.floor(share + 1e-9) for share in shares]
    while sum(batches) < total:
        finish = [a + (b + 1) * s for a, b, s in zip(fixed_s, batches, sample_s, strict=True)]
        batches[finish.index(min(finish))] += 1
    return batches


def plain_shares(total: int, weights: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """Shares c w - o that add up to the total, none below 1."""
    low: set[int] = set()
    while True:
        free = [k for k in range(len(weights)) if k not in low]
        level = (total - len(low) + sum(offsets[k] for k in free)) / sum(weights[k] for k in free)
        shares = [1.0 if k in low else level * weights[k] - offsets[k] for k in range(len(weights))]
        below = {k for k in free if shares[k] < 1}
        if not below:
            return shares
        low |= below


def plain_job(
    a: float, x_by_step: Sequence[Sequence[float]], controller: str, cores: Sequence[float]
) -> tuple[float, int]:
    """Return the time of a job and the number of its adjustments."""
    workers = len(cores)
    nothing = [0.0] * workers
    even = plain_split(
        GLOBAL_BATCH, plain_shares(GLOBAL_BATCH, [1.0] * workers, nothing), [1.0] * workers, nothing
    )
    batches, total_s, adjustments = even, 0.0, 0
    summed, count = nothing, 0
    if controller == "static":
        shares = plain_shares(GLOBAL_BATCH, cores, nothing)
        batches = plain_split(GLOBAL_BATCH, shares, [1 / c for c in cores], nothing)
    for step, x in enumerate(x_by_step):
        if controller == "oracle":
            shares = plain_shares(GLOBAL_BATCH, x, [a * rate for rate in x])
            new = plain_split(GLOBAL_BATCH, shares, [1 / rate for rate in x], [a] * workers)
            adjustments += step > 0 and new != batches
            batches = new
        times = [a + b / rate for b, rate in zip(batches, x, strict=True)]
        total_s += max(times)
        if step + 1 == len(x_by_step) or controller not in {"proportional", "damped"}:
            continue
        summed, count = [s + t for s, t in zip(summed, times, strict=True)], count + 1
        seen = [s / count for s in summed] if controller == "damped" else times
        mean = sum(seen) / workers
        wanted = [b / t * mean for b, t in zip(batches, seen, strict=True)]
        sample_s = [t / b for b, t in zip(batches, seen, strict=True)]
        shares = plain_shares(GLOBAL_BATCH, wanted, nothing)
        new = plain_split(GLOBAL_BATCH, shares, sample_s, nothing)
        moves = any(
            abs(n - b) / n >= (0.2 if controller == "damped" else 0)
            for n, b in zip(new, batches, strict=True)
        )
        if moves and new != batches:
            batches, adjustments = new, adjustments + 1
            summed, count = nothing, 0
    return total_s, adjustments


def plain_sweep(
    steps: int, seeds: int, controllers: Sequence[str] = CONTROLLERS
) -> dict[tuple[str, float, int, str], tuple[float, int]]:
    """Run the sweep job by job."""
    sigma = math.sqrt(math.log1p(CV**2))
    results = {}
    for level, cores in LEVELS.items():
        for seed in range(seeds):
            drawn = np.random.default_rng(seed).standard_normal((steps, len(cores)))
            noise = np.exp(sigma * drawn - sigma**2 / 2)
            x_by_step = (RATE * np.array(cores) / noise).tolist()
            for a in OVERHEADS:
                for controller in controllers:
                    results[level, a, seed, controller] = plain_job(a, x_by_step, controller, cores)
    return results


def main(arguments: list[str]) -> None:
    """Time both ways by processor time, compare their results, and print steps per second."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks batching")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=25, help="with 500 steps: a million steps")
    parser.add_argument("--rounds", type=int, default=3, help="of the fast way; median")
    parser.add_argument("--plain-seeds", type=int, default=2, help="seeds of the plain way")
    options = parser.parse_args(arguments)
    asked = {"controllers": CONTROLLERS, "overheads_s": OVERHEADS, "noise_cvs": [CV]}
    sweep_batching(**asked, seeds=[0], steps=2)  # type: ignore[arg-type]  # libraries are loaded
    fast = []
    for _ in range(options.rounds):
        start = time.process_time()
        sweep = sweep_batching(**asked, seeds=range(options.seeds), steps=options.steps)  # type: ignore[arg-type]
        fast.append(time.process_time() - start)
    start = time.process_time()
    plain = plain_sweep(options.steps, options.plain_seeds)
    plain_rate = len(plain) * options.steps / (time.process_time() - start)
    number = sweep.height * options.steps
    rate = number / statistics.median(fast)
    unequal = [
        key
        for row in sweep.iter_rows(named=True)
        if (key := (row["level"], row["overhead_s"], row["seed"], row["controller"])) in plain
        and not same((row["time_s"], row["adjustments"]), plain[key])
    ]
    Console().print(
        f"{number:,} steps: sweep_batching {statistics.median(fast):.2f} s of one processor, "
        f"{rate:,.0f} steps/s; plain Python {plain_rate:,.0f} steps/s; "
        f"{rate / plain_rate:.1f} times; "
        f"results that differ: {unequal or 'none'} of {len(plain):,}"
    )


def same(found: tuple[float, int], expected: tuple[float, int]) -> bool:
    """Whether times are equal to 9 digits, and adjustments exactly."""
    return math.isclose(found[0], expected[0], rel_tol=1e-9) and found[1] == expected[1]
