"""
Requested GPUs over time
========================

GPUs of the running jobs, by hour.
"""

import traceana
from traceana.figures import plot_gpu_demand

jobs = traceana.open_sample().scan("alibaba-openb-2023", "jobs")
ax = plot_gpu_demand(traceana.gpu_demand(jobs))
