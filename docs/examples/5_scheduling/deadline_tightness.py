"""
Tightness of deadlines
======================

Time until the deadline over the runtime, by cluster.
"""

import traceana
from traceana.figures import plot_deadline_tightness

store = traceana.open_sample()
jobs = store.scan("elasticflow-2023", "jobs").collect()
plans = store.scan("elasticflow-2023", "training_plans").collect()
tightness = traceana.deadline_tightness(plans, jobs, by="cluster")
ax = plot_deadline_tightness(tightness)
