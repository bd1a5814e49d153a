"""
Mini-batch time of each worker
==============================

One line per worker of one job.
"""

import traceana
from traceana.figures import plot_worker_times

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
job = samples.filter(job_id="job_4").collect()
ax = plot_worker_times(job, unit="relative")
