"""
Coefficient of variation over time
==================================

The standard deviation of mini-batch time across workers over their mean, at each time step.
"""

import traceana
from traceana.figures import plot_cov

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
cov = traceana.iteration_cov(samples.filter(job_id="job_4"), ddof=0)
ax = plot_cov(cov, ddof=0)
