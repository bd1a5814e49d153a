"""sha256 sums of files, taken in a thread while the files are read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from traceana.ingesters.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Checksums:
    """The sums by file, or by a file's parts; reading one waits until it is computed."""

    def __init__(self, files: Iterable[tuple[Path, ...]]) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._sums = {paths: self._thread.submit(sha256_of, paths) for paths in files}

    def __getitem__(self, paths: tuple[Path, ...]) -> str:
        return self._sums[paths].result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)
