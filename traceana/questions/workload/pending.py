"""Jobs that wait at the end of the window."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.observation import window_of
from traceana.store import Trace
from traceana.store.frames import collect


def pending_jobs(trace: Trace, /) -> pl.DataFrame:
    """Return [job_id, wait_s] of the jobs that wait at the window's end, the longest wait first."""
    window = trace.once(window_of)
    if window is None or not trace.has("jobs", ("submit_s", "status")):
        return pl.DataFrame(schema={"job_id": pl.String, "wait_s": pl.Float64})
    waits = nw.col("status").cast(nw.String) == "pending"
    if trace.has("jobs", ("start_s",)):
        waits &= nw.col("start_s").is_null()
    if trace.has("jobs", ("end_s",)):  # others were removed before they started
        waits &= nw.col("end_s").is_null() | (nw.col("end_s") >= window[1])
    wait = (window[1] - nw.col("submit_s")).alias("wait_s")
    rows = collect(trace.rows("jobs").filter(waits).select("job_id", wait))
    return rows.filter(pl.col("wait_s") >= 0).sort("wait_s", descending=True, maintain_order=True)
