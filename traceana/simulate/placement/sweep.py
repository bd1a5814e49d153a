"""Placement under several policies and seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.simulate.frames import over_seeds
from traceana.simulate.placement.simulate import find_policy, place_all
from traceana.simulate.placement.tables import PlacementRuns, PlacementSummary
from traceana.simulate.placement.workload import Workload
from traceana.tables.declare import declared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from narwhals.stable.v2.typing import IntoFrame

    from traceana.simulate.placement.policies import PlacementPolicy


def sweep_placement(
    jobs: IntoFrame,
    machines: IntoFrame,
    /,
    *,
    policies: Mapping[str, str | PlacementPolicy],
    seeds: Sequence[int],
    ties: Sequence[str] = ("name",),
    progress: Callable[[float], None] | None = None,
) -> pl.DataFrame:
    """Simulate the placement of jobs under each policy, seed and rule of ties."""
    workload = Workload(jobs, machines)
    chosen = {name: find_policy(policy) for name, policy in policies.items()}
    cells = [(n, s, t) for n in policies for s in seeds for t in ties]
    runs = []
    for done, (name, seed, tie) in enumerate(cells, start=1):
        placed = place_all(workload, chosen[name], np.random.default_rng(seed), ties=tie)
        keys = (pl.lit(name).alias("policy"), pl.lit(seed, pl.Int64).alias("seed"))
        runs.append(placed.select(*keys, pl.lit(tie).alias("ties"), pl.all()))
        if progress is not None:
            progress(done / len(cells))
    return declared(pl.concat(runs), PlacementRuns)


def summarize_placement(runs: pl.DataFrame, /) -> pl.DataFrame:
    """Return means and standard deviations over seeds, in the order of the runs."""
    by = ("policy", "ties", "arrived")
    table = runs.group_by(by, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"), *over_seeds(("allocated", "fragment"))
    )
    return declared(table.drop("allocated_n", "fragment_n"), PlacementSummary)
