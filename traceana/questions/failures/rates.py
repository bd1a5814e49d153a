"""Success and failure rates by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.definitions import open_outcomes
from traceana.cohorts.unit_note import notes_unit
from traceana.questions.failures.clusters import add_up_clusters, rate_columns
from traceana.questions.failures.tables import FailureRates, OutcomeRates
from traceana.schema import STATUSES
from traceana.stats.arguments import check_confidence
from traceana.stats.intervals import wilson_interval
from traceana.store.frames import Names, as_names, count_values, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_COUNTED: Final = {OutcomeRates: "successes", FailureRates: "failures"}


@notes_unit
@returns(OutcomeRates)
def outcome_rates(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute the success rate of each group with its confidence interval.

    Parameters
    ----------
    frame
        One row per job or task: `by`, `status` and `cluster`; eager or lazy, of any supported
        engine.
    by
        Columns to group by; null is a group of its own.
    success, failure
        Status values of a success and a failure: other rows are excluded.
    status
        Column of the status.
    cluster
        Column of the independent unit, such as user, without nulls; None: rows are independent.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        The interval is Wilson's (JASA 22, 1927). With `cluster` it is Wilson's of n_effective
        rows and the quantile of t(k - 1). k is the effective number of clusters (Kish).
        n_effective is rate (1 - rate) / v with v the rate's jackknife variance over clusters, and
        k if the rate is 0 or 1. There is no interval if k is below 2.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": "T4", "status": ["failed", "completed", "cancelled"]})
    >>> found = traceana.outcome_rates(jobs, "gpu")
    >>> found.select("gpu", "n", "successes", pl.col("rate").round(2)).rows()
    [('T4', 2, 1, 0.5)]
    """
    return _rates(
        *(OutcomeRates, frame, by),
        success=success, failure=failure, status=status, cluster=cluster, confidence=confidence,
    )  # fmt: skip


@notes_unit
@returns(FailureRates)
def failure_rates(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute the failure rate of each group with its confidence interval.

    The definition of a failure changes the rate. The published analysis of the PAI trace counted
    every status except completed: ``failure=("failed", "cancelled", "running", "pending",
    "unknown")``.

    Parameters
    ----------
    frame, by, success, failure, status, cluster, confidence
        As in :func:`outcome_rates`.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        The interval is that of :func:`outcome_rates`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 4 + ["V100"] * 4,
    ...                      "status": ["failed"] + ["completed"] * 5 + ["failed"] * 2})
    >>> traceana.failure_rates(jobs, "gpu").select("gpu", "n", "failures", "rate").rows()
    [('T4', 4, 1, 0.25), ('V100', 4, 2, 0.5)]
    """
    return _rates(
        *(FailureRates, frame, by),
        success=success, failure=failure, status=status, cluster=cluster, confidence=confidence,
    )  # fmt: skip


def _rates(
    table: type[OutcomeRates | FailureRates],
    frame: IntoFrame,
    by: Names,
    *,
    success: Names,
    failure: Names,
    status: str,
    cluster: str | None,
    confidence: float,
) -> pl.DataFrame:
    keys, counted = as_names(by), _COUNTED[table]
    refuse_clash(keys, table.columns())
    check_confidence(confidence)
    columns = keys if cluster is None else (*keys, cluster)
    lazy, succeeded, failed = open_outcomes(
        frame, columns, status=status, success=success, failure=failure
    )
    words = {"successes": succeeded, "failures": failed, "n": (*succeeded, *failed)}
    if {*words["n"]} <= {*STATUSES}:
        words |= {word: (word,) for word in STATUSES}
    rows, value = pl.col(".n"), pl.col(status)
    counts = count_values(lazy, (*columns, status))
    sums = {name: rows.filter(value.is_in(some)).sum() for name, some in words.items()}
    sums |= {"rows": rows.sum(), "n_missing": rows.filter(value.is_null()).sum()}
    parts = (
        counts.group_by(columns, maintain_order=True).agg(**sums)
        if columns
        else counts.select(**sums)
    )
    groups = parts if cluster is None else add_up_clusters(parts, keys, cluster)
    n = pl.col("n")
    rates = groups.with_columns(
        n_excluded=pl.col("rows") - n, rate=pl.when(n > 0).then(pl.col(counted) / n)
    )
    if cluster is not None:
        pieces = parts.with_columns(total=counted)
        rates = rates.with_columns(**rate_columns(rates, pieces, keys, confidence=confidence))
    else:
        low, high = wilson_interval(rates[counted], rates["n"], confidence=confidence)
        rates = rates.with_columns(
            ci_low=pl.Series(low).fill_nan(None), ci_high=pl.Series(high).fill_nan(None)
        )
    return declared(rates, table, by=keys)
