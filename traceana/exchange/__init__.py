"""Tables for others: anonymized, or in a format that other tools read."""

from traceana.exchange.anonymize import anonymize
from traceana.exchange.export import export_tables

__all__ = ["anonymize", "export_tables"]
