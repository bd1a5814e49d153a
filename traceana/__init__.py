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
        compare_distributions,
        concentration,
        detect_stragglers,
        energy_coverage,
        energy_savings,
        energy_to_accuracy,
        fit_distributions,
        gpu_demand,
        gpu_demand_if_started_at_submission,
        interarrivals,
        iteration_cov,
        job_quantiles,
        lorenz_curve,
        match_cov_rows,
        outcome_rates,
        queueing_delay,
        runtime_by,
        size_distribution,
        summarize_cov,
        summarize_cov_pooled,
        summarize_cov_series,
        tail_index,
        workload_summary,
    )
    from traceana.catalog import fetch, list_traces
    from traceana.errors import TraceanaError
    from traceana.report import build_report
    from traceana.simulate import write_sample
    from traceana.store import ingest, open_store

_ROOM_OF = {
    "TraceanaError": "errors",
    "arrival_rhythm": "analysis",
    "build_report": "report",
    "compare_distributions": "analysis",
    "concentration": "analysis",
    "detect_stragglers": "analysis",
    "energy_coverage": "analysis",
    "energy_savings": "analysis",
    "energy_to_accuracy": "analysis",
    "fetch": "catalog",
    "fit_distributions": "analysis",
    "gpu_demand": "analysis",
    "gpu_demand_if_started_at_submission": "analysis",
    "ingest": "store",
    "interarrivals": "analysis",
    "iteration_cov": "analysis",
    "job_quantiles": "analysis",
    "list_traces": "catalog",
    "lorenz_curve": "analysis",
    "match_cov_rows": "analysis",
    "open_store": "store",
    "outcome_rates": "analysis",
    "queueing_delay": "analysis",
    "runtime_by": "analysis",
    "size_distribution": "analysis",
    "summarize_cov": "analysis",
    "summarize_cov_pooled": "analysis",
    "summarize_cov_series": "analysis",
    "tail_index": "analysis",
    "workload_summary": "analysis",
    "write_sample": "simulate",
}

__all__ = [
    "TraceanaError",
    "arrival_rhythm",
    "build_report",
    "compare_distributions",
    "concentration",
    "detect_stragglers",
    "energy_coverage",
    "energy_savings",
    "energy_to_accuracy",
    "fetch",
    "fit_distributions",
    "gpu_demand",
    "gpu_demand_if_started_at_submission",
    "ingest",
    "interarrivals",
    "iteration_cov",
    "job_quantiles",
    "list_traces",
    "lorenz_curve",
    "match_cov_rows",
    "open_store",
    "outcome_rates",
    "queueing_delay",
    "runtime_by",
    "size_distribution",
    "summarize_cov",
    "summarize_cov_pooled",
    "summarize_cov_series",
    "tail_index",
    "workload_summary",
    "write_sample",
]


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'traceana' has no attribute {name!r}")
    return getattr(import_module(f"traceana.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
