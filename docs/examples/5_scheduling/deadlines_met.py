"""
Deadlines met by scheduling policy
==================================

Simulated on the clusters that the trace states; throughputs are those that the plans imply.
"""

import polars as pl

import traceana
from traceana.figures import plot_deadlines_met

trace = traceana.open_sample().trace("elasticflow-2023")
plans = trace.table("training_plans")
results = [
    traceana.simulate_schedule(trace.jobs, plans=plans, policy=policy, gpus=16)
    for policy in ("edf", "tiresias", "gandiva")
]
ax = plot_deadlines_met(pl.concat(result.groups for result in results))
