"""Capacity of the cluster by period, nodes long without a job, and the trends of a stored trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import pdtrc

from traceana.cohorts.ends import END_CLASS, with_end_class
from traceana.cohorts.observation import (
    Capacity,
    capacity_of,
    node_column,
    nodes_seen,
    window_of,
)
from traceana.cohorts.overlap import BEGIN, HELD, UNTIL, Window, merge_times, open_overlap
from traceana.errors import DataError
from traceana.questions.trends.by_period import (
    ALPHA,
    Periods,
    divide_window,
    idle_gaps,
    local_time,
    open_jobs,
    span,
    trends,
    used_by,
)
from traceana.questions.trends.changes import changes_and_drift
from traceana.questions.trends.gaps import SHORTEST_S, failure_bursts, missing_records
from traceana.questions.trends.tables import ClusterUtilization, FailureBursts, IdleNodes
from traceana.stats.arguments import is_number
from traceana.stats.arrays import Booleans, Floats
from traceana.stats.segments import long_gaps
from traceana.stats.time_blocks import DAY_S, LONGEST_S
from traceana.store import Trace
from traceana.store.frames import admit_columns, collect, column_names, open_frame
from traceana.tables.declare import declared, returns, schema_of

_NODE: Final = "machine_id"
_HOUR_S: Final = 3600.0
_WEEK_H: Final = 168
_SHORTEST_S: Final = 6 * _HOUR_S
_FEW_GAPS: Final = 40
"""Gaps of a node up to which their tail is not that of long gaps."""
_EXCEPTION: Final = 0.05
"""p below which a gap of a node is an exception for this node."""
_ALPHA: Final = 0.01
_LONGER: Final = 3.0
"""Ratio of a gap to the next longest of its node from which it is compared with those of others."""
_ALIKE: Final = 0.6
"""Of the time of two gaps, what they have in common at least."""
_AS_BUSY: Final = 0.7
_SATURATED: Final = 0.9
"""Of the usual number of running jobs, that on the other nodes, or of these the busy ones."""
_IN_OUTAGE: Final = 0.5


def idle_nodes(trace: Trace, lost: pl.DataFrame, timezone: str | None, /) -> pl.DataFrame:
    """Find nodes that ran no job, meanwhile others did: drained or down; columns of IdleNodes.

    Gaps between the jobs of a node are measured in hours, each weighted by the fraction of nodes
    that are busy in that hour of the week. A gap of six hours or more is an exception if it stands
    out from the tail of the others of its node (:func:`~traceana.stats.segments.long_gaps`; p below
    0.05); a node of few gaps has also the times between its starts. One of three times the next
    longest of its node is also compared with those of all nodes of its GPU type, in hours of busy
    nodes. Gaps with three fifths of their
    time in common are one event. p is the probability of so many exceptions at a time by chance
    (Poisson), or of one node, by Bonferroni over nodes; it is below 0.01. All nodes that ran no job
    meanwhile are counted. The other nodes of their GPU types run meanwhile 0.7 of what all of these
    usually run, or are busy for 0.9 of the time, so that a holiday or a night without jobs of a
    type is none, and the gap is not that of an outage of all. Nodes without a job on the first day
    are not stated.
    """
    none = declared(pl.DataFrame(schema=schema_of(IdleNodes)), IdleNodes)
    name = node_column(trace.manifest.tables["jobs"].columns)
    window = trace.once(window_of)
    if name is None or window is None or not 7 * DAY_S <= window[1] - window[0] <= LONGEST_S:
        return none
    rows = _on_nodes(trace, name, window)
    if rows[_NODE].n_unique() < 2:
        return none
    busy = merge_times(rows, [_NODE], BEGIN, UNTIL)
    every = {key[0]: part for key, part in busy.partition_by(_NODE, as_dict=True).items()}
    starts = dict(rows.group_by(_NODE).agg(pl.col(BEGIN).sort()).iter_rows())
    kinds = dict(trace.once(nodes_seen).select(_NODE, "gpu_type").iter_rows())
    whole = _beside_type(_gaps(every, starts, window), every, kinds, window)
    gaps = whole.filter(pl.col("pvalue") < _EXCEPTION)
    for start, end in lost.select("start_s", "end_s").iter_rows():
        shared = pl.min_horizontal("end", pl.lit(end)) - pl.max_horizontal("start", pl.lit(start))
        gaps = gaps.filter(shared < _IN_OUTAGE * (pl.col("end") - pl.col("start")))
    idle, n_gaps = [], gaps.height
    used = rows.group_by(pl.col(_NODE).cast(pl.String)).agg(pl.col("gpu_s").sum(), jobs=pl.len())
    while gaps.height:
        event = _largest(gaps)
        gaps = gaps.join(event, on=[_NODE, "start"], how="anti")
        start, end = float(event["start"].to_numpy().max()), float(event["end"].to_numpy().min())
        chance = n_gaps * 2 * (end - start) / (window[1] - window[0])
        several = n_gaps * float(pdtrc(event.height - 2, chance)) if event.height > 1 else 1.0
        p = min(1.0, several, len(every) * float(event["pvalue"].to_numpy().min()))
        if event.height > 1:  # all that ran none meanwhile
            event = whole.filter(pl.col("start") <= start, pl.col("end") >= end)
            gaps = gaps.join(event, on=[_NODE, "start"], how="anti")
        types = {kinds.get(node) for node in event[_NODE]}
        alike = [node for node in every if kinds.get(node) in types]
        others = [node for node in alike if node not in set(event[_NODE])]
        of_type, beside = (rows.filter(pl.col(_NODE).is_in(some)) for some in (alike, others))
        merged = busy.filter(pl.col(_NODE).is_in(others))
        takes_over = _take_over(of_type, beside, merged, within=(start, end), window=window)
        is_begin = start <= window[0] and end - start < DAY_S
        if p >= _ALPHA or is_begin or not takes_over:
            continue
        of_event = used.join(event.select(_NODE), on=_NODE)
        part = (end - start) / max(window[1] - window[0] - (end - start), 1.0)
        row = {"begin": local_time(start, timezone), "start_s": start, "end_s": end, "pvalue": p}
        row |= {"duration_s": end - start, "n": event.height, "n_nodes": len(every)}
        row |= {"is_first": start <= window[0], "lasts": end >= window[1]}
        row |= {"nodes": ", ".join(sorted(map(str, event[_NODE])))}
        row |= {"jobs_lost": part * float(of_event["jobs"].to_numpy().sum())}
        hours = part * float(of_event["gpu_s"].to_numpy().sum()) / _HOUR_S
        idle.append(row | {"gpu_hours_lost": hours or None})
    return declared(pl.DataFrame(idle, schema=schema_of(IdleNodes)).sort("start_s"), IdleNodes)


def _on_nodes(trace: Trace, name: str, window: Window) -> pl.DataFrame:
    """Return [node, BEGIN, UNTIL, gpu_s], one row per job and node; GPUs in equal parts."""
    sized = {"gpus": "gpus"} if "gpus" in trace.manifest.tables["jobs"].columns else {}
    frame = open_overlap(
        trace.frame("jobs"), (name,), sized or {"runtime": "runtime_s"}, window=window
    )
    frame = frame.filter(~nw.col(BEGIN).is_null(), ~nw.col(name).is_null(), nw.col(HELD) > 0)
    rows = collect(frame.select(name, BEGIN, UNTIL, HELD, *sized))
    hosts = pl.col(name).cast(pl.String).str.split(",")
    gpus = pl.col("gpus").fill_null(0) if sized else pl.lit(0.0)
    rows = rows.select(
        BEGIN, UNTIL, gpu_s=gpus * pl.col(HELD) / hosts.list.len(), **{_NODE: hosts}
    ).explode(_NODE)
    # numbers are sorted and grouped far faster than text
    return rows.with_columns(pl.col(_NODE).cast(pl.Enum(rows[_NODE].unique().drop_nulls().sort())))


def _gaps(
    every: dict[Any, pl.DataFrame], starts: dict[Any, list[float]], window: Window
) -> pl.DataFrame:
    """Return the gaps of 6 h or more: [node, start, end, pvalue]."""
    first, last = window
    busy = _busy_nodes(every.values(), window)
    hours = len(busy)
    slot = np.arange(hours) % _WEEK_H
    usual = np.bincount(slot, busy, _WEEK_H) / np.maximum(np.bincount(slot, minlength=_WEEK_H), 1)
    clock = np.concatenate([[0.0], np.cumsum(usual[slot] / max(usual.max(), 1e-9))])
    grid = first + _HOUR_S * np.arange(hours + 1)
    rows = []
    for node, part in every.items():
        start = np.append(first, part[UNTIL].to_numpy())
        end = np.append(part[BEGIN].to_numpy(), last)
        weighted = np.interp(end, grid, clock) - np.interp(start, grid, clock)
        weighted = np.maximum(weighted, 0)
        between = weighted[:0]
        if len(weighted) <= _FEW_GAPS:  # rarely idle: a gap is part of a time between starts
            begin = np.array(starts[node])
            after_gap = np.isin(begin[1:], end[end - start >= _SHORTEST_S])
            between = np.diff(np.interp(begin, grid, clock))[~after_gap]
        pvalues = dict(long_gaps(np.concatenate([weighted, between])))
        rows += [
            (node, float(start[place]), float(end[place]), pvalues.get(place, 1.0))
            for place in map(int, np.flatnonzero(end - start >= _SHORTEST_S))
        ]
    schema = {_NODE: pl.String, **dict.fromkeys(("start", "end", "pvalue"), pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _busy_nodes(busy: Iterable[pl.DataFrame], window: Window) -> Floats:
    """Return the number of nodes that are busy in each hour."""
    hours = int((window[1] - window[0]) // _HOUR_S) + 1
    counts = np.zeros(hours + 1)
    for part in busy:
        ends = (part.select(BEGIN, UNTIL).to_numpy() - window[0]) // _HOUR_S
        np.add.at(counts, ends[:, 0].astype(int), 1)
        np.add.at(counts, np.minimum(ends[:, 1].astype(int) + 1, hours), -1)
    nodes: Floats = np.cumsum(counts)[:-1]
    return nodes


def _beside_type(
    gaps: pl.DataFrame, every: dict[Any, pl.DataFrame], kinds: dict[Any, Any], window: Window
) -> pl.DataFrame:
    """Return the gaps with a smaller p, of one node, where one stands out from all of its type."""
    pvalues: dict[tuple[Any, float], float] = {}
    for kind in dict.fromkeys(kinds.values()):
        parts = {node: part for node, part in every.items() if kinds.get(node) == kind}
        clock = np.append(0.0, np.cumsum(_busy_nodes(parts.values(), window)))
        grid = window[0] + _HOUR_S * np.arange(len(clock))
        rows: list[tuple[Any, float, float, float]] = []
        for node, part in parts.items():
            start = np.append(window[0], part[UNTIL].to_numpy())
            end = np.append(part[BEGIN].to_numpy(), window[1])
            busy = np.maximum(np.interp(end, grid, clock) - np.interp(start, grid, clock), 0)
            next_longest = np.sort(busy)[:-1].max(initial=0)
            rows += [(node, at, hours, next_longest) for at, hours in zip(start, busy, strict=True)]
        for place, p in long_gaps([hours for *_, hours, _ in rows]):
            node, at, hours, next_longest = rows[place]
            if hours >= _LONGER * next_longest:
                pvalues[node, float(at)] = p / len(every)  # of all nodes together
    keys = zip(gaps[_NODE], gaps["start"], gaps["pvalue"], strict=True)
    least = [min(p, pvalues.get((node, start), 1.0)) for node, start, p in keys]
    return gaps.with_columns(pvalue=pl.Series(least, dtype=pl.Float64))


def _largest(gaps: pl.DataFrame) -> pl.DataFrame:
    """Return the most gaps that have most of their time in common with one of them."""
    start, end = (gaps[name].to_numpy() for name in ("start", "end"))
    shared = np.minimum(end[:, None], end) - np.maximum(start[:, None], start)
    both = np.maximum(end[:, None], end) - np.minimum(start[:, None], start)
    alike: Booleans = shared >= _ALIKE * both
    return gaps.filter(pl.Series(alike[int(alike.sum(axis=1).argmax())])).unique(
        _NODE, keep="first", maintain_order=True
    )


def _take_over(
    jobs: pl.DataFrame, others: pl.DataFrame, busy: pl.DataFrame, *, within: Window, window: Window
) -> bool:
    """Return whether other nodes run within some time nearly what all usually do, or are all busy.

    Idle nodes beside ones that do not take their jobs over lack jobs.
    """

    def held(rows: pl.DataFrame, first: float, last: float) -> float:
        both = pl.col(UNTIL).clip(first, last) - pl.col(BEGIN).clip(first, last)
        return float(rows.select(both.sum()).item()) / (last - first)

    if held(others, *within) >= _AS_BUSY * held(jobs, *window):
        return others.height > 0
    n = others[_NODE].n_unique()
    return n > 0 and held(busy, *within) >= _SATURATED * n


@returns(ClusterUtilization)
def cluster_utilization(
    jobs: IntoFrame,
    /,
    *,
    gpus: float | None = None,
    machines: IntoFrame | None = None,
    faults: IntoFrame | None = None,
    period: str | None = None,
    timezone: str | None = None,
    window: Window | None = None,
) -> pl.DataFrame:
    """Compute allocated, down and idle GPUs by period.

    The table is that of ``sreport cluster utilization``.

    Allocated are the requested GPUs of running jobs, by overlap with the period, as for
    :func:`trends`. Down are the GPUs of machines with a fault that has an end, from its start to
    its end; overlapping faults of a machine count once. Idle is the rest.

    Parameters
    ----------
    jobs
        One row per job, as for :func:`trends`, with gpus.
    gpus
        GPUs of the cluster; None: those of `machines`.
    machines
        One row per machine: machine_id, gpus and, for rows by type, gpu_type; a machine without a
        type counts in all.
    faults
        One row per fault: machine_id, start_s, end_s; needs `machines`.
    period, timezone, window
        As for :func:`trends`.

    Returns
    -------
    DataFrame
        The whole window, then one row per period; of all GPUs, then of each type:
        {columns}

    Raises
    ------
    DataError
        If neither `gpus` nor `machines` are given.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"start_s": [0, 43200], "end_s": [43200, 86400], "gpus": [4, 2]})
    >>> traceana.cluster_utilization(jobs, gpus=8).select("period", "allocated").rows()[0]
    ('all', 0.375)
    """
    listed = None if machines is None else _machines(machines)
    total = gpus if gpus is not None or listed is None else float(listed["gpus"].sum())
    if not (is_number(total) and total):
        raise DataError("the GPUs of the cluster are unknown: pass gpus above 0, or machines")
    frame = open_jobs(jobs, window)
    window = window or span(frame)
    periods = divide_window(window, period=period, timezone=timezone)
    down = None if faults is None or listed is None else _down(faults, listed, window)
    # several reductions: read once
    rows = collect(frame.select(BEGIN, UNTIL, HELD, "gpus", "gpu_type"))
    tables = []
    for name, of_type in {"all": float(total or 0), **_types(listed)}.items():
        is_one = pl.lit(name == "all") | (pl.col("gpu_type").cast(pl.String) == name)
        used, lost = (
            None if of is None else _used(of.filter(is_one), periods) for of in (rows, down)
        )
        edges = {"start_s": periods.edges_s[:-1], "end_s": periods.edges_s[1:]}
        columns = {"period": periods.labels, **edges, "used": used}
        is_lost = pl.lit(None, pl.Float64) if lost is None else lost.fill_null(0)
        by_period = pl.DataFrame(columns).with_columns(lost=is_lost)
        whole = by_period.select(
            pl.lit("all").alias("period"),
            pl.col("start_s").min(),
            pl.col("end_s").max(),
            pl.col("used").sum(),
            pl.when(down is not None).then(pl.col("lost").sum()),
        )
        hours = of_type * (pl.col("end_s") - pl.col("start_s")) / 3600
        allocated, is_down = (
            pl.when(hours > 0).then(hours_of / hours)
            for hours_of in (pl.col("used").fill_null(0), pl.col("lost"))
        )
        table = pl.concat([whole, by_period]).with_columns(
            gpu_type=pl.lit(name),
            gpus=pl.lit(of_type),
            gpu_hours=hours,
            allocated=allocated,
            down=is_down,
            idle=(1 - allocated - is_down.fill_null(0)).clip(0),
        )
        tables.append(table)
    return declared(pl.concat(tables), ClusterUtilization)


def _types(machines: pl.DataFrame | None) -> dict[str, float]:
    """Return the GPUs of each type, the most first, if there are several."""
    if machines is None:
        return {}
    types = machines.drop_nulls("gpu_type").group_by("gpu_type").agg(pl.col("gpus").sum())
    types = types.filter(pl.col("gpus") > 0).sort("gpus", "gpu_type", descending=[True, False])
    return dict(types.iter_rows()) if types.height > 1 else {}


def _used(rows: pl.DataFrame, periods: Periods) -> pl.Series:
    return used_by(nw.from_native(rows.lazy()), periods, {"used": "gpus"})["used"]


def _machines(machines: IntoFrame) -> pl.DataFrame:
    keys = ("machine_id", *({"gpu_type"} & {*column_names(machines)}))
    opened = collect(open_frame(machines, keys=keys, measures=("gpus",)))
    kind = pl.col("gpu_type") if "gpu_type" in keys else pl.lit(None)
    texts = (pl.col("machine_id").cast(pl.String), kind.cast(pl.String).alias("gpu_type"))
    return opened.select("gpus", *texts).drop_nulls("gpus")


def _down(faults: IntoFrame, machines: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Return the times in which machines were down, each once, with their GPUs."""
    rows = collect(admit_columns(faults, ("machine_id", "start_s", "end_s"))).drop_nulls()
    rows = rows.with_columns(
        pl.col("machine_id").cast(pl.String),
        pl.col("start_s", "end_s").cast(pl.Float64).clip(*window),
    )
    merged = merge_times(rows.filter(pl.col("end_s") > pl.col("start_s")), ("machine_id",))
    table = merged.join(machines, on="machine_id", maintain_order="left")
    begin, end = pl.col("start_s"), pl.col("end_s")
    return table.select(
        "gpus", "gpu_type", begin.alias(BEGIN), end.alias(UNTIL), (end - begin).alias(HELD)
    )


_MOST_TYPES: Final = 8
NEEDS: Final = ({"jobs": ("submit_s",)}, {"jobs": ("start_s",)})


@dataclass(frozen=True)
class TrendsFound:
    """What the section states of a trace."""

    trends: pl.DataFrame
    outages: pl.DataFrame
    of_types: pl.DataFrame
    """Outages of one GPU type, which is the column gpu_type."""
    longest: pl.DataFrame
    """The longest time without a running job, of an hour or more."""
    changes: pl.DataFrame
    drift: pl.DataFrame
    timezone: str | None
    capacity: pl.DataFrame | None
    """GPUs allocated, down and idle; None where they are unknown."""
    capacity_source: str
    cpus: tuple[float, float, str] | None
    """CPUs of the cluster, the fraction allocated, and where the number is from."""
    idle_nodes: pl.DataFrame
    bursts: pl.DataFrame
    missing: list[tuple[str, str, float, float]]
    """What did not happen though jobs ran, since when, for how long, and the jobs usual in it."""


def clock_of(trace: Trace, /) -> str | None:
    """Return the time zone of the trace's calendar; None: a clock of its own."""
    manifest = trace.manifest
    return (manifest.timezone or "UTC") if manifest.absolute_times else None


def _capacity(trace: Trace) -> Capacity | None:
    """Return the GPUs whose use by time is known: survivors alone are not all that used them."""
    capacity = capacity_of(trace) if trace.has("jobs", ("gpus",)) else None
    hides = trace.manifest.lists_only_survivors and not trace.manifest.capacity
    return None if hides else capacity


def trends_of(trace: Trace, /) -> TrendsFound:
    """Compute trends, outages and changes of level of a trace."""
    jobs, options, outcomes = trace.frame("jobs"), _clock(trace), _outcomes(trace)
    capacity = _capacity(trace)
    gaps = trace.once(_gaps_of)
    lost = gaps.filter(pl.col("pvalue") < ALPHA)
    return TrendsFound(
        trace.once(_by_period),
        lost,
        _of_types(trace, lost, options),
        gaps.top_k(1, by="duration_s"),
        *changes_and_drift(jobs, tuple(outcomes.values()), **options, lost=lost),
        options["timezone"],
        trace.once(gpus_allocated),
        "" if capacity is None else capacity.source,
        trace.once(cpus_allocated),
        trace.once(_idle_of),
        _bursts(trace),
        _missing(trace),
    )


def _missing(trace: Trace) -> list[tuple[str, str, float, float]]:
    """Return the times of which records may be missing."""
    window = trace.once(window_of)
    if window is None or not trace.has("jobs", ("submit_s", "start_s", "end_s")):
        return []
    jobs = trace.scan("jobs").select("submit_s", "start_s", "end_s").collect()
    found = missing_records(jobs, window)
    rate = jobs.height / max(window[1] - window[0] - sum(high - low for _, low, high in found), 1)
    zone = clock_of(trace)
    return [
        (what, local_time(low, zone), high - low, rate * (high - low)) for what, low, high in found
    ]


def _bursts(trace: Trace) -> pl.DataFrame:
    """Return the times in which jobs of many users failed together."""
    table, unit, window = pl.DataFrame(schema=schema_of(FailureBursts)), trace.manifest.unit, None
    if trace.has("jobs", (unit, "end_s", "start_s", "status")):
        window = trace.once(window_of)
    if window is not None:
        status = pl.col("status").cast(pl.String).is_in(trace.manifest.failure_statuses)
        gpus = pl.col("gpus") if trace.has("jobs", ("gpus",)) else pl.lit(None, pl.Float64)
        jobs = with_end_class(trace.scan("jobs")).select(
            "start_s",
            "end_s",
            user=pl.col(unit).cast(pl.String),
            gpu_s=gpus * (pl.col("end_s") - pl.col("start_s")),
            failed=status & (pl.col(END_CLASS) != "user limit").fill_null(value=True),
        )
        table = failure_bursts(jobs.filter(pl.col("end_s") <= window[1]).collect(), window)
        zone = clock_of(trace)
        begins = [local_time(start, zone) for start in table["start_s"]]
        table = table.with_columns(begin=pl.Series(begins, dtype=pl.String))
    return declared(table.select(*schema_of(FailureBursts)), FailureBursts)


def _gaps_of(trace: Trace) -> pl.DataFrame:
    return idle_gaps(trace.frame("jobs"), **_clock(trace))


def _idle_of(trace: Trace) -> pl.DataFrame:
    lost = trace.once(_gaps_of).filter(pl.col("pvalue") < ALPHA)
    return idle_nodes(trace, lost, clock_of(trace))


def _absent(trace: Trace) -> pl.DataFrame:
    """Return the times in which nodes seen ran no job for long: drained, down or not there yet."""
    names = pl.col("nodes").str.split(", ").alias(_NODE)
    return trace.once(_idle_of).select(names, "start_s", "end_s").explode(_NODE)


def _of_types(trace: Trace, lost: pl.DataFrame, options: dict[str, Any]) -> pl.DataFrame:
    """Return the outages of one GPU type alone in which its jobs waited, tested over all types."""
    outages = lost.clear().with_columns(gpu_type=pl.lit(None, pl.String))
    if not trace.has("jobs", ("gpu_type", "submit_s")):
        return outages
    name = pl.col("gpu_type").cast(pl.String)
    types = trace.scan("jobs").select(name).unique().drop_nulls().sort("gpu_type").collect()
    if not 1 < types.height <= _MOST_TYPES:
        return outages
    for (kind,) in types.iter_rows():
        jobs = trace.scan("jobs").filter(name == kind)
        submit = jobs.select("submit_s").collect().to_series()
        gaps = idle_gaps(jobs, **options)
        gaps = gaps.with_columns(pl.col("pvalue") * types.height, gpu_type=pl.lit(kind))
        for row in gaps.filter(pl.col("pvalue") < ALPHA / 2).iter_rows(named=True):
            if not submit.is_between(row["start_s"], row["end_s"] - SHORTEST_S).any():
                continue  # no job of the type was there to run
            low, high = (
                pl.col(end).clip(row["start_s"], row["end_s"]) for end in ("start_s", "end_s")
            )
            if lost.select((high - low).sum()).item() < row["duration_s"] / 2:
                outages = pl.concat([outages, gaps.filter(start_s=row["start_s"])])
    return outages


def _clock(trace: Trace) -> dict[str, Any]:
    return {"timezone": clock_of(trace), "window": trace.once(window_of)}


def _outcomes(trace: Trace) -> dict[str, Any]:
    failure = trace.manifest.failure_statuses
    return {"success": tuple({"completed"} - {*failure}), "failure": failure}


def _by_period(trace: Trace) -> pl.DataFrame:
    capacity = _capacity(trace)
    gpus = capacity and capacity.gpus
    table = trends(trace.frame("jobs"), gpus=gpus, **_clock(trace), **_outcomes(trace))
    allocated = trace.once(gpus_allocated)
    if allocated is None:
        return table
    of_all = allocated.filter(pl.col("gpu_type") == "all", pl.col("period") != "all")
    return table.with_columns(of_all["allocated"].alias("utilization"))


def cpus_allocated(trace: Trace, /) -> tuple[float, float, str] | None:
    """Return the CPUs of the cluster, the fraction allocated, and where the number is from."""
    if trace.manifest.lists_only_survivors or not trace.has("jobs", ("cpus", "start_s")):
        return None
    cpus, window = capacity_of(trace, "cpus"), trace.once(window_of)
    if cpus is None or window is None or window[0] == window[1]:
        return None
    used = float(trace.once(_by_period)["cpu_hours"].sum() or 0)
    seconds = cpus.gpus * (window[1] - window[0])
    if cpus.machines is not None:
        absent = _absent(trace).join(cpus.machines, on=_NODE)
        seconds -= absent.select(
            (pl.col("cpus") * (pl.col("end_s") - pl.col("start_s"))).sum()
        ).item()
    return cpus.gpus, used * 3600 / seconds, cpus.source


def gpus_allocated(trace: Trace, /) -> pl.DataFrame | None:
    """Return what of the GPUs was allocated, down and idle; None where they are unknown.

    Nodes seen are left out while they ran no job for long.
    """
    capacity = _capacity(trace)
    if capacity is None:
        return None
    more, absent = _clock(trace), False
    if capacity.machines is not None:
        more["machines"] = capacity.machines
        if trace.has("faults", ("end_s",)):
            more["faults"] = trace.scan("faults")
        elif absent := not trace.has("machines", ("gpus",)):
            more["faults"] = _absent(trace)
    table = cluster_utilization(trace.frame("jobs"), gpus=capacity.gpus, **more)
    if not absent:
        return table
    present = 1 - pl.col("down").fill_null(0)
    allocated = pl.when(present > 0).then(pl.col("allocated") / present)
    return table.with_columns(
        pl.col("gpu_hours") * present,
        allocated=allocated,
        down=pl.lit(None, pl.Float64),
        idle=(1 - allocated).clip(0),
    )
