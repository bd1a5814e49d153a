"""Nodes that ran no job for exceptionally long, several of them at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import pdtrc

from traceana.cohorts.observation import node_column, window_of
from traceana.cohorts.overlap import BEGIN, HELD, UNTIL, Window, merge_times, open_overlap
from traceana.questions.trends.by_period import local_time
from traceana.questions.trends.tables import IdleNodes
from traceana.stats.segments import long_gaps
from traceana.stats.time_blocks import DAY_S
from traceana.store import Trace
from traceana.store.frames import collect
from traceana.tables.declare import declared, schema_of

_NODE: Final = "machine_id"
_HOUR_S: Final = 3600.0
_WEEK_H: Final = 168
_SHORTEST_S: Final = 6 * _HOUR_S
_EXCEPTION: Final = 0.05
"""p below which a gap of a node is an exception for this node."""
_ALPHA: Final = 0.01
_ALIKE: Final = 0.6
"""Of the time of two gaps, what they have in common at least."""
_AS_BUSY: Final = 0.7
"""Of their usual busy time, that of the other nodes meanwhile at least."""
_IN_OUTAGE: Final = 0.5


def idle_nodes(trace: Trace, lost: pl.DataFrame, timezone: str | None, /) -> pl.DataFrame:
    """Find nodes that ran no job, meanwhile others did: drained or down; columns of IdleNodes.

    Gaps between the jobs of a node are measured in hours, each weighted by the fraction of nodes
    that are busy in that hour of the week. A gap of six hours or more is an exception if it stands
    out from the tail of the others of its node (:func:`~traceana.stats.segments.long_gaps`; p below
    0.05). Gaps with three fifths of their time in common are one event. p is the probability of so
    many exceptions at a time by chance (Poisson), or of one node, by Bonferroni over nodes; it is
    below 0.01. All nodes that ran no job meanwhile are counted. The other nodes are meanwhile busy
    for at least 0.7 of their usual time, so that a holiday is none, and the gap is not that of an
    outage of all.
    """
    none = declared(pl.DataFrame(schema=schema_of(IdleNodes)), IdleNodes)
    name = node_column(trace.manifest.tables["jobs"].columns)
    window = trace.once(window_of)
    if name is None or window is None or window[1] - window[0] < 7 * DAY_S:
        return none
    rows = _on_nodes(trace, name, window)
    if rows[_NODE].n_unique() < 2:
        return none
    busy = merge_times(rows, [_NODE], BEGIN, UNTIL)
    every = {key[0]: part for key, part in busy.partition_by(_NODE, as_dict=True).items()}
    whole = _gaps(every, window)
    gaps = whole.filter(pl.col("pvalue") < _EXCEPTION)
    for start, end in lost.select("start_s", "end_s").iter_rows():
        shared = pl.min_horizontal("end", pl.lit(end)) - pl.max_horizontal("start", pl.lit(start))
        gaps = gaps.filter(shared < _IN_OUTAGE * (pl.col("end") - pl.col("start")))
    found, n_gaps = [], gaps.height
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
        others = [part for node, part in every.items() if node not in set(event[_NODE])]
        if p >= _ALPHA or not _are_busy(others, (start, end), window):
            continue
        of_event = used.join(event.select(_NODE), on=_NODE)
        part = (end - start) / (window[1] - window[0])
        row = {"begin": local_time(start, timezone), "start_s": start, "end_s": end, "pvalue": p}
        row |= {"duration_s": end - start, "n": event.height, "n_nodes": len(every)}
        row |= {"lasts": end >= window[1], "nodes": ", ".join(sorted(map(str, event[_NODE])))}
        row |= {"jobs_lost": part * float(of_event["jobs"].to_numpy().sum())}
        hours = part * float(of_event["gpu_s"].to_numpy().sum()) / _HOUR_S
        found.append(row | {"gpu_hours_lost": hours or None})
    return declared(pl.DataFrame(found, schema=schema_of(IdleNodes)).sort("start_s"), IdleNodes)


def _on_nodes(trace: Trace, name: str, window: Window) -> pl.DataFrame:
    """Return [node, BEGIN, UNTIL, gpu_s], one row per job and node; GPUs in equal parts."""
    there = trace.manifest.tables["jobs"].columns
    sized = {"gpus": "gpus"} if "gpus" in there else {}
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


def _gaps(every: dict[Any, pl.DataFrame], window: Window) -> pl.DataFrame:
    """Return the gaps of 6 h or more: [node, start, end, pvalue]."""
    first, last = window
    hours = int((last - first) // _HOUR_S) + 1
    counts = np.zeros(hours + 1)
    for part in every.values():
        ends = (part.select(BEGIN, UNTIL).to_numpy() - first) // _HOUR_S
        np.add.at(counts, ends[:, 0].astype(int), 1)
        np.add.at(counts, np.minimum(ends[:, 1].astype(int) + 1, hours), -1)
    slot = np.arange(hours) % _WEEK_H
    usual = np.bincount(slot, np.cumsum(counts)[:-1], _WEEK_H) / np.maximum(
        np.bincount(slot, minlength=_WEEK_H), 1
    )
    clock = np.concatenate([[0.0], np.cumsum(usual[slot] / max(usual.max(), 1e-9))])
    grid = first + _HOUR_S * np.arange(hours + 1)
    rows = []
    for node, part in every.items():
        start = part[UNTIL].to_numpy()
        end = np.append(part[BEGIN].to_numpy()[1:], last)
        weighted = np.interp(end, grid, clock) - np.interp(start, grid, clock)
        weighted = np.maximum(weighted, 0)
        known = dict(long_gaps(weighted))
        rows += [
            (node, float(start[place]), float(end[place]), known.get(place, 1.0))
            for place in map(int, np.flatnonzero(end - start >= _SHORTEST_S))
        ]
    schema = {_NODE: pl.String, **dict.fromkeys(("start", "end", "pvalue"), pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _largest(gaps: pl.DataFrame) -> pl.DataFrame:
    """Return the most gaps that have most of their time in common with one of them."""
    start, end = (gaps[name].to_numpy() for name in ("start", "end"))
    shared = np.minimum(end[:, None], end) - np.maximum(start[:, None], start)
    both = np.maximum(end[:, None], end) - np.minimum(start[:, None], start)
    alike: NDArray[np.bool_] = shared >= _ALIKE * both
    return gaps.filter(pl.Series(alike[int(alike.sum(axis=1).argmax())])).unique(
        _NODE, keep="first", maintain_order=True
    )


def _are_busy(others: Sequence[pl.DataFrame], within: Window, window: Window) -> bool:
    """Return whether nodes are nearly as busy within some time as in the whole window."""
    if not others:
        return False
    rows = pl.concat(others)

    def seconds(first: float, last: float) -> float:
        held = pl.col(UNTIL).clip(first, last) - pl.col(BEGIN).clip(first, last)
        return float(rows.select(held.sum()).item()) / (last - first)

    return seconds(*within) >= _AS_BUSY * seconds(*window)
