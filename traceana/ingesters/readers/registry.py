"""The readers there are: traceana's own, and those that other packages register."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from traceana.errors import DataError, SourceError
from traceana.ingesters.readers.reader import GROUP, Reader

if TYPE_CHECKING:
    from traceana.ingesters.files import CsvFile

_OWN: Final = [
    "operations",
    "fault_events",
    "parquet",
    "nvidia_smi",
    "dcgmi",
    "sacctmgr",
    "sacct",
    "slurm_json",
    "swf",
    "prometheus",
    "kineto",
    "kubectl",
    "nvrx",
    "training_log",
    "openb_pods",
    "json",
    "jsonl",
    "csv",
]
"""Modules of this folder with a reader; what is most special is tried first."""


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
    modules = (import_module(f"traceana.ingesters.readers.{name}") for name in _OWN)
    return by_name | {module.READER.name: module.READER for module in modules}


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
