"""
Iteration times before and after
================================

Quantiles of the iteration times of each worker.
"""

import traceana
from traceana.figures import plot_batching_iterations

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
job = samples.filter(job_id="job_4").collect()
replay = traceana.replay_batching(job, controllers=["uniform", "proportional"])
ax = plot_batching_iterations(replay.workers, unit="relative")
