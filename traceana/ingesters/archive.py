"""Members of a tar archive, read where they are in a stream that only goes forward."""

from __future__ import annotations

import struct
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

_LARGE: Final = 1 << 20
_PADDING: Final = 2 * tarfile.BLOCKSIZE + tarfile.RECORDSIZE
_STEP: Final = 1 << 20
_LONGEST_HEADER: Final = 1 << 20
_MOST_MEMBERS: Final = 100_000


class UnlistedMemberError(Exception):
    """An archive goes on after the member that was taken for its last one."""


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

    def finish(self) -> None:
        """Read to the end, so that the checksum of a compression around it is checked."""
        while self.read(_STEP):
            pass


class _Member:
    """The bytes of one member, straight from the stream."""

    def __init__(self, forward: Forward, member: tarfile.TarInfo) -> None:
        forward.seek(member.offset_data)
        self._forward = forward
        self._left = member.size

    def read(self, size: int) -> bytes:
        data = self._forward.read(min(size, self._left, _STEP))
        if not data and self._left:
            raise EOFError("the archive ends within a member")
        self._left -= len(data)
        return data


@contextmanager
def open_archive(stream: IO[bytes]) -> Iterator[tuple[Forward, tarfile.TarFile]]:
    """Open an archive; its members must be read in their order."""
    forward = Forward(stream)
    with forward.reading_header():
        archive = tarfile.open(fileobj=forward, mode="r:")  # type: ignore[call-overload]  # noqa: SIM115
    with archive:
        yield forward, archive


def members(forward: Forward, archive: tarfile.TarFile, /) -> Iterator[tarfile.TarInfo]:
    """Return an archive's members one after the other."""
    for _ in range(_MOST_MEMBERS):
        with forward.reading_header():
            member = archive.next()
        if member is None:
            return
        yield member
    raise tarfile.ReadError(f"it has more than {_MOST_MEMBERS:,} members")


@contextmanager
def open_member(stream: IO[bytes], name: str, *, last: bool) -> Iterator[IO[bytes] | None]:
    """Open a member as a stream, or None if there is no such one."""
    with open_archive(stream) as (forward, archive):
        for member in members(forward, archive):
            if member.name != name:
                continue
            if member.sparse is None:
                yield _Member(forward, member)  # type: ignore[misc]
            else:
                yield archive.extractfile(member)
            if last:
                if next(members(forward, archive), None) is not None:
                    raise UnlistedMemberError(name)
                forward.finish()
            return
    yield None


def seems_last(member: tarfile.TarInfo, paths: tuple[Path, ...]) -> bool:
    """Return whether a large gzip archive ends after a member, by gzip's count of its bytes.

    Another small member may follow in the padding at its end: :func:`open_member` looks.
    """
    if member.size < _LARGE or member.sparse is not None:
        return False
    with paths[0].open("rb") as first, paths[-1].open("rb") as last:
        size = last.seek(0, 2)
        last.seek(max(size - 4, 0))
        unpacked = int.from_bytes(last.read(), "little")  # modulo 2^32
        end = member.offset_data + -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        return first.read(2) == b"\x1f\x8b" and (unpacked - end) % (1 << 32) <= _PADDING
