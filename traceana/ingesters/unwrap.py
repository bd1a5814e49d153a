"""Open a file, or its split parts as one, and the members of an archive as streams of bytes."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple, cast
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from isal import igzip, isal_zlib

from traceana.errors import SourceError

_BROKEN: Final[tuple[type[Exception], ...]] = (
    EOFError,
    gzip.BadGzipFile,
    cast("type[Exception]", isal_zlib.IsalError),
    lzma.LZMAError,
    tarfile.TarError,
    BadZipFile,
    zlib.error,
)
SYNTHETIC_PREFIX: Final = "SYNTHETIC-"
_STEP: Final = 1 << 20
_LARGE: Final = 1 << 20
_LONGEST_HEADER: Final = 1 << 20
_PADDING: Final = 2 * tarfile.BLOCKSIZE + tarfile.RECORDSIZE
_MOST_MEMBERS: Final = 100_000
_PACKED: Final = (ZIP_STORED, ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA)
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


class Member(NamedTuple):
    """A member of an archive."""

    name: str
    is_folder: bool
    is_file: bool
    open: Callable[[], IO[bytes]]
    size: int
    end: int | None = None
    """Where its bytes end in a tar archive."""

    def is_last(self, paths: tuple[Path, ...], /) -> bool:
        """Return whether a large gzip archive ends after it, by gzip's count of its bytes."""
        if self.end is None or self.size < _LARGE:
            return False
        with paths[0].open("rb") as first, paths[-1].open("rb") as last:
            last.seek(max(last.seek(0, io.SEEK_END) - 4, 0))
            unpacked = int.from_bytes(last.read(), "little")  # modulo 2^32
            return first.read(2) == b"\x1f\x8b" and (unpacked - self.end) % 2**32 <= _PADDING


@contextmanager
def open_archive(paths: tuple[Path, ...]) -> Iterator[Iterator[Member]]:
    """Open a tar or zip archive; a member must be opened before the next one."""
    if bare_name(paths).endswith(".zip"):
        with reading(paths), ZipFile(paths[0]) as archive:
            yield (
                Member(
                    each.filename,
                    each.is_dir(),
                    True,
                    partial(_open_zipped, archive, each),
                    each.file_size,
                )
                for each in archive.infolist()
            )
    else:
        with reading(paths), open_unwrapped(paths) as stream:
            yield read_tar(stream)


def _open_zipped(archive: ZipFile, member: ZipInfo) -> IO[bytes]:
    if member.flag_bits & 1 or member.compress_type not in _PACKED:
        raise BadZipFile(f"member {member.filename!r} has a password or an unknown packing")
    return archive.open(member)


def read_tar(stream: IO[bytes], /) -> Iterator[Member]:
    """Yield the members of a tar archive, and read it to its end: a checksum is checked there."""
    forward = Forward(stream)
    with forward.reading_header():
        archive = tarfile.open(fileobj=forward, mode="r:")  # type: ignore[call-overload]  # noqa: SIM115
    for _ in range(_MOST_MEMBERS):
        with forward.reading_header():
            member = archive.next()
        if member is None:
            while forward.read(_STEP):
                pass
            return
        kind = (member.isdir(), member.isreg())
        size = 0 if member.sparse else member.size
        end = member.offset_data + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        yield Member(member.name, *kind, partial(archive.extractfile, member), size, end)
    raise tarfile.ReadError(f"it has more than {_MOST_MEMBERS:,} members")


class Forward:
    """A stream that knows its place and can be moved forward."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._place = 0
        self._allowed: int | None = None

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._place

    def read(self, size: int) -> bytes:
        """Read up to so many bytes."""
        if self._allowed is not None:
            self._allowed -= size
            if self._allowed < 0:
                raise tarfile.ReadError("a member has a header of more than 1 MiB")
        data = self._stream.read(size)
        self._place += len(data)
        return data

    def seek(self, place: int) -> int:
        """Move forward to a place, or to the end if it comes first."""
        if place < self._place:
            raise ValueError("this stream does not go back")
        allowed, self._allowed = self._allowed, None
        while self._place < place and self.read(min(place - self._place, _STEP)):
            pass
        self._allowed = allowed
        return self._place

    @contextmanager
    def reading_header(self) -> Iterator[None]:
        """Limit what is read, and turn what a malformed header raises into one error."""
        self._allowed = _LONGEST_HEADER
        try:
            yield
        except (ArithmeticError, LookupError, RecursionError, ValueError, struct.error) as error:
            raise tarfile.ReadError(f"a member's header cannot be read ({error})") from error
        finally:
            self._allowed = None


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


def bare_name(paths: tuple[Path, ...]) -> str:
    """Name without parts, compression and the mark of synthetic data."""
    return re.sub(r"\.(gz|xz)$", "", name_of(paths)).removeprefix(SYNTHETIC_PREFIX)
