"""
Distribution of mini-batch time
===============================

One line per job, over all of its workers.
"""

import traceana
from traceana.figures import plot_batch_time_ecdf

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
ax = plot_batch_time_ecdf(samples.collect(), unit="relative")
