"""sha256 sums of files, taken in a thread while the files are read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from traceana.errors import SourceError
from traceana.ingesters.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Checksums:
    """The sums by file, or by a file's parts; reading one waits until it is computed."""

    def __init__(self, files: Iterable[tuple[Path, ...]]) -> None:
        files = tuple(files)
        self._thread = ThreadPoolExecutor(1)
        self._before = {path: _state(path) for paths in files for path in paths}
        self._sums = {paths: self._thread.submit(sha256_of, paths) for paths in files}

    def __getitem__(self, paths: tuple[Path, ...]) -> str:
        return self._sums[paths].result()

    def check_unchanged(self) -> None:
        """Refuse files that were written while they were read."""
        for path, before in self._before.items():
            if _state(path) != before:
                raise SourceError(f"{path}: changed while it was read; ingest a copy of it")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
