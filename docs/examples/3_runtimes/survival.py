"""
Survival of runtimes
====================

Fraction of pods that run longer than each runtime, by quality of service, with the median at the
dotted line.
"""

import traceana

pods = traceana.open_sample().trace("alibaba-openb-2023").jobs
found = traceana.kaplan_meier(pods, by="qos", events=("completed", "failed", "running"))
ax = found.plot()
