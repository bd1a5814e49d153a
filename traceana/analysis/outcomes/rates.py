"""How things ended, under each reading of what a failure is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import Names, as_names, open_frame, reduce_frame, refuse_clash
from traceana.analysis.outcomes.readings import READINGS, Reading, failure_of, open_outcomes
from traceana.errors import DataError
from traceana.schema import STATUSES
from traceana.stats import wilson_interval

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


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


def failure_rates(frame: IntoFrame, /, by: Names, *, confidence: float = 0.95) -> pl.DataFrame:
    """Rate of failure by group, under both readings of what a failure is, side by side.

    "published" is the reading of the published analysis of PAI: whatever is not completed failed,
    jobs that still ran or waited when the trace ended among them. "strict" takes failed against
    completed and leaves out the rest.

    Parameters
    ----------
    frame
        One row a job or task: [*by, status]; eager or lazy, of any listed engine.
    by
        Columns to group by; null in them is a group of its own.
    confidence
        Coverage of the interval, in (0, 1).

    Returns
    -------
    DataFrame
        [*by, reading, n, failures, rate, ci_low, ci_high, completed, failed, cancelled, running,
        pending, unknown, n_missing], two rows a group, sorted by `by`, nulls last. rate =
        failures / n, with Wilson's interval, rows taken as independent; null where n is 0. From
        completed on, how many rows have each status; n_missing have none and are in no rate.

    Raises
    ------
    DataError
        If a column is missing, a status is found that is not of the closed set, or `confidence`
        is not in (0, 1).
    """
    keys = as_names(by)
    refuse_clash(keys, ("reading", "failures", "rate", "ci_low", "ci_high"))
    status = nw.col("status")
    counts = reduce_frame(
        open_outcomes(frame, keys),
        keys,
        **{word: nw.when(status == word).then(status).count() for word in STATUSES},
        n_missing=nw.len() - status.count(),
    )
    parts = [_rates_of(counts, keys, reading, confidence) for reading in READINGS]
    return pl.concat(parts).sort(keys, nulls_last=True, maintain_order=True)


def _rates_of(
    counts: pl.DataFrame, keys: tuple[str, ...], reading: Reading, confidence: float
) -> pl.DataFrame:
    failed = [word for word in STATUSES if failure_of(word, reading)]
    taken = [word for word in STATUSES if failure_of(word, reading) is not None]
    table = counts.with_columns(
        failures=pl.sum_horizontal(failed), n=pl.sum_horizontal(taken), reading=pl.lit(reading)
    )
    low, high = wilson_interval(table["failures"], table["n"], confidence=confidence)
    return table.select(
        *keys,
        "reading",
        "n",
        "failures",
        rate=pl.when(pl.col("n") > 0).then(pl.col("failures") / pl.col("n")),
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
        **{word: pl.col(word) for word in (*STATUSES, "n_missing")},
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
