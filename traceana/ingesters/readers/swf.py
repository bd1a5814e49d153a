"""Standard Workload Format of the Parallel Workloads Archive: 18 fields per line."""

from __future__ import annotations

import re
import zoneinfo
from functools import partial
from itertools import takewhile
from typing import Any, Final

from traceana.errors import SourceError
from traceana.ingesters.files import CsvFile, first_lines
from traceana.ingesters.parsing import own_table
from traceana.ingesters.readers.reader import Parsed, Reader, Rows, line_blocks, own_mapping

_FIELDS: Final[list[str]] = own_table("formats")["swf"]["fields"].split()
_COLUMNS: Final = (*_FIELDS, "unix_start")
_PARTS: Final = ("2", "3", "4")  # states of parts of a job that was checkpointed or swapped out
_LONGEST_LABEL: Final = 200
_HEADER: Final = re.compile(r";\s*([A-Za-z]+):\s*(.*\S)")


def _header(file: CsvFile) -> dict[str, str]:
    labels: dict[str, str] = {}
    for line in takewhile(lambda text: not text.strip() or text[0] == ";", first_lines(file)):
        if matched := _HEADER.match(line):
            labels.setdefault(matched[1], matched[2][:_LONGEST_LABEL])
    return labels


def _facts(labels: dict[str, str]) -> dict[str, Any]:
    names = [labels[name] for name in ("Computer", "Installation") if name in labels]
    facts: dict[str, Any] = {"title": ", ".join(names)} if names else {}
    zone = labels.get("TimeZoneString", "").strip('"')
    if zone in zoneinfo.available_timezones():
        facts["timezone"] = zone
    nodes, processors = (
        int(match[0]) if (match := re.match("[0-9]{1,9}", labels.get(name, ""))) else 0
        for name in ("MaxNodes", "MaxProcs")
    )
    if processors:
        each = {"nodes": nodes or 1, "gpus_per_node": 0, "cpus_per_node": processors / (nodes or 1)}
        facts["capacity"] = {"all": each}
    return facts


def _open(file: CsvFile, _timezone: str) -> Rows:
    labels = _header(file)
    start = labels.get("UnixStartTime", "0")
    if not re.fullmatch(r"[0-9]{1,12}", start):
        raise SourceError(f"{file.where}: UnixStartTime is {start!r}; expected Unix seconds")

    def parse(text: str) -> Parsed:
        cells: list[str | None] = [*text.split(maxsplit=len(_FIELDS))]
        if not cells or text.lstrip()[0] == ";":
            return True
        if len(cells) != len(_FIELDS):
            return "short_row" if len(cells) < len(_FIELDS) else "long_row"
        row = dict(zip(_COLUMNS, [*cells, start], strict=True))
        return row["status"] not in _PARTS and row

    return Rows(_COLUMNS, partial(line_blocks, file, parse), facts=_facts(labels))


def _detect(file: CsvFile) -> bool:
    head = file.head.decode(errors="replace")
    numbers = re.fullmatch(r"\s*(-?\d+(\.\d+)?\s+){17}-?\d+(\.\d+)?\s*", head[:400])
    return file.name.endswith(".swf") or bool(_HEADER.match(head)) or numbers is not None


READER: Final = Reader("swf", _detect, _open, (".swf",), own_mapping("swf"))
