"""How much has ended by each runtime, and in which way."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.frames import Names, as_names, refuse_clash
from traceana.analysis.outcomes.clusters import ONE_CLUSTER
from traceana.analysis.outcomes.ends import (
    CELLS,
    ENDS,
    EndCurves,
    check_events,
    count_ends,
    estimate_ends,
)
from traceana.errors import DataError
from traceana.stats.arguments import check_confidence, is_number
from traceana.stats.incidence import log_log_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import ArrayLike


def cumulative_incidence(
    frame: IntoFrame,
    /,
    *,
    by: Names = (),
    events: Names = ENDS,
    cluster: str | None = None,
    running_until_s: float | None = None,
    confidence: float = 0.95,
) -> EndCurves:
    """Share that has ended in each way by each runtime: the estimator of Aalen and Johansen.

    Ways to end compete: what failed cannot complete any more. A row whose status is one of
    `events` ended that way after runtime_s; any other row with a runtime was last seen running
    then (censored), and counts as at risk until then. Right where what cut a runtime off has
    nothing to do with how long was left. Rows without a runtime are left out, and counted.

    Parameters
    ----------
    frame
        One row a job or task: [*by, status, runtime_s], `cluster`, and start_s where
        `running_until_s` is given; eager or lazy, of any listed engine.
    by
        Columns to group by; null in them is a group of its own.
    events
        Statuses that are an end.
    cluster
        Column that says which rows belong together, such as user. With it, clusters are taken as
        independent; without, rows are.
    running_until_s
        Time, on the clock of start_s, until which the rows of status running without a runtime
        are known to have run, such as the end of the trace. Without it they are left out.
    confidence
        Coverage of the pointwise intervals, in (0, 1).

    Returns
    -------
    EndCurves
        ``.curves`` [*by, event, time_s, n_at_risk, n_events, incidence, ci_low, ci_high], one row
        each time at which a row ended that way; incidence is 0 before the first, and known up to
        last_s. ``.groups`` [*by, event, n, n_events, n_censored, n_left_out, incidence, ci_low,
        ci_high, last_s, note], at the last time: null where no row of the group ended that way,
        and note says so. Intervals are by the delta method, symmetric for log(-log incidence),
        rows taken as independent; null where incidence is 0 or 1.

        With `cluster`, ``.groups`` also has n_clusters, and intervals are of t(n_clusters - 1)
        and the jackknife over clusters (:func:`traceana.stats.incidence_variances`), of which
        more than 100 are first put together into 100 cells. Null for a single cluster, and note
        says so.

    Raises
    ------
    DataError
        If a column is missing, a cluster is null, a runtime is negative or infinite, an event or
        a status found is not of the closed set, `running_until_s` is before a start, or
        `confidence` is not in (0, 1).

    Examples
    --------
    >>> curves = cumulative_incidence(jobs, by="gpu_type", running_until_s=trace_end_s)
    """
    check_confidence(confidence)
    keys, ways = as_names(by), check_events(events)
    refuse_clash(
        keys,
        ("event", "n_clusters", "n_at_risk", "n_events", "incidence", "ci_low", "ci_high", "note"),
    )
    times, totals = estimate_ends(
        *(frame, keys, ways), cluster=cluster, running_until_s=running_until_s
    )
    df, counted = _degrees_of_freedom(times, cluster), () if cluster is None else ("n_clusters",)
    curves, groups = [], []
    for way in ways:
        low, high = log_log_interval(
            *(times[f"{way} incidence"], times[f"{way} variance"]), df=df, confidence=confidence
        )
        curve = times.select(
            *keys,
            event=pl.lit(way),
            time_s="time_s",
            n_at_risk="n_at_risk",
            n_events=pl.col(way),
            incidence=pl.col(f"{way} incidence"),
            ci_low=pl.Series(low).fill_nan(None),
            ci_high=pl.Series(high).fill_nan(None),
        ).filter(pl.col("n_events") > 0)
        curves.append(curve)
        at_last = totals.select(
            *keys,
            event=pl.lit(way),
            n="n",
            n_events=pl.col(way),
            n_censored="n_censored",
            n_left_out="n_left_out",
            **{name: pl.col(name) for name in counted},
        )
        ends = _last(curve.drop("event", "time_s", "n_at_risk", "n_events"), keys)
        none = pl.when(pl.col("n_events") == 0).then(pl.lit(f"no row with a runtime is {way}"))
        table = _beside(at_last, ends, keys).with_columns(last_s=totals["last_s"], note=none)
        groups.append(_tell_clusters(table, counted))
    order = [*keys, "event"]
    return EndCurves(
        curves=pl.concat(curves).sort([*order, "time_s"], nulls_last=True),
        groups=pl.concat(groups).sort(order, nulls_last=True),
    )


def kaplan_meier(
    frame: IntoFrame,
    /,
    *,
    by: Names = (),
    events: Names = ENDS,
    cluster: str | None = None,
    running_until_s: float | None = None,
    confidence: float = 0.95,
) -> EndCurves:
    """Share that is still running after each runtime: the estimator of Kaplan and Meier.

    Rows, ends and what is left out are as in :func:`cumulative_incidence`, all ends taken alike.
    For one way to end among several, use that function: here the others would count as
    censored, as if what failed could still complete.

    Parameters
    ----------
    frame, by, events, cluster, running_until_s, confidence
        As in :func:`cumulative_incidence`.

    Returns
    -------
    EndCurves
        ``.curves`` [*by, time_s, n_at_risk, n_events, survival, ci_low, ci_high], one row each
        time at which a row ended. ``.groups`` [*by, n, n_events, n_censored, n_left_out, median_s,
        ci_low, ci_high, last_s, note]. The median is the first runtime with survival at most
        1/2, and its interval the runtimes whose survival's interval holds 1/2 (Brookmeyer and
        Crowley, Biometrics 38, 1982); null where it lies beyond last_s, and note says so.
        Intervals of survival take Greenwood's variance, symmetric for log(-log survival), rows
        taken as independent; null where survival is 0.

    Raises
    ------
    DataError
        As :func:`cumulative_incidence`.
    """
    check_confidence(confidence)
    keys, ways = as_names(by), check_events(events)
    refuse_clash(
        keys, ("n_clusters", "n_at_risk", "survival", "median_s", "ci_low", "ci_high", "note")
    )
    times, totals = estimate_ends(
        *(frame, keys, ways), cluster=cluster, running_until_s=running_until_s
    )
    df, counted = _degrees_of_freedom(times, cluster), () if cluster is None else ("n_clusters",)
    low, high = log_log_interval(
        *(times["survival"], times["survival_variance"]), df=df, confidence=confidence
    )
    curves = times.select(
        *keys,
        time_s="time_s",
        n_at_risk="n_at_risk",
        n_events=pl.sum_horizontal(ways),
        survival="survival",
        ci_low=pl.Series(low).fill_nan(None),
        ci_high=pl.Series(high).fill_nan(None),
    ).filter(pl.col("n_events") > 0)
    # a step that ends at 1/2 exactly may lie a rounding above it; a survival of 0 has no interval
    half = 0.5 + 1e-12
    medians = {
        name: pl.col("time_s").filter(pl.col(column).fill_null(0) <= half).min()
        for name, column in (("median_s", "survival"), ("ci_low", "ci_low"), ("ci_high", "ci_high"))
    }
    found = curves.group_by(keys).agg(**medians) if keys else curves.select(**medians)
    counts = totals.select(
        *(*keys, "n", "n_censored", "n_left_out", "last_s", *counted),
        n_events=pl.sum_horizontal(ways),
    )
    unknown = (
        pl.when(pl.col("n_events") == 0)
        .then(pl.lit(f"no row with a runtime is {', '.join(ways)}"))
        .when(pl.col("median_s").is_null())
        .then(pl.lit("more than half last longer than what was seen"))
    )
    columns = ("n", "n_events", "n_censored", "n_left_out", "median_s", "ci_low", "ci_high")
    groups = _beside(counts, found, keys).select(*keys, *columns, "last_s", *counted, note=unknown)
    return EndCurves(curves=curves, groups=_tell_clusters(groups, counted))


def _degrees_of_freedom(times: pl.DataFrame, cluster: str | None) -> ArrayLike:
    if cluster is None:
        return float("inf")
    return (times["n_clusters"].clip(upper_bound=CELLS) - 1).to_numpy()


def _tell_clusters(groups: pl.DataFrame, counted: tuple[str, ...]) -> pl.DataFrame:
    """Put the number of clusters last, and say where there is one only."""
    if not counted:
        return groups
    alone = pl.col("n_clusters") == 1
    return groups.select(pl.exclude("n_clusters"), "n_clusters").with_columns(
        # that of a median goes by where survival comes down to 0 too
        pl.when(~alone).then(pl.col("ci_low", "ci_high")).name.keep(),
        note=pl.coalesce("note", pl.when(alone).then(pl.lit(ONE_CLUSTER))),
    )


def rows_at_risk(
    frame: IntoFrame,
    /,
    times_s: Sequence[float],
    *,
    by: Names = (),
    running_until_s: float | None = None,
) -> pl.DataFrame:
    """Count the rows that are known to run as long as each time: those at risk of ending then.

    Parameters
    ----------
    frame, by, running_until_s
        As in :func:`cumulative_incidence`.
    times_s
        Runtimes in s.

    Returns
    -------
    DataFrame
        [*by, time_s, n_at_risk], sorted, nulls last: the rows whose runtime is time_s or longer,
        whether they end then or are last seen running.

    Raises
    ------
    DataError
        As :func:`cumulative_incidence`, or if a time is negative or not finite.
    """
    keys = as_names(by)
    refuse_clash(keys, ("time_s", "n_at_risk", "n"))
    if not all(is_number(time) and 0 <= time < math.inf for time in times_s):
        raise DataError(f"times_s must be numbers of seconds from 0 on; found {list(times_s)!r}")
    counts = count_ends(frame, keys, running_until_s=running_until_s)
    groups = counts.select(keys).unique() if keys else pl.DataFrame({"all": [True]})
    times = pl.DataFrame({"asked_s": sorted(set(times_s))}, schema={"asked_s": pl.Float64})
    parts = []
    for time in times["asked_s"]:
        later = counts.filter(pl.col("time_s") >= time)
        total = pl.col("n").sum().alias("n_at_risk")
        found = later.group_by(keys).agg(total) if keys else later.select(total)
        parts.append(_beside(groups, found, keys).with_columns(time_s=pl.lit(time, pl.Float64)))
    schema = {key: counts.schema[key] for key in keys}
    schema |= {"time_s": pl.Float64(), "n_at_risk": pl.Int64()}
    table = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    return (
        table.select(*schema)
        .with_columns(pl.col("n_at_risk").fill_null(0))
        .sort([*keys, "time_s"], nulls_last=True)
    )


def _last(curve: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    return curve.group_by(keys, maintain_order=True).last() if keys else curve.tail(1)


def _beside(groups: pl.DataFrame, found: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Put what was found of each group beside it; null where nothing was."""
    if keys:
        return groups.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")
    if found.is_empty():
        found = found.clear(1)
    return groups.hstack(found)
