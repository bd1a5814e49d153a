"""A file is read in blocks of whole lines, the next ones decompressed while one is worked on."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from traceana.errors import SourceError
from traceana.ingesters.files import LONGEST_LINE, CsvFile, open_csv

Item = TypeVar("Item")

_BLOCK: Final = 1 << 24
_PARTS: Final = 32  # one stays in a processor's cache until its block is joined
_AHEAD: Final = 2


def read_ahead(items: Iterator[Item], /) -> Iterator[Item]:
    """Make the next items in a thread while this one is worked on."""
    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(next, items, None) for _ in range(_AHEAD))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(next, items, None))
            yield item


def text_lines(source: CsvFile, /) -> Iterator[str]:
    """Read the lines of a text file; bytes that are no UTF-8 are escaped."""
    for data in read_ahead(whole_lines(source)):
        for text in io.StringIO(data.decode(errors="backslashreplace"), newline="\n"):
            yield text[:-1]


def first_lines(source: CsvFile, /) -> list[str]:
    """Return the lines of a text file's first 16 MiB."""
    return next(whole_lines(source), b"").decode(errors="replace").splitlines()


def whole_lines(source: CsvFile, /, *, size: int | None = None) -> Iterator[bytes]:
    """Read a text file in blocks (of 16 MiB, or of another size) that end at a line's end."""
    with open_csv(source) as stream:
        parts: list[bytes] = []
        limit = size or _BLOCK
        held = 0
        plain = True  # whether all line ends are
        while part := stream.read(-(-limit // _PARTS)):
            parts.append(part)
            held += len(part)
            plain = plain and b"\r" not in part
            if held < limit:
                continue
            cut = part.rfind(b"\n") + 1
            if cut:
                parts[-1] = part[:cut]
                yield _joined(parts, plain=plain)
                parts, held = [part[cut:]], len(part) - cut
            elif held > limit + LONGEST_LINE:
                raise SourceError(f"{source.where}: a line of more than 16 MiB; this is no CSV")
        if held:  # publishers leave out the last line's end
            parts.append(b"" if parts[-1].endswith(b"\n") else b"\n")
            yield _joined(parts, plain=plain)


def _joined(parts: list[bytes], *, plain: bool) -> bytes:
    data = b"".join(parts)
    return data if plain else data.replace(b"\r\n", b"\n")
