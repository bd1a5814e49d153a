"""The Parquet store: tables of traces, each with its ledger of rows read, kept and rejected."""

from traceana.store.ledger import Ledger, TableEntry
from traceana.store.manifest import Manifest
from traceana.store.store import Store, Trace, distinct_traces, open_store

__all__ = [
    "Ledger",
    "Manifest",
    "Store",
    "TableEntry",
    "Trace",
    "distinct_traces",
    "open_store",
]
