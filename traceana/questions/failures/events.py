"""Events counted by runtime and the estimates from these counts, hazards, time limits, goodput."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import notes_unit
from traceana.cohorts.ends import open_statuses
from traceana.cohorts.overlap import HELD, Window, open_overlap
from traceana.errors import DataError
from traceana.questions.failures.rates import refuse_missing
from traceana.questions.failures.tables import Goodput, HazardByRuntime, TimeLimitEnds
from traceana.questions.failures.tables_competing_risks import RowsAtRisk
from traceana.stats.arguments import as_list, check_confidence, is_number
from traceana.stats.intervals import FEWEST_CLUSTERS, rate_interval
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

EVENTS: Final = ("completed", "failed", "cancelled")  # default events

MIN_AT_RISK: Final = 10
"""Rows at risk at the horizon below which a restricted mean of censored rows has no value."""

HORIZONS_S: Final = (60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 172_800.0, 604_800.0)
"""Horizons of the restricted mean: 1 and 10 minutes, 1 and 6 hours, 1, 2 and 7 days."""

CELLS: Final = 100  # more clusters are combined into this number of cells, each left out in turn


class Columns(NamedTuple):
    """Names of the columns of a cohort; None where there is none."""

    status: str | None
    runtime: str
    entry: str | None = None
    observed: str | None = None


class Estimates(NamedTuple):
    """Estimates of each group and time, the counts of each group, and what they are of."""

    times: pl.DataFrame
    groups: pl.DataFrame
    keys: tuple[str, ...]
    events: tuple[str, ...]
    cluster: str | None
    horizon_s: float


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
    horizon_s: float | None = None,
) -> Estimates:
    """Estimate incidence, survival and their variances; the horizon is of a restricted mean."""
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
    horizon_s = _default_horizon(times, keys) if horizon_s is None else horizon_s
    pairs = zip(_split(times, keys), _split(parts.filter(with_time), keys), strict=True)
    times = pl.concat([_estimate(*pair, events, cluster, horizon_s) for pair in pairs])
    if cluster is not None:
        effective = times.group_by(keys).agg(effective=pl.first("df").fill_nan(-1) + 1)
        groups = beside(groups, effective, keys)
    groups = groups.sort(keys, nulls_last=True)
    return Estimates(times, groups, keys, events, cluster, horizon_s)


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
    of_event = {}
    for place, event in enumerate(events):
        of_event[f"{event} incidence"] = curve.incidence[:, place]
        of_event[f"{event} variance"] = curve.incidence_variance[:, place]
    return times.with_columns(
        n_at_risk=curve.at_risk.astype(int),
        survival=curve.surviving,
        survival_variance=curve.surviving_variance,
        hazard_variance=curve.hazard_variance,
        df=pl.lit(df),
        restricted_variance=pl.lit(restricted),
        **of_event,
    )


def _default_horizon(times: pl.DataFrame, keys: tuple[str, ...]) -> float:
    """Return the largest horizon at which each group has enough rows at risk."""
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
    names = (*keys, *of, *filter(None, [columns.observed]))
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
        ended, dtype = nw.col(columns.observed), lazy.collect_schema()[columns.observed]
        if dtype != nw.Boolean or collect(lazy.select(ended.is_null().any())).item():
            raise DataError(
                f"column {columns.observed} must be True where the end of a row was observed and "
                f"False where not, without missing values; it holds {dtype}"
            )
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


EDGES_S: Final = (0.0, *HORIZONS_S)
"""Default beginnings of the intervals: 0, 1 and 10 min, 1 and 6 h, 1, 2 and 7 d."""


@notes_unit
@returns(HazardByRuntime)
def hazard_by_runtime(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    events: Names = EVENTS,
    edges_s: Sequence[float] = EDGES_S,
    status: str = "status",
    runtime: str = "runtime_s",
    entry: str | None = None,
    observed: str | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Estimate the hazard of each event by interval of runtime.

    The hazard is the number of events over the hours that rows ran in the interval (occurrence over
    exposure, piecewise constant; Holford, Biometrics 36, 1980). A hazard of failure that falls with
    runtime means early failures, such as wrong paths or arguments. Rows without an event count as
    running until their runtime (censored).

    Parameters
    ----------
    frame, by, events, status, runtime, entry, observed, cluster
        As in :func:`cumulative_incidence`.
    edges_s
        Beginnings of the intervals in s, ascending from 0; the last has no end.
    confidence
        Coverage of the intervals, in (0, 1): Garwood's, with `cluster` scaled by the variance
        between clusters.

    Returns
    -------
    DataFrame
        One row per group, event (in the order of `events`) and interval in which a row ran:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [30, 60, 7200], "status": ["failed"] * 2 + ["completed"]})
    >>> found = traceana.hazard_by_runtime(jobs, events="failed", edges_s=[0, 3600])
    >>> found.select("from_s", "n_events", "run_hours").rows()
    [(0.0, 2, 1.025), (3600.0, 0, 1.0)]
    """
    check_confidence(confidence)
    keys, names = as_keys(by, HazardByRuntime.columns()), check_events(events)
    edges = [float(edge) if is_number(edge) else np.nan for edge in as_list("edges_s", edges_s)]
    if not edges or edges[0] != 0 or not all(np.diff(edges) > 0):
        raise DataError(f"edges_s must ascend from 0; they are {edges_s!r}")
    extra = {column for column in (cluster, observed) if column is not None}
    measures = [runtime, *([entry] if entry else [])]
    opened = open_frame(frame, keys=tuple({*keys, status, *extra}), measures=measures)
    rows = collect(opened.filter(~nw.col(runtime).is_null()))
    if cluster is not None:
        refuse_missing(rows[cluster])
    if entry and (rows[entry] > rows[runtime]).any():
        raise DataError(f"a row enters after its end: {entry} is above {runtime}")
    seen = True if observed is None else pl.col(observed).fill_null(value=False)
    rows = rows.select(
        *keys,
        pl.col(runtime).alias(".end"),
        (pl.col(entry).fill_null(0.0) if entry else pl.lit(0.0)).alias(".entry"),
        pl.when(seen).then(pl.col(status).cast(pl.String)).alias(".status"),
        (pl.col(cluster) if cluster else pl.int_range(pl.len())).alias(".unit"),
    )
    parts = rows.partition_by(keys, as_dict=True) if keys else {(): rows}
    hazards = [
        dict(zip(keys, group, strict=True)) | row
        for group, part in parts.items()
        for row in _hazards(part, names, [*edges, np.inf], confidence, clustered=bool(cluster))
    ]
    schema = {**rows.select(keys).schema, **schema_of(HazardByRuntime)}
    table = pl.DataFrame(hazards, schema=schema)
    table = table.sort(*keys, pl.col("event").cast(pl.Enum(names)), "from_s", nulls_last=True)
    return declared(table.fill_nan(None), HazardByRuntime, by=keys)


def _hazards(
    part: pl.DataFrame,
    events: Sequence[str],
    edges: Sequence[float],
    confidence: float,
    *,
    clustered: bool,
) -> Iterator[dict[str, object]]:
    """Yield the hazard of each event and interval in the rows of a group; NaN where none ran."""
    end, entry = part[".end"].to_numpy(), part[".entry"].to_numpy()
    unit = part[".unit"].rank("dense").to_numpy() - 1
    for event in events:
        is_event = (part[".status"] == event).fill_null(value=False).to_numpy()
        total = is_event.sum() / ((end - entry).sum() or np.nan)
        for begin, stop in pairwise(edges):
            ran = np.clip(end, begin, stop) - np.clip(entry, begin, stop)
            # an end at the very beginning of an interval is that of the interval before
            here = is_event & ((end > begin) | (begin == 0)) & (end <= stop)
            at_risk, n, seconds = ((ran > 0) | here).sum(), here.sum(), ran.sum()
            if not at_risk:
                continue
            hours, dispersion = (seconds or np.nan) / 3600, 1.0
            if clustered and n and seconds:
                rest = np.bincount(unit, here) - n / seconds * np.bincount(unit, ran)
                m = len(rest)
                dispersion = max(1.0, m / max(m - 1, 1) * float((rest**2).sum()) / n)
            low, high = rate_interval(n, hours, dispersion=dispersion, confidence=confidence)
            yield {
                "event": event,
                "from_s": begin,
                "to_s": stop if np.isfinite(stop) else None,
                "n_at_risk": int(at_risk),
                "n_events": int(n),
                "run_hours": float(seconds) / 3600,
                "hazard_per_h": float(n / hours),
                "ci_low": float(low),
                "ci_high": float(high),
                "ratio": float(n / hours / 3600 / total) if total > 0 else None,
            }


@returns(TimeLimitEnds)
def time_limit_ends(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    runtime: str = "runtime_s",
    time_limit: str = "time_limit_s",
    gpus: str = "gpus",
    window: Window | None = None,
) -> pl.DataFrame:
    """Count jobs that end at their time limit.

    Parameters
    ----------
    jobs, by
        As `frame` and `by` of :func:`outcome_rates`.
    runtime, time_limit, gpus
        Columns of the runtime and the requested limit (seconds or durations), and of the GPUs;
        GPU-hours are those of jobs with GPUs.
    window
        As in :func:`workload_summary`, for the GPU-hours; None: all of each job.

    Returns
    -------
    DataFrame
        One row per group, sorted by `by`:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({
    ...     "runtime_s": [3600, 3605, 60], "time_limit_s": [7200, 3600, 3600], "gpus": [1, 1, 1],
    ... })
    >>> traceana.time_limit_ends(jobs).select("n", "at_limit", "median").row(0)
    (3, 1, 0.5)
    """
    keys = as_keys(by, TimeLimitEnds.columns())
    measures = {"runtime": runtime, "limit": time_limit, "gpus": gpus}
    limit, ran = nw.col(time_limit), nw.col(runtime)
    if window is None:
        held, rows = ran, open_frame(jobs, keys=keys, measures=measures)
    else:
        held, rows = nw.col(HELD), open_overlap(jobs, keys, measures, window=window)
    with_limit = ~(limit * ran).is_null() & (limit > 0)
    used, hours = nw.col("used"), nw.col("hours")
    rows = rows.with_columns(
        nw.when(with_limit).then(ran / limit).alias("used"),
        nw.when(with_limit).then(held * nw.col(gpus) / 3600).alias("hours"),
    )
    table = reduce_frame(
        rows.with_columns(nw.when(used >= 1).then(hours).alias("of these")),
        keys,
        n=used.count(),
        n_missing=nw.len() - used.count(),
        at_limit=nw.when(used >= 1).then(used).count(),
        hours=nw.col("of these").sum(),
        total=hours.sum(),
        p25=used.quantile(0.25, interpolation="linear"),
        median=used.quantile(0.5, interpolation="linear"),
        p75=used.quantile(0.75, interpolation="linear"),
    )
    table = table.with_columns(
        fraction_at_limit=pl.when(pl.col("n") > 0).then(pl.col("at_limit") / pl.col("n")),
        hours=pl.when(pl.col("n") > 0).then(pl.col("hours").fill_null(0.0)),
        fraction_hours=pl.when(pl.col("total") > 0).then(pl.col("hours") / pl.col("total")),
    )
    return declared(table, TimeLimitEnds, by=keys)


@returns(Goodput)
def goodput(
    jobs: IntoFrame,
    /,
    by: Names = (),
    *,
    same: Names = ("user", "job_name"),
    success: Names = "completed",
    failure: Names = ("failed", "cancelled"),
    status: str = "status",
    start: str = "start_s",
    end: str = "end_s",
    runtime: str = "runtime_s",
    gpus: str = "gpus",
    window: Window | None = None,
) -> pl.DataFrame:
    """Divide GPU-hours into useful, repeated, lost and unfinished ones.

    - useful: of successful runs
    - repeated: of unsuccessful runs after whose end the same job started again
    - lost: of other unsuccessful runs
    - unfinished: of runs with another status, such as running

    The whole of an unsuccessful run counts, although a checkpoint may have kept a part of its work:
    repeated and lost GPU-hours are an upper bound. Hours are those within the window, as for
    :func:`workload_summary`.

    Parameters
    ----------
    jobs, by
        As `frame` and `by` of :func:`outcome_rates`, with one row per run.
    same
        Columns that runs of the same job share, such as user and job_name. A run without one of
        them is not repeated. ``same=()``: none is.
    success, failure
        Status values of successful and unsuccessful runs.
    status, start, end, runtime, gpus
        Columns of the status, the start and the end (seconds or datetimes), the runtime (seconds or
        a duration) and the GPUs.
    window
        As in :func:`workload_summary`; None: from the first to the last time in the frame.

    Returns
    -------
    DataFrame
        One row per group and kind, sorted by `by`, with every kind:
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({
    ...     "user": "u", "job_name": ["a", "a", "b"], "status": ["failed", "completed", "failed"],
    ...     "start_s": [0, 3600, 0], "runtime_s": [3600, 7200, 1800], "gpus": [8, 8, 2],
    ... }).with_columns(end_s=pl.col("start_s") + pl.col("runtime_s"))
    >>> traceana.goodput(jobs).select("kind", "gpu_hours").rows()
    [('useful', 16.0), ('repeated', 8.0), ('lost', 1.0), ('unfinished', 0.0)]
    """
    keys, names = as_keys(by, Goodput.columns()), as_names(same)
    columns = tuple(dict.fromkeys((*keys, *names, status)))
    measures = {"start": start, "end": end, "runtime": runtime, "gpus": gpus}
    rows = collect(open_overlap(jobs, columns, measures, window=window))
    failed = pl.col(status).is_in(as_names(failure))
    again = pl.lit(value=False)
    if names:
        rows = rows.sort(start, nulls_last=True, maintain_order=True)
        latest = pl.col(start).max().over(names)
        whole = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
        again = whole & (latest >= pl.col(end)) & (latest > pl.col(start))
    kind = (
        pl.when(pl.col(status).is_in(as_names(success)))
        .then(pl.lit("useful"))
        .when(failed & again.fill_null(value=False))
        .then(pl.lit("repeated"))
        .when(failed)
        .then(pl.lit("lost"))
        .otherwise(pl.lit("unfinished"))
    )
    hours = pl.col(HELD) * pl.col(gpus) / 3600
    table = reduce_frame(
        rows.select(*keys, kind.alias("kind"), hours.alias("hours")),
        (*keys, "kind"),
        n=pl.col("hours").count(),
        n_missing=pl.col("hours").null_count(),
        gpu_hours=pl.col("hours").sum(),
    )
    kinds = pl.DataFrame({"kind": ["useful", "repeated", "lost", "unfinished"]})
    groups = table.select(keys).unique(maintain_order=True)
    every = groups.join(kinds, how="cross", maintain_order="left_right") if keys else kinds
    table = every.join(
        table, on=[*keys, "kind"], nulls_equal=True, how="left", maintain_order="left"
    )
    total = pl.col("gpu_hours").sum().over(keys or pl.lit(0))
    table = table.with_columns(pl.col("n", "n_missing", "gpu_hours").fill_null(0))
    fraction = pl.when(total > 0).then(pl.col("gpu_hours") / total)
    return declared(table.with_columns(fraction_of_all=fraction), Goodput, by=keys)
