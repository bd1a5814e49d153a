"""
Distribution of the coefficient of variation
============================================

One line per job: the fraction of time steps with a CoV of at most x.
"""

import traceana
from traceana.figures import plot_cov_ecdf

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
cov = traceana.iteration_cov(samples, ddof=0)
ax = plot_cov_ecdf(cov, ddof=0)
