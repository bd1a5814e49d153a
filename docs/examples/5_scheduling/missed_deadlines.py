"""
Missed deadlines by policy
==========================

Simulated on as many GPUs as the jobs use to 80 %.
"""

import traceana
from traceana.figures import plot_missed_deadlines

store = traceana.open_sample()
jobs = store.scan("elasticflow-2023", "jobs").collect()
plans = store.scan("elasticflow-2023", "training_plans").collect()
missed = traceana.simulate_deadlines(jobs, plans=plans)
ax = plot_missed_deadlines(missed)
