"""From files and frames to the tables of a store: discovery, readers, mappings, row counts."""

from traceana.ingesters.files import open_csv
from traceana.ingesters.ingestion import IngestError, add_table, ingest, ingest_cached
from traceana.ingesters.propose import preview_mapping, propose_mapping
from traceana.ingesters.readers.reader import Reader, Rows

__all__ = [
    "IngestError",
    "Reader",
    "Rows",
    "add_table",
    "ingest",
    "ingest_cached",
    "open_csv",
    "preview_mapping",
    "propose_mapping",
]
