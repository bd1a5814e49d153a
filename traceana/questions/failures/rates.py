"""Failures counted by group and cluster, and success and failure rates with their errors."""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from typing import Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import notes_unit, outcome_cohort
from traceana.cohorts.ends import open_outcomes, with_failure
from traceana.errors import DataError
from traceana.questions.correlations.analyze import features_of
from traceana.questions.failures.tables import FailureRates, OutcomeRates
from traceana.schema import STATUSES
from traceana.stats.arguments import check_confidence
from traceana.stats.arrays import Integers
from traceana.stats.intervals import FEWEST_CLUSTERS, clustered_wilson_interval, wilson_interval
from traceana.store import Trace
from traceana.store.frames import Names, as_names, beside, reduce_frame, refuse_clash
from traceana.tables.declare import declared, interval_columns, returns

ONE_CLUSTER: Final = "one cluster: no interval"
_FEW: Final = "one cluster has most rows: no interval"


def count_failures(
    frame: IntoFrame, columns: Sequence[str], /, *, status: str, success: Names, failure: Names
) -> pl.DataFrame:
    """Return [*columns, n, failures]: the successes and failures, and the failures."""
    lazy, succeeded, failed = open_outcomes(
        frame, columns, status=status, success=success, failure=failure
    )
    ended = with_failure(lazy, status, succeeded, failed)
    failures = nw.col("failure").sum().cast(nw.Int64)
    return reduce_frame(ended, columns, n=nw.len(), failures=failures)


def note_few(clusters: pl.Expr | pl.Series, effective: pl.Expr | pl.Series, /) -> pl.Expr:
    """Return why there is no interval over clusters; null where there is one."""
    few = pl.when(effective < FEWEST_CLUSTERS).then(pl.lit(_FEW))
    return pl.when(clusters == 1).then(pl.lit(ONE_CLUSTER)).otherwise(few)


def refuse_missing(cluster: pl.Series, n: pl.Series | None = None, /) -> None:
    """Refuse rows whose cluster is null; `n` counts the rows of each value of `cluster`."""
    missing = cluster.null_count() if n is None else n.filter(cluster.is_null()).sum()
    if missing:
        raise DataError(
            f"cluster {cluster.name} is null in {missing} row(s); fill it or drop these rows"
        )


def cluster_errors(parts: pl.DataFrame, keys: Sequence[str], /) -> pl.DataFrame:
    """Return [*keys, n_clusters, effective, variance] of the mean of each group, by the jackknife.

    With T_c and n_c the sum and the number of values of each of G clusters, the mean without a
    cluster differs from the mean by d_c = -(T_c - n_c mean) / (n - n_c), and variance =
    (G - 1) / G sum of d_c^2, null for a single cluster. Its degrees of freedom are effective - 1,
    with n^2 / sum of n_c^2 effective clusters (Kish): Satterthwaite's approximation for
    independent rows (Bell and McCaffrey, Survey Methodology 28, 2002).
    """
    n, total = pl.col("n"), pl.col("total")
    off = (total - n * (total.sum() / n.sum())) / (n.sum() - n)
    clusters = (n > 0).sum().cast(pl.Int64)
    variance = (clusters - 1) / clusters * (off**2).sum()
    errors = {
        "n_clusters": clusters,
        "effective": n.sum() ** 2 / (n.cast(pl.Float64) ** 2).sum(),
        "variance": pl.when(clusters > 1).then(variance),
    }
    return reduce_frame(parts, keys, **errors)


MOST_LEVELS: Final = 50  # maximum number of groups: these are 1225 pairs


def group_codes(rows: pl.DataFrame, keys: Sequence[str], /) -> tuple[Integers, pl.DataFrame]:
    """Return the code of each row's group, and the keys of the 2 to 50 groups in order."""
    name = ", ".join(keys)
    if not keys:
        raise DataError("by names no column; name the groups to compare, such as by='gpu_type'")
    labels = rows.select(keys).unique().sort(keys, nulls_last=True)
    if not 2 <= labels.height <= MOST_LEVELS:
        raise DataError(
            f"{name} has {labels.height} group{'s' * (labels.height != 1)} of comparable rows; "
            f"from 2 to {MOST_LEVELS} are needed"
        )
    numbered = labels.with_columns(code=pl.int_range(pl.len(), dtype=pl.Int64))
    return beside(rows.select(keys), numbered, keys)["code"].to_numpy(), labels


def stratum_codes(rows: pl.DataFrame, columns: Sequence[str], /) -> Integers:
    """Return the code of each row's stratum, 0 without columns."""
    if not columns:
        return np.zeros(rows.height, dtype=np.int64)
    return rows.select(pl.struct(columns).rank("dense") - 1).to_series().to_numpy()


def cluster_codes(column: pl.Series, /) -> Integers:
    """Return the code of each row's cluster, of which at least two are needed."""
    codes = (column.rank("dense") - 1).cast(pl.Int64).to_numpy()
    if codes.max(initial=0) < 1:
        raise DataError(
            f"column {column.name} has one cluster of comparable rows; at least two are needed"
        )
    return np.asarray(codes)


_COUNTED: Final = {OutcomeRates: "successes", FailureRates: "failures"}
_ROWS: Final = "rows of a status"


@notes_unit
@returns(OutcomeRates)
def outcome_rates(
    frame: IntoFrame,
    /,
    by: Names = (),
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
        One row per job or task with the columns that other parameters name; eager or lazy, of any
        supported engine.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    success, failure
        Status values of a success and a failure (other rows are excluded).
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
        OutcomeRates, frame, by, (status, success, failure), cluster, confidence=confidence
    )


@notes_unit
@returns(FailureRates)
def failure_rates(
    frame: IntoFrame,
    /,
    by: Names = (),
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
        FailureRates, frame, by, (status, success, failure), cluster, confidence=confidence
    )


def _rates(
    table: type[OutcomeRates | FailureRates],
    frame: IntoFrame,
    by: Names,
    definition: tuple[str, Names, Names],
    cluster: str | None,
    *,
    confidence: float,
) -> pl.DataFrame:
    (status, success, failure), keys, counted = definition, as_names(by), _COUNTED[table]
    refuse_clash(keys, table.columns())
    check_confidence(confidence)
    columns = keys if cluster is None else (*keys, cluster)
    lazy, succeeded, failed = open_outcomes(
        frame, columns, status=status, success=success, failure=failure
    )
    words = {"successes": succeeded, "failures": failed, "n": (*succeeded, *failed)}
    if {*words["n"]} <= {*STATUSES}:
        words |= {word: (word,) for word in STATUSES}
    rows, value = pl.col(_ROWS), pl.col(status)
    counts = reduce_frame(lazy, (*columns, status), **{_ROWS: nw.len()})
    sums = {name: rows.filter(value.is_in(some)).sum() for name, some in words.items()}
    sums |= {"rows": rows.sum(), "n_missing": rows.filter(value.is_null()).sum()}
    parts = counts.group_by(columns, maintain_order=True).agg(**sums)
    groups = parts
    if cluster is not None:
        refuse_missing(parts[cluster], parts["rows"])
        groups = parts.group_by(keys).agg(pl.col(*sums).sum()).sort(keys, nulls_last=True)
    n = pl.col("n")
    rates = groups.with_columns(
        n_excluded=pl.col("rows") - n, rate=pl.when(n > 0).then(pl.col(counted) / n)
    )
    if cluster is None:
        ends = wilson_interval(rates[counted], rates["n"], confidence=confidence)
    else:
        errors = cluster_errors(parts.with_columns(total=counted), keys)
        clusters, kish, variance = errors[["n_clusters", "effective", "variance"]]
        of_row = pl.col("rate") * (1 - pl.col("rate"))
        effective = (
            pl.when(of_row == 0)  # each cluster may count as one row
            .then(kish)
            .when(variance > 0)
            .then(pl.min_horizontal(of_row / variance, n))
            .otherwise(n)
        )
        n_effective = pl.when(clusters > 1).then(effective)
        rates = rates.with_columns(clusters, n_effective=n_effective, note=note_few(clusters, kish))
        of_rates = (rates["rate"], rates["n_effective"], kish)
        ends = clustered_wilson_interval(*of_rates, confidence=confidence)
    return declared(rates.with_columns(**interval_columns(ends)), table, by=keys)


MOST_VALUES: Final = 12  # up to so many distinct values are groups; more are put into bins
_BOUNDS: Final = (
    *(float(f"{first}e-{power}") for power in (2, 1) for first in (1, 2, 5)),
    *(2.0**power for power in range(64)),
)


def failure_by_request(trace: Trace, /) -> dict[str, pl.DataFrame]:
    """Return the failure rates by the cohort's groups and by each feature, by column."""
    cohort = trace.once(outcome_cohort)
    rates = {}
    for name in (*([cohort.by] if cohort.by else []), *features_of(cohort)):
        values = cohort.rows[name]
        values = bin_values(values) if values.dtype.is_numeric() else values.cast(pl.String)
        rows = cohort.rows.select("status", *cohort.unit_columns).with_columns(values)
        rates[name] = cohort.over_units(failure_rates, rows, name)
    return rates


def bin_values(values: pl.Series, /) -> pl.Series:
    """Return the bin of each value as an Enum in ascending order; null is null.

    More than :data:`MOST_VALUES` distinct values are put into bins between powers of two: whole
    numbers with the upper end, so that 1, 2, 4 and 8 differ; below 1 between 1, 2 and 5 times a
    power of ten. A bin of one value is named by it.
    """
    distinct = values.drop_nulls().unique().sort().to_list()
    labels = {value: f"{value:,.4g}" if value < 1000 else f"{value:,.6g}" for value in distinct}
    if len(distinct) > MOST_VALUES:
        whole = all(value == int(value) for value in distinct)
        bins = {value: _label(value, whole=whole) for value in distinct}
        shared = Counter(bins.values())
        labels = {
            value: name if whole or shared[name] > 1 else labels[value]
            for value, name in bins.items()
        }
    kind = pl.Enum(list(dict.fromkeys(labels.values())))
    named = values.replace_strict(labels, return_dtype=pl.String) if labels else values
    return named.cast(kind).alias(values.name)


def _label(value: float, *, whole: bool) -> str:
    if value <= 0:
        return f"{value:g}"
    if not whole:
        place = bisect(_BOUNDS, value)
        low, high = _BOUNDS[max(place - 1, 0)], _BOUNDS[place]
        return f"{low:,.6g} to under {high:,.6g}" if place else f"under {high:g}"
    high = 2.0 ** math.ceil(math.log2(value))
    low = high / 2 + 1
    return f"{high:,.6g}" if low >= high else f"{low:,.6g} to {high:,.6g}"
