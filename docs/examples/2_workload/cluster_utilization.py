"""
GPUs allocated over time
========================

Fraction of the GPUs of a cluster that was allocated, by day and GPU type.
"""

import traceana
from traceana.figures import plot_cluster_utilization

store = traceana.open_sample()
jobs, machines = (store.scan("alibaba-openb-2023", name) for name in ("jobs", "machines"))
ax = plot_cluster_utilization(traceana.cluster_utilization(jobs, machines=machines))
