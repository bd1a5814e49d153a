"""Hazard of failure and of other ends while a job runs, and jobs that end at their time limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import notes_unit
from traceana.cohorts.overlap import HELD, Window, open_overlap
from traceana.errors import DataError
from traceana.questions.failures.events import EVENTS, check_events
from traceana.questions.failures.rates import refuse_missing
from traceana.questions.failures.tables import Goodput, HazardByRuntime, TimeLimitEnds
from traceana.stats.arguments import as_list, check_confidence, is_number
from traceana.stats.intervals import rate_interval
from traceana.store.frames import Names, as_keys, as_names, collect, open_frame, reduce_frame
from traceana.tables.declare import declared, returns, schema_of

EDGES_S: Final = (0.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 172_800.0, 604_800.0)
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
    edges = _check_edges(edges_s)
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


def _check_edges(edges_s: Sequence[float]) -> list[float]:
    edges = [float(edge) if is_number(edge) else np.nan for edge in as_list("edges_s", edges_s)]
    if not edges or edges[0] != 0 or not all(np.diff(edges) > 0):
        raise DataError(f"edges_s must ascend from 0; they are {edges_s!r}")
    return edges


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
    jobs
        One row per job: `by`, `runtime`, `time_limit` and `gpus`; eager or lazy, of any supported
        engine.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
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
    jobs
        One row per run: `by`, `same`, `status`, `start`, `end`, `runtime` and `gpus`; eager or
        lazy, of any supported engine.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    same
        Columns that runs of the same job share, such as user and job_name. A run without one of
        them is not repeated. ``same=()``: none is.
    success, failure
        Status values of successful and unsuccessful runs.
    status, start, end, runtime, gpus
        Columns of the status, the start and the end (seconds or datetimes), the runtime (seconds or
        a duration) and the GPUs.
    window
        First and last second of the observation window on the clock of the trace; None: from the
        first to the last time in the frame.

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
