"""traceana: say something true about a trace of a machine-learning cluster.

Every public name is importable from here and is loaded when it is first used, so that
``import traceana`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from traceana.analysis import (
        arrival_rhythm,
        compare_runtimes,
        concentration,
        correlate,
        cumulative_incidence,
        deadline_rules,
        deadline_tightness,
        detect_stragglers,
        energy_coverage,
        energy_savings,
        energy_to_accuracy,
        failure_model,
        failure_odds,
        failure_rates,
        gpu_capacity_check,
        gpu_demand,
        gpu_demand_if_started_at_submission,
        implied_n,
        interarrivals,
        iteration_cov,
        iteration_rates,
        job_quantiles,
        kaplan_meier,
        lorenz_curve,
        map_groups_to_workloads,
        match_cov_rows,
        outcome_association,
        outcome_rates,
        queueing_delay,
        recurring_groups,
        replay_published_draws,
        runtime_by,
        runtime_correlations,
        runtime_ratio,
        size_distribution,
        summarize_cov,
        summarize_cov_pooled,
        summarize_cov_series,
        summarize_runtime_ratio,
        task_runtimes,
        workload_summary,
    )
    from traceana.catalog import (
        fetch,
        list_traces,
    )
    from traceana.errors import (
        TraceanaError,
    )
    from traceana.report import (
        build_report,
    )
    from traceana.simulate import (
        implied_throughput_ratio,
        published_gains,
        replay_batching,
        simulate_batching,
        simulate_recurring,
        simulate_recurring_groups,
        summarize_recurring,
        sweep_recurring,
        synthesize_deadlines,
        write_sample,
    )
    from traceana.store import (
        ingest,
        open_store,
    )

_ROOM_OF = {
    "TraceanaError": "errors",
    "arrival_rhythm": "analysis",
    "build_report": "report",
    "compare_runtimes": "analysis",
    "concentration": "analysis",
    "correlate": "analysis",
    "cumulative_incidence": "analysis",
    "deadline_rules": "analysis",
    "deadline_tightness": "analysis",
    "detect_stragglers": "analysis",
    "energy_coverage": "analysis",
    "energy_savings": "analysis",
    "energy_to_accuracy": "analysis",
    "failure_model": "analysis",
    "failure_odds": "analysis",
    "failure_rates": "analysis",
    "fetch": "catalog",
    "gpu_capacity_check": "analysis",
    "gpu_demand": "analysis",
    "gpu_demand_if_started_at_submission": "analysis",
    "implied_n": "analysis",
    "implied_throughput_ratio": "simulate",
    "ingest": "store",
    "interarrivals": "analysis",
    "iteration_cov": "analysis",
    "iteration_rates": "analysis",
    "job_quantiles": "analysis",
    "kaplan_meier": "analysis",
    "list_traces": "catalog",
    "lorenz_curve": "analysis",
    "map_groups_to_workloads": "analysis",
    "match_cov_rows": "analysis",
    "open_store": "store",
    "outcome_association": "analysis",
    "outcome_rates": "analysis",
    "published_gains": "simulate",
    "queueing_delay": "analysis",
    "recurring_groups": "analysis",
    "replay_batching": "simulate",
    "replay_published_draws": "analysis",
    "runtime_by": "analysis",
    "runtime_correlations": "analysis",
    "runtime_ratio": "analysis",
    "simulate_batching": "simulate",
    "simulate_recurring": "simulate",
    "simulate_recurring_groups": "simulate",
    "size_distribution": "analysis",
    "summarize_cov": "analysis",
    "summarize_cov_pooled": "analysis",
    "summarize_cov_series": "analysis",
    "summarize_recurring": "simulate",
    "summarize_runtime_ratio": "analysis",
    "sweep_recurring": "simulate",
    "synthesize_deadlines": "simulate",
    "task_runtimes": "analysis",
    "workload_summary": "analysis",
    "write_sample": "simulate",
}

__all__ = [
    "TraceanaError",
    "arrival_rhythm",
    "build_report",
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
    "fetch",
    "gpu_capacity_check",
    "gpu_demand",
    "gpu_demand_if_started_at_submission",
    "implied_n",
    "implied_throughput_ratio",
    "ingest",
    "interarrivals",
    "iteration_cov",
    "iteration_rates",
    "job_quantiles",
    "kaplan_meier",
    "list_traces",
    "lorenz_curve",
    "map_groups_to_workloads",
    "match_cov_rows",
    "open_store",
    "outcome_association",
    "outcome_rates",
    "published_gains",
    "queueing_delay",
    "recurring_groups",
    "replay_batching",
    "replay_published_draws",
    "runtime_by",
    "runtime_correlations",
    "runtime_ratio",
    "simulate_batching",
    "simulate_recurring",
    "simulate_recurring_groups",
    "size_distribution",
    "summarize_cov",
    "summarize_cov_pooled",
    "summarize_cov_series",
    "summarize_recurring",
    "summarize_runtime_ratio",
    "sweep_recurring",
    "synthesize_deadlines",
    "task_runtimes",
    "workload_summary",
    "write_sample",
]


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'traceana' has no attribute {name!r}")
    return getattr(import_module(f"traceana.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
