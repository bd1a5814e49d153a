"""An open store whose derived tables are computed once and shared."""

from __future__ import annotations

import hashlib
import pickle
import platform
import tempfile
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from platformdirs import user_cache_path

from traceana.store.ledger import Ledger, ledger_json
from traceana.store.spark import scan_by_spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable

    import polars as pl
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.store.manifest import Manifest
    from traceana.store.store import Store

Found = TypeVar("Found")
Key = tuple[Hashable, ...]

LIBRARIES: Final = ("polars", "pyarrow", "narwhals", "numpy", "scipy", "statsmodels")
"""Their versions are part of what a number depends on."""
_COMPUTED_BY: Final = ("analysis", "derived", "results", "schema", "simulate", "stats")
_CODE: Final = (".py", ".toml", ".csv", ".jinja", ".css", ".js", ".mplstyle")
_CACHE_BYTES: Final = 1 << 30
_LARGEST_RESULT_BYTES: Final = 1 << 26
_DIGEST_BYTES: Final = 32


@dataclass(frozen=True)
class Session:
    """An open store, with what was computed from it.

    Attributes
    ----------
    store
        The store.
    master
        Master of the Spark that reduces tables; None: Polars does.
    """

    store: Store
    master: str | None = None
    _known: dict[Key, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    @cached_property
    def ledgers(self) -> dict[str, Ledger]:
        """Ledger of each trace in the store."""
        return {trace: self.store.ledger(trace) for trace in self.store.traces()}

    def manifest(self, trace: str, /) -> Manifest:
        """Return what a trace is."""
        return self.store.manifest(trace)

    def has(self, trace: str, table: str, /) -> bool:
        """Return whether the store has a table with at least one row."""
        ledger = self.ledgers.get(trace)
        return ledger is not None and any(
            entry.table == table and entry.rows_kept for entry in ledger.entries
        )

    def scan(self, trace: str, table: str, /) -> pl.LazyFrame:
        """Return a table as a lazy frame."""
        return self.store.scan(trace, table)

    def frame(self, trace: str, table: str, /) -> IntoFrame:
        """Return a table as the engine of this session reads it: a lazy frame, or one of Spark."""
        if self.master is None:
            return self.scan(trace, table)
        rows: IntoFrame = scan_by_spark(self.store, trace, table, master=self.master)
        return rows

    def cached(self, key: Key, function: Callable[[], Found], /, *, on_disk: bool = True) -> Found:
        """Return the result of a function, called once per session and kept between sessions.

        Parameters
        ----------
        key
            Name of the result, the traces it is computed from, and its options. Elements that are
            trace ids add their tables to what the result depends on; with none, all traces do.
        function
            Computes the result.
        on_disk
            Whether to keep the result in the user's cache folder, until the traces, the code or
            the version of a library change.
        """
        if key not in self._known:
            on_disk = on_disk and self.master is None and bool(self.ledgers)
            kept = _Kept(self._digest(key)) if on_disk else None
            found = kept.load() if kept else None
            if found is None:
                found = function()
                if kept:
                    kept.save(found)
            self._known[key] = found
        result: Found = self._known[key]
        return result

    def once(self, function: Callable[..., Found], /, *args: Hashable) -> Found:
        """Return ``function(session, *args)``, cached under its name and arguments."""
        key = (f"{function.__module__}.{function.__qualname__}", *args)
        return self.cached(key, lambda: function(self, *args))

    def title(self, trace: str | None, /) -> str:
        """Return the title of a trace, marked if its rows are synthetic."""
        if trace is None:
            return "Simulated, from no trace"
        title = self.manifest(trace).title
        return f"{title} (SYNTHETIC)" if self.synthetic(trace) else title

    def synthetic(self, trace: str | None, /) -> bool:
        """Return whether a trace has synthetic rows; None: whether all traces have."""
        if trace is None:
            return len(self.synthetic_traces) == len(self.ledgers)
        return trace in self.ledgers and self.ledgers[trace].synthetic

    @property
    def synthetic_traces(self) -> list[str]:
        """Traces with synthetic rows."""
        return [trace for trace in self.ledgers if self.synthetic(trace)]

    def _digest(self, key: Key) -> str:
        traces = [part for part in key if part in self.ledgers] or list(self.ledgers)
        ledgers = [ledger_json(self.ledgers[str(trace)]) for trace in traces]
        parts = (
            key,
            str(self.store.path.resolve()),
            ledgers,
            code_digest(*_COMPUTED_BY),
            versions(),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


class _Kept:
    """One result in the cache folder; a file that was cut short or changed counts as none."""

    def __init__(self, digest: str) -> None:
        self._folder = user_cache_path("traceana") / "results"
        self._path = self._folder / f"{digest}.pickle"

    def load(self) -> Any:  # noqa: ANN401  whatever was saved
        try:
            stored = self._path.read_bytes()
            self._path.touch()
        except OSError:
            return None
        digest, packed = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
        if hashlib.sha256(packed).digest() != digest:
            return None
        return pickle.loads(packed)  # noqa: S301  written by this same code

    def save(self, found: object) -> None:
        packed = pickle.dumps(found)
        if len(packed) > _LARGEST_RESULT_BYTES:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as beside:
                beside.write(hashlib.sha256(packed).digest() + packed)
            Path(beside.name).replace(self._path)
            self._tidy()
        except OSError:  # a cache that cannot be written is none
            return

    def _tidy(self) -> None:
        """Delete the results used longest ago beyond 1 GiB."""
        sizes = {path: path.stat() for path in self._folder.iterdir()}
        total = sum(stat.st_size for stat in sizes.values())
        for path, stat in sorted(sizes.items(), key=lambda item: item[1].st_mtime_ns):
            if total <= _CACHE_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= stat.st_size


@cache
def versions(*more: str) -> tuple[str, ...]:
    """Return the versions of Python and of the libraries that numbers depend on."""
    return (
        platform.python_version(),
        platform.machine(),
        *(_version(name) for name in (*LIBRARIES, *more)),
    )


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""


@cache
def code_digest(*packages: str) -> str:
    """Return a digest of the code, and of the data files beside it, in packages of traceana.

    Without a package, of all of traceana.
    """
    digest = hashlib.sha256()
    top = files("traceana")
    for folder in [top / name for name in packages] or [top]:
        for source in _sources(folder):
            digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:12]


def _sources(folder: Traversable) -> list[Traversable]:
    found: list[Traversable] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _sources(entry) if entry.name != "__pycache__" else []
        elif entry.name.endswith(_CODE):
            found.append(entry)
    return found
