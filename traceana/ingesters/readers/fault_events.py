"""Logs of fault events, of which each start is paired with its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile
from traceana.ingesters.readers import csv, json, parquet
from traceana.ingesters.readers.reader import LINE, FrameBlock, Reader, Rows, rows_of

_FORMATS: Final = (parquet.READER, json.READER, json.LINES, csv.READER)
_TYPE: Final = "event_type"
_TIME: Final = "event_time"
_START: Final = "fault_start"
_END: Final = "fault_end"
_NO_EVENT: Final = f"{_TYPE}|not_a_fault_event"
_TEXT, _NUMBER, _LOWEST, _STRAY = "\0text", "\0number", "\0lowest", "\0stray"


def _open(file: CsvFile, timezone: str) -> Rows:
    events = next(format_ for format_ in _FORMATS if format_.detect(file)).rows(file, timezone)
    if missing := [name for name in (_TYPE, _TIME) if name not in events.columns]:
        raise SourceError(f"{file.where}: no log of fault events; it lacks {', '.join(missing)}")
    same = tuple(name for name in events.columns if name not in (_TYPE, _TIME))
    return Rows((*same, "start", "end"), partial(_blocks, events, same))


def _blocks(log: Rows, same: tuple[str, ...], kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    """Yield one row per fault; an end belongs to the first open fault with the same cells."""
    lines, bad, header_lines = [], [], 0
    for part in log.blocks(dict.fromkeys((*same, _TYPE, _TIME), "text")):
        lines.append(part.cells.with_columns(part.text_of(part.cells[LINE]).alias(_TEXT)))
        bad.append(part.bad)
        header_lines = part.header_lines
    if not lines:
        return
    events = pl.concat(lines)
    faults, wrong = _pair(events, same)
    texts = events.select(LINE, _TEXT)
    ended = events.height - faults.height - wrong.height
    yield FrameBlock(
        faults.select(*kinds, LINE),
        kinds,
        1,
        lambda numbers: rows_of(texts, numbers)[_TEXT],
        pl.concat([*bad, wrong]).sort("line"),
        header_lines,
        not_applicable=ended,
    )


def _pair(events: pl.DataFrame, same: tuple[str, ...]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the faults, each start with the end of the same number, and lines that are wrong."""
    is_start, is_end = ((pl.col(_TYPE) == kind).fill_null(value=False) for kind in (_START, _END))
    key = same or (pl.lit(0),)
    # more ends than starts before: the number of open faults has a new low
    opened = (is_start.cast(pl.Int64) - is_end).cum_sum().cum_min().clip(upper_bound=0)
    events = events.with_columns(opened.over(key).alias(_LOWEST))
    is_stray = is_end & (pl.col(_LOWEST) < pl.col(_LOWEST).shift(1, fill_value=0).over(key))
    events = events.with_columns(is_stray.alias(_STRAY))
    is_pair = is_end & ~pl.col(_STRAY)
    numbered = [
        events.filter(chosen).with_columns(pl.row_index(_NUMBER).over(key))
        for chosen in (is_start, is_pair)
    ]
    starts, ends = (
        rows.select(*same, _NUMBER, LINE, pl.col(_TIME).alias(name))
        for rows, name in zip(numbered, ("start", "end"), strict=True)
    )
    faults = starts.join(
        ends.drop(LINE), [*same, _NUMBER], "left", nulls_equal=True, maintain_order="left"
    )
    rule = pl.when(_STRAY).then(pl.lit("end_without_start")).otherwise(pl.lit(_NO_EVENT))
    wrong = events.filter(~is_start & ~is_pair)
    return faults, wrong.select(pl.col(LINE).cast(pl.Int64).alias("line"), rule=rule, text=_TEXT)


READER: Final = Reader(
    "fault_events",
    lambda _file: False,
    _open,
    tuple(suffix for form in _FORMATS for suffix in form.suffixes),
)
"""Reader of logs with ``fault_start`` and ``fault_end`` events, in the order of time; it is used
where a mapping names it."""
