"""Find the CSVs in a folder tree, whatever they are wrapped in, and open them as byte streams.

Understood: plain, gzip and xz files, tar and zip archives (members are read where they are, nothing
is unpacked to disk), and all but zip split into ``.partaa``, ``.partab``, ... Compression is
detected by a file's first bytes, so a wrong ending does no harm.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Final
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, BadZipFile, ZipFile

from traceana.errors import SourceError
from traceana.ingesters.archive import members, open_archive, open_member, seems_last
from traceana.ingesters.unwrap import (
    label_of,
    name_of,
    open_packed,
    open_unwrapped,
    plain,
    reading,
    where_of,
)

SYNTHETIC_PREFIX: Final = "SYNTHETIC-"
LONGEST_LINE: Final = 1 << 24
LONGEST_HEAD: Final = 1 << 18
"""Bytes of a first line that are kept of each file: more than any header has."""
_PACKED: Final = (ZIP_STORED, ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA)


@dataclass(frozen=True)
class CsvFile:
    """One CSV as it lies on disk, perhaps inside an archive."""

    name: str
    """Base name without wrapping and without the mark of synthetic data."""
    paths: tuple[Path, ...]
    """The file, or its split parts in order."""
    member: str | None
    """Name inside the tar archive, if it is in one."""
    synthetic: bool
    """Whether its name, or its archive's, marks it as synthetic."""
    head: bytes = field(repr=False)
    """Its first line (or the first 256 KiB where it is longer), without the line end."""
    last: bool = False
    """Whether it is taken for the last member of an archive that was not read through."""
    within: str = ""
    """Its folder with a slash, where another file has its name."""
    rows: str | None = None
    """Path of the list that has its rows, where it is JSON with several."""
    columns: tuple[str, ...] | None = None
    """Names of its columns, where it has no header."""

    @property
    def folder(self) -> Path:
        """Folder of the file, or of the archive that holds it."""
        return self.paths[0].parent

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
    """Contents of a folder tree: CSVs, `.header` files, unknown files and broken files."""

    csvs: list[CsvFile] = field(default_factory=list)
    headers: dict[tuple[Path, str], Path] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    broken: list[tuple[str, SourceError]] = field(default_factory=list)


def list_csvs(
    root: Path,
    *,
    leave_out: Sequence[Path] = (),
    read_through: bool = False,
    suffixes: tuple[str, ...] | None = None,
) -> Listing:
    """List every CSV under a folder, or the one file given."""
    if not root.exists():
        raise SourceError(f"{root}: no such file or folder")
    listing = Listing()
    for paths in _join_parts(_list_files(root, leave_out, listing)):
        n_csvs = len(listing.csvs)
        try:
            _list_one(
                paths,
                listing,
                read_through=read_through,
                suffixes=suffixes or (".csv",),
                named=suffixes is not None and root.is_file(),
            )
        except SourceError as error:
            del listing.csvs[n_csvs:]  # of an archive that broke off
            listing.broken.append((_bare(paths), error))
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
        paths += (path for name in sorted(names) if (path := Path(folder, name)).is_file())
    return sorted(paths)


def sha256_of(paths: tuple[Path, ...]) -> str:
    """Return the sha256 of a file as it lies on disk, or of its parts one after the other."""
    with open_packed(paths) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


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


def _list_one(
    paths: tuple[Path, ...],
    listing: Listing,
    *,
    read_through: bool,
    suffixes: tuple[str, ...],
    named: bool,
) -> None:
    bare = _bare(paths)
    archive = bare.endswith((".tar", ".tgz", ".zip"))
    if bare.endswith(".header") and not named:
        listing.headers[paths[0].parent, bare.removesuffix(".header")] = paths[0]
    elif not named and (bare.startswith(".") or not (archive or bare.endswith(suffixes))):
        if not paths[0].name.startswith("SYNTHETIC"):
            listing.others.append(label_of(paths))
    else:
        synthetic = paths[0].name.startswith(SYNTHETIC_PREFIX)
        if bare.endswith(".zip"):
            _list_zip(paths, synthetic, listing, suffixes=suffixes)
            return
        with reading(paths), open_unwrapped(paths) as stream:
            if not archive:
                head = _first_line(stream)
                listing.csvs.append(CsvFile(bare, paths, None, synthetic, head))
            else:
                _list_archive(
                    paths, stream, synthetic, listing, read_through=read_through, suffixes=suffixes
                )


def _list_archive(
    paths: tuple[Path, ...],
    stream: IO[bytes],
    synthetic: bool,
    listing: Listing,
    *,
    read_through: bool,
    suffixes: tuple[str, ...],
) -> None:
    seen: set[str] = set()
    with open_archive(stream) as (forward, archive):
        for member in members(forward, archive):
            path = _check_member(member.name, paths)
            if member.isdir():
                continue
            if member.name in seen:
                raise SourceError(
                    f"{where_of(paths)}: member {member.name!r} is in it twice, unlike any "
                    "published trace; fetch the file again from its publisher"
                )
            seen.add(member.name)
            text = archive.extractfile(member) if member.isreg() else None
            if text is None or path.suffix not in suffixes or path.name.startswith("."):
                listing.others.append(_unread(paths, path, is_file=member.isreg()))
                continue
            name = path.name.removeprefix(SYNTHETIC_PREFIX)
            marked = synthetic or name != path.name
            last = not read_through and seems_last(member, paths)
            listing.csvs.append(CsvFile(name, paths, member.name, marked, _first_line(text), last))
            if last:
                return
        forward.finish()


def _list_zip(
    paths: tuple[Path, ...], synthetic: bool, listing: Listing, *, suffixes: tuple[str, ...]
) -> None:
    with reading(paths), ZipFile(paths[0]) as archive:
        names = Counter(archive.namelist())
        if repeated := next((name for name, times in names.items() if times > 1), None):
            raise BadZipFile(f"member {repeated!r} stands in it twice")
        for member in archive.infolist():
            path = _check_member(member.filename, paths)
            if member.is_dir():
                continue
            if path.suffix not in suffixes or path.name.startswith("."):
                listing.others.append(_unread(paths, path, is_file=True))
                continue
            name = path.name.removeprefix(SYNTHETIC_PREFIX)
            if member.flag_bits & 1 or member.compress_type not in _PACKED:
                raise BadZipFile(f"member {member.filename!r} has a password or an unknown packing")
            with archive.open(member) as text:
                head = _first_line(text)
            marked = synthetic or name != path.name
            listing.csvs.append(CsvFile(name, paths, member.filename, marked, head))


def _unread(paths: tuple[Path, ...], member: PurePosixPath, *, is_file: bool) -> str:
    """Return the label of a member that is no log, and what it is if not a plain file."""
    packed = member.suffix in (".tar", ".tgz", ".zip", ".gz", ".xz")
    why = " (an archive in it: unpack it first)" if packed else ""
    why = why if is_file else " (a link or a device)"
    return f"{label_of(paths)}:{member}{why}"


def _check_member(name: str, paths: tuple[Path, ...]) -> PurePosixPath:
    """Return the path of a member, unless it leads out of the archive."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SourceError(
            f"{where_of(paths)}: member {name!r} leads out of the archive, which no "
            "published trace does; fetch the file again from its publisher"
        )
    return path


@contextmanager
def open_csv(csv: CsvFile) -> Iterator[IO[bytes]]:
    """Open a CSV, also one inside an archive, as a stream of its bytes.

    Raises
    ------
    SourceError
        If the file, or the archive around it, is cut short, damaged or gone.
    UnlistedMemberError
        At its end, if the archive was not read through and more follows.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from pathlib import Path
    >>> from traceana.ingesters import open_csv
    >>> from traceana.ingesters.files import list_csvs
    >>> folder = Path(tempfile.mkdtemp())
    >>> pl.DataFrame({"job": ["a"], "gpus": [2]}).write_csv(folder / "jobs.csv")
    >>> with open_csv(list_csvs(folder).csvs[0]) as stream:
    ...     print(stream.read().split())
    ...
    [b'job,gpus', b'a,2']
    """
    if csv.member is not None and _bare(csv.paths).endswith(".zip"):
        with reading(csv.paths), ZipFile(csv.paths[0]) as packed, packed.open(csv.member) as text:
            yield text
        return
    with reading(csv.paths), open_unwrapped(csv.paths) as stream:
        if csv.member is None:
            yield stream
            return
        with open_member(stream, csv.member, last=csv.last) as member:
            if member is None:
                raise SourceError(
                    f"{csv.where}: the member is gone; the archive changed while it was read"
                )
            yield member


def beginning(csv: CsvFile, size: int, /) -> bytes:
    """Return the first bytes of a file; none of one that cannot be read."""
    try:
        with open_csv(csv) as stream:
            return stream.read(size)
    except SourceError:
        return b""


def _first_line(stream: IO[bytes]) -> bytes:
    return stream.readline(LONGEST_HEAD).rstrip(b"\r\n")


def _bare(paths: tuple[Path, ...]) -> str:
    """Name without parts, compression and the mark of synthetic data."""
    return re.sub(r"\.(gz|xz)$", "", name_of(paths)).removeprefix(SYNTHETIC_PREFIX)
