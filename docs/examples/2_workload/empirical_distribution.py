"""
Distribution of runtimes
========================

Empirical distribution function of a column, one line per group.
"""

import traceana
from traceana.figures import plot_empirical_distribution

store = traceana.open_sample()
tasks = store.scan("alibaba-pai-2020", "tasks")
instances = store.scan("alibaba-pai-2020", "instances")
runtimes = traceana.task_runtimes(tasks, instances)
ecdf = traceana.empirical_distribution(runtimes, "runtime_s", by="gpu_type")
ax = plot_empirical_distribution(ecdf, x_label="Runtime", durations=True)
