"""
Fitted distributions
====================

Runtimes beside fitted families.
"""

import polars as pl

import traceana
from traceana.figures import plot_distribution_fit

jobs = traceana.open_sample().scan("microsoft-itp-2021", "jobs")
runtimes = jobs.filter(pl.col("runtime_s") > 0).collect()["runtime_s"]
fits = traceana.fit_distributions(runtimes.sample(500, seed=1), resamples=0)
ax = plot_distribution_fit(fits, what="Runtime")  # or fits.plot()
