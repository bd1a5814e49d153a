"""Logs of fault events, of which each start is paired with its end."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.readers import csv, json, parquet
from traceana.ingesters.readers.frames import LINE, FrameBlock, texts_of
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_FORMATS: Final = (parquet.READER, json.READER, json.LINES, csv.READER)
_TYPE: Final = "event_type"
_TIME: Final = "event_time"
_START: Final = "fault_start"
_END: Final = "fault_end"


def _open(file: CsvFile, timezone: str) -> Rows:
    events = next(format_ for format_ in _FORMATS if format_.detect(file)).rows(file, timezone)
    if missing := [name for name in (_TYPE, _TIME) if name not in events.columns]:
        raise SourceError(f"{file.where}: no log of fault events; it lacks {', '.join(missing)}")
    same = tuple(name for name in events.columns if name not in (_TYPE, _TIME))
    return Rows((*same, "start", "end"), partial(_blocks, events, same))


def _blocks(events: Rows, same: tuple[str, ...], kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    """Yield one row per fault; an end belongs to the first open fault with the same cells."""
    parts = [*events.blocks(dict.fromkeys((*same, _TYPE, _TIME), "text"))]
    if not parts:
        return
    cells = pl.concat(part.cells for part in parts)
    text = pl.concat(part.text_of(part.cells[LINE]) for part in parts)
    faults: list[list[str | None]] = []
    lines: list[int] = []
    wrong: list[tuple[int, str, str]] = []
    waiting: dict[tuple[str | None, ...], deque[int]] = defaultdict(deque)
    ended = 0
    for (*key, kind, time), line, source in zip(
        cells.select(*same, _TYPE, _TIME).iter_rows(), cells[LINE], text, strict=True
    ):
        rows_waiting = waiting[tuple(key)]
        if kind == _START:
            rows_waiting.append(len(faults))
            faults.append([*key, time, None])
            lines.append(line)
        elif kind == _END and rows_waiting:
            faults[rows_waiting.popleft()][-1] = time
            ended += 1
        else:
            rule = "end_without_start" if kind == _END else f"{_TYPE}|not_a_fault_event"
            wrong.append((line, rule, source))
    rows = pl.DataFrame(faults, dict.fromkeys((*same, "start", "end"), pl.String), orient="row")
    bad = pl.concat([part.bad for part in parts])
    bad = pl.concat([bad, pl.DataFrame(wrong, bad.schema, orient="row")]).sort("line")
    places = pl.DataFrame({"line": cells[LINE].cast(pl.Int64), "text": text})
    every = pl.int_range(1, max(lines, default=0) + 1, eager=True).alias("line").to_frame()
    by_line = every.join(places, on="line", how="left", maintain_order="left")
    yield FrameBlock(
        rows.select(*kinds).with_columns(pl.Series(LINE, lines, pl.Int64)),
        kinds,
        1,
        texts_of(by_line["text"], 1),
        bad,
        header_lines=parts[0].header_lines,
        not_applicable=ended,
    )


READER: Final = Reader(
    "fault_events",
    lambda _file: False,
    _open,
    tuple(suffix for one in _FORMATS for suffix in one.suffixes),
)
"""Reader of logs with ``fault_start`` and ``fault_end`` events, in the order of time; it is used
where a mapping names it."""
