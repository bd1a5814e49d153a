"""Statistical analysis of machine-learning cluster traces.

Every public name is importable from here and is loaded when it is first used, so that
``import traceana`` costs next to nothing.
"""

from importlib.metadata import version

import lazy_loader

from traceana import analysis

_NAMES = {
    "catalog": ["fetch", "list_traces"],
    "claims": ["check_claims"],
    "errors": ["TraceanaError"],
    "exchange": ["anonymize", "export_tables", "select_jobs"],
    "ingesters": ["add_table", "ingest", "propose_mapping"],
    "report": ["build_report", "write_figures"],
    "samples": ["write_sample"],
    "simulate": [
        "compare_clusters",
        "implied_throughput_ratio",
        "published_gains",
        "replay_batching",
        "replay_operations",
        "sample_training_path",
        "simulate_batching",
        "simulate_deadlines",
        "simulate_recurring",
        "simulate_recurring_groups",
        "slowdown_by",
        "summarize_batching",
        "summarize_recurring",
        "sweep_batching",
        "sweep_recurring",
        "synthesize_deadlines",
        "worker_slowdown",
    ],
    "store": ["open_store"],
    "trace": ["Trace", "load", "open_sample", "read"],
    "analysis": analysis.__all__,
}

__version__ = version("traceana")
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_NAMES)
