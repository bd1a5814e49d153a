"""The field's questions: a frame in, a result out; no file is opened here."""

from traceana.analysis.distributions.compare import compare_distributions
from traceana.analysis.distributions.fit import fit_distributions
from traceana.analysis.distributions.result import DistributionFits
from traceana.analysis.distributions.tail import tail_index
from traceana.analysis.energy.accuracy import energy_to_accuracy
from traceana.analysis.energy.coverage import energy_coverage
from traceana.analysis.energy.savings import energy_savings
from traceana.analysis.outcomes import outcome_rates, runtime_by
from traceana.analysis.stragglers.detect import detect_stragglers
from traceana.analysis.stragglers.result import StragglerResult
from traceana.analysis.variation.cov_rows import match_cov_rows
from traceana.analysis.variation.intervals import summarize_cov_pooled, summarize_cov_series
from traceana.analysis.variation.iterations import iteration_cov, summarize_cov
from traceana.analysis.workload.arrivals import arrival_rhythm
from traceana.analysis.workload.concentration import concentration, lorenz_curve
from traceana.analysis.workload.demand import gpu_demand, gpu_demand_if_started_at_submission
from traceana.analysis.workload.interarrivals import interarrivals
from traceana.analysis.workload.job_sizes import job_quantiles, size_distribution
from traceana.analysis.workload.queueing import queueing_delay
from traceana.analysis.workload.summary import workload_summary

__all__ = [
    "DistributionFits",
    "StragglerResult",
    "arrival_rhythm",
    "compare_distributions",
    "concentration",
    "detect_stragglers",
    "energy_coverage",
    "energy_savings",
    "energy_to_accuracy",
    "fit_distributions",
    "gpu_demand",
    "gpu_demand_if_started_at_submission",
    "interarrivals",
    "iteration_cov",
    "job_quantiles",
    "lorenz_curve",
    "match_cov_rows",
    "outcome_rates",
    "queueing_delay",
    "runtime_by",
    "size_distribution",
    "summarize_cov",
    "summarize_cov_pooled",
    "summarize_cov_series",
    "tail_index",
    "workload_summary",
]
