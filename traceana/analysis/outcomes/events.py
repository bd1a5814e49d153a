"""Events counted by runtime, and the estimates from these counts."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.analysis.frames import LARGEST, Names, as_names, collect, reduce_frame
from traceana.analysis.outcomes.clusters import refuse_missing
from traceana.analysis.outcomes.definitions import open_statuses
from traceana.errors import DataError
from traceana.stats.arguments import is_number
from traceana.stats.survival import Incidence, incidence, incidence_variances

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

EVENTS: Final = ("completed", "failed", "cancelled")
"""Default events."""

CELLS: Final = 100
"""More clusters are combined into this number of cells, each left out in turn."""


class Columns(NamedTuple):
    """Names of the columns of a cohort."""

    status: str
    runtime: str
    start: str


def check_events(events: Names, /) -> tuple[str, ...]:
    """Return the status values that are events.

    Raises
    ------
    DataError
        If one is named twice, or there is none.
    """
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
    running_until_s: float | datetime | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Count events by runtime, and estimate survival and cumulative incidence.

    With a cluster, variances are from the jackknife over clusters, more than :data:`CELLS` of them
    combined into that number of cells.

    Returns
    -------
    (times, groups)
        times [*keys, time_s, n, <event>..., n_at_risk, survival, survival_variance, and for each
        event "<event> incidence" and "<event> variance"], one row per group and runtime in
        ascending order; groups [*keys, n, <event>..., n_censored, n_excluded, last_s], one row
        per group. With a cluster, both have n_clusters, of the rows with a runtime.
    """
    of = keys if cluster is None else (*keys, cluster)
    parts = count_events(frame, of, events, columns=columns, running_until_s=running_until_s)
    counts, known = parts, pl.col("time_s").is_not_null()
    of_clusters = {}
    if cluster is not None:
        of_clusters["n_clusters"] = pl.col(cluster).filter(known).n_unique().cast(pl.Int64)
        refuse_missing(parts[cluster], parts["n"])
        counts = (
            parts.group_by(*keys, "time_s")
            .agg(pl.col("n", *events).sum())
            .sort(*keys, "time_s", nulls_last=True)
        )
    sums = {name: pl.col(name).filter(known).sum() for name in ("n", *events)}
    totals = {
        **sums,
        "n_excluded": pl.col("n").filter(~known).sum(),
        "last_s": pl.col("time_s").max(),
        **of_clusters,
    }
    groups = parts.group_by(keys).agg(**totals) if keys else parts.select(**totals)
    groups = groups.with_columns(n_censored=pl.col("n") - pl.sum_horizontal(events))
    times = counts.filter(known).with_columns(n_censored=pl.col("n") - pl.sum_horizontal(events))
    slices = _slices(times, keys)
    curves = [
        incidence(times[begin:stop].select(events).to_numpy(), times["n_censored"][begin:stop])
        for begin, stop in slices
    ]
    if cluster is not None:
        known_parts = parts.filter(known).sort(*keys, "time_s", nulls_last=True)
        clusters, curves = _allow_for_clusters(
            *(curves, slices, known_parts, keys, events), cluster=cluster
        )
        per_time = np.repeat(clusters, [stop - begin for begin, stop in slices])
        times = times.with_columns(n_clusters=pl.Series(per_time, dtype=pl.Int64))
    estimated = {
        "n_at_risk": [curve.at_risk for curve in curves],
        "survival": [curve.surviving for curve in curves],
        "survival_variance": [curve.surviving_variance for curve in curves],
    }
    for place, event in enumerate(events):
        estimated[f"{event} incidence"] = [curve.incidence[:, place] for curve in curves]
        estimated[f"{event} variance"] = [curve.incidence_variance[:, place] for curve in curves]
    estimates = {
        name: pl.Series(np.concatenate([np.empty(0), *pieces]))
        for name, pieces in estimated.items()
    }
    times = times.with_columns(**estimates).with_columns(pl.col("n_at_risk").cast(pl.Int64))
    return times, groups.sort(keys, nulls_last=True) if keys else groups


def _allow_for_clusters(
    curves: list[Incidence],
    slices: list[tuple[int, int]],
    parts: pl.DataFrame,
    keys: tuple[str, ...],
    events: tuple[str, ...],
    *,
    cluster: str,
) -> tuple[list[int], list[Incidence]]:
    """Return the number of clusters of each group, and its curve with variances over clusters.

    `parts` has one row per group, time and cluster, in the order of the times.
    """
    row = parts.select(pl.struct(*keys, "time_s").rle_id()).to_series().to_numpy()
    allowed, clusters = [], []
    for curve, (begin, stop) in zip(curves, slices, strict=True):
        first, last = np.searchsorted(row, (begin, stop)).tolist()
        part = parts[first:last]
        code = (part[cluster].rank("dense") - 1).cast(pl.Int64).to_numpy()
        counts = part.select(events).to_numpy()
        surviving, by_event = incidence_variances(
            *(counts, part["n"].to_numpy() - counts.sum(axis=1)),
            *(row[first:last] - begin, code % CELLS),
        )
        allowed.append(curve._replace(surviving_variance=surviving, incidence_variance=by_event))
        clusters.append(int(code.max()) + 1)
    return clusters, allowed


def count_events(
    frame: IntoFrame,
    keys: tuple[str, ...],
    events: tuple[str, ...] = (),
    /,
    *,
    columns: Columns,
    running_until_s: float | datetime | None,
) -> pl.DataFrame:
    """Return [*keys, time_s, n, <event>...]: rows by runtime, and those with each event."""
    measures = {"runtime": columns.runtime}
    if running_until_s is not None:
        measures["start"] = columns.start
    lazy = open_statuses(
        frame, keys, status=columns.status, named={"events": events}, measures=measures
    )
    status, time = nw.col(columns.status), nw.col(columns.runtime)
    if running_until_s is not None:
        until, start = _as_seconds(running_until_s), nw.col(columns.start)
        still = (status == "running") & time.is_null()
        latest = collect(lazy.filter(still).select(start.max())).item()
        if latest is not None and latest > until:
            raise DataError(
                f"running_until_s is {until:g}, but a row of status running starts at {latest:g}"
            )
        time = nw.when(still).then(until - start).otherwise(time)
    return reduce_frame(
        lazy.with_columns(time.alias("time_s")),
        (*keys, "time_s"),
        n=nw.len(),
        **{event: nw.when(status == event).then(status).count() for event in events},
    )


def _as_seconds(time: float | datetime) -> float:
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    if not is_number(time) or abs(time) > LARGEST:
        raise DataError(f"running_until_s must be a finite time in s or a datetime; it is {time!r}")
    return time


def _slices(times: pl.DataFrame, keys: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return the first and the last row of each group."""
    if times.is_empty():
        return []
    change = np.zeros(times.height - 1, dtype=bool)
    for key in keys:
        column = times[key]
        change |= column.slice(1).ne_missing(column.head(-1)).to_numpy()
    edges = [0, *(np.flatnonzero(change) + 1).tolist(), times.height]
    return list(pairwise(edges))
