"""The traces that a command is for, and objects that an option names."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from traceana.errors import DataError, StoreError
from traceana.store import Store, Trace


@contextmanager
def readable_traces(store: Store, /) -> Iterator[Store]:
    """Yield a store without traces that cannot be read; state these, and exit with 2 at the end."""
    readable, faults = [], {}
    for name in store.traces():
        try:
            _ = store.trace(name).manifest
        except StoreError as error:
            faults[name] = str(error)
        else:
            readable.append(name)
    if faults and not readable:
        raise StoreError(next(iter(faults.values())))
    sys.stderr.writelines(f"traceana: left out: {fault}\n" for fault in faults.values())
    yield replace(store, only=tuple(readable), left_out=tuple(faults))
    if faults:
        raise typer.Exit(2)


def open_simulated(path: Path | None, /) -> Store:
    """Open a store; without one, that of the synthetic sample, which standard error states."""
    from traceana.report.build import find_data_source, open_data_source

    source = find_data_source(path)
    if source.is_sample:
        sys.stderr.write(f"traceana: note: {source.notice}\n")
    return open_data_source(source)


def qualifying_trace(
    store: Store, trace: str | None, needs: Sequence[Mapping[str, tuple[str, ...]]], /
) -> Trace:
    """Return the named trace, or the first that has the needed tables and columns."""
    qualifying = [
        candidate
        for candidate in map(store.trace, store.traces())
        if any(all(candidate.has(*each) for each in tables.items()) for tables in needs)
    ]
    named = None if trace is None else store.trace(trace)
    for candidate in qualifying:
        if named is None or candidate.id == named.id:
            return candidate
    needed = " or ".join(_lacking(named, tables) for tables in needs)
    listed = ", ".join(candidate.id for candidate in qualifying)
    others = f"; traces with values are {listed}" if qualifying else ""
    lacking = f"{trace} has no" if trace else "no trace of the store has"
    raise DataError(f"{lacking} values in {needed}{others}")


def _lacking(trace: Trace | None, tables: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(
        f"{table} ({', '.join(lacking)})"
        for table, columns in tables.items()
        if (lacking := [c for c in columns if trace is None or not trace.has(table, (c,))])
    )


def load_objects(names: str, option: str, /) -> dict[str, Any]:
    """Return objects by package.module:name, separated by commas; other names are as they are."""
    objects: dict[str, Any] = {}
    for name in map(str.strip, names.split(",")):
        module, colon, attribute = name.partition(":")
        objects[name] = name
        if not colon:
            continue
        if (here := str(Path.cwd())) not in sys.path:
            sys.path.insert(0, here)
        try:
            loaded = getattr(import_module(module), attribute)
            objects[name] = loaded() if isinstance(loaded, type) else loaded
        except (ImportError, AttributeError, ValueError, TypeError) as error:
            raise DataError(f"{option} {name}: {error}; pass package.module:name") from None
    return objects
