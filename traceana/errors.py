"""The few exceptions; all are a :class:`TraceanaError` whose text is one line for the user.

The line says what is wrong, where (file, row, column), what was expected and found,
and the remedy. The command line prints it to standard error and exits with 2.
"""

from __future__ import annotations


class TraceanaError(Exception):
    """A mistake that the user can mend; its text is one clear line."""


class CatalogError(TraceanaError):
    """A trace nobody knows, or a download that is missing or not what was published."""


class SourceError(TraceanaError):
    """A file that cannot be read at all, or a folder with nothing in it that is known."""


class StoreError(TraceanaError):
    """A store that lacks a table, is being written by another process, or was left half done."""


class DataError(TraceanaError):
    """A frame, argument or value that an analysis, a simulation or a figure cannot work with."""
