"""One trace of a store: what it is, its tables, and what was computed from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import StoreError
from traceana.store.cache import Cache, code_digest, is_temporary, key_of, versions
from traceana.store.ledger import Ledger, ledger_json
from traceana.store.spark import scan_by_spark

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from matplotlib.axes import Axes
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.store.manifest import Manifest
    from traceana.store.store import Store

Found = TypeVar("Found")
Key = tuple[Hashable, ...]

_COMPUTED_BY: Final = ("cohorts", "questions", "schema", "simulate", "stats", "store", "tables")
_CACHE: Final = Cache("results")


@dataclass(frozen=True)
class Trace:
    """A trace of a store.

    Attributes
    ----------
    id
        Id of the trace.
    store
        The store that has its tables.

    Examples
    --------
    >>> import traceana
    >>> trace = traceana.open_sample().trace("microsoft-itp-2021")
    >>> trace.tables, trace.jobs.height
    (('jobs',), 2081)
    """

    id: str
    store: Store
    _known: dict[Key, Any] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {}}

    @cached_property
    def manifest(self) -> Manifest:
        """What the trace is: title, license, times, unit of independence, tables."""
        return self.store.manifest(self.id)

    @cached_property
    def ledger(self) -> Ledger:
        """Rows read, kept and rejected, by rule."""
        return self.store.ledger(self.id)

    @property
    def title(self) -> str:
        """Title of the trace; its id where no title is stated."""
        return self.manifest.title

    @property
    def label(self) -> str:
        """Short title of the trace, for text and figures; its title where none is stated."""
        return self.manifest.short_title or self.title

    @property
    def synthetic(self) -> bool:
        """Whether it has synthetic rows."""
        return self.ledger.synthetic

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its tables."""
        return tuple(entry.table for entry in self.ledger.entries)

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """The table of jobs."""
        return self.table("jobs")

    def table(self, name: str, /) -> pl.DataFrame:
        """Return a table."""
        return self.scan(name).collect()

    def scan(self, table: str, /) -> pl.LazyFrame:
        """Return a table as a lazy frame."""
        return self.store.scan(self.id, table)

    def has(self, table: str, columns: tuple[str, ...] = (), /) -> bool:
        """Return whether a table has a row, and values in all these columns."""
        return self.store.has(self.id, table) and self.manifest.has(table, columns)

    def frame(self, table: str, /) -> IntoFrame:
        """Return a table as the engine of the store reads it: a lazy frame, or one of Spark."""
        if self.store.master is None:
            return self.scan(table)
        rows: IntoFrame = scan_by_spark(self.store, self.id, table, master=self.store.master)
        return rows

    def rows(self, table: str, /) -> nw.LazyFrame[Any]:
        """Return the table of :meth:`frame` for expressions that every engine runs."""
        rows: nw.LazyFrame[Any] = nw.from_native(self.frame(table)).lazy()
        return rows

    def local(self, rows: IntoFrame, table: str, /) -> pl.LazyFrame:
        """Return rows of a table's frame as Polars has them, with the types of the store."""
        if isinstance(rows, pl.LazyFrame):
            return rows
        frame: pl.DataFrame = nw.from_native(rows).lazy().collect(backend="polars").to_native()
        types = self.scan(table).collect_schema()
        return frame.cast({name: types[name] for name in frame.columns if name in types}).lazy()

    def cached(self, key: Key, function: Callable[[], Found], /, *, on_disk: bool = True) -> Found:
        """Return the result of a function, called once and kept.

        Parameters
        ----------
        key
            Name of the result and its options. A :class:`Trace` among them adds its tables to what
            the result depends on.
        function
            Computes the result.
        on_disk
            Whether to keep the result in the user's cache folder, until the traces, the code or
            the version of a library change. Results of a temporary store are not.
        """
        if key not in self._known:
            in_memory = self.store.master is not None or is_temporary(self.store.path)
            is_kept = on_disk and not in_memory
            self._known[key] = self._kept(key, function) if is_kept else function()
        result: Found = self._known[key]
        return result

    def _kept(self, key: Key, function: Callable[[], Found]) -> Found:
        """Return the result in the cache folder; one process computes it, others wait."""
        digest = self._digest(key)
        value: Found | None = _CACHE.load(digest)
        if value is not None:
            return value
        with _CACHE.alone(digest):
            value = _CACHE.load(digest)
            if value is None:
                value = function()
                for trace in (self, *(part for part in key if isinstance(part, Trace))):
                    trace.check_unchanged()
                _CACHE.save(digest, value)
        return value

    def once(self, function: Callable[..., Found], /, *args: Hashable) -> Found:
        """Return ``function(trace, *args)``, cached under its name and arguments.

        It is kept on disk if its code is part of what a kept result depends on.
        """
        module = function.__module__
        on_disk = module.startswith(tuple(f"traceana.{package}." for package in _COMPUTED_BY))
        key = (f"{module}.{function.__qualname__}", *args)
        return self.cached(key, lambda: function(self, *args), on_disk=on_disk)

    def check_unchanged(self) -> None:
        """Check that the trace is as it was when it was opened.

        Raises
        ------
        StoreError
            If it was deleted or ingested anew since.
        """
        try:
            same = self.store.ledger(self.id) == self.ledger
        except StoreError:
            same = False
        if not same:
            raise StoreError(
                f"{self.store.path / self.id}: deleted or changed while it was read; "
                "run again when nothing else changes the store"
            )

    def summary(self) -> str:
        """Return the title and the rows of each table, as text."""
        return f"{self.title}\n{self.ledger}"

    def report(self, *, out: str | PathLike[str] = "reports/latest", **options: Any) -> Path:  # noqa: ANN401
        """Build the report of this trace; the options are those of :func:`build_report`."""
        page: Path = import_module("traceana.report").build_report(self, out=out, **options)
        return page

    def plot(self, figure: str = "", /, *, ax: Axes | None = None, **options: object) -> Axes:
        """Draw a figure of this trace, such as ``gpu-demand``; without one, the error names all."""
        axes: Axes = import_module("traceana.report").plot_trace(self, figure, ax=ax, **options)
        return axes

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.table(name)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  always raises
        text = f"a trace has no {name!r}"
        if not name.startswith("_"):
            tables = [f'trace["{table}"]' for table in self.tables]
            text += f"; its tables: {', '.join(tables)}; it has summary(), report(), plot(figure)"
            if name in import_module("traceana").__all__:
                text = f"{name} is a function: traceana.{name}({tables[0]}, ...)"
        raise AttributeError(text, name=name, obj=self)

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{entry.table}</td><td>{entry.rows_read:,}</td><td>{entry.rows_kept:,}</td>"
            f"<td>{entry.rows_rejected:,}</td></tr>"
            for entry in self.ledger.entries
        )
        return (
            f"<p><strong>{escape(self.title)}</strong></p><table><thead><tr><th>table</th>"
            f"<th>rows read</th><th>kept</th><th>rejected</th></tr></thead><tbody>{rows}</tbody>"
            "</table>"
        )

    def _digest(self, key: Key) -> str:
        traces = (self, *(part for part in key if isinstance(part, Trace)))
        ledgers = [ledger_json(trace.ledger) for trace in traces]
        name = tuple(part.id if isinstance(part, Trace) else part for part in key)
        place = str(self.store.path.resolve())
        return key_of((self.id, *name), place, ledgers, code_digest(*_COMPUTED_BY), versions())


def distinct_traces(traces: Sequence[Trace], /) -> list[Trace]:
    """Leave out traces that repeat the jobs of another one: their numbers must not be added.

    Examples
    --------
    >>> import traceana
    >>> from traceana.store import distinct_traces
    >>> store = traceana.open_sample()
    >>> both = [store.trace("elasticflow-2023"), store.trace("microsoft-itp-2021")]
    >>> [trace.id for trace in distinct_traces(both)]
    ['microsoft-itp-2021']
    """
    ids = {trace.id for trace in traces}
    return [trace for trace in traces if trace.manifest.repeats not in ids]
