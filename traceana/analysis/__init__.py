"""The field's questions: a frame in, a result out; no file is opened here."""

from traceana.analysis.correlation.correlate import (
    correlate,
)
from traceana.analysis.correlation.implied import (
    ImpliedN,
    implied_n,
)
from traceana.analysis.correlation.points import (
    joint_counts,
    mean_by_value,
)
from traceana.analysis.correlation.result import (
    CorrelationResult,
)
from traceana.analysis.correlation.runtime import (
    runtime_correlations,
)
from traceana.analysis.deadlines.agreement import (
    compare_plans,
)
from traceana.analysis.deadlines.draws import (
    replay_published_draws,
)
from traceana.analysis.deadlines.rates import (
    iteration_rates,
)
from traceana.analysis.deadlines.rules import (
    deadline_rules,
)
from traceana.analysis.deadlines.tightness import (
    deadline_tightness,
)
from traceana.analysis.distributions.compare import (
    compare_distributions,
)
from traceana.analysis.distributions.fit import (
    fit_distributions,
)
from traceana.analysis.distributions.quantiles import (
    fitted_quantiles,
)
from traceana.analysis.distributions.result import (
    DistributionFits,
)
from traceana.analysis.distributions.tail import (
    tail_index,
)
from traceana.analysis.energy.accuracy import (
    energy_to_accuracy,
)
from traceana.analysis.energy.coverage import (
    energy_coverage,
)
from traceana.analysis.energy.savings import (
    energy_savings,
)
from traceana.analysis.energy.sweep import (
    batch_size_sweep,
)
from traceana.analysis.outcomes.association import (
    outcome_association,
)
from traceana.analysis.outcomes.comparison import (
    RuntimeComparison,
    compare_runtimes,
)
from traceana.analysis.outcomes.curves import (
    cumulative_incidence,
    kaplan_meier,
    rows_at_risk,
)
from traceana.analysis.outcomes.ends import (
    EndCurves,
)
from traceana.analysis.outcomes.model import (
    FailureModel,
    failure_model,
)
from traceana.analysis.outcomes.odds import (
    failure_odds,
)
from traceana.analysis.outcomes.rates import (
    failure_rates,
    outcome_rates,
)
from traceana.analysis.outcomes.runtimes import (
    runtime_by,
)
from traceana.analysis.runtimes.capacity import (
    gpu_capacity_check,
)
from traceana.analysis.runtimes.ratio import (
    runtime_ratio,
    summarize_runtime_ratio,
)
from traceana.analysis.runtimes.recurring import (
    WorkloadMapping,
    map_groups_to_workloads,
    recurring_groups,
)
from traceana.analysis.runtimes.tasks import (
    task_runtimes,
)
from traceana.analysis.stragglers.detect import (
    detect_stragglers,
)
from traceana.analysis.stragglers.result import (
    StragglerResult,
)
from traceana.analysis.variation.cov_rows import (
    match_cov_rows,
)
from traceana.analysis.variation.iterations import (
    iteration_cov,
    summarize_cov,
)
from traceana.analysis.variation.pooled import (
    summarize_cov_pooled,
)
from traceana.analysis.variation.series import (
    summarize_cov_series,
)
from traceana.analysis.workload.arrivals import (
    arrival_rhythm,
)
from traceana.analysis.workload.concentration import (
    concentration,
    lorenz_curve,
)
from traceana.analysis.workload.demand import (
    gpu_demand,
    gpu_demand_if_started_at_submission,
)
from traceana.analysis.workload.interarrivals import (
    interarrival_curve,
    interarrivals,
)
from traceana.analysis.workload.job_sizes import (
    job_quantiles,
    size_distribution,
)
from traceana.analysis.workload.queueing import (
    queueing_delay,
)
from traceana.analysis.workload.summary import (
    workload_summary,
)

__all__ = [
    "CorrelationResult",
    "DistributionFits",
    "EndCurves",
    "FailureModel",
    "ImpliedN",
    "RuntimeComparison",
    "StragglerResult",
    "WorkloadMapping",
    "arrival_rhythm",
    "batch_size_sweep",
    "compare_distributions",
    "compare_plans",
    "compare_runtimes",
    "concentration",
    "correlate",
    "cumulative_incidence",
    "deadline_rules",
    "deadline_tightness",
    "detect_stragglers",
    "energy_coverage",
    "energy_savings",
    "energy_to_accuracy",
    "failure_model",
    "failure_odds",
    "failure_rates",
    "fit_distributions",
    "fitted_quantiles",
    "gpu_capacity_check",
    "gpu_demand",
    "gpu_demand_if_started_at_submission",
    "implied_n",
    "interarrival_curve",
    "interarrivals",
    "iteration_cov",
    "iteration_rates",
    "job_quantiles",
    "joint_counts",
    "kaplan_meier",
    "lorenz_curve",
    "map_groups_to_workloads",
    "match_cov_rows",
    "mean_by_value",
    "outcome_association",
    "outcome_rates",
    "queueing_delay",
    "recurring_groups",
    "replay_published_draws",
    "rows_at_risk",
    "runtime_by",
    "runtime_correlations",
    "runtime_ratio",
    "size_distribution",
    "summarize_cov",
    "summarize_cov_pooled",
    "summarize_cov_series",
    "summarize_runtime_ratio",
    "tail_index",
    "task_runtimes",
    "workload_summary",
]
