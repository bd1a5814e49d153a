"""
Map of stragglers
=================

Ratio of each worker to the median of its peers; detected episodes are framed.
"""

import traceana
from traceana.figures import plot_straggler_map

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
job = samples.filter(job_id="job_4").collect()
found = traceana.detect_stragglers(job)
ax = plot_straggler_map(found)  # or found.plot()
