"""Fraction of the variance between users."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.errors import DataError
from traceana.questions.failures.clusters import refuse_missing
from traceana.questions.failures.tables_means import VarianceBetween
from traceana.stats.variance_share import FEWEST
from traceana.stats.variance_share import variance_share as estimate_share
from traceana.store.frames import (
    LARGEST,
    Names,
    admit_columns,
    as_names,
    clean_columns,
    collect,
    refuse_clash,
)
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


@returns(VarianceBetween)
def variance_share(
    frame: IntoFrame,
    /,
    *,
    value: str,
    cluster: str,
    by: Names = (),
    log: bool = False,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Estimate the fraction of variance between users (intraclass correlation).

    The intraclass correlation of a one-way random-effects model: 1 if all rows of a user are
    equal, 0 if users do not differ.

    Parameters
    ----------
    frame
        One row per job or task: `value`, `cluster` and `by`; eager or lazy, of any supported
        engine. Rows without a value (null or NaN) are excluded and counted.
    value
        Column of numbers or a Boolean column, such as whether a job failed.
    cluster
        Column of the user or another unit with several rows, without nulls.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    log
        Whether to use the logarithm, as for runtimes; values of 0 and below are excluded then.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        The ANOVA estimator for clusters of unequal size (Donner, International Statistical Review
        54, 1986), with the jackknife interval over clusters of the logarithm of F.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"user": ["a", "a", "b", "b"], "runtime_s": [10.0, 12, 90, 80]})
    >>> found = traceana.variance_share(jobs, value="runtime_s", cluster="user", log=True)
    >>> found["share"].round(3).item()
    0.994
    """
    keys = as_names(by)
    refuse_clash(keys, VarianceBetween.columns())
    admitted = admit_columns(frame, (*keys, cluster, value), roles={"value": value})
    if admitted.collect_schema()[value] == nw.Boolean:
        admitted = admitted.with_columns(nw.col(value).cast(nw.Float64))
    rows = collect(clean_columns(admitted, (value,)))
    refuse_missing(rows[cluster], pl.repeat(1, len(rows), eager=True))
    if (rows[value].abs() > LARGEST).any():
        raise DataError(f"column {value} has a value beyond {LARGEST:g}; value= needs finite ones")
    if log:
        rows = rows.with_columns(pl.when(pl.col(value) > 0).then(pl.col(value).log()).alias(value))
    lines = []
    groups = rows.group_by(keys) if keys else [((), rows)]
    for group, own in groups:
        kept = own.drop_nulls(value)
        found = estimate_share(kept[value], kept[cluster].rank("dense"), confidence=confidence)
        note = None
        if math.isnan(found.share):
            note = "one cluster, or no variation within clusters"
        elif math.isnan(found.ci_low):
            note = f"fewer than {FEWEST} clusters: no interval"
        lines.append((*group, *found, own.height - kept.height, note))
    schema = {**rows.select(keys).schema, **schema_of(VarianceBetween)}
    table = pl.DataFrame(lines, schema=schema, orient="row")
    table = table.with_columns(pl.col("share", "ci_low", "ci_high").fill_nan(None))
    return declared(table.sort(keys, nulls_last=True) if keys else table, VarianceBetween, by=keys)
