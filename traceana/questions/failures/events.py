"""Events counted by runtime, and the estimates from these counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.ends import open_statuses
from traceana.errors import DataError
from traceana.questions.failures.rates import refuse_missing
from traceana.questions.failures.tables_competing_risks import RowsAtRisk
from traceana.stats.arguments import as_list, is_number
from traceana.stats.intervals import FEWEST_CLUSTERS
from traceana.stats.permutation import effective_clusters
from traceana.stats.survival import incidence, incidence_variances
from traceana.store.frames import (
    Names,
    as_keys,
    as_names,
    beside,
    collect,
    open_frame,
    reduce_frame,
)
from traceana.tables.declare import declared, returns, schema_of

EVENTS: Final = ("completed", "failed", "cancelled")
"""Default events."""

MIN_AT_RISK: Final = 10
"""Rows at risk at the horizon below which a restricted mean of censored rows has no value."""

HORIZONS_S: Final = (60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 172_800.0, 604_800.0)
"""Horizons of the restricted mean: 1 and 10 minutes, 1 and 6 hours, 1, 2 and 7 days."""

CELLS: Final = 100
"""More clusters are combined into this number of cells, each left out in turn."""


class Columns(NamedTuple):
    """Names of the columns of a cohort; None where there is none."""

    status: str | None
    runtime: str
    entry: str | None = None
    observed: str | None = None


def check_events(events: Names, /) -> tuple[str, ...]:
    """Return the status values that are events, each named once."""
    names = as_names(events)
    if not names or len(set(names)) < len(names):
        raise DataError(
            f"events must name statuses, each once, such as {', '.join(EVENTS)}; found is "
            f"{', '.join(names) or 'none'}"
        )
    return names


def estimate_incidence(
    frame: IntoFrame,
    keys: tuple[str, ...],
    events: tuple[str, ...],
    /,
    *,
    columns: Columns,
    cluster: str | None,
    horizon_s: float | None = math.inf,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the estimates of each group and time, and the counts of each group."""
    parts = count_events(frame, keys, events, columns=columns, cluster=cluster)
    counts, with_time = parts, pl.col("time_s").is_not_null()
    of_clusters = {}
    if cluster is not None:
        of_clusters["n_clusters"] = pl.col(cluster).filter(with_time).n_unique().cast(pl.Int64)
        refuse_missing(parts[cluster], parts["n"])
        counts = parts.group_by(*keys, "time_s", maintain_order=True).agg(
            pl.col("n", "late", *events).sum()
        )
    sums = {name: pl.col(name).filter(with_time).sum() for name in ("n", *events)}
    unknown = {f"{name} unknown": pl.col(name).filter(~with_time).sum() for name in events}
    groups = parts.group_by(keys).agg(
        **sums,
        **unknown,
        n_truncated=pl.col("late").sum(),
        n_excluded=pl.col("n").filter(~with_time).sum(),
        last_s=pl.col("time_s").max(),
        **of_clusters,
    )
    censored = pl.col("n") - pl.sum_horizontal(events)
    groups = groups.with_columns(n_censored=censored)
    times = counts.filter(with_time).with_columns(n_censored=censored)
    horizon_s = default_horizon(times, keys, horizon_s)
    pairs = zip(_split(times, keys), _split(parts.filter(with_time), keys), strict=True)
    times = pl.concat([_estimate(*pair, events, cluster, horizon_s) for pair in pairs])
    if cluster is not None:
        effective = times.group_by(keys).agg(effective=pl.first("df").fill_nan(-1) + 1)
        groups = beside(groups, effective, keys)
    return times, groups.sort(keys, nulls_last=True)


def _split(table: pl.DataFrame, keys: tuple[str, ...]) -> list[pl.DataFrame]:
    """Return the rows of each group, at least one."""
    return (table.partition_by(keys, maintain_order=True) if keys else []) or [table]


def _estimate(
    times: pl.DataFrame,
    parts: pl.DataFrame,
    events: tuple[str, ...],
    cluster: str | None,
    horizon_s: float,
) -> pl.DataFrame:
    """Add the estimates to the counts of one group; `parts` are its counts by time and cluster."""
    curve = incidence(times.select(events).to_numpy(), times["n_censored"], times["late"])
    df, restricted = math.inf, math.nan
    if cluster is not None and times.height:
        cell = (parts[cluster].rank("dense") - 1).cast(pl.Int64).to_numpy() % CELLS
        counts, n = parts.select(events).to_numpy(), parts["n"].to_numpy()
        surviving, by_event, restricted = incidence_variances(
            *(counts, n - counts.sum(axis=1), parts["late"].to_numpy()),
            *(parts["time_s"].rle_id().to_numpy(), cell),
            durations=times["time_s"].to_numpy(),
            horizon=horizon_s,
        )
        curve = curve._replace(surviving_variance=surviving, incidence_variance=by_event)
        effective = effective_clusters(n.astype(float), cell)
        df = effective - 1 if effective >= FEWEST_CLUSTERS else math.nan
    of_event = {
        f"{event} {name}": values[:, place]
        for place, event in enumerate(events)
        for name, values in (
            ("incidence", curve.incidence),
            ("variance", curve.incidence_variance),
        )
    }
    return times.with_columns(
        n_at_risk=curve.at_risk.astype(int),
        survival=curve.surviving,
        survival_variance=curve.surviving_variance,
        hazard_variance=curve.hazard_variance,
        df=pl.lit(df),
        restricted_variance=pl.lit(restricted),
        **of_event,
    )


def default_horizon(
    times: pl.DataFrame, keys: tuple[str, ...], horizon_s: float | None, /
) -> float:
    """Return the horizon given, or the largest at which each group has enough rows at risk."""
    if horizon_s is not None:
        return horizon_s
    at_risk = {
        f"{horizon}": (pl.col("n") - pl.col("late")).filter(pl.col("time_s") >= horizon).sum()
        for horizon in HORIZONS_S
    }
    table = (
        times.group_by(keys)
        .agg(pl.col("n", "n_censored").sum(), **at_risk)
        .filter(pl.col("n") >= MIN_AT_RISK, pl.col("n_censored") > 0)
    )
    fine = [horizon for horizon in HORIZONS_S if (table[f"{horizon}"] >= MIN_AT_RISK).all()]
    return max(fine, default=HORIZONS_S[0])


def count_events(
    frame: IntoFrame,
    keys: tuple[str, ...],
    events: tuple[str, ...] = (),
    /,
    *,
    columns: Columns,
    cluster: str | None = None,
) -> pl.DataFrame:
    """Return [*keys, time_s, cluster, n, <event>..., late]: rows by runtime, with each event."""
    of = () if cluster is None else (cluster,)
    measures = {"runtime": columns.runtime}
    if columns.entry is not None:
        measures["entry"] = columns.entry
    names = (*keys, *of, *(() if columns.observed is None else (columns.observed,)))
    if columns.status is None:
        lazy = open_frame(frame, keys=names, measures=measures)
        status = nw.lit(events[0] if events else "")
    else:
        named = {"events": events}
        lazy = open_statuses(frame, names, status=columns.status, named=named, measures=measures)
        status = nw.col(columns.status)
    time = nw.col(columns.runtime)
    ended = time.is_null() | ~time.is_null()
    if columns.observed is not None:
        _check_flags(lazy, columns.observed)
        ended = nw.col(columns.observed)
    timed, cells = lazy.with_columns(time.alias("time_s")), (*keys, "time_s", *of)
    counts = reduce_frame(
        timed,
        cells,
        n=nw.len(),
        **{event: nw.when(ended & (status == event)).then(ended).count() for event in events},
    ).with_columns(late=pl.lit(0, pl.Int64))
    if columns.entry is None:
        return counts
    entries = _count_entries(timed, cells, columns.entry, columns.runtime)
    if entries.is_empty():
        return counts
    both = pl.concat([counts, entries], how="diagonal_relaxed")
    summed = both.group_by(cells).agg(pl.col("n", *events, "late").sum())
    return summed.sort(cells, nulls_last=True)


def _count_entries(
    timed: nw.LazyFrame[Any], cells: tuple[str, ...], entry: str, runtime: str
) -> pl.DataFrame:
    """Return [*cells, late]: the rows that are observed from a time after 0."""
    begun, end = nw.col(entry), nw.col("time_s")
    excess = collect(timed.select((begun - end).max())).item()
    if excess is not None and excess > 0:
        raise DataError(
            f"column {entry} exceeds {runtime} by {excess:g} s in a row; entry is "
            "the runtime from which a row was observed, at most its runtime"
        )
    just_before = end * (1 - 2**-52)
    # a comparison, since engines differ in the minimum of two columns
    late = timed.filter((begun > 0) & ~end.is_null()).with_columns(
        nw.when(begun < end).then(begun).otherwise(just_before).alias("time_s")
    )
    return reduce_frame(late, cells, late=nw.len())


def _check_flags(lazy: nw.LazyFrame[Any], column: str) -> None:
    """Refuse a column of flags that is not Boolean or has missing values."""
    dtype = lazy.collect_schema()[column]
    if dtype != nw.Boolean or collect(lazy.select(nw.col(column).is_null().any())).item():
        raise DataError(
            f"column {column} must be True where the end of a row was observed and False where "
            f"not, without missing values; it holds {dtype}"
        )


@returns(RowsAtRisk)
def rows_at_risk(
    frame: IntoFrame,
    /,
    times_s: Sequence[float],
    by: Names = (),
    *,
    status: str = "status",
    runtime: str = "runtime_s",
    entry: str | None = None,
) -> pl.DataFrame:
    """Count the rows at risk at given runtimes.

    Parameters
    ----------
    frame, by, status, runtime, entry
        As in :func:`cumulative_incidence`.
    times_s
        Runtimes in seconds.

    Returns
    -------
    DataFrame
        Sorted, nulls last, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [60, 600, 6000], "status": "completed"})
    >>> traceana.rows_at_risk(jobs, [0, 100, 1000]).select("time_s", "n_at_risk").rows()
    [(0.0, 3), (100.0, 2), (1000.0, 1)]
    """
    keys = as_keys(by, (*RowsAtRisk.columns(), "n", "late"))
    times_s = as_list("times_s", times_s)
    if not all(is_number(time) and 0 <= time < math.inf for time in times_s):
        raise DataError(f"times_s must be numbers of seconds from 0 on; found {times_s!r}")
    counts = count_events(frame, keys, columns=Columns(status, runtime, entry))
    at_risk = (pl.col("n") - pl.col("late")).cast(pl.Int64)
    parts = [
        counts.group_by(keys).agg(
            time_s=pl.lit(time), n_at_risk=at_risk.filter(pl.col("time_s") >= time).sum()
        )
        for time in sorted({float(time) for time in times_s})
    ]
    none = pl.DataFrame(schema={**counts.select(keys).schema, **schema_of(RowsAtRisk)})
    table = pl.concat([none, *parts]).sort([*keys, "time_s"], nulls_last=True)
    return declared(table, RowsAtRisk, by=keys)
