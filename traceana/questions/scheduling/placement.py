"""Placement of the jobs of a trace on its machines, by policy and by rule of ties."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.simulate.placement.policies import POLICIES
from traceana.simulate.placement.sweep import sweep_placement

if TYPE_CHECKING:
    from traceana.store import Trace

SEEDS: Final = (1, 2)
"""Seeds with ties by name; ties at random take the first."""
NEEDED: Final = {"jobs": ("gpus",), "machines": ("gpus",)}
"""Tables and columns of a trace whose jobs can be placed."""
MARGIN: Final = 0.5
"""Percentage points of the GPUs by which policies differ beyond the noise of seeds."""
MOST_JOBS: Final = 20_000
"""Most jobs to place on the page: larger traces take a random sample."""


def placement_runs(trace: Trace, /) -> pl.DataFrame:
    """Simulate the placement of a trace's jobs under every policy, with both rules of ties."""
    jobs, machines = (trace.table(table) for table in NEEDED)
    if jobs.height > MOST_JOBS:
        jobs = jobs.sample(MOST_JOBS, seed=1)
    by_name = sweep_placement(jobs, machines, policies={n: n for n in POLICIES}, seeds=SEEDS)
    # a random policy has no ties
    others = {name: name for name in POLICIES if name != "random"}
    at_random = sweep_placement(jobs, machines, policies=others, seeds=SEEDS[:1], ties=("random",))
    return pl.concat([by_name, at_random])


def reversed_pairs(summary: pl.DataFrame, /, *, arrived: int = 100) -> list[tuple[str, str]]:
    """Return pairs of policies whose order depends on the rule of ties.

    The first allocates more GPUs with ties by name, the second with ties at random, each by more
    than :data:`MARGIN`.
    """
    rows = summary.filter(arrived=arrived).select("ties", "policy", "allocated").rows()
    of = {(ties, policy): allocated for ties, policy, allocated in rows}
    policies = [policy for ties, policy in of if ties == "random"]
    return [
        (first, second)
        for first, second in permutations(policies, 2)
        if of["name", first] - of["name", second] > MARGIN
        and of["random", second] - of["random", first] > MARGIN
    ]
