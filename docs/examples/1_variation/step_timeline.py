"""
A training step, measured and ideal
===================================

The operations of one data-parallel rank in a step, above as measured, below with ideal durations.
"""

import traceana
from traceana.figures import plot_step_timeline

operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
timeline = traceana.operation_timeline(operations, steps=[0])
ax = plot_step_timeline(timeline, dp_rank=1)
