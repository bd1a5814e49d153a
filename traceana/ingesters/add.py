"""Add a frame of any engine to a store."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError
from traceana.ingesters.ingestion import read_mapping
from traceana.ingesters.plan import Plan, ingest_plan
from traceana.ingesters.readers.reader import frame_rows
from traceana.ingesters.source import Source
from traceana.schema import get_table
from traceana.store import Ledger, store_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from narwhals.stable.v2.typing import IntoFrame


def add_table(
    frame: IntoFrame,
    /,
    *,
    trace: str,
    table: str,
    store: str | PathLike[str] | None = None,
    title: str | None = None,
    mapping: str | PathLike[str] | None = None,
) -> Ledger:
    """Add a frame to a store, as one table of a trace.

    Parameters
    ----------
    frame
        Frame of Polars (eager or lazy), DuckDB, pandas, pyarrow, PySpark or Ibis.
    trace
        Id of the trace; its other tables are kept.
    table
        Name of the table, which is replaced if it exists.
    store
        Folder of the store; None: TRACEANA_STORE, else ``./data``.
    title
        Title of the trace; None: its id.
    mapping
        TOML file, or its text, with the table's columns in terms of the frame's. None: the frame
        has the names and units of the table; other columns are ignored.

    Raises
    ------
    DataError
        If the frame is of no such engine, or the mapping does not fit.
    SourceError
        If no row could be kept.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "gpus": [2, 4], "runtime_s": [60.0, -1.0]})
    >>> ledger = traceana.add_table(jobs, trace="mine", table="jobs", store=tempfile.mkdtemp())
    >>> print(ledger)
    mine/jobs: 2 rows read = 1 kept + 1 rejected (written)
    """
    get_table(table)  # raises where there is no such table
    data = to_polars(frame)
    rows = frame_rows(data.lazy(), "frame")
    text = mapping if mapping is not None else _same_names(rows.types, table)
    parsed, name = read_mapping(text, trace)
    if table not in parsed.tables:
        raise DataError(f"{parsed.where}: no [{table}] in it; found {', '.join(parsed.tables)}")
    source = Source(None, rows, (table,), reader="frame")
    facts = {} if title is None else {"title": title}
    plan = Plan(
        name, parsed, [source], "api", {source.label: digest_of(data.select(*rows.columns))}, facts
    )
    return ingest_plan(plan, store_path(store))


def to_polars(frame: IntoFrame, /) -> pl.DataFrame:
    """Return a frame of any engine as one of Polars."""
    import narwhals.stable.v2 as nw  # noqa: PLC0415  what ingests files needs no other engine

    from traceana.store.frames import not_a_frame  # noqa: PLC0415  as above

    try:
        narrow = nw.from_native(frame)
    except TypeError:
        raise DataError(not_a_frame(frame)) from None
    if isinstance(narrow, nw.LazyFrame):
        narrow = narrow.collect(backend="polars")
    return narrow.to_polars()


def _same_names(types: Mapping[str, pl.DataType], table: str) -> str:
    """Return the mapping of a frame whose columns have the table's names."""
    lines = [f"[{table}]"]
    for name, column in get_table(table).columns().items():
        if name in types:
            dtype = types[name]
            is_time = column.dtype == pl.Float64 and dtype.is_temporal()
            form = "duration" if dtype == pl.Duration else "time"
            lines.append(f'{name} = {{ {form} = "{name}" }}' if is_time else f'{name} = "{name}"')
    if len(lines) == 1:
        known = ", ".join(get_table(table).column_names())
        raise DataError(
            f"no column of the frame is one of {table} ({known}): found {', '.join(types)}; "
            "pass mapping="
        )
    return "\n".join(lines) + "\n"


def digest_of(data: pl.DataFrame, /) -> str:
    """Return a digest of a frame's rows and types."""
    digest = hashlib.sha256(json.dumps([str(dtype) for dtype in data.dtypes]).encode())
    if data.width:
        digest.update(data.hash_rows().to_numpy().tobytes())
    return digest.hexdigest()
