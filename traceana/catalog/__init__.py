"""Where public traces are: one TOML a trace, and the verified download of its files."""

from traceana.catalog.download import fetch
from traceana.catalog.model import list_traces, load_catalog

__all__ = [
    "fetch",
    "list_traces",
    "load_catalog",
]
