"""What counts as a failure: a choice with a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import narwhals.stable.v2 as nw

from traceana.analysis.frames import admit_columns, check_range, clean_columns, collect
from traceana.errors import DataError
from traceana.schema import STATUSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame

Reading: TypeAlias = Literal["published", "strict"]
"""published: whatever is not completed failed. strict: failed did, and only completed did not."""

READINGS: Final[tuple[Reading, ...]] = ("published", "strict")


def failure_of(status: str, reading: Reading, /) -> bool | None:
    """Return whether a status is a failure, or None where it is neither that nor a success."""
    if status == "completed":
        return False
    return True if reading == "published" or status == "failed" else None


def open_outcomes(
    frame: IntoFrame, keys: Sequence[str], /, measures: Sequence[str] = ()
) -> nw.LazyFrame[Any]:
    """Return [*keys, status, *measures] as a lazy frame, its statuses of the closed set.

    Raises
    ------
    DataError
        If a column is missing or named twice, a status is none of the closed set, or a measure
        is not numeric, negative or infinite.
    """
    lazy = clean_columns(admit_columns(frame, (*keys, "status", *measures)), measures)
    lazy = lazy.with_columns(nw.col("status").cast(nw.String))
    if measures:
        check_range(lazy, measures)
    status = nw.col("status")
    unknown = collect(
        lazy.select(nw.when(~status.is_in(STATUSES)).then(status).min().alias("status"))
    ).item()
    if unknown is not None:
        raise DataError(f"status {unknown!r} is found; statuses are {', '.join(STATUSES)}")
    return lazy


def with_failure(lazy: nw.LazyFrame[Any], reading: Reading, /) -> nw.LazyFrame[Any]:
    """Return the rows that failed (failure is 1) or succeeded (0) under a reading.

    Raises
    ------
    DataError
        If there is no such reading.
    """
    if reading not in READINGS:
        raise DataError(f"reading must be one of {', '.join(READINGS)}; it is {reading!r}")
    status = nw.col("status")
    taken = [word for word in STATUSES if failure_of(word, reading) is not None]
    return lazy.filter(status.is_in(taken)).with_columns(
        (status != "completed").cast(nw.Int64).alias("failure")
    )
