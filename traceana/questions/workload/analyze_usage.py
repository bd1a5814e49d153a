"""GPU-hours by group, queueing delays, job arrays and failures of nodes of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.groups import MOST_GROUPS
from traceana.cohorts.local_time import read_clock
from traceana.cohorts.observation import window_of
from traceana.questions.failures.nodes import node_failures
from traceana.questions.workload.queueing import queueing_delay
from traceana.questions.workload.usage import gpu_hours_by
from traceana.store.frames import reduce_frame

if TYPE_CHECKING:
    from traceana.store import Trace
    from traceana.store.manifest import Manifest

USAGE_NEEDS: Final = ({"jobs": ("gpus", "runtime_s", "status")},)
"""What a trace needs for GPU-hours by group."""
FEWEST: Final = 20
"""Delays of a group below which no finding names it."""
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
    """Results on the jobs of a trace."""

    groups: dict[str, pl.DataFrame]
    """GPU-hours by group, for each column with several values; the largest groups."""
    n_users: int | None
    n_top: int | None
    top_share: float | None
    """Users, the number of the top 5 % of them (rounded up), and their fraction of the GPU-hours;
    None without users."""
    waits: dict[str, pl.DataFrame]
    """Queueing delay by size, queue, hour and user; empty without submissions and starts."""
    arrays: dict[str, int] | None
    """[jobs, and where they are known: arrays, jobs_in_arrays, restarted, restarts, requeued]; None
    without any of them."""
    nodes: pl.DataFrame | None
    """Nodes compared with comparable jobs on others; None where jobs have no node."""
    node_rows: tuple[int, int]
    """Completed and failed jobs, and those of them with a node."""


def describe_usage(trace: Trace, /) -> Usage:
    """Compute GPU-hours by group, waits, arrays and failures of nodes."""
    manifest = trace.manifest
    jobs = _with_calendar(trace.rows("jobs"), manifest)
    columns = {*manifest.tables["jobs"].columns}
    if not columns & {*_NODES} and manifest.has("instances", ("machine_id",)):
        jobs, columns = (
            _with_machine(jobs, trace.rows("instances")),
            columns | {_NODES[-1]},
        )
    present = columns | ({"month"} if manifest.absolute_times else set())
    user = "user" if "user" in columns else None
    window = trace.once(window_of)
    groups = {}
    for name in _GROUPS:
        if name in present:
            found = gpu_hours_by(
                jobs.to_native(), name, user=user if name != "user" else None, window=window
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
    nodes, node_rows = _nodes(jobs, columns)
    waits = _waits(jobs, columns, manifest) if {"submit_s", "start_s"} <= columns else {}
    return Usage(
        groups={name: _largest(found, name) for name, found in groups.items()},
        n_users=n_users,
        n_top=n_top,
        top_share=top_share,
        waits=waits,
        arrays=_arrays(jobs, columns),
        nodes=nodes,
        node_rows=node_rows,
    )


def _with_machine(jobs: nw.LazyFrame[Any], instances: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Add the machine of the jobs whose instances all ran on one."""
    machine = nw.col(_NODES[-1])
    of_job = instances.group_by("job_id").agg(machine.min(), machine.max().alias("last"))
    alone = of_job.filter(machine == nw.col("last")).drop("last")
    return jobs.join(alone, on="job_id", how="left")


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
    found = {name: queueing_delay(jobs.to_native(), by=name) for name in names}
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
    """Count arrays, restarts and requeued runs; what the trace does not state is left out."""
    counts: dict[str, nw.Expr] = {}
    if "array_id" in columns:
        counts |= {
            "jobs_in_arrays": nw.col("array_id").count(),
            "arrays": nw.col("array_id").n_unique(),
        }
    if "restarts" in columns:
        restarts = nw.col("restarts")
        counts["restarted"] = (restarts > 0).cast(nw.Int64).sum()
        counts["restarts"] = restarts.sum()
    if "end_reason" in columns:
        again = nw.col("end_reason").cast(nw.String).str.starts_with("REQUEUED")
        counts["requeued"] = again.cast(nw.Int64).sum()
    found = reduce_frame(jobs, (), jobs=nw.len(), **counts).row(0, named=True)
    whole = {name: int(value) for name, value in found.items() if value is not None}
    if "arrays" in whole:
        whole["arrays"] -= whole["jobs_in_arrays"] < whole["jobs"]  # null is no array
    if not whole.get("requeued"):
        whole.pop("requeued", None)
    return whole if len(whole) > 1 else None


def _nodes(
    jobs: nw.LazyFrame[Any], columns: set[str]
) -> tuple[pl.DataFrame | None, tuple[int, int]]:
    """Compare the nodes of jobs with those of comparable jobs."""
    name = next((name for name in _NODES if name in columns), None)
    if name is None:
        return None, (0, 0)
    ended = jobs.filter(nw.col("status").cast(nw.String).is_in(["completed", "failed"]))
    counts = reduce_frame(ended, (), n=nw.len(), known=nw.col(name).count()).row(0)
    if not counts[1]:
        return None, counts
    return node_failures(ended.to_native(), node=name), counts
