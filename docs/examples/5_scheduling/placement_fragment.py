"""
Fragmentation by placement policy
=================================

Free GPUs that typical jobs cannot use, as a cluster fills up.
"""

import polars as pl

import traceana
from traceana.figures import plot_placement_fragment

store = traceana.open_sample()
jobs = store.scan("alibaba-openb-2023", "jobs")
machines = store.scan("alibaba-openb-2023", "machines")
policies = ["random", "bestfit", "fgd"]
placed = [
    traceana.simulate_placement(jobs, machines, policy=policy).with_columns(policy=pl.lit(policy))
    for policy in policies
]
ax = plot_placement_fragment(pl.concat(placed))
