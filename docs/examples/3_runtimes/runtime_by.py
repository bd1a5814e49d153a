"""
Runtime by group
================

Mean with its interval, and median, of each group.
"""

import traceana
from traceana.figures import plot_runtime_by

store = traceana.open_sample()
tasks = store.scan("alibaba-pai-2020", "tasks")
instances = store.scan("alibaba-pai-2020", "instances")
runtimes = traceana.task_runtimes(tasks, instances)
ax = plot_runtime_by(traceana.runtime_by(runtimes, "gpu_type"))
