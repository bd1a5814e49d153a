"""One trace in Python: its tables, row counts and report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from traceana.catalog import fetch, get_trace
from traceana.errors import DataError
from traceana.ingesters import ingest_cached
from traceana.store import Store, open_store, store_path

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    import polars as pl

    from traceana.store import Ledger


@dataclass(frozen=True)
class Trace:
    """A trace of a store, by its id.

    Examples
    --------
    >>> import traceana
    >>> trace = traceana.Trace("microsoft-itp-2021", traceana.open_sample())
    >>> trace.tables, trace.jobs.height
    (('jobs',), 2081)
    """

    id: str
    store: Store

    @property
    def title(self) -> str:
        """Title of the trace; its id where no title is stated."""
        return self.store.manifest(self.id).title

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its tables."""
        return tuple(entry.table for entry in self.ledger.entries)

    @cached_property
    def ledger(self) -> Ledger:
        """Rows read, kept and rejected, by rule."""
        return self.store.ledger(self.id)

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """The table of jobs."""
        return self.table("jobs")

    def table(self, name: str, /) -> pl.DataFrame:
        """Return a table."""
        return self.store.scan(self.id, name).collect()

    def report(self, *, out: str | PathLike[str] = "reports/latest", **options: Any) -> Path:  # noqa: ANN401
        """Build the report of this trace; the options are those of :func:`build_report`."""
        from traceana.report import build_report  # noqa: PLC0415  it loads every section

        return build_report(self.store.path, out=out, **{"title": self.title} | options)

    def __fspath__(self) -> str:
        """Return the folder of the store, so that a trace is accepted as a store."""
        return str(self.store.path)

    def __str__(self) -> str:
        return f"{self.title}\n{self.ledger}"

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


def read(
    path: str | PathLike[str],
    /,
    *,
    mapping: str | PathLike[str] | None = None,
    reader: str | None = None,
    timezone: str | None = None,
) -> Trace:
    """Read a scheduler log, files of a public trace, or other files.

    The tables are written to a store in the user's cache folder, and used again while the files
    do not change.

    Parameters
    ----------
    path
        File, or folder with the files of one trace.
    mapping
        TOML file, or its text, with the tables' columns in terms of the file's columns.
    reader
        Format, such as ``csv``, ``json`` or ``sacct``; None: detected.
    timezone
        Time zone of times without an offset; None: that of the mapping, else UTC.

    Examples
    --------
    >>> import tempfile, traceana
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "sacct.txt")
    >>> _ = path.write_text(
    ...     "JobID|State|Submit|Start|End|Elapsed|AllocTRES" + chr(10) + "71|COMPLETED|"
    ...     "2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|01:00:00|cpu=8"
    ... )
    >>> trace = traceana.read(path, timezone="Europe/Berlin")
    >>> print(trace.ledger)
    sacct/jobs: 1 rows read = 1 kept + 0 rejected (stored)
    """
    store = open_store(ingest_cached(path, mapping=mapping, reader=reader, timezone=timezone))
    found = store.traces()
    if len(found) > 1:
        raise DataError(
            f"{path}: more than one trace ({', '.join(found)}); pass one file, or use ingest() "
            "and open_store()"
        )
    return Trace(found[0], store)


def load(trace_id: str, /) -> Trace:
    """Load a public trace: downloaded once, verified, ingested and cached.

    Parameters
    ----------
    trace_id
        Id of the trace, as in :func:`list_traces`.

    Examples
    --------
    >>> import traceana
    >>> traceana.load("itp-2021")
    Traceback (most recent call last):
    ...
    traceana.errors.CatalogError: no trace is called 'itp-2021' (did you mean ...
    """
    get_trace(trace_id)
    return Trace(trace_id, open_store(ingest_cached(fetch(trace_id))))


def open_sample() -> Store:
    """Open a cached store of the synthetic sample.

    It is generated once, without a network. Its traces have the form of six public traces; no row
    is real.

    Examples
    --------
    >>> import traceana
    >>> jobs = traceana.open_sample().scan("microsoft-itp-2021", "jobs")
    >>> jobs.select("gpus", "runtime_s").collect().height
    2081
    """
    from traceana.page.context import DataSource  # noqa: PLC0415  as above
    from traceana.report.data_source import open_data_source  # noqa: PLC0415  as above

    return open_data_source(DataSource(store_path(), is_sample=True))
