"""Open a trace: your own file, a public trace, or the synthetic sample."""

from __future__ import annotations

import shlex
from datetime import date
from math import inf, nextafter
from os import PathLike

import polars as pl

from traceana.catalog import fetch
from traceana.catalog.model import get_trace
from traceana.errors import DataError
from traceana.exchange import select_jobs
from traceana.exchange.selection import Time
from traceana.ingesters.ingestion import ingest_cached
from traceana.store import Store, Trace, open_store
from traceana.store.cache import command_of, note_command
from traceana.store.store import store_path


def read(
    path: str | PathLike[str],
    /,
    *,
    mapping: str | PathLike[str] | None = None,
    reader: str | None = None,
    timezone: str | None = None,
    window: tuple[Time, Time] | None = None,
) -> Trace:
    """Read a scheduler log, files of a public trace, or other files.

    The tables are in a temporary folder, which is deleted when Python ends; until then they are
    used again while the files do not change. :func:`~traceana.ingest` writes a store that stays.

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
    window
        First and last date or time of the export (or seconds on the trace's clock): jobs that still
        run are counted until its end. None: from the first to the last time in the files.

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
    traces = store.traces()
    if len(traces) > 1:
        raise DataError(
            f"{path}: more than one trace ({', '.join(traces)}); pass one file, or use ingest() "
            "and open_store()"
        )
    if window is None:
        return store.trace(traces[0])
    name = f"{store.path.name}-{'-'.join(map(str, window))}".replace("/", "-").replace(":", "")
    out = select_jobs(traces[0], out=store.path.parent / name, store=store.path, window=window)
    note_command(out, f"{command_of(store.path)} --window {shlex.join(map(str, window))}")
    return open_store(out).trace(traces[0])


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
    return open_store(ingest_cached(fetch(trace_id), keep=True)).trace(trace_id)


def compare(
    a: Trace | str | PathLike[str],
    /,
    *b: Trace | str | PathLike[str] | None,
    split: str | float | date | None = None,
) -> pl.DataFrame:
    """Compare two traces, or one before and after a time.

    Differences and ratios are exact: they count every job. The interval of a ratio is for what
    other days of such periods would bring. Use is by overlap with the period; a job counts where it
    is submitted, its wait where it starts, its runtime and status where it ends.

    Parameters
    ----------
    a, b
        Two traces, or files to read as traces; without `b`, one that `split` divides.
    split
        Date or time in the trace's time zone, or seconds on its clock.

    Returns
    -------
    DataFrame
        One row per measure that a or b has: measure, label, before (a), after (b), difference,
        ratio, ci_low, ci_high (of the ratio), n_before, n_after.

    Examples
    --------
    >>> import traceana
    >>> trace = traceana.open_sample().trace("microsoft-itp-2021")
    >>> found = traceana.compare(trace, split=2_000_000)
    >>> found.filter(measure="median_runtime_s").select("n_before", "n_after").rows()
    [(837, 1244)]
    """
    from traceana.cohorts.observation import window_of  # noqa: PLC0415  heavy, and for this alone
    from traceana.exchange.selection import to_seconds  # noqa: PLC0415  as above
    from traceana.questions.comparison.compare_traces import compare_windows  # noqa: PLC0415  as above
    from traceana.tables.formatting import clock  # noqa: PLC0415  as above

    traces = [
        each if isinstance(each, Trace) else read(each) for each in (a, *b) if each is not None
    ]
    if len(traces) != (2 if split is None else 1):
        raise DataError("compare takes two traces, or one and split")
    windows = [trace.once(window_of) for trace in traces]
    if split is None:
        return compare_windows(traces[0], traces[1], (windows[0], windows[1]))
    [trace], [window], at = traces, windows, to_seconds(split, traces[0].manifest)
    if window is None or at is None or not window[0] < at < window[1]:
        ends = (
            "has no times"
            if window is None
            else f"is from {clock(window[0])} to {clock(window[1])}"
        )
        raise DataError(f"split {split}: it must lie within the trace; {trace.id} {ends}")
    return compare_windows(trace, trace, ((window[0], nextafter(at, -inf)), (at, window[1])))


def open_sample() -> Store:
    """Open a cached store of the synthetic sample.

    It is generated once, without a network. Its traces have the form of seven public traces; no row
    is real.

    Examples
    --------
    >>> import traceana
    >>> jobs = traceana.open_sample().scan("microsoft-itp-2021", "jobs")
    >>> jobs.select("gpus", "runtime_s").collect().height
    2081
    """
    from traceana.page.section import DataSource  # noqa: PLC0415  as above
    from traceana.report.build import open_data_source  # noqa: PLC0415  as above

    return open_data_source(DataSource(store_path(), is_sample=True))
