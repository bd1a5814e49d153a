"""A file that goes to the disk as it is written, past the system's cache of files."""

from __future__ import annotations

import fcntl
import os
from mmap import mmap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

_AT_ONCE: Final = 1 << 22
_DIRECT: Final = getattr(os, "O_DIRECT", 0)


class DirectFile:
    """A new file, written a large block at a time and straight to the disk where that can be.

    To put a table into the system's cache first takes a quarter of the time that packing it does,
    and leaves the disk idle until the end.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            self._file = os.open(path, flags | _DIRECT, 0o666)
        except OSError:  # not every file system can
            self._file = os.open(path, flags, 0o666)
        self._block = memoryview(mmap(-1, _AT_ONCE))  # begins with a page, as disks want it
        self._filled = 0
        self.closed = False

    def write(self, data: bytes | pa.Buffer) -> None:
        """Add some bytes."""
        rest = memoryview(data).cast("B")
        while rest:
            end = min(self._filled + len(rest), _AT_ONCE)
            taken = end - self._filled
            self._block[self._filled : end] = rest[:taken]
            rest = rest[taken:]
            self._filled = end % _AT_ONCE
            if end == _AT_ONCE:
                self._send(self._block)

    def finish(self) -> None:
        """Bring what is left to the disk, and wait until it holds all."""
        if _DIRECT:  # only whole blocks can go that way
            flags = fcntl.fcntl(self._file, fcntl.F_GETFL)
            fcntl.fcntl(self._file, fcntl.F_SETFL, flags & ~_DIRECT)
        self._send(self._block[: self._filled])
        os.fsync(self._file)
        self.close()

    def flush(self) -> None:
        """Do nothing: blocks go when they are full."""

    def close(self) -> None:
        """Close the file as it is."""
        if not self.closed:
            self.closed = True
            os.close(self._file)
            self._block = memoryview(b"")

    def _send(self, block: memoryview) -> None:
        while block:
            block = block[os.write(self._file, block) :]
