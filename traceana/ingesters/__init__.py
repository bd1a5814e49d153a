"""From files to the tables of a store: discovery, reading, conversion and row counts."""

from traceana.ingesters.discover import known_names
from traceana.ingesters.ingestion import IngestError, ingest

__all__ = ["IngestError", "ingest", "known_names"]
