"""
Distribution of runtime ratios
==============================

Runtime of a job over the mean runtime of its data set.
"""

import polars as pl

import traceana
from traceana.figures import plot_ratio_distribution

store = traceana.open_sample()
recurring = store.scan("zeus-2023", "recurring_jobs").with_columns(
    runtime_s=pl.col("end_s") - pl.col("start_s")
)
ratios = traceana.runtime_ratio(recurring.drop("runtime_ratio"), by="dataset")
ax = plot_ratio_distribution(ratios.select("runtime_ratio", stage=pl.lit("by data set")))
