"""GPU samples of ``dcgmi dmon``: a table for the screen, whose lines may begin with a time."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.files import first_lines, text_lines
from traceana.ingesters.readers.frames import item_blocks, scaled
from traceana.ingesters.readers.nvidia_smi import COLUMNS, MAPPING
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile
    from traceana.ingesters.readers.frames import FrameBlock, Parsed

_FIELDS: Final = {
    "utilization": {"GPUTL": 0.01, "GRACT": 1.0},
    "memory_gib": {"FBUSD": 1 / 1024},
    "power_w": {"POWER": 1.0, "POWR": 1.0},
}
"""Short names of DCGM's fields that each column is taken from, the first one there, with factor."""
_HEADING: Final = re.compile(r"(.*?)#\s*Entity\s+(.+)", re.IGNORECASE)
_ROW: Final = re.compile(r"(.*?)\b(?:GPU|GPU-I)\s+(\d+)\s+(\S.*)")
_EPOCH: Final = re.compile(r"\d{9,11}(?:\.\d+)?")


def _heading(file: CsvFile) -> list[str]:
    """Return the short names of the fields in the first line that has them."""
    lines = file.head.decode(errors="replace").splitlines() or [""]
    match = _HEADING.fullmatch(lines[0].rstrip())
    return match[2].split() if match else []


def _open(file: CsvFile, _timezone: str) -> Rows:
    if not any(name in fields for fields in _FIELDS.values() for name in _heading(file)):
        raise SourceError(
            f"{file.where}: no field of its heading is known; make it with dcgmi dmon "
            "-e 203,252,155 | ts '%.s'"
        )
    begins = (_ROW.fullmatch(line) for line in first_lines(file))
    stamp = next((begin[1].strip() for begin in begins if begin), "")
    numeric = not stamp or _EPOCH.fullmatch(stamp)
    types = {"time": pl.Float64()} if numeric else {}
    return Rows(COLUMNS, partial(_blocks, file, timed=bool(stamp)), types)


def _blocks(file: CsvFile, kinds: Mapping[str, Kind], *, timed: bool) -> Iterator[FrameBlock]:
    """Read the rows; without times each sample is a second after the one before, as by default."""
    names = _heading(file)
    fields = {
        column: next(((names.index(one), by) for one, by in known.items() if one in names), None)
        for column, known in _FIELDS.items()
    }
    seen: dict[str, int] = {}

    def parse(line: str) -> Parsed:
        match = _ROW.fullmatch(line)
        if match is None:  # the heading is repeated
            return True
        stamp, gpu, values = match[1].strip(" \t[]"), match[2], match[3].split(maxsplit=len(names))
        if len(values) != len(names):
            return "short_row" if len(values) < len(names) else "long_row"
        seen[gpu] = seen.get(gpu, -1) + 1
        row: dict[str, str | None] = {"gpu": gpu, "time": stamp if timed else str(seen[gpu])}
        for column, field in fields.items():
            if field is not None and values[field[0]] not in ("N/A", "-"):
                row[column] = scaled(values[field[0]], field[1])
        return row

    return item_blocks(((line, line) for line in text_lines(file)), parse, kinds)


READER: Final = Reader(
    "dcgmi", lambda file: bool(_heading(file)), _open, (".txt", ".log", ".dmon"), MAPPING
)
"""Reader of samples of dcgmi."""
