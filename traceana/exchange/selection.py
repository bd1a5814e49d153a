"""Limit a trace to some of its jobs: a month, a queue."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import polars as pl
from polars.exceptions import PolarsError

from traceana.errors import DataError
from traceana.exchange.copying import copy_trace
from traceana.ingesters.expressions import row_condition
from traceana.store import Manifest, TableManifest, open_store

if TYPE_CHECKING:
    from os import PathLike

_FOUND: Final = {"trace", "source", "synthetic", "window", "mapping", "facts", "tables"}
"""What a manifest has from its tables, not from a statement."""
_ABOUT: Final = tuple(
    field.name
    for field in fields(TableManifest)
    if field.name not in ("rows", "columns", "units", "mapping")
)


def select_jobs(
    trace: str,
    /,
    *,
    out: str | PathLike[str],
    store: str | PathLike[str] | None = None,
    since: str | float | date | None = None,
    until: str | float | date | None = None,
    where: str | None = None,
    name: str | None = None,
) -> Path:
    """Write a trace with some of its jobs to another store.

    Jobs are chosen by their submission (the start where no submission is recorded); tables with a
    job's id follow, others stay whole. The observation window ends where it did, so that jobs
    that were running then are still censored.

    Parameters
    ----------
    trace
        Id of the trace.
    out
        Folder of the store to write to, which is returned.
    store
        Folder of the store; None: TRACEANA_STORE, else ``./data``.
    since, until
        Times of the beginning (included) and the end (excluded): date or time in the trace's time
        zone (UTC where it states none), or seconds on its clock.
    where
        SQL condition over the columns of ``jobs``, such as ``queue = 'gpu' AND gpus >= 8``. Rows
        for which it is null are excluded.
    name
        Id of the trace written; None: the same id.

    Raises
    ------
    DataError
        If no job is left.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> folder = tempfile.mkdtemp()
    >>> jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [5.0, 90.0], "gpus": [1, 8]})
    >>> ledger = traceana.add_table(jobs, trace="mine", table="jobs", store=folder)
    >>> late = traceana.select_jobs("mine", store=folder, out=f"{folder}/late", since=60)
    >>> traceana.open_store(late).scan("mine", "jobs").collect()["job_id"].to_list()
    ['b']
    """
    source = open_store(store)
    manifest = source.manifest(trace)
    first_s, last_s = (_to_seconds(one, manifest) for one in (since, until))
    submitted = pl.coalesce("submit_s", "start_s")
    chosen = source.scan(trace, "jobs").filter(
        pl.lit(value=True) if first_s is None else submitted >= first_s,
        pl.lit(value=True) if last_s is None else submitted < last_s,
        _condition(where, source.scan(trace, "jobs").collect_schema().names()),
    )
    try:
        jobs = chosen.select("job_id", "inst_id").collect()
    except PolarsError as error:
        raise DataError(f"where {where!r}: {str(error).splitlines()[0]}") from error
    limits = [
        text
        for text, given in (
            (f"submitted since {since}", since),
            (f"submitted until {until}", until),
            (f"where {where}", where),
        )
        if given is not None
    ]
    if jobs.is_empty():
        raise DataError(f"{trace}: no job is left ({', '.join(limits)}); widen the limits")

    def write(table: str, path: Path) -> list[str]:
        rows = source.scan(trace, table)
        names = rows.collect_schema().names()
        key = next((name for name in ("job_id", "inst_id") if name in names), None)
        if key is not None:
            rows = rows.join(jobs.lazy().select(key), on=key, how="semi", maintain_order="left")
        rows.sink_parquet(path)
        return names

    stated = {name: value for name, value in asdict(manifest).items() if name not in _FOUND}
    start_s = manifest.window_start_s
    if start_s is not None and first_s is not None:
        stated["window_start_s"] = max(start_s, first_s)
    stated["title"] = f"{manifest.title} ({', '.join(limits)})" if limits else manifest.title
    copy_trace(
        source, manifest, Path(out), name=name or trace, facts=stated, about=_ABOUT, write=write
    )
    return Path(out)


def _condition(where: str | None, columns: list[str]) -> pl.Expr:
    return pl.lit(value=True) if where is None else row_condition(where, columns, where="where")


def _to_seconds(given: str | float | date | None, manifest: Manifest) -> float | None:
    """Return a time as seconds on the trace's clock."""
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool)):
        return given
    moment = given
    if isinstance(given, str):
        try:
            return float(given)
        except ValueError:
            pass
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            raise DataError(
                f"time {given!r} cannot be read; write 2026-03-31, 2026-03-31T08:00, or seconds"
            ) from None
    if not isinstance(moment, date):
        raise DataError(f"time {given!r} cannot be read; pass a date, a time or seconds")
    if not manifest.absolute_times:
        raise DataError(
            f"{manifest.trace} has no dates (its times are seconds on a clock of its own); "
            f"give seconds instead of {given}"
        )
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(manifest.timezone) if manifest.timezone else UTC)
    return moment.timestamp()
