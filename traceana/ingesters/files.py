"""Find the files in a folder tree, packed, in archives or split, and open them as byte streams."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import tarfile
import weakref
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import gettempdir, mkdtemp
from typing import IO, Any, Final, NamedTuple, TypeVar, cast
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from isal import igzip, isal_zlib

from traceana.errors import SourceError
from traceana.ingesters.forward import Forward

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
_LARGE: Final = _STEP
_PADDING: Final = 2 * tarfile.BLOCKSIZE + tarfile.RECORDSIZE
_MOST_MEMBERS: Final = 100_000
_MOST_LOGS: Final = 1000
_FEW_LOGS: Final = 8  # each is read from the start of a tar archive
_MOST_UNPACKED: Final = 1 << 34
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
            raise SourceError(f"{where_of(paths)}: the file is empty; export or fetch it again")
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
        elif start[:3] == b"BZh" or start[:4] == b"\x28\xb5\x2f\xfd":
            raise SourceError(f"{where_of(paths)}: packed by bzip2 or zstd; unpack it first")
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
        self._stream: io.BufferedReader | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  as its base
        view = memoryview(buffer)
        filled = 0  # in full: peek() needs the beginning
        while filled < len(view) and (self._stream or self._waiting):
            if self._stream is None:
                self._stream = self._waiting.pop(0).open("rb")
            count = self._stream.readinto(view[filled:])
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


Item = TypeVar("Item")

LONGEST_LINE: Final = 1 << 24
LONGEST_HEAD: Final = 1 << 18
"""Bytes of a first line that are kept of each file: more than any header has."""
_BLOCK: Final = 1 << 24
_PARTS: Final = 32  # one stays in a processor's cache until its block is joined
_AHEAD: Final = 2


_GO_ON: Final[set[tuple[Path, ...]]] = set()
"""Archives that were found to go on after the member that seemed their last one."""


class _Scratch:
    """A temporary folder, which goes with the last log that is in it."""

    def __init__(self) -> None:
        self.folder = Path(mkdtemp(prefix="traceana-"))
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)


class UnlistedMemberError(Exception):
    """An archive goes on after the member that seemed its last one: list and read it again."""


@dataclass(frozen=True)
class CsvFile:
    """One CSV as it lies on disk, perhaps inside an archive."""

    name: str
    """Base name without wrapping and without the mark of synthetic data."""
    paths: tuple[Path, ...]
    """The file, or its split parts in order."""
    member: str | None
    """Name inside the archive, if it is in one."""
    synthetic: bool
    """Whether its name, or its archive's, marks it as synthetic."""
    head: bytes = field(repr=False)
    """Its first line (or the first 256 KiB where it is longer), without the line end."""
    within: str = ""
    """Its folder with a slash, where another file has its name."""
    rows: str | None = None
    """Path of the list that has its rows, where it is JSON with several."""
    columns: tuple[str, ...] | None = None
    """Names of its columns, where it has no header."""
    unpacked: tuple[_Scratch, str] | None = field(default=None, repr=False, compare=False)
    """Its place, where the logs of its archive are unpacked."""

    @property
    def folder(self) -> Path:
        """Folder of the file, or of the archive that holds it."""
        return self.paths[0].parent

    @property
    def opening(self) -> bytes:
        """First byte that is not blank, after a byte order mark."""
        return self.head.lstrip(b"\xef\xbb\xbf \t")[:1]

    @property
    def label(self) -> str:
        """How the ledger calls it, wherever it lies."""
        return ("" if self.member else self.within) + label_of(self.paths) + self._inner

    @property
    def where(self) -> str:
        """How messages call it: with the folder as the user gave it."""
        return where_of(self.paths) + self._inner

    @property
    def _inner(self) -> str:
        return f":{plain(self.member)}" if self.member else ""


@dataclass
class Listing:
    """Contents of a folder tree: CSVs, `.header` files, unknown, broken and empty files."""

    csvs: list[CsvFile] = field(default_factory=list)
    headers: dict[tuple[Path, str], Path] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    broken: list[tuple[str, SourceError]] = field(default_factory=list)
    empty: list[CsvFile] = field(default_factory=list)
    """Files of 0 bytes, of which none is named itself."""


def list_csvs(
    root: Path,
    *,
    leave_out: Sequence[Path] = (),
    suffixes: tuple[str, ...] = (".csv",),
    to_end: bool = True,
) -> Listing:
    """List the files with these suffixes under a folder, or the one file given.

    Unless read to its end, an archive seems to hold one large file alone where gzip's count ends.
    """
    if not root.exists():
        raise SourceError(f"{root}: no such file or folder")
    listing = Listing()
    for paths in _join_parts(_list_files(root, leave_out, listing)):
        n_csvs = len(listing.csvs)
        try:
            _list_one(paths, listing, suffixes, named=root.is_file(), to_end=to_end)
        except SourceError as error:
            del listing.csvs[n_csvs:]  # of an archive that broke off
            listing.broken.append((bare_name(paths), error))
    return listing


def _list_files(root: Path, leave_out: Sequence[Path], listing: Listing) -> list[Path]:
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise SourceError(f"{root}: a pipe, socket or device; save its content as a file")

    def note(error: OSError) -> None:
        reason = SourceError(f"{error.filename}: {error.strerror}; its files were not read")
        listing.broken.append((str(error.filename), reason))

    apart = {path.resolve() for path in leave_out}
    paths: list[Path] = []
    for folder, below, names in os.walk(root, onerror=note):
        below[:] = sorted(
            below_name for below_name in below if Path(folder, below_name).resolve() not in apart
        )
        within = [Path(folder, name) for name in sorted((*names, *below))]
        paths += (path for path in within if path.is_file())
        listing.others += (
            f"{label_of((path,))} (a link to "
            f"{'a folder: name that folder too' if path.is_dir() else 'nothing: fetch its file'})"
            for path in within
            if path.is_symlink() and not path.is_file()
        )
    return sorted(paths)


def sha256_of(paths: tuple[Path, ...]) -> str:
    """Return the sha256 of a file as it lies on disk, or of its parts one after the other."""
    with reading(paths), _Joined(paths) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content_sha256(csv: CsvFile) -> str:
    """Return the sha256 of a CSV's own bytes, whatever it is wrapped in."""
    with open_csv(csv) as stream:
        return hashlib.file_digest(cast("io.RawIOBase", stream), "sha256").hexdigest()


def _join_parts(paths: list[Path]) -> list[tuple[Path, ...]]:
    groups: dict[Path, list[Path]] = {}
    for path in paths:
        split = re.fullmatch(r"(.+)\.part[a-z]{2}", path.name)
        groups.setdefault(path.with_name(split[1]) if split else path, []).append(path)
    return [tuple(sorted(group)) for group in groups.values()]


def _list_one(
    paths: tuple[Path, ...],
    listing: Listing,
    suffixes: tuple[str, ...],
    *,
    named: bool,
    to_end: bool,
) -> None:
    bare = bare_name(paths)
    is_archive = bare.endswith((".tar", ".tgz", ".zip"))
    if bare.endswith(".header") and not named:
        listing.headers[paths[0].parent, bare.removesuffix(".header")] = paths[0]
    elif not named and (
        bare == "SYNTHETIC.json"  # what states that a sample is one
        or bare.startswith(".")
        or not (is_archive or bare.endswith(suffixes))
    ):
        if not paths[0].name.startswith("SYNTHETIC"):
            listing.others.append(label_of(paths))
    elif is_archive:
        _list_archive(paths, listing, suffixes, to_end=to_end)
    else:
        synthetic = paths[0].name.startswith(SYNTHETIC_PREFIX)
        if not named and not any(path.stat().st_size for path in paths):
            listing.empty.append(CsvFile(bare, paths, None, synthetic, b""))
            return
        with reading(paths), open_unwrapped(paths) as stream:
            listing.csvs.append(CsvFile(bare, paths, None, synthetic, _first_line(stream)))


def _list_archive(
    paths: tuple[Path, ...], listing: Listing, suffixes: tuple[str, ...], *, to_end: bool
) -> None:
    seen: set[str] = set()
    before, size = len(listing.csvs), 0
    with open_archive(paths) as members:
        for member in members:
            path = PurePosixPath(member.name)
            out = path.is_absolute() or ".." in path.parts
            if out or member.name in seen:
                fault = "leads out of the archive" if out else "is in it twice"
                raise SourceError(
                    f"{where_of(paths)}: member {member.name!r} {fault}, unlike any published "
                    "trace; fetch the file again from its publisher"
                )
            if member.is_folder:
                continue
            seen.add(member.name)
            if not member.is_file or path.suffix not in suffixes or path.name.startswith("."):
                listing.others.append(_unread(paths, path, is_file=member.is_file))
                continue
            name = path.name.removeprefix(SYNTHETIC_PREFIX)
            marked = name != path.name or paths[0].name.startswith(SYNTHETIC_PREFIX)
            with member.open() as stream:
                head = _first_line(stream)
            listing.csvs.append(CsvFile(name, paths, member.name, marked, head))
            size += member.size if member.end else 0
            if len(listing.csvs) - before > _MOST_LOGS:
                raise SourceError(f"{where_of(paths)}: more than {_MOST_LOGS:,} logs; unpack it")
            if not to_end and len(seen) == 1 and _seems_last(member, paths):
                return  # it is decompressed once, when its rows are read
    logs = listing.csvs[before:]
    room = min(_MOST_UNPACKED, shutil.disk_usage(gettempdir()).free // 2)
    if len(logs) >= _FEW_LOGS and 0 < size <= room:
        listing.csvs[before:] = _unpack(paths, logs)


def _unpack(paths: tuple[Path, ...], logs: list[CsvFile]) -> list[CsvFile]:
    """Write the logs of a tar archive to a folder: each would be read from the archive's start."""
    scratch = _Scratch()
    names = {log.member: str(number) for number, log in enumerate(logs)}
    with open_archive(paths) as members:
        for member in members:
            if name := names.get(member.name):
                with member.open() as packed, (scratch.folder / name).open("wb") as log:
                    shutil.copyfileobj(packed, log, _STEP)
    return [replace(log, unpacked=(scratch, names[log.member])) for log in logs]


def _seems_last(member: Member, paths: tuple[Path, ...]) -> bool:
    return paths not in _GO_ON and member.is_last(paths)


def _unread(paths: tuple[Path, ...], member: PurePosixPath, *, is_file: bool) -> str:
    packed = member.suffix in (".tar", ".tgz", ".zip", ".gz", ".xz")
    why = " (an archive in it: unpack it first)" if packed else ""
    why = why if is_file else " (a link or a device)"
    return f"{label_of(paths)}:{member}{why}"


@contextmanager
def open_csv(csv: CsvFile) -> Iterator[IO[bytes]]:
    """Open a CSV, also one inside an archive, as a stream of its bytes."""
    if csv.unpacked:
        scratch, name = csv.unpacked
        with reading(csv.paths), (scratch.folder / name).open("rb") as stream:
            yield stream
        return
    if csv.member is None:
        with reading(csv.paths), open_unwrapped(csv.paths) as stream:
            yield stream
        return
    with open_archive(csv.paths) as members:
        member = next((each for each in members if each.name == csv.member), None)
        if member is None:
            raise SourceError(
                f"{csv.where}: the member is gone; the archive changed while it was read"
            )
        with member.open() as stream:
            yield stream
            read_whole = stream.tell() == member.size
        if read_whole and _seems_last(member, csv.paths) and next(members, None) is not None:
            _GO_ON.add(csv.paths)
            raise UnlistedMemberError(csv.where)


def beginning(csv: CsvFile, size: int, /) -> bytes:
    """Return the first bytes of a file; none of one that cannot be read."""
    try:
        with open_csv(csv) as stream:
            return stream.read(size)
    except SourceError:
        return b""


def _first_line(stream: IO[bytes]) -> bytes:
    return stream.readline(LONGEST_HEAD).rstrip(b"\r\n")


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
