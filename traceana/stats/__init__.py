"""Arrays in, numbers out: the statistics that every other room uses."""

from traceana.stats.between_groups import (
    GroupDifference,
    between_groups,
    cluster_covariance,
)
from traceana.stats.bootstrap import (
    autoregressive_block,
    block_quantile_intervals,
    cluster_quantile_intervals,
)
from traceana.stats.correlation import (
    correlation,
    correlation_pvalue,
    fisher_interval,
)
from traceana.stats.dependence import (
    autocorrelation,
    effective_sample_size,
)
from traceana.stats.dispersion import (
    row_moments,
)
from traceana.stats.incidence import (
    Incidence,
    incidence,
    incidence_variances,
    log_log_interval,
)
from traceana.stats.intervals import (
    clustered_mean_interval,
    clustered_wilson_interval,
    mean_interval,
    wilson_interval,
)
from traceana.stats.kmeans import (
    kmeans_1d,
)
from traceana.stats.logistic import (
    LogisticFit,
    calibrate,
    dependent_columns,
    fit_logistic,
    predict_held_out,
)
from traceana.stats.multiplicity import (
    adjust_pvalues,
)
from traceana.stats.ranks import (
    kruskal_wallis,
    median_interval,
    placements,
    superiority,
)
from traceana.stats.strata import (
    clustered_odds,
    odds_ratio,
    pooled_odds,
)
from traceana.stats.survival import (
    censored_quantiles,
)

__all__ = [
    "GroupDifference",
    "Incidence",
    "LogisticFit",
    "adjust_pvalues",
    "autocorrelation",
    "autoregressive_block",
    "between_groups",
    "block_quantile_intervals",
    "calibrate",
    "censored_quantiles",
    "cluster_covariance",
    "cluster_quantile_intervals",
    "clustered_mean_interval",
    "clustered_odds",
    "clustered_wilson_interval",
    "correlation",
    "correlation_pvalue",
    "dependent_columns",
    "effective_sample_size",
    "fisher_interval",
    "fit_logistic",
    "incidence",
    "incidence_variances",
    "kmeans_1d",
    "kruskal_wallis",
    "log_log_interval",
    "mean_interval",
    "median_interval",
    "odds_ratio",
    "placements",
    "pooled_odds",
    "predict_held_out",
    "row_moments",
    "superiority",
    "wilson_interval",
]
