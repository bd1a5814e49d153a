"""Failure definitions: which status values count as success, which as failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw

from traceana.errors import DataError
from traceana.schema import STATUSES
from traceana.store.frames import (
    Names,
    admit_columns,
    as_names,
    check_range,
    clean_columns,
    collect,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from narwhals.stable.v2.typing import IntoFrame

OUTCOMES: Final[dict[str, Any]] = {"success": ("completed",), "failure": ("failed",)}
"""A failure rate counts the failed among the completed and failed; all other rows are excluded."""


def open_statuses(
    frame: IntoFrame,
    keys: Sequence[str],
    /,
    *,
    status: str,
    named: Mapping[str, Sequence[str]],
    measures: Mapping[str, str] | None = None,
) -> nw.LazyFrame[Any]:
    """Return [*keys, status, *measures] as a lazy frame, the status as text."""
    roles = {"status": status, **(measures or {})}
    numbers = tuple(roles.values())[1:]
    lazy = clean_columns(admit_columns(frame, (*keys, *roles.values()), roles=roles), numbers)
    lazy = lazy.with_columns(nw.col(status).cast(nw.String))
    if numbers:
        check_range(lazy, numbers)
    column = nw.col(status)
    own = {word: role for role, words in named.items() for word in words if word not in STATUSES}
    if not own:
        unknown = nw.when(~column.is_in(STATUSES)).then(column).min().alias("unknown")
        if (other := collect(lazy.select(unknown)).item()) is not None:
            parameters = " and ".join(f"{role}=" for role in named)
            raise DataError(
                f"status {other!r} is found; statuses are {', '.join(STATUSES)}; pass {parameters} "
                f"to name other values of column {status}"
            )
        return lazy
    present = nw.when(column.is_in(list(own))).then(column).alias("present")
    for word in set(own).difference(collect(lazy.select(present).unique())["present"]):
        raise DataError(
            f"{own[word]} names status {word!r}; statuses are {', '.join(STATUSES)}, or those in "
            f"column {status}"
        )
    return lazy


def open_outcomes(
    frame: IntoFrame, keys: Sequence[str], /, *, status: str, success: Names, failure: Names
) -> tuple[nw.LazyFrame[Any], tuple[str, ...], tuple[str, ...]]:
    """Return [*keys, status] as a lazy frame, and the status values of success and of failure."""
    succeeded, failed = as_names(success), as_names(failure)
    for name, words in (("success", succeeded), ("failure", failed)):
        if not words:
            raise DataError(
                f"{name} names no status, such as {name}={STATUSES[name == 'failure']!r}"
            )
    if both := sorted({*succeeded} & {*failed}):
        raise DataError(f"status {', '.join(both)} cannot be a success and a failure")
    named = {"success": succeeded, "failure": failed}
    return open_statuses(frame, keys, status=status, named=named), succeeded, failed


def with_failure(
    lazy: nw.LazyFrame[Any], status: str, success: Sequence[str], failure: Sequence[str], /
) -> nw.LazyFrame[Any]:
    """Return the successes and failures, with a column `failure` of 0 and 1."""
    if "failure" in lazy.collect_schema().names() and status != "failure":
        raise DataError("column failure needs another name: the outcome of a row has it")
    failed = nw.col(status).is_in(list(failure)).cast(nw.Int64).alias("failure")
    return lazy.filter(nw.col(status).is_in([*success, *failure])).with_columns(failed)
