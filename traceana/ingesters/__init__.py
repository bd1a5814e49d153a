"""From files and frames to the tables of a store: discovery, readers, mappings, row counts."""

from traceana.ingesters.add import add_table
from traceana.ingesters.discover import known_names
from traceana.ingesters.ingestion import IngestError, ingest

__all__ = ["IngestError", "add_table", "ingest", "known_names"]
