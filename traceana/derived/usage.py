"""GPU-hours by group, queueing delays, job arrays and failures of nodes of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana import analysis
from traceana.analysis.frames import reduce_frame
from traceana.derived.local_time import read_clock

if TYPE_CHECKING:
    from traceana.store.manifest import Manifest
    from traceana.store.session import Session

USAGE_NEEDS: Final = ({"jobs": ("gpus", "runtime_s", "status")},)
"""What a trace needs for GPU-hours by group."""
MOST_GROUPS: Final = 20
"""Groups with rows of their own; the others are summed."""
_GROUPS: Final = (
    "user",
    "account",
    "queue",
    "gpu_type",
    "cluster",
    "month",
    "status",
    "end_reason",
)
_NODES: Final = ("NodeList", "node", "host", "machine_id")
_SIZES: Final = {
    "below 1": 1, "1": 2, "2": 3, "3 to 4": 5, "5 to 8": 9, "9 to 16": 17, "17 to 64": 65,
}  # fmt: skip
_LARGEST: Final = "65 or more"
_TOP: Final = 0.05
_DAY_S: Final = 86_400


@dataclass(frozen=True)
class Usage:
    """Results on the jobs of a trace.

    Attributes
    ----------
    groups
        GPU-hours by group, for each column with several values; the largest groups.
    n_users, n_top, top_share
        Users, the number of the top 5 % of them (rounded up), and their fraction of the GPU-hours;
        None without users.
    waits
        Queueing delay by size, queue, hour and user; empty without submissions and starts.
    arrays
        [jobs, arrays, jobs_in_arrays, restarted]; None without arrays and restarts.
    nodes
        Nodes compared with the rest; None where jobs have no node.
    node_rows
        Ended jobs, and those of them on one node.
    """

    groups: dict[str, pl.DataFrame]
    n_users: int | None
    n_top: int | None
    top_share: float | None
    waits: dict[str, pl.DataFrame]
    arrays: dict[str, int] | None
    nodes: pl.DataFrame | None
    node_rows: tuple[int, int]


def describe_usage(session: Session, trace: str, /) -> Usage:
    """Compute GPU-hours by group, waits, arrays and failures of nodes."""
    manifest = session.manifest(trace)
    jobs = _with_calendar(session.rows(trace, "jobs"), manifest)
    columns = {*manifest.tables["jobs"].columns}
    present = columns | ({"month"} if manifest.absolute_times else set())
    user = "user" if "user" in columns else None
    groups = {}
    for name in _GROUPS:
        if name in present:
            found = analysis.gpu_hours_by(
                jobs.to_native(), name, user=user if name != "user" else None
            )
            if found.height > 1:
                groups[name] = found
    n_users = n_top = top_share = None
    if user in groups:
        hours = groups["user"].drop_nulls("user")["gpu_hours"]
        n_users = hours.len()
        n_top = -int(-n_users * _TOP // 1)
        total = float(hours.sum())
        top_share = float(hours.head(n_top).sum()) / total if total else None
    nodes, node_rows = _nodes(jobs, columns, user)
    return Usage(
        groups={name: _largest(found, name) for name, found in groups.items()},
        n_users=n_users,
        n_top=n_top,
        top_share=top_share,
        waits=_waits(jobs, columns, manifest) if {"submit_s", "start_s"} <= columns else {},
        arrays=_arrays(jobs, columns),
        nodes=nodes,
        node_rows=node_rows,
    )


def _with_calendar(jobs: nw.LazyFrame[Any], manifest: Manifest) -> nw.LazyFrame[Any]:
    """Add month and hour of submission in the trace's time zone, and the number of the size."""
    if manifest.absolute_times:
        submitted = nw.coalesce("submit_s", "start_s")
        clock = read_clock(jobs, submitted, manifest.timezone or "UTC")
        local = submitted + clock.offset_s(submitted)
        hour = ((local % _DAY_S) / 3600).floor().cast(nw.Int64)
        jobs = jobs.with_columns(month=clock.month(submitted), hour=hour)
    gpus = nw.col("gpus")
    above = [(gpus >= low).cast(nw.Int64) for low in _SIZES.values()]
    return jobs.with_columns(size=sum(above, (gpus > 0).cast(nw.Int64)))


def _largest(found: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the largest groups, and the others added up."""
    if name == "month":
        return found.sort("month", nulls_last=True)
    if found.height <= MOST_GROUPS + 1:
        return found
    rest = found.slice(MOST_GROUPS)
    hours = pl.col("gpu_hours")
    others = rest.select(
        pl.lit(f"{rest.height} others").alias(name),
        pl.col("jobs", "n_missing").sum(),
        hours.sum(),
        pl.col("share").sum(),
        (pl.col("failed") * hours).sum() / hours.sum(),
        (pl.col("cancelled") * hours).sum() / hours.sum(),
    )
    return pl.concat([found.head(MOST_GROUPS).cast({name: pl.String}), others], how="diagonal")


def _waits(
    jobs: nw.LazyFrame[Any], columns: set[str], manifest: Manifest
) -> dict[str, pl.DataFrame]:
    names = ["size", *(name for name in ("queue", "qos", "gpu_type", "user") if name in columns)]
    if manifest.absolute_times:
        names.append("hour")
    found = {name: analysis.queueing_delay(jobs.to_native(), by=name) for name in names}
    labels = pl.Series(["0", *_SIZES, _LARGEST], dtype=pl.Enum(["0", *_SIZES, _LARGEST]))
    found["size"] = found["size"].with_columns(pl.lit(labels).gather(pl.col("size")).alias("size"))
    return {
        name: rows
        if name in ("size", "hour")
        else rows.sort("n", descending=True).head(MOST_GROUPS)
        for name, rows in found.items()
        if rows["n"].sum() and rows.height > 1
    }


def _arrays(jobs: nw.LazyFrame[Any], columns: set[str]) -> dict[str, int] | None:
    if not {"array_id", "restarts"} & columns:
        return None
    array = nw.col("array_id")
    again = (nw.col("restarts") > 0).cast(nw.Int64).sum()
    counts = reduce_frame(jobs, (), jobs=nw.len(), jobs_in_arrays=array.count(), restarted=again)
    named = reduce_frame(jobs.filter(~array.is_null()), (), arrays=array.n_unique())
    return {**counts.row(0, named=True), **named.row(0, named=True)}


def _nodes(
    jobs: nw.LazyFrame[Any], columns: set[str], user: str | None
) -> tuple[pl.DataFrame | None, tuple[int, int]]:
    """Compare the nodes of jobs that ran on one node."""
    name = next((name for name in _NODES if name in columns), None)
    if name is None:
        return None, (0, 0)
    ended = jobs.filter(nw.col("status").cast(nw.String).is_in(["completed", "failed"]))
    alone = ended.filter(~nw.col(name).str.contains(r"[,\[]"))
    counts = tuple(reduce_frame(rows, (), n=nw.len()).item() for rows in (ended, alone))
    if not counts[1]:
        return None, (counts[0], 0)
    found = analysis.failure_outliers(alone.to_native(), name, strata=user)
    return found.rename({name: "node"}), (counts[0], counts[1])
