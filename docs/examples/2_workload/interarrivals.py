"""
Times between submissions
=========================

The fraction of times between submissions that are longer than x, beside exponential times of the
same mean.
"""

import traceana
from traceana.figures import plot_interarrivals

jobs = traceana.open_sample().scan("microsoft-itp-2021", "jobs")
ax = plot_interarrivals(traceana.interarrival_curve(jobs))
