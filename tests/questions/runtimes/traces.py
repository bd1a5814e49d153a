"""Small traces of tasks and instances, and what their policies give, one instance at a time."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import strategies as st

TASK = {
    "job_id": pl.String,
    "task_name": pl.String,
    "status": pl.String,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "gpus": pl.Float64,
    "cpus": pl.Float64,
    "memory_gib": pl.Float64,
    "gpu_type": pl.String,
}
INSTANCE = {
    "job_id": pl.String,
    "task_name": pl.String,
    "worker_id": pl.String,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
}


def make_tasks(*rows: tuple[str, str, str | None, float | None, float | None]) -> pl.DataFrame:
    """Tasks of (job_id, task_name, status, start_s, end_s), each asking for half a GPU."""
    full = [(*row, 0.5, 4.0, 8.0, "T4") for row in rows]
    return pl.DataFrame(full, schema=TASK, orient="row")


def make_instances(*rows: tuple[Any, ...]) -> pl.DataFrame:
    """Instances of (job_id, task_name, start_s, end_s), all with the same worker."""
    full = [(job, task, "w", start, end) for job, task, start, end in rows]
    return pl.DataFrame(full, schema=INSTANCE, orient="row")


def runtime_one_by_one(
    task: dict[str, Any], rows: list[dict[str, Any]], policy: str, trace_end: float
) -> tuple[float | None, int, float | None]:
    """Return runtime, instances that take part and their summed time, as the policy is worded."""
    stretches = [
        (row["start_s"], row["end_s"])
        for row in rows
        if row["start_s"] is not None and row["end_s"] is not None
    ]
    starts = [row["start_s"] for row in rows if row["start_s"] is not None and row["end_s"] is None]
    if policy == "drop_task" and len(stretches) < len(rows):
        return None, 0, None
    end = {
        "task": task["end_s"],
        "running": trace_end if task["status"] == "running" else None,
        "trace_end": trace_end,
    }.get(policy)
    if end is not None and all(start <= end for start in starts):
        stretches += [(start, end) for start in starts]
    if not stretches:
        return None, 0, None
    first, last = (list(times) for times in zip(*stretches, strict=True))
    total = sum(end - start for start, end in stretches)
    return max(last) - min(first), len(stretches), total


_times = st.none() | st.integers(0, 20).map(float)


def _in_order(row: tuple[Any, ...]) -> bool:
    *_, start, end = row
    return start is None or end is None or start <= end


_keys = st.tuples(st.sampled_from("ab"), st.sampled_from(["ps", "worker"]))
instances = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["ps", "worker"]), _times, _times).filter(
        _in_order
    ),
    max_size=12,
).map(lambda rows: make_instances(*rows))
tasks = st.lists(
    st.tuples(_keys, st.sampled_from(["completed", "failed", "running", None]), _times, _times)
    .filter(_in_order)
    .map(lambda row: (*row[0], *row[1:])),
    max_size=4,
    unique_by=lambda row: row[:2],
).map(lambda rows: make_tasks(*rows))
