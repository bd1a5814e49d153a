"""
Several figures as panels of one
================================

A panel is the id of a figure, its result and its options.
"""

from types import SimpleNamespace

import traceana
from traceana.figures import plot_small_multiples

jobs = traceana.open_sample().scan("alibaba-openb-2023", "jobs")
panels = [
    SimpleNamespace(figure="gpu-demand", result=traceana.gpu_demand(jobs), options={}),
    SimpleNamespace(
        figure="arrivals",
        result=traceana.arrival_rhythm(jobs, per="hour"),
        options={"clock": "UTC"},
    ),
]
ax = plot_small_multiples(panels)
