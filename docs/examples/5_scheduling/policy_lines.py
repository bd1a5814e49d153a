"""
Waits by number of GPUs and scheduling policy
=============================================

What if the cluster had fewer or more GPUs? Mean waits of the same jobs, simulated.
"""

import polars as pl

import traceana
from traceana.figures import plot_policy_lines

jobs = traceana.open_sample().trace("elasticflow-2023").jobs
rows = []
for policy in ("fifo", "sjf", "easy"):
    for gpus in (64, 80, 96, 128):
        found = traceana.simulate_schedule(jobs, policy=policy, gpus=gpus, group=None)
        rows.append((policy, gpus, found.groups["wait_s_mean"].item() / 3600))
lines = pl.DataFrame(rows, schema=["policy", "GPUs", "Mean wait (h)"], orient="row")
ax = plot_policy_lines(lines)
