"""Where public traces are: one TOML a trace, and the verified download of its files."""

from traceana.catalog.download import fetch
from traceana.catalog.model import get_trace, list_traces, load_catalog

__all__ = [
    "fetch",
    "get_trace",
    "list_traces",
    "load_catalog",
]
