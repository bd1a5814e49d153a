"""Arrays in, numbers out: the statistics that every other room uses."""

from traceana.stats.bootstrap import (
    autoregressive_block,
    block_quantile_intervals,
    cluster_quantile_intervals,
)
from traceana.stats.correlation import correlation, correlation_pvalue, fisher_interval
from traceana.stats.dependence import autocorrelation, effective_sample_size
from traceana.stats.dispersion import row_moments
from traceana.stats.intervals import mean_interval, wilson_interval
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.survival import censored_quantiles

__all__ = [
    "adjust_pvalues",
    "autocorrelation",
    "autoregressive_block",
    "block_quantile_intervals",
    "censored_quantiles",
    "cluster_quantile_intervals",
    "correlation",
    "correlation_pvalue",
    "effective_sample_size",
    "fisher_interval",
    "mean_interval",
    "row_moments",
    "wilson_interval",
]
