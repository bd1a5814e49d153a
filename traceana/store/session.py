"""An open store whose derived tables are computed once and shared."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import StoreError
from traceana.store.cache import Cache, code_digest, key_of, versions
from traceana.store.ledger import Ledger, ledger_json
from traceana.store.spark import scan_by_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from narwhals.stable.v2.typing import IntoFrame

    from traceana.store.manifest import Manifest
    from traceana.store.store import Store

Found = TypeVar("Found")
Key = tuple[Hashable, ...]

_COMPUTED_BY: Final = ("cohorts", "questions", "schema", "simulate", "stats", "store", "tables")
_CACHE: Final = Cache("results")


@dataclass(frozen=True)
class Session:
    """An open store, with what was computed from it."""

    store: Store
    """The store."""
    master: str | None = None
    """Master of the Spark that reduces tables; None: Polars does."""
    _known: dict[Key, Any] = field(default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    @cached_property
    def ledgers(self) -> dict[str, Ledger]:
        """Ledger of each trace in the store."""
        traces = self.store.only or self.store.traces()
        for trace in traces:
            self.manifest(trace)  # one that cannot be read is found before hours of work
        return {trace: self.store.ledger(trace) for trace in traces}

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

    def rows(self, trace: str, table: str, /) -> nw.LazyFrame[Any]:
        """Return the table of :meth:`frame` for expressions that every engine runs."""
        rows: nw.LazyFrame[Any] = nw.from_native(self.frame(trace, table)).lazy()
        return rows

    def local(self, rows: IntoFrame, trace: str, table: str, /) -> pl.LazyFrame:
        """Return rows of a table's frame as Polars has them, with the types of the store."""
        if isinstance(rows, pl.LazyFrame):
            return rows
        frame: pl.DataFrame = nw.from_native(rows).lazy().collect(backend="polars").to_native()
        types = self.scan(trace, table).collect_schema()
        return frame.cast({name: types[name] for name in frame.columns if name in types}).lazy()

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
            digest = self._digest(key) if on_disk else ""
            found = _CACHE.load(digest) if on_disk else None
            if found is None:
                found = function()
                if on_disk:
                    self.check_unchanged(key)
                    _CACHE.save(digest, found)
            self._known[key] = found
        result: Found = self._known[key]
        return result

    def once(self, function: Callable[..., Found], /, *args: Hashable) -> Found:
        """Return ``function(session, *args)``, cached under its name and arguments.

        It is kept on disk if its code is part of what a kept result depends on.
        """
        module = function.__module__
        on_disk = module.startswith(tuple(f"traceana.{package}." for package in _COMPUTED_BY))
        key = (f"{module}.{function.__qualname__}", *args)
        return self.cached(key, lambda: function(self, *args), on_disk=on_disk)

    def check_unchanged(self, traces: Key | None = None, /) -> None:
        """Check that traces (None: all) are as when the session began.

        Raises
        ------
        StoreError
            If one was deleted or ingested anew since.
        """
        for trace, ledger in self.ledgers.items():
            if traces is None or trace in traces:
                try:
                    same = self.store.ledger(trace) == ledger
                except StoreError:
                    same = False
                if not same:
                    raise StoreError(
                        f"{self.store.path / trace}: deleted or changed while it was read; "
                        "run again when nothing else changes the store"
                    )

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
        place = str(self.store.path.resolve())
        return key_of(key, place, ledgers, code_digest(*_COMPUTED_BY), versions())
