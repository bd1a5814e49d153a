"""
Trends by period
================

GPU-hours used by day, by overlap with the day.
"""

import traceana
from traceana.figures import plot_trends

jobs = traceana.open_sample().scan("alibaba-openb-2023", "jobs")
ax = plot_trends(traceana.trends(jobs), measure="gpu_hours")
