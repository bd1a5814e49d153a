"""
Speedup by heterogeneity
========================

Speedup over uniform batch sizes, by controller.
"""

import traceana
from traceana.figures import plot_batching_speedup

sweep = traceana.sweep_batching(overheads_s=[0.1], noise_cvs=[0.1], seeds=range(3))
ax = plot_batching_speedup(traceana.summarize_batching(sweep))
