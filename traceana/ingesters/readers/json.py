"""JSON arrays of objects, at the top or as the first list in an object; read element by element."""

from __future__ import annotations

import codecs
import json
import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.files import LONGEST_LINE, open_csv
from traceana.ingesters.readers.frames import FrameBlock, block_of_text
from traceana.ingesters.readers.jsonl import flatten
from traceana.ingesters.readers.lines import LINE, BadLine
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

ROWS_A_BLOCK: Final = 10_000
_BYTES: Final = 1 << 20
_NAME: Final = r'\s*"[^"\\]*"\s*'
_SCALAR: Final = r'\s*(?:"[^"\\]*"|[\w.+-]+|\{[^{}\[\]]*\})\s*'
_OPENING: Final = re.compile(rf"\s*(?:\{{(?:{_NAME}:{_SCALAR},)*{_NAME}:\s*)?\[")
_BETWEEN: Final = re.compile(r"[\s,]*")
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def read_items(file: CsvFile, /) -> Iterator[tuple[Any, str]]:
    """Read the elements of an array with their text; one that is cut off is None.

    Raises
    ------
    SourceError
        If there is no array, or an element is longer than 16 MiB.
    """
    decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
    with open_csv(file) as stream:
        text = decode(stream.read(_BYTES)).removeprefix("\ufeff")
        opening = _OPENING.match(text)
        if opening is None:
            raise SourceError(f"{file.where}: no array of JSON objects at its beginning")
        at = opening.end()
        while True:
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            if text.startswith("]", at):
                return
            try:
                item, end = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                more = decode(stream.read(max(_BYTES, len(text) - at)))
                if not more:
                    if at < len(text):
                        yield None, text[at:].rstrip()
                    return
                text, at = text[at:] + more, 0
                if len(text) > LONGEST_LINE + 2 * _BYTES:
                    raise SourceError(
                        f"{file.where}: not JSON, or longer than 16 MiB: {text[:60]!r}"
                    ) from None
            else:
                yield item, text[at:end]
                at = end


def item_blocks(
    file: CsvFile, row_of: Callable[[Any], dict[str, Any] | None], kinds: Mapping[str, Kind], /
) -> Iterator[FrameBlock]:
    """Read the elements in blocks; `row_of` returns an object's row, None where it has none."""
    schema = {**dict.fromkeys(kinds, pl.String()), LINE: pl.Int64()}
    first = 1
    for part in _batches(read_items(file)):
        rows: list[list[str | int | None]] = []
        bad: list[BadLine] = []
        beside = 0
        for number, (item, text) in enumerate(part, first):
            if not isinstance(item, dict):
                bad.append((number, "not_json" if item is None else "no_object", text))
                continue
            try:
                row = row_of(item)
            except (ValueError, TypeError, AttributeError):
                bad.append((number, "malformed", text))
                continue
            if row is None:
                beside += 1
            else:
                rows.append([*map(row.get, kinds), number])
        texts = [text for _, text in part]
        yield block_of_text(
            rows, schema, kinds, first_line=first, texts=texts, bad=bad, not_applicable=beside
        )
        first += len(part)


def _batches(items: Iterator[tuple[Any, str]]) -> Iterator[list[tuple[Any, str]]]:
    """Collect elements up to a number and a length."""
    part: list[tuple[Any, str]] = []
    size = 0
    for item in items:
        part.append(item)
        size += len(item[1])
        if len(part) == ROWS_A_BLOCK or size > LONGEST_LINE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _row(item: dict[str, Any]) -> dict[str, str | None]:
    return dict(flatten(item))


def _open(file: CsvFile, _timezone: str) -> Rows:
    names: dict[str, None] = {}
    for item, _ in islice(read_items(file), ROWS_A_BLOCK):
        if isinstance(item, dict):
            names |= dict.fromkeys(_row(item))
    if not names:
        raise SourceError(f"{file.where}: its array has no JSON object")
    return Rows(tuple(names), partial(item_blocks, file, _row))


def _detect(file: CsvFile) -> bool:
    head = file.head.lstrip(b"\xef\xbb\xbf \t")
    if not head.startswith((b"[", b"{")):
        return False
    try:
        return not isinstance(json.loads(head), dict)  # else it is the first of JSON lines
    except ValueError:
        return True


READER: Final = Reader("json", _detect, _open, (".json",))
"""Reader of JSON arrays."""
