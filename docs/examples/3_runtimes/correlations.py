"""
Correlations with their intervals
=================================

Spearman's rank correlation of runtime with requested resources.
"""

import traceana
from traceana.figures import plot_correlations

store = traceana.open_sample()
tasks = store.scan("alibaba-pai-2020", "tasks")
instances = store.scan("alibaba-pai-2020", "instances")
runtimes = traceana.task_runtimes(tasks, instances)
found = traceana.runtime_correlations(
    runtimes, features=["cpus", "memory_gib"], method="spearman", level="row"
)
table = found.table.rename({"x": "feature"}).with_columns(group=None)
ax = plot_correlations(table, x_label="Spearman's rank correlation")
