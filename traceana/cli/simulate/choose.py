"""Choose the trace to simulate, load a policy by name, and read numbers."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceana.store import Store, Trace


def open_simulated(path: Path | None, /) -> Store:
    """Open a store; without one, that of the synthetic sample, which standard error states."""
    from traceana.report import find_data_source
    from traceana.report.data_source import open_data_source

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
    """Name the tables and columns, of a trace those that it lacks."""
    return ", ".join(
        f"{table} ({', '.join(columns)})"
        for table, columns in tables.items()
        if trace is None or not trace.has(table, columns)
    )


def load_objects(names: str, option: str, /) -> dict[str, Any]:
    """Return the objects that package.module:name refers to; a name without a colon is as it is.

    Commas separate them. A class is called without arguments. Modules in the working folder are
    found.
    """
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


def read_numbers(option: str, text: str, /) -> list[float]:
    """Return the numbers of an option, which commas separate."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise DataError(
            f"{option} {text!r}: expected numbers separated by commas, such as 12,12,8,16"
        ) from None
