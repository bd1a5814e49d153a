"""
Overview of one job
===================

Worker times, coefficient of variation and map of stragglers above each other.
"""

import traceana
from traceana.figures import plot_straggler_overview

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
job = samples.filter(job_id="job_4").collect()
found = traceana.detect_stragglers(job)
cov = traceana.iteration_cov(job, ddof=0)
ax = plot_straggler_overview(found, samples=job, cov=cov, unit="relative")
