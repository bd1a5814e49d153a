"""
Allocation rate
===============

GPUs of running jobs over GPUs of the machines, by GPU type.
"""

import traceana
from traceana.figures import plot_allocation_rate

store = traceana.open_sample()
jobs = store.scan("alibaba-openb-2023", "jobs")
machines = store.scan("alibaba-openb-2023", "machines")
demand = traceana.gpu_demand(jobs, bin_s=6 * 3600)
ax = plot_allocation_rate(traceana.allocation_rate(demand, machines))
