"""Open a file, or its split parts as one, as a stream of decompressed bytes."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

from isal import igzip, isal_zlib

from traceana.errors import SourceError

_BROKEN: Final[tuple[type[Exception], ...]] = (
    EOFError,
    gzip.BadGzipFile,
    cast("type[Exception]", isal_zlib.IsalError),
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
_POINTERS: Final = (b"version https://git-lfs.github.com/spec/", b"/annex/objects/")


@contextmanager
def reading(paths: tuple[Path, ...]) -> Iterator[None]:
    """Turn what a broken file raises, wherever it is met, into one line."""
    try:
        yield
    except _BROKEN as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise SourceError(
            f"{where_of(paths)}: cut short or damaged ({reason}); "
            "fetch it again and compare its sha256"
        ) from error
    except OSError as error:
        raise SourceError(f"{where_of(paths)}: {error.strerror or error}") from error


@contextmanager
def open_unwrapped(paths: tuple[Path, ...]) -> Iterator[IO[bytes]]:
    """Open a file, or its parts as one, decompressed."""
    _check_parts(paths)
    with _Joined(paths) as joined:
        raw = io.BufferedReader(joined)  # small: large reads go past it
        start = raw.peek(512)[:512]
        if not start:
            raise SourceError(f"{where_of(paths)}: the file is empty; fetch it again")
        if any(pointer in start for pointer in _POINTERS):
            raise SourceError(
                f"{where_of(paths)}: a pointer instead of the data (Git LFS or git-annex);"
                " fetch the file itself, for example with `traceana fetch`"
            )
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):  # as PowerShell writes
            raise SourceError(f"{where_of(paths)}: text in UTF-16 or UTF-32; save it as UTF-8")
        if start[:2] == b"\x1f\x8b":
            with igzip.open(raw, "rb") as stream:
                yield cast("IO[bytes]", stream)
        elif start[:6] == b"\xfd7zXZ\x00":
            with lzma.open(raw) as stream:
                yield cast("IO[bytes]", stream)
        elif re.search(r"\.(gz|tgz|xz)$", name_of(paths)):
            raise SourceError(
                f"{where_of(paths)}: expected compressed data, found bytes that begin "
                f"{start[:16]!r}; fetch it again"
            )
        else:
            yield raw


class _Joined(io.RawIOBase):
    """Files read one after the other as if they were one."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._waiting = list(paths)
        self._stream: IO[bytes] | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        filled = 0
        while filled < len(view) and (self._stream or self._waiting):
            if self._stream is None:
                self._stream = self._waiting.pop(0).open("rb")
            count = self._stream.readinto(view[filled:])  # type: ignore[attr-defined]
            filled += count
            if not count:
                self._stream.close()
                self._stream = None
        return filled

    def close(self) -> None:
        if self._stream:
            self._stream.close()
        super().close()


@contextmanager
def open_packed(paths: tuple[Path, ...]) -> Iterator[io.RawIOBase]:
    """Open a file, or its parts as one, as it lies on disk."""
    with reading(paths), _Joined(paths) as stream:
        yield stream


def _check_parts(paths: tuple[Path, ...]) -> None:
    """Raise if a split file lacks a part before its last one (a lost last part shows as a cut)."""
    if not re.search(r"\.part[a-z]{2}$", paths[0].name):
        return
    expected = [f"{a}{b}" for a in map(chr, range(97, 123)) for b in map(chr, range(97, 123))]
    for path, letters in zip(paths, expected, strict=False):
        if not path.name.endswith(f".part{letters}"):
            raise SourceError(f"{where_of(paths)}: part .part{letters} is missing; fetch it")


def name_of(paths: tuple[Path, ...]) -> str:
    """Name without the ending of a part."""
    return re.sub(r"\.part[a-z]{2}$", "", paths[0].name)


def label_of(paths: tuple[Path, ...]) -> str:
    """Name, or the names of the first and the last part."""
    name = paths[0].name
    if len(paths) > 1:
        name = f"{name}..{paths[-1].name.rsplit('.', 1)[1]}"
    return plain(name)


def plain(name: str) -> str:
    """Escape what cannot be encoded, and line ends, in the name of a file or member."""
    escaped = name.replace("\r", "\\r").replace("\n", "\\n")
    return escaped.encode(errors="backslashreplace").decode()


def where_of(paths: tuple[Path, ...]) -> str:
    """Name with the folder as the user gave it, for messages."""
    return f"{plain(str(paths[0].parent))}/{label_of(paths)}".removeprefix("./")
