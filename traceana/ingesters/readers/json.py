"""JSON arrays of objects, at the top or as the first list in an object; read element by element."""

from __future__ import annotations

import codecs
import json
import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from traceana.errors import SourceError
from traceana.ingesters.files import LONGEST_LINE, open_csv
from traceana.ingesters.readers.frames import item_blocks
from traceana.ingesters.readers.jsonl import DECODER, flatten
from traceana.ingesters.readers.reader import Reader, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile
    from traceana.ingesters.readers.frames import FrameBlock

_ELEMENTS: Final = 10_000  # in which the members are looked up
_BYTES: Final = 1 << 20
_NAME: Final = r'\s*"[^"\\]*"\s*'
_SCALAR: Final = r'\s*(?:"[^"\\]*"|[\w.+-]+|\{[^{}\[\]]*\})\s*'
_OPENING: Final = re.compile(rf"\s*(?:\{{(?:{_NAME}:{_SCALAR},)*{_NAME}:\s*)?\[")
_BETWEEN: Final = re.compile(r"[\s,]*")


def read_items(
    file: CsvFile, /, *, listed: bool = True, opening: re.Pattern[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """Read the elements of an array after their text; one that is cut off is None.

    Without an array around them (not `listed`) they follow each other, as in JSON lines; a line
    that is not JSON is None. `opening` is searched for the beginning of the array, where it is not
    the first one.
    """
    decode = codecs.getincrementaldecoder("utf-8")("backslashreplace").decode
    with open_csv(file) as stream:
        text = decode(stream.read(_BYTES)).removeprefix("\ufeff")
        if opening:
            found = opening.search(text)
            while found is None and len(text) < LONGEST_LINE and (part := stream.read(len(text))):
                text += decode(part)
                found = opening.search(text)
        else:
            found = _OPENING.match(text) if listed else _BETWEEN.match(text)
        if found is None:
            raise SourceError(f"{file.where}: no array of JSON objects at its beginning")
        at = found.end()
        while True:
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
            if listed and text.startswith("]", at):
                return
            try:
                item, end = DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                line_end = -1 if listed else text.find("\n{", at)
                if line_end > 0:  # the next object is one of its own
                    yield text[at:line_end].rstrip(), None
                    at = line_end
                    continue
                more = decode(stream.read(max(_BYTES, len(text) - at)))
                if not more:
                    if at < len(text):
                        yield text[at:].rstrip(), None
                    return
                text, at = text[at:] + more, 0
                if len(text) > LONGEST_LINE + 2 * _BYTES:
                    raise SourceError(
                        f"{file.where}: not JSON, or longer than 16 MiB: {text[:60]!r}"
                    ) from None
            else:
                yield text[at:end], item
                at = end


def array_blocks(
    file: CsvFile,
    row_of: Callable[[Any], dict[str, Any] | None],
    kinds: Mapping[str, Kind],
    /,
    *,
    listed: bool = True,
) -> Iterator[FrameBlock]:
    """Read the elements in blocks; `row_of` returns an object's row, None where it has none."""

    def cells(item: Any) -> list[str | None] | str | bool:  # noqa: ANN401
        if not isinstance(item, dict):
            return "not_json" if item is None else "no_object"
        try:
            row = row_of(item)
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
            return "malformed"
        return row is not None and [*map(row.get, kinds)]

    return item_blocks(read_items(file, listed=listed), cells, kinds)


def _open(file: CsvFile, _timezone: str) -> Rows:
    names: dict[str, None] = {}
    for _, item in islice(read_items(file), _ELEMENTS):
        if isinstance(item, dict):
            names |= dict.fromkeys(flatten(item))
    if not names:
        raise SourceError(f"{file.where}: its array has no JSON object")
    return Rows(
        tuple(name for name in names if name.isprintable()), partial(array_blocks, file, flatten)
    )


def _detect(file: CsvFile) -> bool:
    head = file.head.lstrip(b"\xef\xbb\xbf \t")
    if not head.startswith((b"[", b"{")):
        return False
    try:
        return not isinstance(json.loads(head), dict)  # else it is the first of JSON lines
    except (ValueError, RecursionError):
        return True


READER: Final = Reader("json", _detect, _open, (".json",))
"""Reader of JSON arrays."""
