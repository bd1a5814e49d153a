"""
Mean runtime against a feature
==============================

One point per distinct value; its area grows with the number of rows.
"""

import traceana
from traceana.figures import plot_runtime_against

store = traceana.open_sample()
tasks = store.scan("alibaba-pai-2020", "tasks")
instances = store.scan("alibaba-pai-2020", "instances")
runtimes = traceana.task_runtimes(tasks, instances)
done = runtimes.filter(status="completed")
means = traceana.mean_by_value(done, "cpus", "runtime_s")
ax = plot_runtime_against(means, x_label="Requested CPUs", log_x=True, log_y=True)
