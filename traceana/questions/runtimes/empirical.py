"""Empirical distribution function of a column by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.questions.runtimes.tables import EmpiricalDistribution
from traceana.stats.arguments import check_count
from traceana.store.frames import Names, as_names, collect, count_values, open_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_MOST_POINTS: Final = 100_000


@returns(EmpiricalDistribution)
def empirical_distribution(
    frame: IntoFrame, /, value: str, *, by: Names = (), points: int = 101
) -> pl.DataFrame:
    """Compute the empirical distribution function of a column by group.

    Parameters
    ----------
    frame
        One row per observation: `by` and `value`; eager or lazy, of any supported engine. Rows
        without a value (null or NaN) are excluded.
    value
        Column of numbers, none negative.
    by
        Columns to group by; null is a group of its own. A group without values has no row. By
        default all rows are one group.
    points
        Quantiles per group, at evenly spaced fractions from 0 to 1; from 2 to 100,000.

    Returns
    -------
    DataFrame
        Sorted by `by` (nulls last) and share_below, with the columns of `by` and
        {columns}

        The quantiles are order statistics (the inverse of the distribution function, type 1 of
        Hyndman and Fan, 1996), so each is a value that occurs.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> tasks = pl.DataFrame({"runtime_s": [4.0, 1.0, 3.0, 2.0]})
    >>> traceana.empirical_distribution(tasks, "runtime_s", points=3)["value"].to_list()
    [1.0, 2.0, 4.0]
    """
    check_count("points", points, least=2, most=_MOST_POINTS)
    keys = as_names(by)
    refuse_clash(keys, EmpiricalDistribution.columns())
    lazy = open_frame(frame, keys=keys, measures={"value": value})
    known = lazy.filter(~nw.col(value).is_null())
    if keys or not isinstance(frame, pl.DataFrame):
        rows = count_values(known, (*keys, value))
    else:  # sorted at once: counting takes longer, and less memory only where values repeat
        rows = collect(known).sort(value).with_columns(pl.lit(1, pl.Int64).alias(".n"))
    step = np.arange(points)
    found = []
    for own in rows.partition_by(keys, maintain_order=True) if keys else [rows]:
        if own.is_empty():
            continue
        upto = own[".n"].cum_sum()
        n = upto[-1]
        rank = np.maximum(-(-step * n // (points - 1)), 1)  # in whole numbers: exact
        found.append(
            own[:1]
            .select(*keys, pl.lit(n, pl.Int64).alias("n"))
            .join(
                pl.DataFrame(
                    {
                        "share_below": step / (points - 1),
                        "value": own[value].gather(upto.search_sorted(rank)),
                    }
                ),
                how="cross",
            )
        )
    kinds: dict[str, Any] = {"n": pl.Int64, "share_below": pl.Float64, "value": pl.Float64}
    empty = pl.DataFrame(schema={**{name: rows.schema[name] for name in keys}, **kinds})
    return declared(pl.concat([empty, *found]), EmpiricalDistribution, by=keys)
