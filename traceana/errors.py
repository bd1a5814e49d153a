"""Exceptions; all derive from :class:`TraceanaError`, whose text is one line for the user.

The line says what is wrong, where (file, row, column), what was expected and found,
and the remedy. The command line prints it to standard error and exits with 2.
"""

from __future__ import annotations


class TraceanaError(Exception):
    """Base class: an error that the user can correct; its text is one line."""


class CatalogError(TraceanaError):
    """A trace is not in the catalog, or a download is missing or has another checksum."""


class SourceError(TraceanaError):
    """A file cannot be read, or a folder has no file of a known format."""


class StoreError(TraceanaError):
    """A store lacks a table, is locked by another process, or is incomplete."""


class DataError(TraceanaError):
    """A frame, argument or value is not valid for an analysis, a simulation or a figure."""
