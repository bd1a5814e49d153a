"""Standard Workload Format of the Parallel Workloads Archive: 18 fields per line."""

from __future__ import annotations

import re
import zoneinfo
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.ahead import numbered_lines, whole_lines
from traceana.ingesters.readers.frames import ROWS_A_BLOCK, FrameBlock, block_of_text
from traceana.ingesters.readers.lines import LINE, BadLine
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_FIELDS: Final = (
    *("job", "submit", "wait", "runtime", "allocated", "cpu_time", "memory_used_kb"),
    *("requested_processors", "requested_time", "requested_memory_kb", "status", "user"),
    *("group_id", "executable", "queue", "partition", "preceding_job", "think_time"),
)
_START: Final = "unix_start"
_PARTS: Final = ("2", "3", "4")  # states of parts of a job that was checkpointed or swapped out
_STATUS: Final = _FIELDS.index("status")
_HEADER: Final = re.compile(r";\s*([A-Za-z]+):\s*(.*\S)")


def _header(file: CsvFile) -> dict[str, str]:
    """Return the labels in the comments that a file begins with."""
    labels: dict[str, str] = {}
    for data in whole_lines(file):
        for line in data.decode(errors="replace").splitlines():
            if line.strip() and not line.startswith(";"):
                return labels
            if found := _HEADER.match(line):
                labels.setdefault(found[1], found[2])
        break
    return labels


def _facts(labels: dict[str, str]) -> dict[str, Any]:
    names = [labels[name] for name in ("Computer", "Installation") if name in labels]
    facts = {"title": ", ".join(names)} if names else {}
    zone = labels.get("TimeZoneString", "").strip('"')
    if zone in zoneinfo.available_timezones():
        facts["timezone"] = zone
    return facts


def _blocks(file: CsvFile, start: str, kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    schema = {**dict.fromkeys((*_FIELDS, _START), pl.String()), LINE: pl.Int64()}
    for line, texts in numbered_lines(file, most=ROWS_A_BLOCK):
        rows: list[list[str | int | None]] = []
        bad: list[BadLine] = []
        parts = 0
        for number, text in enumerate(texts, line):
            cells = text.split(maxsplit=len(_FIELDS))
            if not cells or cells[0].startswith(";"):
                continue
            if len(cells) != len(_FIELDS):
                bad.append((number, "short_row" if len(cells) < len(_FIELDS) else "long_row", text))
            elif cells[_STATUS] in _PARTS:
                parts += 1
            else:
                rows.append([*cells, start, number])
        yield block_of_text(
            rows, schema, kinds, first_line=line, texts=texts, bad=bad, not_applicable=parts
        )


def _open(file: CsvFile, _timezone: str) -> Rows:
    labels = _header(file)
    start = labels.get("UnixStartTime", "0")
    if not start.isdigit():
        raise SourceError(f"{file.where}: UnixStartTime is {start!r}; expected Unix seconds")
    return Rows((*_FIELDS, _START), partial(_blocks, file, start), facts=_facts(labels))


def _detect(file: CsvFile) -> bool:
    head = file.head.decode(errors="replace")
    numbers = re.fullmatch(r"\s*(-?\d+(\.\d+)?\s+){17}-?\d+(\.\d+)?\s*", head[:400])
    return file.name.endswith(".swf") or bool(_HEADER.match(head)) or numbers is not None


READER: Final = Reader(
    "swf",
    _detect,
    _open,
    (".swf",),
    files("traceana.ingesters.mappings").joinpath("swf.toml").read_text(encoding="utf-8"),
)
"""Reader of the Standard Workload Format."""
