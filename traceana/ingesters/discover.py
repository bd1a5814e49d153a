"""Find the trace and the tables of each file: by names and columns, or by a user's mapping."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from traceana.catalog import load_catalog
from traceana.catalog.model import Content, get_trace
from traceana.errors import SourceError, TraceanaError
from traceana.ingesters.compiled import Source, compile_mapping, open_source
from traceana.ingesters.expressions import MissingColumnError
from traceana.ingesters.files import (
    LONGEST_HEAD,
    SYNTHETIC_PREFIX,
    CsvFile,
    Listing,
    content_sha256,
    list_csvs,
    plain,
)
from traceana.ingesters.mapping import Mapping
from traceana.ingesters.readers.csv import csv_rows, read_header
from traceana.ingesters.readers.reader import Reader, detect_reader, get_reader, readers

_SHOWN = 120  # characters of a name
_PLACES = 3  # in a message
_MOST_COPIES = 100  # of a file, each read to compare it


@dataclass
class Discovery:
    """Sources by trace, what is broken (trace or None, and why), and unknown files."""

    formats: dict[tuple[str, str], list[CsvFile]] = field(default_factory=lambda: defaultdict(list))
    """Files of formats that have a mapping of their own, by trace and reader."""
    sources: dict[str, list[Source]] = field(default_factory=lambda: defaultdict(list))
    failures: list[tuple[str | None, str]] = field(default_factory=list)
    not_recognized: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def discover(
    paths: Sequence[Path],
    /,
    *,
    trace: str | None,
    mapping: Mapping | None = None,
    reader: str | None = None,
    leave_out: Sequence[Path] = (),
    columns: tuple[str, ...] | None = None,
) -> Discovery:
    """Find the traces under some files and folders, or what a user's mapping of a trace is for."""
    reader = reader or (mapping.reader if mapping else None)
    contents = _public_contents(trace, mapping, reader)
    formats = [way for way in readers().values() if mapping or way.mapping]
    if reader:
        formats = [get_reader(reader)]
    suffixes = {suffix for way in formats for suffix in way.suffixes}
    if mapping is None:
        csvs = (csv for _, content in contents for csv in content.csvs)
        suffixes |= {".csv", *(PurePath(csv).suffix or csv for csv in csvs)}
    discovery = Discovery()
    for path in paths:
        listing = list_csvs(path, leave_out=leave_out, suffixes=tuple(suffixes), to_end=False)
        listing.csvs = [replace(csv, columns=columns) for csv in listing.csvs]
        if mapping is None:
            stated = formats[0] if reader else None
            _sort(listing, contents, discovery, trace or name_of(path), stated)
            continue
        discovery.not_recognized += [*listing.others, *map(_of_none, listing.empty)]
        discovery.failures += [(trace, str(error)) for _, error in listing.broken]
        fit_files(
            listing.csvs, mapping, discovery, trace=str(trace), reader=reader, named=path.is_file()
        )
    if not (any(discovery.sources.values()) or discovery.formats or discovery.failures):
        raise _nothing_found(paths, trace, discovery.not_recognized, contents, mapping)
    for name in discovery.sources if mapping is None else ():
        _drop_copies(name, discovery, published=True)
    return discovery


def _public_contents(
    trace: str | None, mapping: Mapping | None, reader: str | None
) -> list[tuple[str, Content]]:
    """Return trace and contents of the catalog that the files may have; none for a user's own."""
    catalog = load_catalog()
    if mapping is not None or (reader and trace not in catalog):
        return []
    wanted = [catalog[trace]] if trace in catalog else catalog.values()
    return [(entry.id, content) for entry in wanted for content in entry.contents]


def known_names() -> str:
    """Name one CSV of each kind, for messages."""
    entries = load_catalog().values()
    return ", ".join(sorted({content.csvs[0] for entry in entries for content in entry.contents}))


def name_of(path: Path) -> str:
    """Return the id of a trace that is read from a file or folder."""
    name = re.sub(r"\.(gz|xz)$", "", path.resolve().name).removeprefix(SYNTHETIC_PREFIX)
    name = name if path.is_dir() else re.sub(r"(?<=.)\.[^.]+$", "", name)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "trace"


def _sort(
    listing: Listing,
    contents: list[tuple[str, Content]],
    discovery: Discovery,
    fallback: str,
    stated: Reader | None,
) -> None:
    for csv in listing.csvs:
        named = [(t, c) for t, c in contents if re.fullmatch(c.pattern, csv.name)]
        format_ = stated or (None if named else detect_reader(csv, mapped=True))
        if format_:
            discovery.formats[fallback, format_.name].append(csv)
        elif not named:
            discovery.not_recognized.append(csv.label + _hint(csv, contents))
        else:
            try:
                trace, sources = _fit(csv, named, listing)
            except SourceError as error:
                discovery.failures.append((_trace_beside(csv, named, discovery), str(error)))
            else:
                discovery.sources[trace] += sources
    discovery.not_recognized += listing.others
    for csv in listing.empty:
        if any(re.fullmatch(content.pattern, csv.name) for _, content in contents):
            listing.broken.append((csv.name, _is_empty(csv)))  # a download that failed
        else:
            discovery.not_recognized.append(_of_none(csv))
    discovery.failures += [
        (_trace_packed(archive, contents), str(reason)) for archive, reason in listing.broken
    ]


def _is_empty(csv: CsvFile) -> SourceError:
    return SourceError(f"{csv.where}: the file is empty; export or fetch it again")


def _of_none(csv: CsvFile) -> str:
    return f"{csv.label} (the file is empty)"


def _trace_packed(archive: str, contents: list[tuple[str, Content]]) -> str | None:
    """Return the trace of an archive that cannot be unpacked, by its name."""
    wrapping = re.compile(r"\.(csv|tar|tgz|gz|xz)\b.*")
    traces = {
        trace
        for trace, content in contents
        for name in (*content.csvs, *(file.name for file in get_trace(trace).files))
        if wrapping.sub("", name) == wrapping.sub("", archive)
    }
    return _only(traces)


def _trace_beside(
    csv: CsvFile, named: list[tuple[str, Content]], discovery: Discovery
) -> str | None:
    """Return the trace of a CSV that does not fit, by its name and the files in its folder."""
    traces = {trace for trace, _ in named}
    beside = {
        trace
        for trace in traces & discovery.sources.keys()
        for source in discovery.sources[trace]
        if source.file and source.file.folder == csv.folder
    }
    return _only(beside or traces)


def _only(traces: set[str]) -> str | None:
    return min(traces) if len(traces) == 1 else None


def _hint(csv: CsvFile, contents: list[tuple[str, Content]]) -> str:
    columns = set(read_header(csv.head))
    like = [c.csvs[0] for _, c in contents if c.header and columns == set(c.columns)]
    return f" (its columns are those of {like[0]}: name it so)" if like else ""


def _fit(
    csv: CsvFile, named: list[tuple[str, Content]], listing: Listing
) -> tuple[str, list[Source]]:
    """Choose among the kinds of CSV with the right name the one whose columns are there."""
    if not csv.head:
        raise _is_empty(csv)
    fits: list[tuple[int, str, Source]] = []
    for trace, content in named:
        if content.reader != "csv":
            ways = [other for name, other in named if name == trace and other.reader != "csv"]
            return trace, [_open(csv, way) for way in ways]
        columns = _header(csv, content, listing) or list(content.columns)
        if set(content.columns) <= set(columns) and len(columns) == len(set(columns)):
            fits.append((len(content.columns), trace, _source(csv, content, columns)))
    if not fits:
        raise SourceError(_misfit(csv, named, listing))
    _, trace, source = max(fits, key=lambda fit: fit[0])
    return trace, [source]


def _header(csv: CsvFile, content: Content, listing: Listing) -> list[str]:
    if content.header:
        return read_header(csv.head)
    path = listing.headers.get((csv.folder, csv.name.removesuffix(".csv")))
    if path is None:
        return []
    with path.open("rb") as stream:
        return read_header(stream.readline(LONGEST_HEAD).rstrip(b"\r\n"))


def _source(csv: CsvFile, content: Content, columns: list[str]) -> Source:
    if content.by_folder:
        folder = PurePath(csv.member or csv.paths[0].resolve()).parent.name
        csv = replace(csv, within=f"{folder}/")
    return Source(
        csv,
        csv_rows(csv, columns, header=content.header),
        content.tables,
        content.not_applicable,
        unused_columns=tuple(name for name in columns if name not in content.columns),
    )


def _misfit(csv: CsvFile, named: list[tuple[str, Content]], listing: Listing) -> str:
    expected = " or ".join(_shorten(content.columns) for _, content in named)
    names = _header(csv, named[0][1], listing)
    lacking = min((set(content.columns) - set(names) for _, content in named), key=len)
    fault = f"lacks {_shorten(tuple(sorted(lacking)))}" if lacking else "has a name twice"
    return (
        f"{csv.where}: its columns are not the published ones: it {fault}; expected {expected}, "
        f"found {_shorten(tuple(names))}; fetch the file again"
    )


def _open(file: CsvFile, content: Content) -> Source:
    source = open_source(file, reader=content.reader)
    if missing := [name for name in content.columns if name not in source.columns]:
        raise SourceError(f"{file.where}: it lacks {_shorten(tuple(missing))}; fetch it again")
    return replace(source, tables=content.tables, not_applicable=content.not_applicable)


def _drop_copies(trace: str, discovery: Discovery, *, published: bool) -> None:
    """Read equal copies once; other files of a name are refused, or called by their folder too."""
    groups: dict[tuple[str, str], list[tuple[CsvFile, Source]]] = defaultdict(list)
    for source in discovery.sources[trace]:
        if file := source.file:
            key = (file.within + file.name, source.reader) if published else (file.label, "")
            groups[key].append((file, source))
    discovery.sources[trace] = []
    for (name, _), same in groups.items():
        is_compared = len(same) > 1 and not (published and len(same) > _MOST_COPIES)
        places: dict[str, str] = {}
        copies = []
        for file, source in same:
            digest = content_sha256(file) if is_compared else file.where
            if digest in places:
                copies.append(f"{file.where} (same as {places[digest]})")
                continue
            places[digest] = file.where
            if len(same) > 1 and not published:
                file = replace(file, within=f"{file.folder.resolve().name}/")  # noqa: PLW2901
            discovery.sources[trace].append(replace(source, file=file))
        if published and len(places) > 1:
            shown = ", ".join([*places.values()][:_PLACES])
            more = ", ..." if len(places) > _PLACES else ""
            reason = f"{name} is here {len(places):,} times: {shown}{more}; name one of them"
            discovery.failures.append((trace, reason))
        else:
            discovery.left_out += [copy for copy in copies if copy not in discovery.left_out]


def _nothing_found(
    paths: Sequence[Path],
    trace: str | None,
    others: list[str],
    contents: list[tuple[str, Content]],
    mapping: Mapping | None,
) -> SourceError:
    """Return the error where no file can be read; that of :func:`get_trace` for a wrong id."""
    where, catalog = ", ".join(map(str, paths)), load_catalog()
    if mapping is not None:
        first = f"; {others[0]}" if others else ""
        return SourceError(f"{where}: no file fits {mapping.where}{first}")
    if trace and difflib.get_close_matches(trace, catalog, n=1):
        get_trace(trace)
    file = next((path for path in paths if path.is_file()), "FILE")
    if trace and trace not in catalog and others:
        return SourceError(
            f"{where}: give a mapping: traceana map {file} --out M.toml, "
            f"then add --mapping M.toml (no public trace is called {trace!r})"
        )
    instead = f"found {_shorten(tuple(others))}" if others else "it holds no files"
    names = _shorten(tuple(sorted({content.csvs[0] for _, content in contents})))
    file = file if len(paths) == 1 else "FILE"
    return SourceError(
        f"{where}: not recognized: {instead}; expected a log of Slurm, Kubernetes or SWF, a file "
        f"with a mapping (`traceana map {file} --out M.toml` proposes one for --mapping M.toml), "
        f"or the files of a public trace as published: {names}"
    )


def _shorten(names: tuple[str, ...], most: int = 12) -> str:
    shown = ", ".join(plain(name[:_SHOWN]) or "(no name)" for name in names[:most])
    return f"{shown}, ... ({len(names)} in all)" if len(names) > most else shown or "nothing"


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
            discovery.sources[trace].append(_fit_mapping(file, mapping, reader))
        except (MissingColumnError, SourceError) as error:
            if named:
                discovery.failures.append((trace, str(error)))
            else:
                discovery.not_recognized.append(f"{file.label} ({error})")
        except TraceanaError as error:
            discovery.failures.append((trace, f"{file.where}: {error}"))
    _drop_copies(trace, discovery, published=False)


def _fit_mapping(file: CsvFile, mapping: Mapping, reader: str | None) -> Source:
    file = replace(file, rows=mapping.rows)
    source = open_source(file, reader=reader, timezone=mapping.timezone)
    tables, missing = [], []
    for name in mapping.tables:
        try:
            compile_mapping(source, mapping, name)
        except MissingColumnError as error:
            missing.append(error)
        else:
            tables.append(name)
    if not tables:
        raise MissingColumnError(f"{file.where}: {missing[0]}")
    return replace(source, tables=tuple(tables))
