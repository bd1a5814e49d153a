"""How long things ran and how they ended, by GPU type or any other grouping."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import Names, as_names, open_frame, reduce_frame, refuse_clash
from traceana.errors import DataError
from traceana.schema import STATUSES
from traceana.stats import mean_interval, wilson_interval

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def runtime_by(frame: IntoFrame, /, by: Names, *, confidence: float = 0.95) -> pl.DataFrame:
    """Mean runtime with its interval, median and 90th percentile, by group.

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
        [*by, n, mean_s, ci_low, ci_high, median_s, p90_s, n_missing], sorted by `by`, nulls last;
        times in s. n counts the runtimes that all the rest is taken over, n_missing the rows
        without one (null or NaN). [ci_low, ci_high] is Student's t interval of the mean, rows
        taken as independent; null for one runtime. Quantiles interpolate linearly between order
        statistics (type 7 of Hyndman and Fan, 1996). All are null where n is 0.

    Raises
    ------
    DataError
        If a column is missing or runtime_s not numeric, a runtime is negative or infinite, or
        `confidence` is not in (0, 1).
    """
    keys = as_names(by)
    refuse_clash(keys, ("ci_low", "ci_high"))
    runtime = nw.col("runtime_s")
    groups = reduce_frame(
        open_frame(frame, keys=keys, measures=("runtime_s",)),
        keys,
        n=runtime.count(),
        mean_s=runtime.mean(),
        std_s=runtime.std(ddof=1),
        median_s=runtime.quantile(0.5, interpolation="linear"),
        p90_s=runtime.quantile(0.9, interpolation="linear"),
        n_missing=nw.len() - runtime.count(),
    )
    low, high = mean_interval(groups["mean_s"], groups["std_s"], groups["n"], confidence=confidence)
    return groups.select(
        *keys,
        "n",
        "mean_s",
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
        median_s="median_s",
        p90_s="p90_s",
        n_missing="n_missing",
    )


def outcome_rates(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Rate of success with its interval, by group.

    rate = successes / n, over the rows whose status counts as a success or as a failure. What
    counts as a failure is a choice that moves the rate: name it with the result.

    Parameters
    ----------
    frame
        One row a job or task: [*by, status]; eager or lazy, of any listed engine.
    by
        Columns to group by; null in them is a group of its own.
    success, failure
        Statuses that count as one or the other, of the closed set
        (:data:`traceana.schema.STATUSES`).
    confidence
        Coverage of the interval, in (0, 1).

    Returns
    -------
    DataFrame
        [*by, n, successes, rate, ci_low, ci_high, others], sorted by `by`, nulls last. others
        counts the rows that are neither (null included) and not in n. [ci_low, ci_high] is
        Wilson's interval, rows taken as independent. All three are null where n is 0.

    Raises
    ------
    DataError
        If a column is missing; `success` or `failure` is empty, or they share a status; a status
        asked for or found is not of the closed set; or `confidence` is not in (0, 1).
    """
    succeeded, failed = as_names(success), as_names(failure)
    _check_statuses(succeeded, failed)
    keys = as_names(by)
    refuse_clash(keys, ("rate", "ci_low", "ci_high", "others"))
    status = nw.col("status").cast(nw.String)
    groups = reduce_frame(
        open_frame(frame, keys=(*keys, "status")),
        keys,
        n=nw.when(status.is_in((*succeeded, *failed))).then(status).count(),
        successes=nw.when(status.is_in(succeeded)).then(status).count(),
        rows=nw.len(),
        unknown=nw.when(~status.is_in(STATUSES)).then(status).min(),
    )
    unknown = groups["unknown"].drop_nulls()
    if not unknown.is_empty():
        raise DataError(f"status {unknown.min()!r} is found; statuses are {', '.join(STATUSES)}")
    low, high = wilson_interval(groups["successes"], groups["n"], confidence=confidence)
    n = pl.col("n")
    return groups.select(
        *keys,
        "n",
        "successes",
        rate=pl.when(n > 0).then(pl.col("successes") / n),
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
        others=pl.col("rows") - n,
    )


def _check_statuses(success: tuple[str, ...], failure: tuple[str, ...]) -> None:
    for part, statuses in (("success", success), ("failure", failure)):
        if not statuses:
            raise DataError(f"{part} names no status; statuses are {', '.join(STATUSES)}")
        for status in statuses:
            if status not in STATUSES:
                raise DataError(
                    f"{part} names status {status!r}; statuses are {', '.join(STATUSES)}"
                )
    both = sorted(set(success) & set(failure))
    if both:
        raise DataError(f"status {', '.join(both)} cannot be a success and a failure")
