"""Runtimes relative to the mean of their group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.tables import RuntimeRatioSummary
from traceana.errors import DataError
from traceana.store.frames import (
    Names,
    as_names,
    collect,
    column_names,
    open_frame,
    reduce_frame,
    refuse_clash,
    with_totals,
)
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_RATIO: Final = "runtime_ratio"
_SMALLEST_MEAN: Final = 1e-150
"""Smallest mean that is divided by: the ratio could overflow below it."""
_QUANTILES: Final = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "p99": 0.99}


def runtime_ratio(jobs: IntoFrame, /, by: Names, *, runtime: str = "runtime_s") -> pl.DataFrame:
    """Divide each runtime by the mean runtime of its group.

    The ratios of a group average 1 (Zeus, NSDI'23, scales recurring jobs by them).

    Parameters
    ----------
    jobs
        One row per job or task; eager or lazy, of any supported engine. All its columns are
        collected; none may be called runtime_ratio.
    by
        Columns to group by; null is a group of its own, and ``()`` takes all rows as one group.
    runtime
        Column of runtimes, in any unit; durations become seconds.

    Returns
    -------
    DataFrame
        The frame (NaN as null, runtime as a float) with the column runtime_ratio, in the order of
        its rows if the engine has one. The ratio is null if the runtime is null, or all runtimes
        of the group are 0.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"group": ["a", "a", "b"], "runtime_s": [50.0, 150.0, 60.0]})
    >>> traceana.runtime_ratio(jobs, by="group")["runtime_ratio"].to_list()
    [0.5, 1.5, 1.0]
    """
    keys = as_names(by)
    names = column_names(jobs)
    if _RATIO in names:
        raise DataError(f"the frame has a column {_RATIO}; drop or rename it")
    others = [name for name in names if name not in (*keys, runtime)]
    rows = collect(open_frame(jobs, keys=(*keys, *others), measures={"runtime": runtime}))
    found = nw.from_native(rows.lazy())
    found = with_totals(found, keys, **{_RATIO: nw.col(runtime).mean()})
    mean = pl.col(_RATIO)
    ratio = pl.when(mean > 0).then(pl.col(runtime) / mean)
    return collect(found, streaming=False).select(*names, ratio.alias(_RATIO))


@returns(RuntimeRatioSummary)
def summarize_runtime_ratio(
    jobs: IntoFrame, /, by: Names, *, runtime: str = "runtime_s"
) -> pl.DataFrame:
    """Summarize the distribution of runtimes over the mean of their group.

    Parameters
    ----------
    jobs, by, runtime
        As in :func:`runtime_ratio`.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996).

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"group": ["a", "a", "b"], "runtime_s": [50.0, 150.0, 60.0]})
    >>> found = traceana.summarize_runtime_ratio(jobs, by="group")
    >>> found.select("group", "n", "mean_s", "median", "max").rows()
    [('a', 2, 100.0, 1.0, 1.5), ('b', 1, 60.0, 1.0, 1.0)]
    """
    keys, value = as_names(by), nw.col(runtime)
    refuse_clash(keys, ("note",))
    groups = reduce_frame(
        open_frame(jobs, keys=keys, measures={"runtime": runtime}),
        keys,
        n=value.count(),
        mean_s=value.mean(),
        cov=value.std(ddof=1),
        **{
            name: value.quantile(share, interpolation="linear")
            for name, share in _QUANTILES.items()
        },
        max=value.max(),
        n_missing=nw.len() - value.count(),
    )
    spread = ["cov", *_QUANTILES, "max"]
    n, mean = pl.col("n"), pl.col("mean_s")
    note = (
        pl.when(n == 0)
        .then(pl.lit("no runtime"))
        .when(mean == 0)
        .then(pl.lit("every runtime is 0"))
        .when(mean < _SMALLEST_MEAN)
        .then(pl.lit("the mean runtime is too close to 0 for a ratio"))
        .when(n == 1)
        .then(pl.lit("one runtime has no standard deviation"))
    )
    found = groups.with_columns(
        *(
            pl.when(mean >= _SMALLEST_MEAN).then(pl.col(name) / mean).fill_nan(None)
            for name in spread
        ),
        note=note,
    )
    return declared(found, RuntimeRatioSummary, by=keys)
