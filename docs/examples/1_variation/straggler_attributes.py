"""
What explains the stragglers
============================

The time that a job would gain if the workers of one group were as fast as the others. The
attribute here, the rack, is made up from the number of the worker.
"""

import polars as pl

import traceana
from traceana.figures import plot_straggler_attributes

samples = traceana.open_sample().scan("alibaba-minibatch-2020", "worker_samples")
job = samples.filter(job_id="job_4").collect()
racks = job.with_columns(rack=pl.col("worker_id").cast(pl.Int64) % 3)
found = traceana.straggler_attributes(racks, attributes="rack", resamples=199)
ax = plot_straggler_attributes(found)  # or found.plot()
