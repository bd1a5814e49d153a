"""
Throughput by GPUs
==================

One line per model and batch size.
"""

import traceana
from traceana.figures import plot_throughput

store = traceana.open_sample()
jobs = store.scan("elasticflow-2023", "jobs").collect()
plans = store.scan("elasticflow-2023", "training_plans").collect()
ax = plot_throughput(traceana.iteration_rates(plans, jobs))
