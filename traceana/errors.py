"""Exceptions: their text is one line on what is wrong, where, what was expected, and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from traceback import extract_tb
from typing import Final

__all__ = ["CatalogError", "DataError", "SourceError", "StoreError", "TraceanaError"]

_LONGEST: Final = 1000  # characters of a line
# control characters but for the line feed, marks of direction, surrogates of undecodable names
_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LONGEST_REASON: Final = 300
_FOLDERS: Final = re.compile(r"""(?<![\w.])(?:[A-Za-z]:)?[\\/](?=\S)(?:[^\\/'":]+[\\/])+""")
"""Of an absolute path, all but its last name."""


def printable(text: str, /) -> str:
    """Escape control characters, so that names and data cannot change the terminal."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


def did_you_mean(name: str, words: Iterable[str], /, *, shown: Callable[[str], str] = str) -> str:
    """Return a hint at the known names that are closest to a name, in parentheses, or nothing."""
    names = {other.lower().replace("_", "-"): other for other in words}
    meant = name.lower().replace("_", "-")
    close = get_close_matches(meant, names, n=1)
    if close != [meant] and len(meant) > 3:
        close += [other for other in names if meant in other and other not in close]
    close = [shown(names[other]) for other in close[:3]]
    return f" (did you mean {' or '.join(close)}?)" if close else ""


def ask_for_report(name: str, error: BaseException, /) -> str:
    """Return a sentence with what a bug report needs of an error that is a fault of traceana."""
    *_, last = frames = extract_tb(error.__traceback__)
    inner = [at for at in frames if Path(__file__).parent in Path(at.filename).parents]
    places = dict.fromkeys(f"{Path(at.filename).name}:{at.lineno}" for at in (last, *inner[:-4:-1]))
    return (
        f"Please report it with these words: traceana {version('traceana')}, {name}, "
        f"{type(error).__name__} in {' from '.join(places)}: {reason_of(error)}"
    )


def reason_of(error: BaseException, /) -> str:
    """Return the first line of an error's text, without folders of this machine."""
    text = getattr(error, "strerror", None) or (str(error).splitlines() or [""])[0]
    return _FOLDERS.sub("", text)[:_LONGEST_REASON]


class TraceanaError(Exception):
    """Base class of errors that the user can correct.

    Examples
    --------
    >>> import traceana
    >>> try:
    ...     traceana.open_store("no/such/folder")
    ... except traceana.TraceanaError as error:
    ...     print(str(error).partition(";")[0])
    ...
    no/such/folder: no store here (no ledger.json in any folder of it)
    """

    def __init__(self, message: str = "") -> None:
        lines = (
            line if len(line) <= _LONGEST else f"{line[: _LONGEST - 300]} ... {line[-250:]}"
            for line in printable(message).split("\n")
        )
        super().__init__("\n".join(lines))


class CatalogError(TraceanaError):
    """A trace is not in the catalog, or a download is missing or has another checksum.

    Examples
    --------
    >>> import traceana
    >>> traceana.load("zeus")
    Traceback (most recent call last):
    ...
    traceana.errors.CatalogError: no trace is called 'zeus' (did you mean zeus-2023?); ...
    """


class SourceError(TraceanaError):
    """A file cannot be read, or a folder has no file of a known format.

    Examples
    --------
    >>> import traceana
    >>> traceana.read("missing.csv")
    Traceback (most recent call last):
    ...
    traceana.errors.SourceError: missing.csv: no such file or folder
    """


class StoreError(TraceanaError):
    """A store lacks a table, is locked by another process, or is incomplete.

    Examples
    --------
    >>> import traceana
    >>> traceana.open_store("empty")
    Traceback (most recent call last):
    ...
    traceana.errors.StoreError: empty: no store here (no ledger.json in any folder of ...
    """


class DataError(TraceanaError):
    """A frame, argument or value is not valid for an analysis, a simulation or a figure.

    Functions raise it if a column is missing or of another type, or an argument or a status is
    unknown or out of range. They also raise it if a value cannot be true, such as a negative
    runtime or an end before its start. Their pages list further reasons only.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> traceana.iteration_cov(pl.DataFrame({"x": [1]}), ddof=2)
    Traceback (most recent call last):
    ...
    traceana.errors.DataError: ddof must be 0 (population) or 1 (sample); it is 2
    """
