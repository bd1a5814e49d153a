"""Which files of a table its publisher ships and a store has not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.catalog import get_trace, load_catalog

if TYPE_CHECKING:
    from traceana.store.store import Store


def missing_csvs(store: Store, trace: str, table: str, /) -> tuple[str, ...]:
    """Return the CSVs behind a table that its publisher ships and that were not ingested.

    Parameters
    ----------
    store
        A store that holds the trace.
    trace, table
        Which table. Of a trace that is not in the catalogue no file is known to be missing.

    Returns
    -------
    tuple of str
        Their names as published; none where the table is whole.

    Raises
    ------
    StoreError
        If the trace is not in the store.
    """
    not_read = {csv for _, csv in store.ledger(trace).missing_csvs}
    if trace not in load_catalog():
        return ()
    return tuple(
        csv
        for content in get_trace(trace).contents
        if table in content.tables
        for csv in content.csvs
        if csv in not_read
    )
