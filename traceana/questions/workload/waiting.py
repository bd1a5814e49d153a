"""GPUs that were free while jobs waited, and jobs that started before earlier ones."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from traceana.cohorts.observation import node_column, nodes_seen
from traceana.store import Trace
from traceana.store.frames import collect

POINTS: Final = 1000
"""Points in time at which free GPUs are counted: two standard errors of a fraction are 3 points."""
_MOST_NODES: Final = 20_000
"""Nodes up to which their state at all points fits in little memory."""
_KIND: Final = ("cluster", "queue", "gpu_type")
_USED: Final = ("submit_s", "start_s", "end_s", "gpus", "cpus", "user", *_KIND)
_EPSILON: Final = 1e-6
MINUTE_S: Final = 60.0
"""Shortest wait that counts: shorter ones are the time that a scheduler needs."""


class Waiting(NamedTuple):
    """What was free while jobs with GPUs waited that started in the end."""

    hours: float
    """Of all their waits."""
    run_hours: float
    """Of all runtimes."""
    jobs: int
    """Those that waited."""
    points: pl.DataFrame
    """[reason, queue, gpus] of equally spaced points of the waits. On the nodes seen, fewer GPUs
    were free than requested (few), too few on nodes that ran jobs of the queue and GPU type
    (other), no such node had them (spread), only nodes with too few CPUs (cpus); else an earlier
    job of them waited, too (behind), or none did (open)."""
    queues: int
    """Of the jobs with GPUs."""
    usual_gpus: float
    """Median of the jobs."""
    holders: pl.DataFrame
    """[user, part] of the GPU-hours that jobs bar, since they hold more of a node's CPUs than of
    its GPUs, the most first."""


def overtaking(trace: Trace, /) -> float | None:
    """Return the fraction of jobs that started before an earlier one of their queue."""
    rows = _jobs(trace)
    if rows is None or rows.is_empty():
        return None
    fraction: float = rows.select((pl.col("start_s") < pl.col("latest")).sum() / pl.len()).item()
    return fraction


def describe_waiting(trace: Trace, /) -> Waiting | None:
    """Count the free GPUs at points of the waits; None where nodes are unknown or too many."""
    rows, seen = _jobs(trace), trace.once(nodes_seen)
    name = node_column(trace.manifest.tables["jobs"].columns)
    if rows is None or name is None or not (seen["gpus"].sum() and seen.height <= _MOST_NODES):
        return None
    waits = rows.with_columns(wait=pl.col("start_s") - pl.col("submit_s")).filter(
        pl.col("wait") >= MINUTE_S, pl.col(name).is_not_null()
    )
    if waits.is_empty():
        return None
    ends = waits["wait"].cum_sum().to_numpy()
    place = (np.arange(POINTS) + 0.5) / POINTS * ends[-1]
    which = np.searchsorted(ends, place, side="right").clip(0, len(ends) - 1)
    points = waits[which].with_columns(
        time=pl.Series(waits["start_s"].to_numpy()[which] - (ends[which] - place))
    )
    points = points.sort("time", maintain_order=True)
    node = {value: index for index, value in enumerate(seen["machine_id"])}
    pairs = rows.drop_nulls(name).with_columns(n=pl.col(name).list.len()).explode(name)
    pairs = pairs.with_columns(node=pl.col(name).replace_strict(node, default=None))
    pairs = pairs.drop_nulls("node")
    free = {size: _free(pairs, seen, points["time"].to_numpy(), size) for size in ("gpus", "cpus")}
    free["gpus"] *= _ran(rows, pairs, points, "cluster", seen.height)  # of others none are free
    on, gpus = points[name].list.len().to_numpy(), points["gpus"].to_numpy() - _EPSILON
    reason = np.full(POINTS, "", dtype=object)
    reason[free["gpus"].sum(axis=0) < gpus] = "few"
    fit = _ran(rows, pairs, points, "kind", seen.height)
    reason[((free["gpus"] * fit).sum(axis=0) < gpus) & (reason == "")] = "other"
    for word, fits in (
        ("spread", free["gpus"] >= gpus / on),
        ("cpus", free["cpus"] >= points["cpus"].fill_null(0).to_numpy() / on - _EPSILON),
    ):
        fit &= fits
        reason[(fit.sum(axis=0) < on) & (reason == "")] = word
    is_behind = (points["latest"].fill_null(-np.inf) > points["time"]).to_numpy()
    reason[(reason == "") & is_behind] = "behind"
    reason[reason == ""] = "open"
    table = points.select("queue", "gpus", reason=pl.Series(reason, dtype=pl.String))
    run_s = float((rows["end_s"] - rows["start_s"]).sum() or 0)
    holders = _holders(pairs, seen)
    hours, queues = float(ends[-1]) / 3600, rows["queue"].n_unique()
    usual = float(rows["gpus"].median() or 0)  # type: ignore[arg-type]
    return Waiting(hours, run_s / 3600, waits.height, table, queues, usual, holders)


def _holders(pairs: pl.DataFrame, seen: pl.DataFrame) -> pl.DataFrame:
    """Return [user, part] of the GPU-hours that are barred by CPUs in use, the most first."""
    most = pairs.select("node").with_columns(
        *(pl.Series(size, seen[size].gather(pairs["node"])) for size in ("gpus", "cpus"))
    )
    held = pairs["cpus"] / most["cpus"] * most["gpus"] - pairs["gpus"]
    barred = (held.clip(0) / pairs["n"] * (pairs["end_s"] - pairs["start_s"])).fill_nan(0)
    users = pairs.select("user", part=barred.fill_null(0)).group_by("user").sum()
    users = users.with_columns(pl.col("part") / pl.col("part").sum())
    return users.drop_nulls("user").sort("part", "user", descending=[True, False])


def _jobs(trace: Trace) -> pl.DataFrame | None:
    """Return the jobs with GPUs that started, by submission; `latest` start of those before."""
    stated = trace.manifest.tables["jobs"].columns
    if not trace.has("jobs", ("submit_s", "start_s", "gpus")):
        return None
    name = node_column(stated)
    names = [*(column for column in _USED if column in stated), *([name] if name else [])]
    has_started = (
        (nw.col("gpus") > 0) & ~nw.col("start_s").is_null() & ~nw.col("submit_s").is_null()
    )
    rows = collect(trace.rows("jobs").select(*names).filter(has_started))
    null: dict[str, Any] = dict.fromkeys(("user", *_KIND), pl.String)
    null |= dict.fromkeys(("end_s", "cpus"), pl.Float64)
    rows = rows.with_columns(
        pl.lit(None, kind).alias(column) for column, kind in null.items() if column not in names
    )
    hosts = [pl.col(name).cast(pl.String).str.split(",")] if name else []
    rows = rows.sort("submit_s", "start_s", maintain_order=True).with_columns(
        pl.col("user", *_KIND).cast(pl.String), *hosts
    )
    rows = rows.with_columns(
        pl.struct(names).rank("dense").cast(pl.Int64).alias(kind) - 1
        for kind, names in (("kind", _KIND), ("cluster", _KIND[:1]))
    )
    return rows.with_columns(latest=pl.col("start_s").shift().cum_max().over("kind"))


def _ran(
    rows: pl.DataFrame, pairs: pl.DataFrame, points: pl.DataFrame, kind: str, nodes: int
) -> NDArray[Any]:
    """Return whether each node (row) ran jobs of the kind of each point's job."""
    own = np.zeros((int(rows[kind].to_numpy().max()) + 1, nodes), dtype=bool)
    own[*pairs.select(kind, "node").unique().to_numpy().T] = True
    return own[points[kind].to_numpy()].T


def _free(pairs: pl.DataFrame, seen: pl.DataFrame, time: NDArray[Any], size: str) -> NDArray[Any]:
    """Return what is free of each node (row) at each point in time, which are sorted."""
    if not seen[size].sum():
        return np.full((seen.height, len(time)), np.inf)
    used = (pairs[size].fill_null(0) / pairs["n"]).to_numpy()
    change = np.zeros((seen.height, len(time) + 1))
    for column, sign in (("start_s", 1), ("end_s", -1)):
        moment = pairs[column].fill_null(np.inf).to_numpy()
        at = np.searchsorted(time, moment)
        np.add.at(change, (pairs["node"].to_numpy(), at), sign * used)
    most = seen[size].fill_null(0).to_numpy()[:, None]
    return np.maximum(most - np.cumsum(change, axis=1)[:, :-1], 0.0)
