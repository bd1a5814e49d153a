"""
Submissions by hour of the day
==============================

Mean rate of submissions, with an interval over days.
"""

import traceana
from traceana.figures import plot_arrivals

jobs = traceana.open_sample().scan("microsoft-itp-2021", "jobs")
rhythm = traceana.arrival_rhythm(jobs, per="hour")
ax = plot_arrivals(rhythm, clock="UTC")
