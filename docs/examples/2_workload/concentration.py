"""
Concentration of GPU-hours
==========================

Lorenz curve: the fraction of all GPU-hours that the smallest jobs use together.
"""

import traceana
from traceana.figures import plot_concentration

jobs = traceana.open_sample().scan("microsoft-itp-2021", "jobs")
ax = plot_concentration(traceana.lorenz_curve(jobs))
