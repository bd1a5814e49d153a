"""
Runtime ratios by group
=======================

Quantiles of the runtime of a job over the mean runtime of its group.
"""

import polars as pl

import traceana
from traceana.figures import plot_runtime_ratio

store = traceana.open_sample()
recurring = store.scan("zeus-2023", "recurring_jobs").with_columns(
    runtime_s=pl.col("end_s") - pl.col("start_s")
)
ax = plot_runtime_ratio(traceana.summarize_runtime_ratio(recurring, by="dataset"))
