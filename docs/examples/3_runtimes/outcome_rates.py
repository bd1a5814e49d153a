"""
Failure rate by group
=====================

Failed rows over failed and completed rows, with Wilson intervals.
"""

import traceana
from traceana.figures import plot_outcome_rates

store = traceana.open_sample()
tasks = store.scan("alibaba-pai-2020", "tasks")
instances = store.scan("alibaba-pai-2020", "instances")
runtimes = traceana.task_runtimes(tasks, instances)
ax = plot_outcome_rates(traceana.failure_rates(runtimes, "gpu_type"))
