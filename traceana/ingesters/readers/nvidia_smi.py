"""GPU samples of ``nvidia-smi --query-gpu=... --format=csv``."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from traceana.errors import SourceError
from traceana.ingesters.files import text_lines
from traceana.ingesters.readers.frames import item_blocks
from traceana.ingesters.readers.reader import Reader, Rows, own_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile
    from traceana.ingesters.readers.frames import FrameBlock

MAPPING: Final = own_mapping("gpu_samples")
"""Mapping of every reader of GPU samples."""
COLUMNS: Final = ("machine", "gpu", "time", "utilization", "memory_gib", "power_w", "job")
"""Columns of every reader of GPU samples."""
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "machine": ("hostname", "host", "node", "machine"),
    "gpu": ("index", "gpu_uuid", "uuid", "pci.bus_id", "gpu_bus_id", "gpu_serial", "serial"),
    "time": ("timestamp", "time"),
    "utilization": ("utilization.gpu",),
    "memory_gib": ("memory.used",),
    "power_w": ("power.draw", "power.draw.instant", "power.draw.average"),
    "job": ("job_id", "jobid", "slurm_job_id", "job"),
}
"""Fields of a heading, without their unit, that each column is taken from: the first one there."""
_SCALE: Final = {"%": 0.01, "MiB": 1 / 1024, "GiB": 1.0, "KiB": 1 / 1024**2, "W": 1.0, "mW": 1e-3}
_NONE: Final = re.compile(r"\[.*\]|N/A|ERR!|Unknown Error", re.IGNORECASE)
_VALUE: Final = re.compile(r"(\S+?)\s*(%|[KMG]iB|m?W)?")


def _heading(line: bytes) -> list[tuple[str, str]]:
    """Return the fields of a heading, each with its unit, such as ``("power.draw", "W")``."""
    cells = line.decode(errors="replace").removeprefix("\ufeff").split(",")
    matches = (re.fullmatch(r"\s*([\w.]+)(?:\s+\[(.*)\])?\s*", cell) for cell in cells)
    return [(match[1].lower(), match[2] or "") if match else ("", "") for match in matches]


def _open(file: CsvFile, _timezone: str) -> Rows:
    names = [name for name, _ in _heading(file.head)]
    missing = [field for field in ("timestamp", "utilization.gpu") if field not in names]
    if missing:
        raise SourceError(
            f"{file.where}: its heading lacks {', '.join(missing)}; make it with nvidia-smi "
            "--query-gpu=timestamp,index,utilization.gpu,memory.used,power.draw --format=csv -l 30"
        )
    return Rows(COLUMNS, partial(_blocks, file))


def _blocks(file: CsvFile, kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    heading = _heading(file.head)
    names = [name for name, _ in heading]
    places = {
        column: next((names.index(field) for field in fields if field in names), None)
        for column, fields in _FIELDS.items()
    }
    header = file.head.decode(errors="backslashreplace")

    def cell(column: str, cells: list[str]) -> str | None:
        place = places.get(column)
        if place is None:
            return "0" if column == "gpu" else None
        value = cells[place].strip()
        if not value or _NONE.fullmatch(value):
            return None
        if column in ("utilization", "memory_gib", "power_w"):
            return _scaled(value, heading[place][1])
        return value.replace("/", "-") if column == "time" else value

    def parse(line: str) -> list[str | None] | str | bool:
        if not line or line.isspace() or line.rstrip("\r") == header:  # again, of a later run
            return True
        cells = line.split(",", maxsplit=len(names))
        if len(cells) != len(names):
            return "short_row" if len(cells) < len(names) else "long_row"
        return [cell(column, cells) for column in kinds]

    return item_blocks(((line, line) for line in text_lines(file)), parse, kinds)


def _scaled(value: str, unit: str) -> str:
    """Return a number in the unit of its column; what is none stays, and is rejected."""
    match = _VALUE.fullmatch(value)
    try:
        return repr(float(match[1]) * _SCALE[match[2] or unit]) if match else value
    except (KeyError, ValueError):
        return value


def _detect(file: CsvFile) -> bool:
    names = [name for name, _ in _heading(file.head)]
    return "timestamp" in names and "utilization.gpu" in names


READER: Final = Reader("nvidia-smi", _detect, _open, (".csv", ".log"), MAPPING)
"""Reader of samples of nvidia-smi."""
