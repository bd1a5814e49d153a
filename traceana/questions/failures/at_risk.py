"""Rows at risk at given runtimes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.questions.failures.events import Columns, count_events
from traceana.questions.failures.tables_competing_risks import RowsAtRisk
from traceana.stats.arguments import as_list, is_number
from traceana.store.frames import Names, as_names, refuse_clash
from traceana.tables.declare import declared, returns, schema_of
from traceana.tables.formatting import duration_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from narwhals.stable.v2.typing import IntoFrame

_MOST: Final = 4


@returns(RowsAtRisk)
def rows_at_risk(
    frame: IntoFrame,
    /,
    times_s: Sequence[float],
    *,
    by: Names = (),
    status: str = "status",
    runtime: str = "runtime_s",
    start: str = "start_s",
    entry: str | None = None,
    running_until_s: float | datetime | None = None,
) -> pl.DataFrame:
    """Count the rows at risk at given runtimes.

    Parameters
    ----------
    frame, by, status, runtime, start, entry, running_until_s
        As in :func:`cumulative_incidence`.
    times_s
        Runtimes in seconds.

    Returns
    -------
    DataFrame
        Sorted, nulls last, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [60, 600, 6000], "status": "completed"})
    >>> traceana.rows_at_risk(jobs, [0, 100, 1000]).select("time_s", "n_at_risk").rows()
    [(0.0, 3), (100.0, 2), (1000.0, 1)]
    """
    keys = as_names(by)
    refuse_clash(keys, (*RowsAtRisk.columns(), "n", "late"))
    times_s = as_list("times_s", times_s)
    if not all(is_number(time) and 0 <= time < math.inf for time in times_s):
        raise DataError(f"times_s must be numbers of seconds from 0 on; found {times_s!r}")
    columns = Columns(status, runtime, start, entry)
    counts = count_events(frame, keys, columns=columns, running_until_s=running_until_s)
    return at_risk(counts, counts.select(keys), keys, times_s)


def at_risk(
    counts: pl.DataFrame, groups: pl.DataFrame, keys: tuple[str, ...], times_s: Sequence[float], /
) -> pl.DataFrame:
    """Return [*keys, time_s, n_at_risk], from the rows `n` and `late` of each group and time."""
    total = (pl.col("n").sum() - pl.col("late").sum()).cast(pl.Int64).alias("n_at_risk")
    parts = [pl.DataFrame(schema={**counts.select(keys).schema, **schema_of(RowsAtRisk)})]
    for time in sorted({float(time) for time in times_s}):
        found = counts.filter(pl.col("time_s") >= time)
        if keys:
            found = found.group_by(keys).agg(total)
            found = groups.unique().join(found, on=keys, how="left", nulls_equal=True)
        else:
            found = found.select(total)
        parts.append(
            found.select(*keys, pl.lit(time).alias("time_s"), pl.col("n_at_risk").fill_null(0))
        )
    return declared(pl.concat(parts).sort([*keys, "time_s"], nulls_last=True), RowsAtRisk, by=keys)


def round_times(times: pl.Series, /) -> list[float]:
    """Return at most four round durations within the times, such as 1 min, 1 h and 1 d."""
    positive = times.filter(times > 0).to_numpy()
    if not len(positive):
        return []
    return duration_ticks(float(positive.min()), float(positive.max()), _MOST)
