"""Catalog entries of the public traces, one TOML file per trace."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import polars as pl

from traceana.errors import CatalogError, did_you_mean


@dataclass(frozen=True)
class PublishedFile:
    """A published file, its address and its checksums."""

    name: str
    """Published name of the file."""
    url: str
    """Address, at a pinned revision where the publisher keeps revisions."""
    sha256: str | None = None
    """Checksum of the file; None where only `git_blob` is known."""
    git_blob: str | None = None
    """Git's SHA-1 of the file as a blob; None where `sha256` is known."""
    bytes: int | None = None
    """Size; None where it is not published."""
    optional: bool = False
    """Whether the trace is useful without the file, which mirrors may lack."""


@dataclass(frozen=True)
class Content:
    """One kind of CSV inside a publisher's files."""

    name: str
    """Name of the kind, for messages."""
    csvs: tuple[str, ...]
    """Base names of the CSVs that the publisher ships."""
    pattern: str
    """Regular expression that a CSV's whole base name matches."""
    columns: tuple[str, ...]
    """Names of the columns as published, in order."""
    tables: tuple[str, ...]
    """Tables made from its rows."""
    header: bool = True
    """Whether the first line of a CSV has these names."""
    not_applicable: tuple[str, ...] = ()
    """Tables that have none of its rows, although its name and columns suggest it."""
    reader: str = "csv"
    """Format of the files."""
    by_folder: bool = False
    """Whether files of the same name are in different folders."""


@dataclass(frozen=True)
class CatalogEntry:
    """A public trace: what it is, whose it is, and the files it consists of."""

    id: str
    """Name of the trace here, such as ``zeus-2023``."""
    title: str
    description: str
    """The trace's name and one sentence on it."""
    tables: tuple[str, ...]
    """Tables that its files become."""
    rows: dict[str, int]
    """Rows of the published files by table, where known; rejected ones are among them."""
    license: str
    citation: str
    homepage: str
    revision: str
    """Terms of use, the paper to cite, where it is published, and the pinned revision."""
    notes: tuple[str, ...]
    """What a reader of the files should know, one sentence each."""
    files: tuple[PublishedFile, ...]
    """The publisher's files."""
    contents: tuple[Content, ...]
    """The kinds of CSV in these files."""
    text: str
    """The entry's TOML, whose sections ``[trace]`` and ``[<table>]`` are a mapping."""
    tried: bool = True
    """Whether it was tried on the publisher's files; else on files made as the publisher describes
    them."""


@cache
def load_catalog() -> dict[str, CatalogEntry]:
    """Return every known trace by its id, in alphabetical order."""
    entries = {
        entry.name.removesuffix(".toml"): entry
        for entry in files("traceana.catalog").iterdir()
        if entry.name.endswith(".toml")
    }
    return {name: _read_trace(name, entries[name].read_text("utf-8")) for name in sorted(entries)}


def get_trace(trace: str, /) -> CatalogEntry:
    """Return the catalog entry of a trace."""
    catalog = load_catalog()
    if trace in catalog:
        return catalog[trace]
    hint = did_you_mean(trace, catalog)
    raise CatalogError(f"no trace is called {trace!r}{hint}; the traces are {', '.join(catalog)}")


def list_traces() -> pl.DataFrame:
    """List the public traces that can be fetched and ingested.

    Returns
    -------
    DataFrame
        [trace, description, tables, rows, bytes, license, files]: `rows` as published, `bytes` of
        the (mostly compressed) files and their number; a sum of which nothing is known is null.

    Examples
    --------
    >>> import traceana
    >>> traceana.list_traces().select("trace", "license").row(-1)
    ('zeus-2023', 'Apache-2.0')
    """
    traces = load_catalog().values()
    return pl.DataFrame(
        {
            "trace": [trace.id for trace in traces],
            "description": [trace.description for trace in traces],
            "tables": [list(trace.tables) for trace in traces],
            "rows": [_sum_known(list(trace.rows.values())) for trace in traces],
            "bytes": [_sum_known([file.bytes for file in trace.files]) for trace in traces],
            "license": [trace.license for trace in traces],
            "files": [len(trace.files) for trace in traces],
        },
        schema_overrides={"rows": pl.Int64, "bytes": pl.Int64, "files": pl.Int64},
    )


def _sum_known(counts: list[int] | list[int | None]) -> int | None:
    stated = [count for count in counts if count is not None]
    return sum(stated) if stated else None


def _read_trace(trace: str, text: str) -> CatalogEntry:
    entry: dict[str, Any] = tomllib.loads(text)
    facts, base_url = entry["trace"], entry.get("base_url", "")
    contents = [_tuples(content) for content in entry["contents"]]
    named = ("title", "description", "license", "citation", "homepage", "notes")
    return CatalogEntry(
        id=trace,
        tables=tuple(entry["tables"]),
        rows=entry["rows"],
        revision=entry.get("revision", ""),
        files=tuple(
            PublishedFile(**{"url": f"{base_url}/{file['name']}"} | file)
            for file in entry.get("files", ())
        ),
        contents=tuple(
            Content(
                **{"pattern": "|".join(map(re.escape, content["csvs"]))}
                | content
                | {"columns": _expand(content["columns"])}
            )
            for content in contents
        ),
        tried=entry.get("tried", True),
        text=text,
        **_tuples({name: facts[name] for name in named}),
    )


def _tuples(stated: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in stated.items()}


def _expand(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Expand numbered columns: "0..3" is 0, 1, 2, 3."""
    names: list[str] = []
    for column in columns:
        first, dots, last = column.partition("..")
        names += map(str, range(int(first), int(last) + 1)) if dots else [column]
    return tuple(names)
