"""What judges look at: the store, and what several of them need, computed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from traceana.store import scan_by_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.store import Store

Found = TypeVar("Found")

BY_SPARK: Final = ("alibaba-pai-2020",)
"""Traces of which some tables have millions of rows: these Spark reduces where it is asked for."""


@dataclass(frozen=True)
class Data:
    """The store of one run of the ledger.

    Attributes
    ----------
    store
        The store.
    master
        Master of the Spark that reduces the largest tables; None: Polars reduces all.
    """

    store: Store
    master: str | None = None
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    def scan(self, trace: str, table: str, /) -> pl.LazyFrame:
        """Return a table as a lazy frame."""
        return self.store.scan(trace, table)

    def frame(self, trace: str, table: str, /) -> IntoFrame:
        """Return a table as the engine of this run reads it, for what takes any engine's frame."""
        if self.master is None or trace not in BY_SPARK:
            return self.scan(trace, table)
        rows: IntoFrame = scan_by_spark(self.store, trace, table, master=self.master)
        return rows

    def once(self, compute: Callable[[Data], Found], /) -> Found:
        """Return what `compute` makes of this data; it is called once a run, whoever asks."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        found: Found = self._known[compute]
        return found
