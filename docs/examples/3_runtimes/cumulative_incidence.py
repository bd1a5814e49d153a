"""
Cumulative incidence
====================

Fraction of pods that have failed by each runtime. Completion and deletion while running are
competing risks.
"""

import traceana

pods = traceana.open_sample().trace("alibaba-openb-2023").jobs
found = traceana.cumulative_incidence(pods, by="qos", events=("completed", "failed", "running"))
ax = found.plot(event="failed")
