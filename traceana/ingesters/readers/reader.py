"""What a reader of a file format is, and the readers there are; other packages add theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points, version
from importlib.resources import files
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

import polars as pl

from traceana.errors import DataError, SourceError, TraceanaError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile
from traceana.ingesters.readers.frames import FrameBlock, frame_blocks, frame_types

_LONGEST: Final = 300  # characters of an error
GROUP: Final = "traceana.readers"
"""Group of entry points under which another package registers a :class:`Reader`."""


def own_mapping(name: str, /) -> str:
    """Return the mapping of a format whose columns are fixed."""
    place = files("traceana.ingesters.mappings").joinpath(f"{name}.toml")
    return place.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Rows:
    """An opened file: its columns, and its rows block by block.

    Examples
    --------
    >>> from traceana.ingesters import Rows
    >>> rows = Rows(("job", "gpus"), blocks=lambda kinds: iter(()), facts={"timezone": "UTC"})
    >>> rows.columns
    ('job', 'gpus')
    """

    columns: tuple[str, ...]
    """Its columns in their order."""
    blocks: Callable[[Mapping[str, Kind]], Iterator[FrameBlock]] = field(repr=False)
    """Reads it block by block, given the columns that are used, and how."""
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    """Types of its columns, where it has types."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the manifest that the file states, such as its time zone."""


@dataclass(frozen=True)
class Reader:
    """Reader of a file format.

    Examples
    --------
    >>> import polars as pl
    >>> from traceana.ingesters import Reader
    >>> reader = Reader("mylog", detect=lambda file: file.name.endswith(".mylog"),
    ...                 open=lambda file, timezone: pl.DataFrame({"job": ["a"]}))
    >>> reader.name
    'mylog'
    """

    name: str
    """Name, as ``--reader`` takes it."""
    detect: Callable[[CsvFile], bool]
    """Returns whether a file has this format, from its name and its first line (``file.head``)."""
    open: Callable[[CsvFile, str], Rows | pl.DataFrame | pl.LazyFrame]
    """Opens a file, given the time zone of times without an offset: :class:`Rows`, or a frame."""
    suffixes: tuple[str, ...] = ()
    """Ends of the names of such files in a folder; a file that is named itself may have any."""
    mapping: str | None = None
    """Mapping (TOML) of a format with fixed columns; its files need none of the user's."""

    def rows(self, file: CsvFile, timezone: str, /) -> Rows:
        """Open a file. A fault of a reader is an error of the file that names the reader."""
        with _naming(self.name, file.where):
            opened = self.open(file, timezone)
        if not isinstance(opened, Rows):
            return frame_rows(opened.lazy(), file.where)
        named = (name for name in opened.columns if not re.search("[\0\ud800-\udfff]", name))
        blocks = opened.blocks

        def watched(kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
            with _naming(self.name, file.where):
                yield from blocks(kinds)

        return replace(opened, columns=tuple(named), blocks=watched)

    def detects(self, file: CsvFile, /) -> bool:
        """Return whether a file has this format."""
        with _naming(self.name, file.where):
            return self.detect(file)


@contextmanager
def _naming(reader: str, where: str) -> Iterator[None]:
    """Raise what no reader should raise with what a bug report needs."""
    try:
        yield
    except (TraceanaError, OSError, MemoryError):
        raise
    except Exception as error:
        at = extract_tb(error.__traceback__)[-1]
        reason = (str(error).splitlines() or [""])[0][:_LONGEST]
        raise SourceError(
            f"{where}: it could not be read. Please report it with these words: traceana "
            f"{version('traceana')}, reader {reader}, {type(error).__name__} in "
            f"{Path(at.filename).name}:{at.lineno}: {reason}"
        ) from error


def frame_rows(frame: pl.LazyFrame, where: str, /) -> Rows:
    """Return the rows of a frame."""
    types = frame_types(frame)
    return Rows(tuple(types), lambda kinds: frame_blocks(frame, kinds, where), types)


_OWN: Final = (
    "parquet.OPERATIONS",
    "fault_events.READER",
    "parquet.READER",
    "gpu_samples.NVIDIA_SMI",
    "gpu_samples.DCGMI",
    "csv.NODE_EVENTS",
    "sacct.READER",
    "slurm_json.READER",
    "swf.READER",
    "gpu_samples.PROMETHEUS",
    "kineto.READER",
    "kubectl.READER",
    "training_log.STRAGGLER_REPORTS",
    "training_log.READER",
    "csv.PODS",
    "json.READER",
    "json.LINES",
    "csv.READER",
)
"""Readers of the modules of this folder; what is most special is tried first."""


@cache
def readers() -> dict[str, Reader]:
    """Return every reader by its name, in the order in which they are tried."""
    by_name: dict[str, Reader] = {}
    for point in entry_points(group=GROUP):
        try:
            reader = point.load()
        except Exception as error:
            raise DataError(f"reader {point.name} ({point.value}): not loaded: {error}") from error
        if not isinstance(reader, Reader):
            raise DataError(f"reader {point.name} ({point.value}): it is not a traceana Reader")
        by_name[point.name] = reader
    for module, _, name in (place.partition(".") for place in _OWN):
        reader = getattr(import_module(f"traceana.ingesters.readers.{module}"), name)
        by_name[reader.name] = reader
    return by_name


def get_reader(name: str, /) -> Reader:
    """Return a reader by its name."""
    by_name = readers()
    if name not in by_name:
        raise DataError(f"no reader is called {name!r}; the readers are {', '.join(by_name)}")
    return by_name[name]


def detect_reader(file: CsvFile, /, *, mapped: bool = False) -> Reader | None:
    """Return the first reader that detects a file's format."""
    for reader in readers().values():
        if (reader.mapping or not mapped) and reader.detects(file):
            return reader
    return None


def open_reader(file: CsvFile, name: str | None, /) -> Reader:
    """Return the reader of that name, or the one that detects the file."""
    reader = get_reader(name) if name else detect_reader(file)
    if reader is None:
        raise SourceError(f"{file.where}: its format is not known; name it (--reader NAME)")
    return reader
