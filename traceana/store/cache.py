"""What was computed before, kept in the user's cache folder."""

from __future__ import annotations

import atexit
import hashlib
import os
import pickle
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import filelock
import polars as pl
from platformdirs import user_cache_path

FOLDER: Final = "TRACEANA_CACHE"
"""Variable that names another folder: a command that keeps nothing sets it to a temporary one."""
_TEMPORARY: Final = "traceana-read-"
_COMMAND: Final = ".command"
_LIBRARIES: Final = ("polars", "pyarrow", "narwhals", "numpy", "scipy", "statsmodels")
_LARGEST_OBJECT_BYTES: Final = 1 << 26
_DIGEST_BYTES: Final = 32


_untidied: Final[dict[Path, int]] = {}
"""Bytes that this process saved in a folder since it last deleted what is beyond the limit."""


class _TooLargeError(Exception):
    pass


class _Pickler(pickle.Pickler):
    """Refuses a large frame before it is copied."""

    def reducer_override(self, value: object) -> Any:  # noqa: ANN401  as its base
        if isinstance(value, pl.DataFrame) and value.estimated_size() > _LARGEST_OBJECT_BYTES:
            raise _TooLargeError
        return NotImplemented


@dataclass(frozen=True)
class Cache:
    """Objects by key in a folder of the user's cache, of which the least used are deleted."""

    name: str
    """Name of the folder."""
    limit_bytes: int = 1 << 30
    """Size of the folder beyond which files are deleted."""

    def load(self, key: str, /) -> Any:  # noqa: ANN401  whatever was saved
        """Return the object of a key, or None."""
        path = self._path(key)
        try:
            stored = path.read_bytes()
            path.touch()
        except OSError:
            return None
        digest, packed = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        if hashlib.sha256(packed).digest() != digest:
            return None
        return pickle.loads(packed)  # noqa: S301  written by this same code

    def save(self, key: str, value: object, /) -> None:
        """Keep an object, unless it is large."""
        written = BytesIO()
        try:
            _Pickler(written).dump(value)
        except _TooLargeError:
            return
        packed = written.getvalue()
        if len(packed) > _LARGEST_OBJECT_BYTES:
            return
        path = self._path(key)
        with suppress(OSError):  # a folder that cannot be written, or is full
            path.parent.mkdir(parents=True, exist_ok=True)
            number, beside = tempfile.mkstemp(dir=path.parent)  # for no other user to read
            try:
                with open(number, "wb") as stream:  # noqa: PTH123
                    stream.write(hashlib.sha256(packed).digest() + packed)
                Path(beside).replace(path)
            finally:
                Path(beside).unlink(missing_ok=True)
            saved = _untidied.get(path.parent, self.limit_bytes) + len(packed)
            if saved * 16 > self.limit_bytes:  # each look at all files takes long
                self._tidy(path.parent)
                saved = 0
            _untidied[path.parent] = saved

    @contextmanager
    def alone(self, key: str, /) -> Iterator[None]:
        """Wait while another process or thread computes the object of a key."""
        path = self._path(key).with_suffix(".lock")
        lock = filelock.FileLock(path)
        with suppress(OSError):  # as in save
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            lock.release()

    def _path(self, key: str) -> Path:
        cache = os.environ.get(FOLDER) or user_cache_path("traceana")
        return Path(cache) / self.name / f"{key}.pickle"

    def _tidy(self, folder: Path) -> None:
        stats = {path: path.stat() for path in folder.iterdir()}
        total = sum(stat.st_size for stat in stats.values())
        for path, stat in sorted(stats.items(), key=lambda item: item[1].st_mtime_ns):
            if total <= self.limit_bytes:
                return
            path.unlink(missing_ok=True)
            total -= stat.st_size


def key_of(*parts: object) -> str:
    """Return a key that changes with any of the parts."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


@cache
def temporary_folder() -> Path:
    """Return a folder for this process, which is deleted when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY))
    atexit.register(_delete, folder, os.getpid())
    return folder


def _delete(folder: Path, made_by: int) -> None:
    if os.getpid() == made_by:  # not at the end of a copy of the process
        shutil.rmtree(folder, ignore_errors=True)


def is_temporary(path: Path, /) -> bool:
    """Return whether a path is in such a folder, of this process or another."""
    return any(part.startswith(_TEMPORARY) for part in path.parts)


def note_command(store: Path, text: str, /) -> None:
    """Keep beside a temporary store what made it, without folders of this machine."""
    if is_temporary(store):
        store.with_name(store.name + _COMMAND).write_text(text, encoding="utf-8")


def command_of(store: Path, /) -> str | None:
    """Return what made a temporary store; None of another."""
    path = store.with_name(store.name + _COMMAND)
    return path.read_text(encoding="utf-8") if is_temporary(store) and path.is_file() else None


@cache
def versions(*more: str) -> tuple[str, ...]:
    """Return the versions of Python and of the libraries that numbers depend on."""
    libraries = (_version(name) for name in (*_LIBRARIES, *more))
    return (platform.python_version(), platform.machine(), *libraries)


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


@cache
def code_digest(*packages: str) -> str:
    """Return a digest of the code and data files in packages of traceana; without any, in all."""
    digest = hashlib.sha256()
    top = files("traceana")
    for folder in [top / name for name in packages] or [top]:
        for source in _sources(folder):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:12]


def _sources(folder: Traversable) -> list[Traversable]:
    traversables: list[Traversable] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            traversables += _sources(entry) if entry.name != "__pycache__" else []
        elif not entry.name.endswith(".pyc"):
            traversables.append(entry)
    return traversables
