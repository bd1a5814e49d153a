"""
Batch sizes of a controller
===========================

One worker slows down for a third of the time.
"""

import numpy as np

import traceana
from traceana.figures import plot_batching_trajectory

samples_per_s = np.tile([48.0, 48.0, 32.0, 64.0], (60, 1))
samples_per_s[20:40, 3] /= 2
workers = traceana.simulate.Workers(np.full(4, 0.1), samples_per_s, ("0", "1", "2", "3"))
result = traceana.simulate_batching(workers, controller="proportional", global_batch=192)
ax = plot_batching_trajectory(result.batches)
