"""Find the CSVs in a folder tree, whatever they are wrapped in, and open them as byte streams.

Understood: plain, gzip and xz files, tar archives (members are read where they are, nothing is
unpacked to disk), and any of these split into ``.partaa``, ``.partab``, ... Compression is told
by a file's first bytes, so a wrong ending does no harm.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import re
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Final, cast

from isal import igzip_threaded, isal_zlib

from traceana.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SYNTHETIC_PREFIX: Final = "SYNTHETIC-"
LONGEST_LINE: Final = 1 << 24
_BROKEN: Final[tuple[type[Exception], ...]] = (
    EOFError,
    gzip.BadGzipFile,
    cast("type[Exception]", isal_zlib.IsalError),
    lzma.LZMAError,
    tarfile.TarError,
)
_POINTERS: Final = (b"version https://git-lfs.github.com/spec/", b"/annex/objects/")


@dataclass(frozen=True)
class CsvFile:
    """One CSV as it lies on disk, perhaps inside an archive.

    Attributes
    ----------
    name
        Base name without wrapping and without the mark of synthetic data.
    paths
        The file, or its split parts in order.
    member
        Name inside the tar archive, if it is in one.
    synthetic
        Whether its name, or its archive's, marks it as synthetic.
    head
        Its first line (or the first 16 MiB where there is no line end), without the line end.
    """

    name: str
    paths: tuple[Path, ...]
    member: str | None
    synthetic: bool
    head: bytes = field(repr=False)

    @property
    def folder(self) -> Path:
        """Folder of the file, or of the archive that holds it."""
        return self.paths[0].parent

    @property
    def label(self) -> str:
        """How the ledger calls it, wherever it lies."""
        return _label(self.paths) + (f":{self.member}" if self.member else "")

    @property
    def where(self) -> str:
        """How messages call it: with the folder as the user gave it."""
        return _where(self.paths) + (f":{self.member}" if self.member else "")


@dataclass
class Listing:
    """What a folder tree holds: CSVs, `.header` files, files nobody knows, and broken ones."""

    csvs: list[CsvFile] = field(default_factory=list)
    headers: dict[tuple[Path, str], Path] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    broken: list[tuple[str, SourceError]] = field(default_factory=list)


def list_csvs(root: Path, *, leave_out: Sequence[Path] = ()) -> Listing:
    """List every CSV under a folder (or the one file given), reading each archive through.

    Parameters
    ----------
    root
        Folder or file.
    leave_out
        Folders not to look into (those of a store that lies under `root`).

    Raises
    ------
    SourceError
        If `root` does not exist.
    """
    if not root.exists():
        raise SourceError(f"{root}: no such file or folder")
    listing = Listing()
    for paths in _join_parts(_list_files(root, leave_out, listing)):
        known = len(listing.csvs)
        try:
            _list_one(paths, listing)
        except SourceError as error:
            del listing.csvs[known:]  # of an archive that broke off
            listing.broken.append((_bare(paths), error))
    return listing


def _list_files(root: Path, leave_out: Sequence[Path], listing: Listing) -> list[Path]:
    if root.is_file():
        return [root]

    def note(error: OSError) -> None:
        reason = SourceError(f"{error.filename}: {error.strerror}; its files were not read")
        listing.broken.append((str(error.filename), reason))

    apart = {path.resolve() for path in leave_out}
    found: list[Path] = []
    for folder, below, names in os.walk(root, onerror=note):
        below[:] = sorted(one for one in below if Path(folder, one).resolve() not in apart)
        found += (path for name in sorted(names) if (path := Path(folder, name)).is_file())
    return sorted(found)


def sha256_of(paths: tuple[Path, ...]) -> str:
    """Return the sha256 of a file as it lies on disk, or of its parts one after the other."""
    digest = hashlib.sha256()
    with _reading(paths), _Joined(paths) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def content_sha256(csv: CsvFile) -> str:
    """Return the sha256 of a CSV's own bytes, whatever it is wrapped in."""
    digest = hashlib.sha256()
    with open_csv(csv) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _join_parts(paths: list[Path]) -> list[tuple[Path, ...]]:
    """Group ``X.partaa``, ``X.partab``, ... into one entry; every other file is its own."""
    groups: dict[Path, list[Path]] = {}
    for path in paths:
        split = re.fullmatch(r"(.+)\.part[a-z]{2}", path.name)
        groups.setdefault(path.with_name(split[1]) if split else path, []).append(path)
    return [tuple(sorted(group)) for group in groups.values()]


def _list_one(paths: tuple[Path, ...], listing: Listing) -> None:
    bare = _bare(paths)
    if bare.endswith(".header"):
        listing.headers[paths[0].parent, bare.removesuffix(".header")] = paths[0]
    elif bare.startswith(".") or not re.search(r"\.(csv|tar|tgz)$", bare):
        if not paths[0].name.startswith("SYNTHETIC"):
            listing.others.append(_label(paths))
    else:
        synthetic = paths[0].name.startswith(SYNTHETIC_PREFIX)
        with _reading(paths), _open_unwrapped(paths) as stream:
            if bare.endswith(".csv"):
                head = _first_line(stream)
                listing.csvs.append(CsvFile(bare, paths, None, synthetic, head))
            else:
                _list_archive(paths, stream, synthetic, listing)


def _list_archive(
    paths: tuple[Path, ...], stream: IO[bytes], synthetic: bool, listing: Listing
) -> None:
    seen: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                raise SourceError(
                    f"{_where(paths)}: member {member.name!r} leads out of the archive, which no "
                    "published trace does; fetch the file again from its publisher"
                )
            if member.isdir():
                continue
            if member.name in seen:
                raise SourceError(
                    f"{_where(paths)}: member {member.name!r} stands in it twice, which no "
                    "published trace does; fetch the file again from its publisher"
                )
            seen.add(member.name)
            text = archive.extractfile(member) if member.isreg() else None
            if text is None or path.suffix != ".csv" or path.name.startswith("."):
                listing.others.append(f"{_label(paths)}:{member.name}")
                continue
            name = path.name.removeprefix(SYNTHETIC_PREFIX)
            marked = synthetic or name != path.name
            listing.csvs.append(CsvFile(name, paths, member.name, marked, _first_line(text)))
    while stream.read(1 << 20):  # to the end, so that the checksum of the compression is checked
        pass


@contextmanager
def open_csv(csv: CsvFile) -> Iterator[IO[bytes]]:
    """Open a CSV as a stream of its own bytes.

    Raises
    ------
    SourceError
        If the file, or the archive around it, is cut short, damaged or gone.
    """
    with _reading(csv.paths), _open_unwrapped(csv.paths) as stream:
        if csv.member is None:
            yield stream
            return
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if member.name == csv.member:
                    yield cast("IO[bytes]", archive.extractfile(member))
                    return
    raise SourceError(f"{csv.where}: the member is gone; the archive changed while it was read")


@contextmanager
def _reading(paths: tuple[Path, ...]) -> Iterator[None]:
    """Turn what a broken file raises, wherever it is met, into one line."""
    try:
        yield
    except _BROKEN as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise SourceError(
            f"{_where(paths)}: cut short or damaged ({reason}); "
            "fetch it again and compare its sha256"
        ) from error
    except OSError as error:
        raise SourceError(f"{_where(paths)}: {error.strerror or error}") from error


@contextmanager
def _open_unwrapped(paths: tuple[Path, ...]) -> Iterator[IO[bytes]]:
    """Open a file, or its parts as one, decompressed."""
    _check_parts(paths)
    with _Joined(paths) as joined:
        raw = io.BufferedReader(joined, 1 << 20)
        start = raw.peek(512)[:512]
        if not start:
            raise SourceError(f"{_where(paths)}: the file is empty; fetch it again")
        if any(pointer in start for pointer in _POINTERS):
            raise SourceError(
                f"{_where(paths)}: a pointer stands in place of the data (Git LFS or git-annex); "
                "fetch the file itself, for example with `traceana fetch`"
            )
        if start[:2] == b"\x1f\x8b":
            with igzip_threaded.open(raw, "rb", threads=1) as stream:
                yield stream
        elif start[:6] == b"\xfd7zXZ\x00":
            with lzma.open(raw) as stream:
                yield cast("IO[bytes]", stream)
        elif re.search(r"\.(gz|tgz|xz)$", _name(paths)):
            raise SourceError(
                f"{_where(paths)}: expected compressed data, found bytes that begin {start[:16]!r};"
                " fetch it again"
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
        while self._stream or self._waiting:
            if self._stream is None:
                self._stream = self._waiting.pop(0).open("rb")
            count = self._stream.readinto(view)  # type: ignore[attr-defined]
            if count:
                return int(count)
            self._stream.close()
            self._stream = None
        return 0

    def close(self) -> None:
        if self._stream:
            self._stream.close()
        super().close()


def _check_parts(paths: tuple[Path, ...]) -> None:
    """Raise if a split file lacks a part before its last one (a lost last part shows as a cut)."""
    if not re.search(r"\.part[a-z]{2}$", paths[0].name):
        return
    expected = [f"{a}{b}" for a in map(chr, range(97, 123)) for b in map(chr, range(97, 123))]
    for path, letters in zip(paths, expected, strict=False):
        if not path.name.endswith(f".part{letters}"):
            raise SourceError(f"{_where(paths)}: part .part{letters} is missing; fetch it")


def _first_line(stream: IO[bytes]) -> bytes:
    return stream.readline(LONGEST_LINE).rstrip(b"\r\n")


def _name(paths: tuple[Path, ...]) -> str:
    return re.sub(r"\.part[a-z]{2}$", "", paths[0].name)


def _bare(paths: tuple[Path, ...]) -> str:
    """Name without parts, compression and the mark of synthetic data."""
    return re.sub(r"\.(gz|xz)$", "", _name(paths)).removeprefix(SYNTHETIC_PREFIX)


def _label(paths: tuple[Path, ...]) -> str:
    if len(paths) == 1:
        return paths[0].name
    return f"{paths[0].name}..{paths[-1].name.rsplit('.', 1)[1]}"


def _where(paths: tuple[Path, ...]) -> str:
    return str(paths[0].with_name(_label(paths)))
