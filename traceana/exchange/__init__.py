"""Tables for others: anonymized, or in a format that other tools read."""

from traceana.exchange.anonymize import anonymize
from traceana.exchange.export import export_tables
from traceana.exchange.selection import select_jobs

__all__ = ["anonymize", "export_tables", "select_jobs"]
