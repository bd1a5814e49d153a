"""
A recorded job under controllers
================================

Time of each step of a recorded job, replayed.
"""

import traceana
from traceana.figures import plot_batching_replay

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
job = samples.filter(job_id="job_4").collect()
replay = traceana.replay_batching(job, controllers=["uniform", "proportional"])
ax = plot_batching_replay(replay.steps, unit="relative")
