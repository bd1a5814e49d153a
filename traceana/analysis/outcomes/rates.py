"""How things ended, under each reading of what a failure is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import Names, as_names, open_frame, reduce_frame, refuse_clash
from traceana.analysis.outcomes.clusters import CLUSTERED, rate_columns, refuse_lost
from traceana.analysis.outcomes.readings import READINGS, Reading, failure_of, open_outcomes
from traceana.errors import DataError
from traceana.schema import STATUSES
from traceana.stats.arguments import check_confidence
from traceana.stats.intervals import wilson_interval

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def outcome_rates(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Rate of success with its interval, by group.

    rate = successes / n, over the rows whose status counts as a success or as a failure. What
    counts as a failure is a choice that moves the rate: name it with the result.

    Parameters
    ----------
    frame
        One row a job or task: [*by, status], and `cluster`; eager or lazy, of any listed engine.
    by
        Columns to group by; null in them is a group of its own.
    success, failure
        Statuses that count as one or the other, of the closed set
        (:data:`traceana.schema.STATUSES`).
    cluster
        Column that says which rows belong together, such as user. With it, clusters are taken as
        independent; without, rows are.
    confidence
        Coverage of the interval, in (0, 1).

    Returns
    -------
    DataFrame
        [*by, n, successes, rate, ci_low, ci_high, others], sorted by `by`, nulls last. others
        counts the rows that are neither (null included) and not in n. [ci_low, ci_high] is
        Wilson's interval, rows taken as independent. All three are null where n is 0.

        With `cluster`, also [n_clusters, n_effective, note]: the interval is Wilson's of
        n_effective rows and with the quantile of t(n_clusters - 1). n_effective is
        rate (1 - rate) / v, with v the rate's variance over clusters (docs/explanation/outcomes.md
        has the formula), at most n; n_clusters where the rate is 0 or 1, and v tells nothing. The
        interval is null for a single cluster, and note says so.

    Raises
    ------
    DataError
        If a column is missing; a cluster is null; `success` or `failure` is empty, or they share a
        status; a status asked for or found is not of the closed set; or `confidence` is not in
        (0, 1).
    """
    succeeded, failed = as_names(success), as_names(failure)
    _check_statuses(succeeded, failed)
    keys = as_names(by)
    added = () if cluster is None else CLUSTERED
    refuse_clash(keys, ("n", "successes", "rate", "ci_low", "ci_high", "others", *added))
    check_confidence(confidence)
    columns = keys if cluster is None else (*keys, cluster)
    lazy = open_frame(frame, keys=(*columns, "status"))
    counts = reduce_frame(
        lazy.with_columns(nw.col("status").cast(nw.String)), (*columns, "status"), rows=nw.len()
    )
    unknown = set(counts["status"].drop_nulls()).difference(STATUSES)
    if unknown:
        raise DataError(f"status {min(unknown)!r} is found; statuses are {', '.join(STATUSES)}")
    status, rows = pl.col("status"), pl.col("rows")
    parts = _add_up(
        counts.select(
            *columns,
            n=rows * status.is_in((*succeeded, *failed)).fill_null(value=False),
            successes=rows * status.is_in(succeeded).fill_null(value=False),
            rows=rows,
        ),
        columns,
    )
    groups = parts if cluster is None else _add_up_clusters(parts, keys, cluster)
    table = groups.with_columns(others=pl.col("rows") - pl.col("n"))
    order = (*keys, "n", "successes", "rate", "ci_low", "ci_high", "others", *added)
    return _with_rates(table, "successes", parts, keys, cluster, confidence=confidence).select(
        order
    )


def failure_rates(
    frame: IntoFrame, /, by: Names, *, cluster: str | None = None, confidence: float = 0.95
) -> pl.DataFrame:
    """Rate of failure by group, under both readings of what a failure is, side by side.

    "published" is the reading of the published analysis of PAI: whatever is not completed failed,
    jobs that still ran or waited when the trace ended among them. "strict" takes failed against
    completed and leaves out the rest.

    Parameters
    ----------
    frame
        One row a job or task: [*by, status], and `cluster`; eager or lazy, of any listed engine.
    by
        Columns to group by; null in them is a group of its own.
    cluster
        Column that says which rows belong together, such as user. With it, clusters are taken as
        independent; without, rows are.
    confidence
        Coverage of the interval, in (0, 1).

    Returns
    -------
    DataFrame
        [*by, reading, n, failures, rate, ci_low, ci_high, completed, failed, cancelled, running,
        pending, unknown, n_missing], two rows a group, sorted by `by`, nulls last. rate =
        failures / n, with Wilson's interval, rows taken as independent; null where n is 0. From
        completed on, how many rows have each status; n_missing have none and are in no rate.

        With `cluster`, also [n_clusters, n_effective, note], as of :func:`outcome_rates`.

    Raises
    ------
    DataError
        If a column is missing, a cluster is null, a status is found that is not of the closed
        set, or `confidence` is not in (0, 1).
    """
    keys = as_names(by)
    added = () if cluster is None else CLUSTERED
    refuse_clash(keys, ("reading", "failures", "rate", "ci_low", "ci_high", *added))
    check_confidence(confidence)
    columns = keys if cluster is None else (*keys, cluster)
    status = nw.col("status")
    parts = reduce_frame(
        open_outcomes(frame, columns),
        columns,
        **{word: nw.when(status == word).then(status).count() for word in STATUSES},
        rows=nw.len(),
    )
    groups = parts if cluster is None else _add_up_clusters(parts, keys, cluster)
    missing = pl.col("rows") - pl.sum_horizontal(STATUSES)
    order = (*keys, "reading", "n", "failures", "rate", "ci_low", "ci_high", *STATUSES)
    tables = []
    for reading in READINGS:
        table, pieces = (_count_failures(counts, reading) for counts in (groups, parts))
        tables.append(
            _with_rates(table, "failures", pieces, keys, cluster, confidence=confidence)
            .with_columns(n_missing=missing)
            .select(*order, "n_missing", *added)
        )
    return pl.concat(tables).sort(keys, nulls_last=True, maintain_order=True)


def _count_failures(counts: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    failed = [word for word in STATUSES if failure_of(word, reading)]
    taken = [word for word in STATUSES if failure_of(word, reading) is not None]
    return counts.with_columns(
        failures=pl.sum_horizontal(failed), n=pl.sum_horizontal(taken), reading=pl.lit(reading)
    )


def _add_up_clusters(parts: pl.DataFrame, keys: tuple[str, ...], cluster: str) -> pl.DataFrame:
    """Return the counts of groups, from those of their clusters."""
    refuse_lost(parts[cluster], parts["rows"])
    return _add_up(parts.drop(cluster), keys)


def _add_up(parts: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    if not keys:
        return parts.sum()
    return parts.group_by(keys).agg(pl.all().sum()).sort(keys, nulls_last=True)


def _with_rates(
    table: pl.DataFrame,
    counted: str,
    parts: pl.DataFrame,
    keys: tuple[str, ...],
    cluster: str | None,
    *,
    confidence: float,
) -> pl.DataFrame:
    """Add the rate of what is counted and its interval, and with clusters what they are worth."""
    n = pl.col("n")
    table = table.with_columns(rate=pl.when(n > 0).then(pl.col(counted) / n))
    if cluster is not None:
        pieces = parts.with_columns(total=counted)
        return table.with_columns(**rate_columns(table, pieces, keys, confidence=confidence))
    low, high = wilson_interval(table[counted], table["n"], confidence=confidence)
    return table.with_columns(
        ci_low=pl.Series(low).fill_nan(None), ci_high=pl.Series(high).fill_nan(None)
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
