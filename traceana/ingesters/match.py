"""Which tables of a user's mapping each of the user's files is for."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from traceana.errors import SourceError, TraceanaError
from traceana.ingesters.discover import Discovery
from traceana.ingesters.expressions import MissingColumnError
from traceana.ingesters.files import CsvFile, content_sha256, list_csvs
from traceana.ingesters.readers.registry import get_reader, readers
from traceana.ingesters.source import Source, open_source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from traceana.ingesters.mapping import Mapping


def match_files(
    paths: Sequence[Path],
    mapping: Mapping,
    /,
    *,
    trace: str,
    reader: str | None,
    leave_out: Sequence[Path] = (),
    read_through: bool = False,
    columns: tuple[str, ...] | None = None,
) -> Discovery:
    """Find the tables that each file is for: those whose columns it has."""
    reader = reader or mapping.reader
    candidates = [get_reader(reader)] if reader else readers().values()
    suffixes = tuple(suffix for candidate in candidates for suffix in candidate.suffixes)
    discovery = Discovery()
    for path in paths:
        listing = list_csvs(path, leave_out=leave_out, read_through=read_through, suffixes=suffixes)
        listing.csvs = [replace(csv, columns=columns) for csv in listing.csvs]
        discovery.not_recognised += listing.others
        discovery.failures += [(trace, str(error)) for _, error in listing.broken]
        fit_files(
            listing.csvs, mapping, discovery, trace=trace, reader=reader, named=path.is_file()
        )
    if not discovery.sources[trace] and not discovery.failures:
        others = f"; {discovery.not_recognised[0]}" if discovery.not_recognised else ""
        raise SourceError(f"{', '.join(map(str, paths))}: no file fits {mapping.where}{others}")
    return discovery


def fit_files(
    files: Sequence[CsvFile],
    mapping: Mapping,
    discovery: Discovery,
    /,
    *,
    trace: str,
    reader: str | None,
    named: bool,
) -> None:
    """Add to the sources of a trace the files that its mapping fits."""
    for file in files:
        try:
            discovery.sources[trace].append(_fit(file, mapping, reader))
        except (MissingColumnError, SourceError) as error:
            if named:
                discovery.failures.append((trace, str(error)))
            else:
                discovery.not_recognised.append(f"{file.label} ({error})")
        except TraceanaError as error:
            discovery.failures.append((trace, f"{file.where}: {error}"))
    discovery.sources[trace] = _name_apart(discovery.sources[trace], discovery)


def _fit(file: CsvFile, mapping: Mapping, reader: str | None) -> Source:
    file = replace(file, rows=mapping.rows)
    source = open_source(file, reader=reader, timezone=mapping.timezone)
    tables, missing = [], []
    for name in mapping.tables:
        try:
            source.compiled(mapping, name)
        except MissingColumnError as error:
            missing.append(error)
        else:
            tables.append(name)
    if not tables:
        raise MissingColumnError(f"{file.where}: {missing[0]}")
    return replace(source, tables=tuple(tables))


def _name_apart(sources: list[Source], discovery: Discovery) -> list[Source]:
    """Call files of the same name by their folder too; read the same content once."""
    by_label = defaultdict(list)
    for source in sources:
        by_label[source.label].append(source)
    kept: list[Source] = []
    for same in by_label.values():
        seen: dict[str, str] = {}
        for source in same:
            file = source.file
            if len(same) > 1 and file is not None:
                digest = content_sha256(file)
                if digest in seen:
                    discovery.left_out.append(f"{file.where} (same as {seen[digest]})")
                    continue
                seen[digest] = file.where
                file = replace(file, within=f"{file.folder.resolve().name}/")
            kept.append(replace(source, file=file))
    return kept
