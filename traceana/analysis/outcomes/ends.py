"""Ends counted by runtime, and the estimates over them: what the curves are made of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.analysis.frames import LARGEST, Names, as_names, collect, reduce_frame
from traceana.analysis.outcomes.clusters import refuse_lost
from traceana.analysis.outcomes.readings import open_outcomes
from traceana.errors import DataError
from traceana.results.base import Result
from traceana.schema import STATUSES
from traceana.stats.arguments import is_number
from traceana.stats.incidence import Incidence, incidence, incidence_variances

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

ENDS: Final = ("completed", "failed", "cancelled")
"""Statuses that are an end where no others are named."""

CELLS: Final = 100
"""More clusters than these are put into so many cells, each of which is then left out in turn."""


@dataclass(frozen=True, repr=False)
class EndCurves(Result):
    """Curves of what has ended by each runtime, and what they are taken over.

    Attributes
    ----------
    curves
        One row a group, curve and time at which it steps.
    groups
        One row a group and curve.
    """

    curves: pl.DataFrame
    groups: pl.DataFrame

    def summary(self) -> str:
        """Return a short text on the result."""
        keys = self.groups.columns[: self.groups.columns.index("n")]
        if "median_s" in self.groups.columns:
            name, value = "median_s", "median {:,.0f} s ({:,.0f} to {:,.0f})"
        else:
            name, value = "incidence", "in the end {:.3f} ({:.3f} to {:.3f})"
        lines = [f"{self.groups.height:,} curves, {self.curves.height:,} steps"]
        for row in self.groups.iter_rows(named=True):
            what = ", ".join("not stated" if row[key] is None else str(row[key]) for key in keys)
            told = f"n = {row['n']:,}, {row['n_events']:,} ended, {row['n_censored']:,} censored"
            found = (row[name], row["ci_low"], row["ci_high"])
            end = value.format(*found) if None not in found else row["note"] or "no interval"
            lines.append(f"{what or 'all'}: {told}; {end}")
        return "\n".join(lines)


def check_events(events: Names, /) -> tuple[str, ...]:
    """Return the statuses that are an end.

    Raises
    ------
    DataError
        If one is no status, is named twice, or there is none.
    """
    ways = as_names(events)
    if not ways or len(set(ways)) < len(ways) or not set(ways) <= set(STATUSES):
        raise DataError(
            f"events must name statuses, each once: {', '.join(STATUSES)}; found is "
            f"{', '.join(ways) or 'none'}"
        )
    return ways


def estimate_ends(
    frame: IntoFrame,
    keys: tuple[str, ...],
    ways: tuple[str, ...],
    /,
    *,
    cluster: str | None,
    running_until_s: float | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Count ends by runtime, and estimate how much has ended.

    With a cluster, variances are those of the jackknife over clusters, more than :data:`CELLS`
    of them put together into so many cells.

    Returns
    -------
    (times, groups)
        times [*keys, time_s, <way>..., n_at_risk, survival, survival_variance, and of each way
        "<way> incidence" and "<way> variance"], a row a group and runtime in rising order;
        groups [*keys, n, <way>..., n_censored, n_left_out, last_s], a row a group. With a
        cluster, both have n_clusters, of the rows with a runtime.
    """
    columns = keys if cluster is None else (*keys, cluster)
    parts = count_ends(frame, columns, ways, running_until_s=running_until_s)
    counts, known = parts, pl.col("time_s").is_not_null()
    of_clusters = {}
    if cluster is not None:
        of_clusters["n_clusters"] = pl.col(cluster).filter(known).n_unique().cast(pl.Int64)
        refuse_lost(parts[cluster], parts["n"])
        counts = (
            parts.group_by(*keys, "time_s")
            .agg(pl.col("n", *ways).sum())
            .sort(*keys, "time_s", nulls_last=True)
        )
    sums = {name: pl.col(name).filter(known).sum() for name in ("n", *ways)}
    totals = {
        **sums,
        "n_left_out": pl.col("n").filter(~known).sum(),
        "last_s": pl.col("time_s").max(),
        **of_clusters,
    }
    groups = parts.group_by(keys).agg(**totals) if keys else parts.select(**totals)
    groups = groups.with_columns(n_censored=pl.col("n") - pl.sum_horizontal(ways))
    times = counts.filter(known).with_columns(n_censored=pl.col("n") - pl.sum_horizontal(ways))
    slices = _slices(times, keys)
    curves = [
        incidence(times[begin:stop].select(ways).to_numpy(), times["n_censored"][begin:stop])
        for begin, stop in slices
    ]
    if cluster is not None:
        known_parts = parts.filter(known).sort(*keys, "time_s", nulls_last=True)
        clusters, curves = _allow_for_clusters(
            *(curves, slices, known_parts, keys, ways), cluster=cluster
        )
        per_time = np.repeat(clusters, [stop - begin for begin, stop in slices])
        times = times.with_columns(n_clusters=pl.Series(per_time, dtype=pl.Int64))
    estimated = {
        "n_at_risk": [curve.at_risk for curve in curves],
        "survival": [curve.surviving for curve in curves],
        "survival_variance": [curve.surviving_variance for curve in curves],
    }
    for place, way in enumerate(ways):
        estimated[f"{way} incidence"] = [curve.ended[:, place] for curve in curves]
        estimated[f"{way} variance"] = [curve.ended_variance[:, place] for curve in curves]
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
    ways: tuple[str, ...],
    *,
    cluster: str,
) -> tuple[list[int], list[Incidence]]:
    """Return the clusters of each group, and its curve with variances over these.

    `parts` has a row a group, time and cluster, in the order of the times.
    """
    row = parts.select(pl.struct(*keys, "time_s").rle_id()).to_series().to_numpy()
    allowed, clusters = [], []
    for curve, (begin, stop) in zip(curves, slices, strict=True):
        first, last = np.searchsorted(row, (begin, stop)).tolist()
        part = parts[first:last]
        code = (part[cluster].rank("dense") - 1).cast(pl.Int64).to_numpy()
        ends = part.select(ways).to_numpy()
        surviving, ended = incidence_variances(
            ends, part["n"].to_numpy() - ends.sum(axis=1), row[first:last] - begin, code % CELLS
        )
        allowed.append(curve._replace(surviving_variance=surviving, ended_variance=ended))
        clusters.append(int(code.max()) + 1)
    return clusters, allowed


def count_ends(
    frame: IntoFrame,
    keys: tuple[str, ...],
    ways: tuple[str, ...] = (),
    /,
    *,
    running_until_s: float | None,
) -> pl.DataFrame:
    """Return [*keys, time_s, n, <way>...]: rows by runtime, and how many of them ended each way."""
    until_s = running_until_s
    measures = ("runtime_s",) if until_s is None else ("runtime_s", "start_s")
    lazy = open_outcomes(frame, keys, measures)
    status, time = nw.col("status"), nw.col("runtime_s")
    if until_s is not None:
        if not is_number(until_s) or abs(until_s) > LARGEST:
            raise DataError(f"running_until_s must be a finite time in s; it is {until_s!r}")
        still = (status == "running") & time.is_null()
        latest = collect(lazy.filter(still).select(nw.col("start_s").max())).item()
        if latest is not None and latest > until_s:
            raise DataError(
                f"running_until_s is {until_s:g}, and a row of status running starts at {latest:g}"
            )
        time = nw.when(still).then(until_s - nw.col("start_s")).otherwise(time)
    return reduce_frame(
        lazy.with_columns(time.alias("time_s")),
        (*keys, "time_s"),
        n=nw.len(),
        **{way: nw.when(status == way).then(status).count() for way in ways},
    )


def _slices(times: pl.DataFrame, keys: tuple[str, ...]) -> list[tuple[int, int]]:
    """Return where each group begins and stops."""
    if times.is_empty():
        return []
    change = np.zeros(times.height - 1, dtype=bool)
    for key in keys:
        column = times[key]
        change |= column.slice(1).ne_missing(column.head(-1)).to_numpy()
    edges = [0, *(np.flatnonzero(change) + 1).tolist(), times.height]
    return list(pairwise(edges))
