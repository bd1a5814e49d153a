"""JSON: arrays of objects, at the top or anywhere in objects, and lines of one object each."""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import IO, Any, Final, NamedTuple

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import LONGEST_LINE, CsvFile, first_lines, open_csv, text_lines
from traceana.ingesters.readers.reader import (
    FrameBlock,
    Parsed,
    Reader,
    Rows,
    check_width,
    item_blocks,
)

DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
NESTED: Final = "[]."
"""In a path of rows, what leads from a list to a list in each of its elements."""
_NOTHING: Final = object()  # on a line
_ELEMENTS: Final = 10_000  # in which the members are looked up
_LONGEST_NAME: Final = 250
_BYTES: Final = 1 << 20
_BETWEEN: Final = re.compile(r"[\s,]*")
_BLANK: Final = re.compile(r"\s*")
_TOP: Final = re.compile(r"\s*\[")
_MOST_BROKEN: Final = 10_000  # objects in succession that cannot be read
_MOST_SHOWN: Final = 12  # lists in a message
_SHOWN: Final = 40  # characters of a path
_AFTER: Final = 1 << 16  # bytes after a first line, blank where it is all of the file


class JsonList(NamedTuple):
    """A list of objects in a file."""

    path: str
    """Names of the members that lead to it, with dots between; empty at the top."""
    start: int
    """Where its first element begins, in characters."""
    elements: int | None
    """How many elements it has; None where it goes on after the part that was looked at."""


def find_lists(text: str, /) -> list[JsonList]:
    """Return the lists of objects in the beginning of a file, all but those in other lists."""
    lists: list[JsonList] = []
    with suppress(ValueError, IndexError, RecursionError):  # the part ends within a value
        _scan(text, 0, "", lists)
    return lists


def _scan(text: str, at: int, path: str, lists: list[JsonList]) -> int:
    """Add the lists of objects in a value, and return where it ends."""
    at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
    if text[at] == "[":
        place = len(lists)
        if text[_BLANK.match(text, at + 1).end()] == "{":  # type: ignore[union-attr]
            lists.append(JsonList(path, at + 1, None))  # until its end is found
        values, end = DECODER.raw_decode(text, at)
        if any(isinstance(value, dict) for value in values):
            lists[place:] = [JsonList(path, at + 1, len(values))]
        return end
    if text[at] != "{":
        return DECODER.raw_decode(text, at)[1]
    while text[at] != "}":  # at an opening brace or a comma
        at = _BLANK.match(text, at + 1).end()  # type: ignore[union-attr]
        if text[at] == "}":
            break
        name, at = DECODER.raw_decode(text, at)
        at = text.index(":", at) + 1
        at = _scan(text, at, f"{path}.{name}" if path else str(name), lists)
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr]
        if text[at] not in ",}":
            raise ValueError(text[at])
    return at + 1


def list_of(file: CsvFile, /) -> JsonList:
    """Return the list whose elements are the rows: ``file.rows``, or the only one."""
    lists = lists_of(file)
    named = [json_list for json_list in lists if file.rows in (None, json_list.path)]
    if len(named) == 1:
        return named[0]
    if not lists:
        raise SourceError(f"{file.where}: no list of JSON objects is in it")
    counts = ("many" if part.elements is None else f"{part.elements:,}" for part in lists)
    shown = zip(lists[:_MOST_SHOWN], counts, strict=False)
    listed = ", ".join(f"{part.path[:_SHOWN]} ({count})" for part, count in shown)
    listed += f", ... ({len(lists):,} in all)" if len(lists) > _MOST_SHOWN else ""
    if file.rows is not None:
        raise SourceError(
            f"{file.where}: rows = {file.rows!r} is no list of objects; it has {listed}"
        )
    raise SourceError(
        f"{file.where}: several lists of objects: {listed}; state the one with the rows below "
        f'[trace], such as rows = "{longest(lists).path}"'
    )


def longest(lists: Sequence[JsonList], /) -> JsonList:
    """Return the list with the most elements."""
    return max(lists, key=lambda text: math.inf if text.elements is None else text.elements)


def lists_of(file: CsvFile, /) -> list[JsonList]:
    """Return the lists of objects in the first 16 MiB of a file."""
    with open_csv(file) as stream:
        start = _Text(stream)
        if opening := _TOP.match(start.text):
            return [JsonList("", opening.end(), None)]
        while len(start.text) < LONGEST_LINE and start.extend(_BYTES):
            pass
    return find_lists(start.text)


class _Text:
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
        self.text = self._decode(stream.read(_BYTES)).removeprefix("\ufeff")

    def extend(self, size: int) -> bool:
        """Read some more bytes; False at the end."""
        part = self._decode(self._stream.read(size))
        self.text += part
        return bool(part)

    def find(self, opening: re.Pattern[str], where: str) -> int:
        """Return where an array begins, after its opening."""
        while not (matched := opening.search(self.text)):
            if len(self.text) >= LONGEST_LINE or not self.extend(len(self.text)):
                raise SourceError(f"{where}: no array of JSON objects at its beginning")
        return matched.end()


def read_items(
    file: CsvFile, /, *, listed: bool = True, opening: re.Pattern[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """Read the elements of an array after their text; one that is cut off is None.

    With an `opening`, the array begins after it, whatever is before it and around.
    """
    at = list_of(file).start if listed and opening is None else 0
    broken = 0
    with open_csv(file) as stream:
        read = _Text(stream)
        while len(read.text) < at and read.extend(_BYTES):
            pass
        if opening:
            at = read.find(opening, file.where)
        while True:
            at = _BETWEEN.match(read.text, at).end()  # type: ignore[union-attr]
            if listed and read.text.startswith("]", at):
                return
            item, end, is_json = _element(read.text, at, listed=listed)
            if end is None:  # the text ends within it
                read.text, at = read.text[at:], 0
                if not read.extend(max(_BYTES, len(read.text))):
                    if read.text:
                        yield read.text.rstrip(), None
                    return
                if len(read.text) > LONGEST_LINE + 2 * _BYTES:
                    raise SourceError(
                        f"{file.where}: not JSON, or longer than 16 MiB: {read.text[:60]!r}"
                    )
                continue
            broken = 0 if is_json else broken + 1
            if broken > _MOST_BROKEN:  # each may be nested as deep as can be read
                raise SourceError(f"{file.where}: not JSON: {read.text[at : at + 60]!r}")
            yield read.text[at:end].rstrip(), item
            at = end


def _element(text: str, at: int, *, listed: bool) -> tuple[Any, int | None, bool]:
    """Return an element, where it ends, and whether it is JSON; a line of its own may not be."""
    try:
        return (*DECODER.raw_decode(text, at), True)
    except (ValueError, RecursionError):
        line_end = -1 if listed else text.find("\n{", at)
        if line_end > 0:  # the next object is one of its own
            return None, line_end, False
        return None, None, False


def _rows(file: CsvFile, *, listed: bool = True) -> Iterator[tuple[str, Any]]:
    outer, nested, inner = (file.rows or "").partition(NESTED)
    if not nested:
        return read_items(file, listed=listed)
    return unpack(read_items(replace(file, rows=outer or None), listed=listed), inner)


def array_blocks(
    file: CsvFile,
    row_of: Callable[[Any], dict[str, Any] | None],
    kinds: Mapping[str, Kind],
    /,
    *,
    listed: bool = True,
) -> Iterator[FrameBlock]:
    """Read the elements in blocks; `row_of` returns an object's row, None where it has none."""

    def cells(item: Any) -> Parsed:  # noqa: ANN401
        if not (item and isinstance(item, dict)):
            return "not_json" if item is None else "no_object"
        try:
            row = row_of(item)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            return "malformed"
        if row is None:
            return False
        is_text = all(cell is None or isinstance(cell, str) for cell in row.values())
        return row if is_text else "malformed"

    return item_blocks(_rows(file, listed=listed), cells, kinds)


def _open(file: CsvFile, _timezone: str) -> Rows:
    items = (item for _, item in islice(_rows(file), _ELEMENTS) if isinstance(item, dict))
    names = _members(file, map(flatten, items))
    if not names:
        raise SourceError(f"{file.where}: its array has no JSON object")
    return Rows(tuple(filter(str.isprintable, names)), partial(array_blocks, file, flatten))


def _members(file: CsvFile, rows: Iterable[Mapping[str, Any]]) -> dict[str, None]:
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
        check_width(file, len(names))
    return names


def _detect(file: CsvFile) -> bool:
    if file.opening not in (b"[", b"{"):
        return False
    try:
        text = file.head.decode().lstrip("\ufeff \t")
        if not isinstance(json.loads(text), dict):
            return True
    except (ValueError, RecursionError):
        return True
    if not find_lists(text):  # an object of JSON lines
        return False
    with open_csv(file) as stream:
        return not stream.read(len(file.head) + _AFTER)[len(file.head) :].strip()


READER: Final = Reader("json", _detect, _open, (".json",))


def unpack(items: Iterable[tuple[str, Any]], path: str, /) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a list in each object, as pages have them; None of one without."""
    for text, item in items:
        inner = item
        for name in path.split("."):
            inner = inner.get(name) if isinstance(inner, dict) else None
        if isinstance(inner, list):
            yield from ((json.dumps(value), value) for value in inner)
        else:
            yield text, None


def _open_lines(file: CsvFile, _timezone: str) -> Rows:
    """Open lines with an object each, or with a page of an API that has them in a list."""
    path = (file.rows or "").removeprefix(NESTED)

    def items(lines: Iterable[str]) -> Iterator[tuple[str, Any]]:
        decoded = ((line, _decode(line)) for line in lines if not path or line.strip())
        return unpack(decoded, path) if path else decoded

    rows = (_cells(item) for _, item in items(first_lines(file)))
    names = _members(file, (row for row in rows if isinstance(row, dict)))
    if not names:
        what = "line holds a JSON object; one per line is expected"
        what = f"list of objects called {path} is in its lines" if path else what
        raise SourceError(f"{file.where}: no {what}")
    return Rows(tuple(names), lambda kinds: item_blocks(items(text_lines(file)), _cells, kinds))


def _decode(text: str) -> Any:  # noqa: ANN401
    if not text or text.isspace():
        return _NOTHING
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _cells(item: Any) -> Parsed:  # noqa: ANN401
    """Return the cells of an object, or the rule it breaks where it is none or has no member."""
    if item is _NOTHING:
        return "blank_line"
    try:
        return flatten(item) or "no_object" if isinstance(item, dict) else "not_json"
    except RecursionError:
        return "not_json"


def flatten(row: dict[str, Any], outer: str = "", /) -> dict[str, str | None]:
    """Return an object's members, those of objects in it as ``outer.inner``; lists as JSON."""
    cells: dict[str, str | None] = {}
    for name, value in row.items():
        if isinstance(value, dict) and len(outer) + len(name) < _LONGEST_NAME:
            cells |= flatten(value, f"{outer}{name}.")
        else:
            is_cell = value is None or isinstance(value, str)
            cells[outer + name] = value if is_cell else json.dumps(value)
            if isinstance(value, list):
                cells[f"{outer}{name}.count"] = str(len(value))
                ends = value[:1] + value[-1:] if len(outer) + len(name) < _LONGEST_NAME else []
                if ends and all(isinstance(item, dict) for item in ends):
                    cells |= flatten(value[0], f"{outer}{name}.first.")
                    cells |= flatten(value[-1], f"{outer}{name}.last.")
    return cells


LINES: Final = Reader(
    "jsonl",
    lambda file: file.name.endswith((".jsonl", ".ndjson")) or file.head.lstrip().startswith(b"{"),
    _open_lines,
    (".jsonl", ".ndjson"),
)
