"""Nodes on which the jobs of a trace ran, and the most that each had in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.observation import window_of
from traceana.cohorts.overlap import BEGIN, UNTIL, open_overlap
from traceana.store.frames import collect

if TYPE_CHECKING:
    from traceana.store import Trace

NODES: Final = ("NodeList", "node", "host", "machine_id")
"""Columns of the nodes of a job, in the order of preference."""


_MOST_WITHOUT: Final = 0.01
_SIZES: Final = ("gpus", "cpus")


def node_column(columns: tuple[str, ...] | list[str], /) -> str | None:
    """Return the column of the nodes of a job; None: there is none."""
    return next((name for name in NODES if name in columns), None)


def nodes_seen(trace: Trace, /) -> pl.DataFrame:
    """Return [machine_id, gpu_type, gpus, cpus]: the most in use at a time on each node.

    A job on several nodes has an equal part of its GPUs and CPUs on each. The type of a node is
    that of most of its jobs. The numbers are lower bounds: a node that was never full has more
    GPUs. They are null where more than a hundredth of the jobs with GPUs (CPUs) has no node;
    without a column of nodes there are no rows.
    """
    columns = trace.manifest.tables["jobs"].columns
    name = node_column(columns)
    empty = {"machine_id": pl.String, "gpu_type": pl.String, **dict.fromkeys(_SIZES, pl.Float64)}
    if name is None:
        return pl.DataFrame(schema=empty)
    kept = tuple(column for column in (name, "gpu_type") if column in columns)
    sized: dict[str, str] = {size: size for size in _SIZES if size in columns}
    frame = open_overlap(trace.frame("jobs"), kept, sized, window=trace.once(window_of))
    rows = collect(frame.select(BEGIN, UNTIL, *kept, *sized).filter(~nw.col(BEGIN).is_null()))
    used = [
        size
        for size in sized
        if (using := rows.filter(pl.col(size) > 0))[name].null_count()
        <= _MOST_WITHOUT * using.height
    ]
    hosts = pl.col(name).cast(pl.String).str.split(",")
    kind = pl.col("gpu_type") if "gpu_type" in kept else pl.lit(None, pl.String)
    rows = (
        rows.filter(pl.col(name).is_not_null())
        .select(
            BEGIN,
            UNTIL,
            gpu_type=kind.cast(pl.String),
            machine_id=hosts,
            **{size: pl.col(size).fill_null(0) / hosts.list.len() for size in used},
        )
        .explode("machine_id")
        .with_columns(node=pl.col("machine_id").rank("dense"))
    )
    named = rows.group_by("node").agg(
        pl.col("machine_id").first(), pl.col("gpu_type").drop_nulls().mode().sort().first()
    )
    none = {size: pl.lit(None, pl.Float64) for size in _SIZES if size not in used}
    most = _most_in_use(rows, used).join(named, on="node")
    return most.with_columns(**none).select(*empty).sort("machine_id")


def _most_in_use(rows: pl.DataFrame, sizes: list[str]) -> pl.DataFrame:
    """Return [node, *sizes]: the largest sums of the rows that run at a time."""
    # what ends at a time makes room for what begins then
    changes = pl.concat(
        rows.select("node", pl.lit(sign).alias("sign"), pl.col(sizes) * sign, time=time)
        for time, sign in ((BEGIN, 1), (UNTIL, -1))
    ).sort("node", "time", "sign")
    in_use = changes.select("node", pl.col(sizes).cum_sum().over("node"))
    return in_use.group_by("node").agg(pl.col(sizes).max().round(3))
