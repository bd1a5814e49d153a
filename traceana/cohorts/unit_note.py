"""A note in results where rows of one user are treated as independent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from itertools import chain
from typing import Any, Final, TypeVar, cast

import polars as pl

from traceana.store.frames import column_names
from traceana.tables.result import Result

Function = TypeVar("Function", bound="Callable[..., Any]")
UNIT_NOTE: Final = (
    "rows are treated as independent although the frame has a column user: intervals are likely "
    'too narrow; pass cluster="user"'
)


def notes_unit(function: Function) -> Function:
    """Note in the result that no cluster was named although the frame has a column user.

    Notes that are not null stay. Nothing is noted where the column user is a group or a variable.
    """

    @wraps(function)
    def noted(*args: Any, **options: Any) -> Any:  # noqa: ANN401  as the function
        result = function(*args, **options)
        named = [[value] if isinstance(value, str) else value for value in options.values()]
        named += [[value] if isinstance(value, str) else value for value in args[1:]]
        lists = (value for value in named if isinstance(value, list | tuple))
        if "cluster" in options and options["cluster"] is not None:
            return result
        if "user" in chain.from_iterable(lists) or "user" not in column_names(args[0]):
            return result
        return _note(result)

    return cast("Function", noted)


def _note(table: pl.DataFrame | Result) -> pl.DataFrame | Result:
    if isinstance(table, Result):
        frames = {name: getattr(table, name) for name in table.tables}
        changed = {
            name: _note(frame)
            for name, frame in frames.items()
            if frame is not None and "note" in frame.columns
        }
        return replace(cast("Any", table), **changed) if changed else table
    note = pl.col("note") if "note" in table.columns else pl.lit(None, pl.String)
    return table.with_columns(note=note.fill_null(pl.lit(UNIT_NOTE)))
