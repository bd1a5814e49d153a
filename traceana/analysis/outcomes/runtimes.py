"""How long things ran, by GPU type or any other grouping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import (
    Names,
    as_names,
    open_frame,
    reduce_frame,
    refuse_clash,
    with_totals,
)
from traceana.stats import mean_interval

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def runtime_by(frame: IntoFrame, /, by: Names, *, confidence: float = 0.95) -> pl.DataFrame:
    """Mean runtime with its interval, median and tail, by group.

    Parameters
    ----------
    frame
        One row a job or task: [*by, runtime_s]; eager or lazy, of any listed engine.
    by
        Columns to group by; null in them is a group of its own.
    confidence
        Coverage of the mean's interval, in (0, 1).

    Returns
    -------
    DataFrame
        [*by, n, mean_s, ci_low, ci_high, median_s, p90_s, n_missing, p99_s, note], sorted by `by`,
        nulls last; times in s. n counts the runtimes that all the rest is taken over, n_missing
        the rows without one (null or NaN). [ci_low, ci_high] is Student's t interval of the mean,
        rows taken as independent; null for one runtime. Runtimes have heavy tails, and it is then
        too narrow (docs/explanation/error-rates.md has how much): `note` says so where
        n < 25 skewness^2, with the skewness m3 / m2^1.5 of the runtimes (Cochran, Sampling
        Techniques, 1977, section 2.15). :func:`compare_runtimes` has an interval of the median,
        which holds whatever the tail.
        Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan, 1996).
        All are null where n is 0.

    Raises
    ------
    DataError
        If a column is missing or runtime_s not numeric, a runtime is negative or infinite, or
        `confidence` is not in (0, 1).
    """
    keys = as_names(by)
    refuse_clash(keys, ("ci_low", "ci_high", "note"))
    runtime = nw.col("runtime_s")
    rows = with_totals(
        open_frame(frame, keys=keys, measures=("runtime_s",)),
        keys,
        **{"mean runtime": runtime.mean(), "longest": runtime.max()},
    )
    # on a scale of its own, so that no cube is past the range of a double
    away = (runtime - nw.col("mean runtime")) / nw.col("longest")
    groups = reduce_frame(
        rows,
        keys,
        squares=(away * away).mean(),
        cubes=(away * away * away).mean(),
        n=runtime.count(),
        mean_s=runtime.mean(),
        std_s=runtime.std(ddof=1),
        median_s=runtime.quantile(0.5, interpolation="linear"),
        p90_s=runtime.quantile(0.9, interpolation="linear"),
        p99_s=runtime.quantile(0.99, interpolation="linear"),
        n_missing=nw.len() - runtime.count(),
    )
    low, high = mean_interval(groups["mean_s"], groups["std_s"], groups["n"], confidence=confidence)
    # equal values differ by a rounding
    varies = pl.col("std_s") > 1e-12 * pl.col("mean_s")
    skewness = pl.when(varies).then(pl.col("cubes") / pl.col("squares") ** 1.5)
    return groups.select(
        *keys,
        "n",
        "mean_s",
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
        median_s="median_s",
        p90_s="p90_s",
        n_missing="n_missing",
        p99_s="p99_s",
        note=pl.when(pl.col("n") < 25 * skewness**2).then(
            pl.format(
                "heavy tail (skewness {}): the mean's interval is too narrow", skewness.round(1)
            )
        ),
    )
