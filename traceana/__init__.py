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
        iteration_cov,
        outcome_rates,
        runtime_by,
        summarize_cov,
        workload_summary,
    )
    from traceana.catalog import fetch, list_traces
    from traceana.errors import TraceanaError
    from traceana.report import build_report
    from traceana.simulate import write_sample
    from traceana.store import ingest, open_store

_ROOM_OF = {
    "TraceanaError": "errors",
    "build_report": "report",
    "fetch": "catalog",
    "ingest": "store",
    "iteration_cov": "analysis",
    "list_traces": "catalog",
    "open_store": "store",
    "outcome_rates": "analysis",
    "runtime_by": "analysis",
    "summarize_cov": "analysis",
    "workload_summary": "analysis",
    "write_sample": "simulate",
}

__all__ = [
    "TraceanaError",
    "build_report",
    "fetch",
    "ingest",
    "iteration_cov",
    "list_traces",
    "open_store",
    "outcome_rates",
    "runtime_by",
    "summarize_cov",
    "workload_summary",
    "write_sample",
]


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'traceana' has no attribute {name!r}")
    return getattr(import_module(f"traceana.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
