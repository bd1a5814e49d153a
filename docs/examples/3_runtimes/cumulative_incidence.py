"""
Cumulative incidence
====================

Fraction of tasks that have failed by each runtime; completion and cancellation are competing
risks.
"""

import traceana
from traceana.figures import plot_cumulative_incidence

store = traceana.open_sample()
tasks = store.scan("alibaba-pai-2020", "tasks")
instances = store.scan("alibaba-pai-2020", "instances")
runtimes = traceana.task_runtimes(tasks, instances)
found = traceana.cumulative_incidence(runtimes, by="gpu_type")
ax = plot_cumulative_incidence(found, event="failed")
