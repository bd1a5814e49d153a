"""Nodes on which the jobs of a trace ran, and the most GPUs that each had in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.cohorts.observation import window_of
from traceana.cohorts.overlap import BEGIN, UNTIL, open_overlap
from traceana.store.frames import collect

if TYPE_CHECKING:
    from traceana.store import Trace

NODES: Final = ("NodeList", "node", "host", "machine_id")
"""Columns of the nodes of a job, in the order of preference."""


_MOST_WITHOUT: Final = 0.01


def node_column(columns: tuple[str, ...] | list[str], /) -> str | None:
    """Return the column of the nodes of a job; None: there is none."""
    return next((name for name in NODES if name in columns), None)


def nodes_seen(trace: Trace, of: str = "gpus", /) -> pl.DataFrame:
    """Return [machine_id, gpu_type, gpus]: the most GPUs, or CPUs, in use at a time on each node.

    A job on several nodes has an equal part of its GPUs on each. The type of a node is that of most
    of its jobs. The numbers are lower bounds: a node that was never full has more GPUs. Without a
    column of nodes, or with one that more than a hundredth of the jobs with GPUs lacks, there are
    no rows.
    """
    columns = trace.manifest.tables["jobs"].columns
    name = node_column(columns)
    empty = {"machine_id": pl.String, "gpu_type": pl.String, "gpus": pl.Float64}
    if name is None:
        return pl.DataFrame(schema=empty)
    kept = tuple(one for one in (name, "gpu_type") if one in columns)
    sized = {of: of} if of in columns else {}
    frame = open_overlap(trace.frame("jobs"), kept, sized, window=window_of(trace))
    missing = {
        one: pl.lit(None, kind)
        for one, kind in (("gpu_type", pl.String), (of, pl.Float64))
        if one not in frame.collect_schema().names()
    }
    rows = collect(frame).with_columns(**missing).with_columns(gpus=of)
    using = rows.filter(pl.col("gpus") > 0, pl.col(BEGIN).is_not_null())
    if using[name].null_count() > _MOST_WITHOUT * using.height:
        return pl.DataFrame(schema=empty)
    hosts = pl.col(name).cast(pl.String).str.split(",")
    rows = (
        rows.filter(pl.col(name).is_not_null(), pl.col(BEGIN).is_not_null())
        .select(BEGIN, UNTIL, "gpu_type", machine_id=hosts, gpus=pl.col("gpus") / hosts.list.len())
        .explode("machine_id")
    )
    gpus = pl.col("gpus").fill_null(0)
    changes = pl.concat(
        rows.select("machine_id", time=time, change=sign * gpus)
        for time, sign in ((BEGIN, 1), (UNTIL, -1))
    )
    # what ends at a time makes room for what begins then
    in_use = changes.sort("machine_id", "time", "change").select(
        "machine_id", used=pl.col("change").cum_sum().over("machine_id")
    )
    most = in_use.group_by("machine_id").agg(gpus=pl.col("used").max().round(3))
    kind = rows.group_by("machine_id").agg(pl.col("gpu_type").drop_nulls().mode().sort().first())
    return most.join(kind, on="machine_id").select(*empty).sort("machine_id")
