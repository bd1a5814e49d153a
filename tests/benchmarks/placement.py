"""Placement against the publisher's results: ``python -m tests.benchmarks.placement``.

Prints the mean of ten seeds less the published mean, in percentage points, at 50, 80, 100 and 120 %
of the GPUs requested, for each list and policy.
"""

from __future__ import annotations

import sys

import polars as pl

from tests.simulate.placement.test_placement import PUBLISHED, SHARED, pod_list
from traceana import simulate_placement

LISTS = ("default", "cpu050", "gpushare40", "multigpu20")
POLICIES = ("random", "dotprod", "clustering", "packing", "bestfit", "fgd")
AT = (50, 80, 100, 120)


def main() -> None:
    """Simulate all lists and policies, and print the differences."""
    machines = pl.read_csv(PUBLISHED / "openb_node_list_gpu_node.csv").select(
        machine_id="sn",
        gpus="gpu",
        gpu_type="model",
        cpus=pl.col("cpu_milli") / 1000,
        memory_gib=pl.col("memory_mib") / 1024,
    )
    for workload in LISTS:
        name = f"openb_pod_list_{workload}"
        folder = SHARED / "data" / "alibaba-openb-2023" if workload == "default" else PUBLISHED
        pods = pod_list(folder / f"{name}.csv")
        for place, policy in enumerate(POLICIES, start=1):
            runs = pl.concat(
                simulate_placement(pods, machines, policy=policy, rng=seed) for seed in range(1, 11)
            )
            for quantity in ("allocated", "fragment"):
                printed = pl.read_csv(PUBLISHED / f"{quantity}.csv").filter(
                    pl.col("sc_policy").str.starts_with(f"{place:02}"), workload=name
                )
                means = dict(runs.group_by("arrived").agg(pl.col(quantity).mean()).iter_rows())
                apart = [round(means[at] - printed[str(at)].cast(float).sum() / 10, 2) for at in AT]
                sys.stdout.write(f"{workload} {policy} {quantity} {apart}\n")


if __name__ == "__main__":
    main()
