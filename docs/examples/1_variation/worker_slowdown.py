"""
Slowdown by worker
==================

A job in which one worker computes more slowly: its data-parallel rank and its stage are both slow.
"""

import traceana
from traceana.figures import plot_worker_slowdown

operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
ax = plot_worker_slowdown(traceana.worker_slowdown(operations))
