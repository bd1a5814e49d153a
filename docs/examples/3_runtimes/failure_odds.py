"""
Odds ratios of failure
======================

Logistic regression of failure on requested resources.
"""

import traceana
from traceana.figures import plot_failure_odds

store = traceana.open_sample()
tasks = store.scan("alibaba-pai-2020", "tasks")
instances = store.scan("alibaba-pai-2020", "instances")
runtimes = traceana.task_runtimes(tasks, instances)
model = traceana.failure_model(runtimes, features=["cpus", "memory_gib", "gpus"])
ax = plot_failure_odds(model)  # or model.plot()
