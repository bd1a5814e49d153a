"""What judges look at: the store, and what several of them need, computed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from traceana.store import Store

Found = TypeVar("Found")


@dataclass(frozen=True)
class Data:
    """The store of one run of the ledger.

    Attributes
    ----------
    store
        The store.
    """

    store: Store
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    def scan(self, trace: str, table: str, /) -> pl.LazyFrame:
        """Return a table as a lazy frame."""
        return self.store.scan(trace, table)

    def once(self, compute: Callable[[Data], Found], /) -> Found:
        """Return what `compute` makes of this data; it is called once a run, whoever asks."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        found: Found = self._known[compute]
        return found
