"""Failure rates and runtimes of a cohort by each requested resource, in bins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.definitions import OUTCOMES
from traceana.cohorts.horizon import outcome_cohort
from traceana.questions.correlations.analyze import features_of
from traceana.questions.correlations.runtime import PERCENT
from traceana.questions.failures.rates import failure_rates
from traceana.questions.failures.tables import FailureByRequest
from traceana.store.frames import reduce_frame
from traceana.tables.declare import declared

if TYPE_CHECKING:
    from traceana.store import Trace


MOST_VALUES: Final = 12
"""Up to so many distinct values are groups; more are put into bins."""


def failure_by_request(trace: Trace, /) -> dict[str, pl.DataFrame]:
    """Return the failure rate by the cohort's groups and by each feature.

    The keys are the columns; gpus and cpus are gpu_percent and cpu_percent. A rate counts the
    failed among the completed and failed rows, or those that failed by a runtime.
    """
    cohort = trace.once(outcome_cohort)
    columns = {cohort.by: pl.col(cohort.by).cast(pl.String)} if cohort.by else {}
    for name in features_of(cohort):
        columns[PERCENT.get(name, name)] = pl.col(name) * (100 if name in PERCENT else 1)
    keep = ["status", "runtime_s", *([cohort.cluster] if cohort.cluster else [])]
    found = {}
    for name, value in columns.items():
        rows = cohort.rows.select(*keep, value.alias(".value"))
        if rows[".value"].dtype.is_numeric():
            unit = 100.0 if name in PERCENT.values() else 1.0
            rows = rows.with_columns(bin_values(rows[".value"], unit=unit))
        rows = rows.rename({".value": name}) if name not in rows.columns else rows
        rates = failure_rates(rows, name, cluster=cohort.cluster)
        status = pl.col("status").cast(pl.String)
        means = [
            reduce_frame(
                rows.filter(status.is_in(statuses)),
                (name,),
                **{f"{outcome}_mean_s": pl.col("runtime_s").mean()},
            )
            for outcome, statuses in OUTCOMES.items()
        ]
        for mean in means:
            rates = rates.join(mean, on=name, how="left", nulls_equal=True, maintain_order="left")
        rates = rates.with_columns(success_rate=1 - pl.col("rate"))
        found[name] = declared(rates, FailureByRequest, by=(name,))
    return found


def bin_values(values: pl.Series, /, *, unit: float = 1.0) -> pl.Series:
    """Return the bin of each value as an Enum in ascending order; null is null.

    Up to :data:`MOST_VALUES` distinct values are their own bins. More are put into bins between
    powers of two of `unit`, each with its upper end, so that requests for 1, 2, 4 and 8 units are
    in different bins. 0 is its own bin.
    """
    distinct = values.drop_nulls().unique().sort().to_list()
    if len(distinct) <= MOST_VALUES:
        labels = {value: f"{value:,.4g}" if value < 1000 else f"{value:,.6g}" for value in distinct}
    else:
        whole = unit == 1 and all(value == int(value) for value in distinct)
        labels = {value: _label(value, unit, whole=whole) for value in distinct}
    kind = pl.Enum(list(dict.fromkeys(labels.values())))
    named = values.replace_strict(labels, return_dtype=pl.String) if labels else values
    return named.cast(kind).alias(values.name)


def _label(value: float, unit: float, *, whole: bool) -> str:
    if value <= 0:
        return f"{value:g}"
    high = unit * 2.0 ** math.ceil(math.log2(value / unit))
    if not whole:
        return f"over {high / 2:,.6g} to {high:,.6g}"
    low = high / 2 + 1
    return f"{high:,.6g}" if low >= high else f"{low:,.6g} to {high:,.6g}"
