"""The field's questions: a frame in, a result out; no file is opened here."""

from traceana.analysis.outcomes import outcome_rates, runtime_by
from traceana.analysis.variation import iteration_cov, summarize_cov
from traceana.analysis.workload import workload_summary

__all__ = [
    "iteration_cov",
    "outcome_rates",
    "runtime_by",
    "summarize_cov",
    "workload_summary",
]
