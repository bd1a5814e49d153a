"""Failures of the nodes of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import narwhals.stable.v2 as nw

from traceana.cohorts.nodes_seen import NODES, node_column
from traceana.questions.failures.nodes import node_failures
from traceana.store.frames import reduce_frame

if TYPE_CHECKING:
    import polars as pl

    from traceana.store import Trace

NODES_NEED: Final = ({"jobs": ("status",)},)
"""What a trace needs; that its jobs have a node is seen in the rows."""


class NodesFound(NamedTuple):
    """Nodes compared with comparable jobs on others; and the ended jobs, and those with a node."""

    nodes: pl.DataFrame
    ended: int
    placed: int


def compare_nodes(trace: Trace, /) -> NodesFound | None:
    """Compare the nodes of a trace with comparable jobs; None where jobs have no node."""
    manifest, jobs = trace.manifest, trace.rows("jobs")
    name = node_column(manifest.tables["jobs"].columns)
    if name is None:
        name = NODES[-1]
        if not manifest.has("instances", (name,)):
            return None
        jobs = _with_machine(jobs, trace.rows("instances"))
    ended = jobs.filter(nw.col("status").cast(nw.String).is_in(["completed", "failed"]))
    counts = reduce_frame(ended, (), n=nw.len(), known=nw.col(name).count()).row(0)
    if not counts[1]:
        return None
    return NodesFound(node_failures(ended.to_native(), node=name), *counts)


def _with_machine(jobs: nw.LazyFrame[Any], instances: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Add the machine of the jobs whose instances all ran on one."""
    machine = nw.col(NODES[-1])
    of_job = instances.group_by("job_id").agg(machine.min(), machine.max().alias("last"))
    alone = of_job.filter(machine == nw.col("last")).drop("last")
    return jobs.join(alone, on="job_id", how="left")
