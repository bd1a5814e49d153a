"""Status values that count as success and failure, whose doing an end is, and names of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from traceana.errors import DataError
from traceana.schema import STATUSES
from traceana.store.frames import (
    Names,
    admit_columns,
    as_names,
    check_range,
    clean_columns,
    collect,
    column_names,
)

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
    role_of = {
        word: role for role, words in named.items() for word in words if word not in STATUSES
    }
    if not role_of:
        unknown = nw.when(~column.is_in(STATUSES)).then(column).min().alias("unknown")
        if (other := collect(lazy.select(unknown)).item()) is not None:
            parameters = " and ".join(f"{role}=" for role in named)
            raise DataError(
                f"status {other!r} is found; statuses are {', '.join(STATUSES)}; pass {parameters} "
                f"to name other values of column {status}"
            )
        return lazy
    present = nw.when(column.is_in(list(role_of))).then(column).alias("present")
    for word in set(role_of).difference(collect(lazy.select(present).unique())["present"]):
        raise DataError(
            f"{role_of[word]} names status {word!r}; statuses are {', '.join(STATUSES)}, or those "
            f"in column {status}"
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


END_CLASS: Final = "end_class"
"""Name of the column."""
_REASONS: Final = {
    "machine": "(node|boot)_?fail|node_?(lost|shutdown)|deletionby|unexpectedadmission",
    "user limit": "time_?out|time_?limit|deadline|out[ _-]?of[ _-]?me|oom|mem(ory)?_?limit",
    "scheduler": "preempt|requeue|revoked|evict(ed|ion)",
}
"""Beginnings of end reasons by class, as a regular expression without regard to case."""
DECISIVE: Final = f"(?i)^({'|'.join(_REASONS.values())}|time|requeued)"
"""Beginnings of end reasons that decide a result, whatever follows."""
OF_MACHINES: Final = f"(?i)^({_REASONS['machine']})"
"""Beginnings of end reasons of class machine."""
CLASSES: Final = (*_REASONS, "job", "removed while running", "removed before start")
"""The classes; an end without one is a completion, or not known."""


def with_end_class(jobs: IntoFrameT, /) -> IntoFrameT:
    """Add the column `end_class`: who or what ended each job.

    - machine: a node failed
    - user limit: the time, memory or deadline that the user requested was reached; of a pod, it
      failed as evicted, since it exceeded a limit of its own
    - scheduler: preempted, requeued or evicted by others
    - job: another failure
    - removed while running, removed before start: other cancelled jobs, with and without a runtime

    A job that completed, still runs or waits, or whose status is unknown has null. The first three
    are known by the end reason, whatever the status is.

    Parameters
    ----------
    jobs
        One row per job: status, and where the frame has them end_reason, runtime_s and start_s;
        eager or lazy, of any supported engine.

    Returns
    -------
    DataFrame
        The same frame with one more column, or as it is if it has it.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({
    ...     "status": ["failed", "failed", "cancelled", "completed"],
    ...     "end_reason": ["TIMEOUT", "FAILED", "CANCELLED", "COMPLETED"], "runtime_s": 60.0,
    ... })
    >>> traceana.with_end_class(jobs)["end_class"].to_list()
    ['user limit', 'job', 'removed while running', None]
    """
    names = column_names(jobs)
    if END_CLASS in names:
        return jobs
    frame: Any = nw.from_native(jobs)
    return frame.with_columns(_end_class(names).alias(END_CLASS)).to_native()


def _end_class(names: list[str]) -> nw.Expr:
    status, no = nw.col("status").cast(nw.String), nw.lit(value=False)
    ran = no
    if "runtime_s" in names:
        ran = nw.col("runtime_s") > 0
    elif "start_s" in names:
        ran = ~nw.col("start_s").is_null()
    removed = nw.when(ran.fill_null(value=False)).then(nw.lit(CLASSES[-2]))
    end_class = (
        nw.when(status == "failed")
        .then(nw.lit("job"))
        .otherwise(nw.when(status == "cancelled").then(removed.otherwise(nw.lit(CLASSES[-1]))))
    )
    if "end_reason" not in names:
        return end_class
    reason, ended = nw.col("end_reason").cast(nw.String), status.is_in(["failed", "cancelled"])
    for name, words in _REASONS.items():
        is_one = reason.str.contains(f"(?i)^({words})")
        chosen = (ended & is_one).fill_null(value=False)
        end_class = nw.when(chosen).then(nw.lit(name)).otherwise(end_class)
    own = (status == "failed") & reason.str.contains("(?i)^evict")  # by a limit of its own
    return nw.when(own.fill_null(value=False)).then(nw.lit("user limit")).otherwise(end_class)


def without_numbers(name: pl.Expr, /) -> tuple[pl.Expr, pl.Expr]:
    """Return the names with # for the number that they end in, and then for every number."""
    ending = name.str.replace(r"[-_.]?[0-9a-f]*[0-9][0-9a-f]*$", "#")
    return ending, ending.str.replace_all(r"\d+", "#")
