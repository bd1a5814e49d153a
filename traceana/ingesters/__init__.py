"""From files and frames to the tables of a store: discovery, readers, mappings, row counts."""

from traceana.ingesters.ingestion import IngestError, add_table, ingest
from traceana.ingesters.propose import propose_mapping
from traceana.ingesters.readers.reader import Reader, Rows

__all__ = [
    "IngestError",
    "Reader",
    "Rows",
    "add_table",
    "ingest",
    "propose_mapping",
]
