"""A stream that is read forward, with limits on what the headers of a tar archive take."""

from __future__ import annotations

import re
import struct
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

_STEP: Final = 1 << 20
_LONGEST_HEADER: Final = 1 << 18
_MOST_WORK: Final = 1 << 38  # the squares of four of them: half a minute


class Forward:
    """A stream that knows its place and can be moved forward."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._place = 0
        self._allowed: int | None = None
        self._work = 0

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._place

    def read(self, size: int) -> bytes:
        """Read up to so many bytes."""
        if self._allowed is not None:
            self._allowed -= size
            self._work += size**2  # of tarfile, where a header is made to its harm
            if self._allowed < 0 or self._work > _MOST_WORK:
                raise tarfile.ReadError("a header of more than 256 KiB, or many long ones")
        data = self._stream.read(size)
        if self._allowed is not None and re.search(rb"\d{256}", data):  # squared, too
            raise tarfile.ReadError("a member's header has a number of more than 255 digits")
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
