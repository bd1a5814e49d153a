"""Copy a trace to another store, limited to some of its jobs (a month, a queue) or changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import UTC, date, datetime, time
from math import inf
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import polars as pl
from polars.exceptions import PolarsError

from traceana.cohorts.observation import find_window
from traceana.cohorts.overlap import clip_jobs
from traceana.errors import DataError
from traceana.ingesters import ingest
from traceana.ingesters.expressions import row_condition
from traceana.ingesters.files import SYNTHETIC_PREFIX
from traceana.schema import get_table
from traceana.store import Manifest, Store, open_store
from traceana.store.manifest import SELECTED, TableManifest
from traceana.tables.formatting import clock, listed

Time: TypeAlias = str | float | date
"""A date or time, or seconds on the clock of a trace."""
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
    since: Time | None = None,
    until: Time | None = None,
    where: str | None = None,
    window: tuple[Time, Time] | None = None,
    name: str | None = None,
) -> Path:
    """Write some jobs of a trace, or another window, to another store.

    Jobs that waited or ran between `since` and `until` are kept as they were seen at `until`: a job
    that ended later is running. The observation window of the result is stated. Tables with a job's
    id follow, others stay whole.

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
    window
        Observation window that the trace is of, such as that of an export; it may be longer than
        the times in it. None: the window that the trace has, within `since` and `until`.
    where
        SQL condition over the columns of ``jobs``, such as ``queue = 'gpu' AND gpus >= 8``. Rows
        for which it is null are excluded.
    name
        Id of the trace written; None: the same id.

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
    every, start_s, end_s = _within(source.scan(trace, "jobs"), manifest, since, until, window)
    names = every.collect_schema().names()
    chosen = every if where is None else every.filter(row_condition(where, names, where="where"))
    try:
        jobs = chosen.select("job_id", "inst_id").collect()
    except PolarsError as error:
        raise DataError(f"where {where!r}: {str(error).splitlines()[0]}") from error
    ends = None if window is None else " to ".join(map(str, window))
    options = {"since": since, "until": until, "window": ends, "where": where}
    limits = [f"{option} {value}" for option, value in options.items() if value is not None]
    if jobs.is_empty():
        timed = limits != [f"where {where}"]
        log = _log(*find_window(source.scan(trace, "jobs"), manifest)) if timed else ""
        raise DataError(f"{trace}: no job is left ({', '.join(limits)}){log}")

    def write(table: str, path: Path) -> list[str]:
        rows = every if table == "jobs" else source.scan(trace, table)
        names = rows.collect_schema().names()
        key = next((name for name in ("job_id", "inst_id") if name in names), None)
        if key is not None:
            rows = rows.join(jobs.lazy().select(key), on=key, how="semi", maintain_order="left")
        rows.sink_parquet(path)
        return names

    stated = {name: value for name, value in asdict(manifest).items() if name not in _FOUND}
    if start_s is not None and end_s is not None:
        stated |= {"window_start_s": float(start_s), "window_end_s": float(end_s)}
    stated["title"] = f"{manifest.title} ({', '.join(limits)})" if limits else manifest.title
    if not any(note.startswith(SELECTED) for note in manifest.notes):
        stated["notes"] = (*manifest.notes, *_counted(source, trace))
    copy_trace(
        source, manifest, Path(out), name=name or trace, facts=stated, about=_ABOUT, write=write
    )
    return Path(out)


def _counted(source: Store, trace: str) -> tuple[str, ...]:
    """State the rows of the jobs' own files, which the row counts of the selection do not have."""
    return tuple(
        f"{SELECTED} {listed(f'`{file.file}`' for file in entry.files)}: {entry.rows_read:,} rows "
        f"read, {entry.rows_kept:,} kept and {entry.rows_rejected:,} rejected."
        for entry in source.trace(trace).ledger.entries
        if entry.table == "jobs"
    )


def _within(
    jobs: pl.LazyFrame,
    manifest: Manifest,
    since: Time | None,
    until: Time | None,
    window: tuple[Time, Time] | None,
) -> tuple[pl.LazyFrame, float | None, float | None]:
    """Return the jobs within the limits, as seen at the end, and both ends of their window."""
    low, high = find_window(jobs, manifest)
    log = _log(low, high)
    if window is not None:
        low, high = (to_seconds(end, manifest) for end in window)
    start_s = _pick(max, low, to_seconds(since, manifest))
    end_s = _pick(min, high, to_seconds(until, manifest))
    if since is None and until is None and window is None:
        return jobs, start_s, end_s
    if start_s is not None and end_s is not None and start_s > end_s:
        ends = f"the begin, {clock(start_s)}, is after the end, {clock(end_s)}"
        raise DataError(f"{manifest.trace}: no job is left ({ends}){log}")
    # nothing is after the end of a window that is not limited
    after = inf if end_s is None or (end_s == high and window is None) else end_s
    return clip_jobs(jobs, (-inf if start_s is None else start_s, after)), start_s, end_s


def _log(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "; widen the limits"
    return f"; the log is from {clock(low)} to {clock(high)}: choose limits within it"


def _pick(pick: Callable[..., float | None], *ends: float | None) -> float | None:
    return pick((end for end in ends if end is not None), default=None)


def read_time(given: Time, /) -> float | date:
    """Read seconds, a date or a time from a text; they may be given as such."""
    if isinstance(given, str):
        with suppress(ValueError):
            return float(given)
        try:
            return datetime.fromisoformat(given)
        except ValueError:
            raise DataError(
                f"time {given!r} cannot be read; write 2026-03-31, 2026-03-31T08:00, or seconds"
            ) from None
    if isinstance(given, bool) or not isinstance(given, int | float | date):
        raise DataError(f"time {given!r} cannot be read; pass a date, a time or seconds")
    return given


def to_seconds(given: Time | None, manifest: Manifest) -> float | None:
    """Return a date, a time or seconds as seconds on the clock of a trace."""
    moment = given if given is None else read_time(given)
    if moment is None or isinstance(moment, int | float):
        return moment
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


def copy_trace(
    source: Store,
    manifest: Manifest,
    target: Path,
    /,
    *,
    name: str,
    facts: dict[str, Any],
    about: tuple[str, ...],
    write: Callable[[str, Path], list[str]],
) -> None:
    """Copy the tables of a trace."""
    if os.path.realpath(target) == os.path.realpath(source.path):
        raise DataError(f"{target}: this is the store itself; pass another folder (--out)")
    mark = SYNTHETIC_PREFIX if manifest.synthetic else ""
    with TemporaryDirectory(prefix="traceana-") as scratch:
        for table, described in manifest.tables.items():
            path = Path(scratch) / f"{mark}{table}.parquet"
            columns = write(table, path)
            mapping = _mapping(facts, table, described, columns, about)
            ingest(path, trace=name, mapping=mapping, store=target, replace=True)


def _mapping(
    facts: dict[str, Any],
    table: str,
    described: TableManifest,
    columns: list[str],
    about: tuple[str, ...],
) -> str:
    declared = get_table(table).columns()
    if facts.get("independent_unit") not in columns:
        facts = facts | {"independent_unit": None}
    keep = [name for name in columns if name not in declared]
    sections = {
        "trace": {"reader": "parquet", **facts, "keep": keep},
        table: {
            name: {"column": name, "unit": described.units.get(name)}
            for name in columns
            if name in declared
        },
        f"{table}.about": {name: getattr(described, name) for name in about},
    }
    lines = []
    for section, stated in sections.items():
        given = {name: value for name, value in stated.items() if value not in (None, (), [])}
        lines += [f"[{section}]", *(f"{name} = {_toml(value)}" for name, value in given.items())]
    return "\n".join([*lines, ""])


def _toml(value: object) -> str:
    if isinstance(value, dict):
        members = (f"{_toml(k)} = {_toml(v)}" for k, v in value.items() if v is not None)
        return f"{{ {', '.join(members)} }}"
    return json.dumps(value, ensure_ascii=False)  # the same in TOML
