"""
Allocated GPUs by placement policy
==================================

GPUs allocated as jobs that share GPUs fill a cluster.
"""

import polars as pl

import traceana
from traceana.figures import plot_placement_allocated

store = traceana.open_sample()
jobs = store.scan("alibaba-openb-2023", "jobs")
machines = store.scan("alibaba-openb-2023", "machines")
policies = ["random", "bestfit", "fgd"]
placed = [
    traceana.simulate_placement(jobs, machines, policy=policy).with_columns(policy=pl.lit(policy))
    for policy in policies
]
ax = plot_placement_allocated(pl.concat(placed))
