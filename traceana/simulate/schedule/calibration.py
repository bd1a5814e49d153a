"""How well FIFO and EASY on a log's own cluster reproduce its median waits."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from traceana.simulate.schedule.capacity import OWN, of_demand
from traceana.tables.formatting import duration, listed, plural

_POLICIES: Final = ("fifo", "easy")
_FACTOR: Final = 2.0
_CLOSE_S: Final = 60.0
_CLOSE: Final = "within a minute or a factor of two of the recorded one"
_CAUSES: Final = "it has part of the jobs of the cluster, or they wait for something else."
_NO_STARTS: Final = (
    "Calibration: the log has no start times, so simulated waits cannot be compared with its own."
)


def recorded(jobs: pl.DataFrame, /, *, same: bool) -> dict[str, Any]:
    """Return the median wait of the log and the most GPUs in use; null if the load differs."""
    started = jobs.drop_nulls("start_s") if same and "start_s" in jobs.columns else jobs.clear()
    if started.is_empty():
        return {"wait_s_recorded": None, "gpus_recorded": None}
    wait = (started["start_s"] - started["submit_s"]).median()
    return {"wait_s_recorded": wait, "gpus_recorded": of_demand(started).gpus}


def calibrate(groups: pl.DataFrame, /) -> str:
    """Return sentences that compare the median waits of FIFO and EASY with those of the log.

    `groups` are those of schedules of all jobs; rows of other policies, of another number of GPUs
    and without jobs that started are left out. Empty without FIFO and EASY on the own cluster.
    """
    simulated = groups.filter(
        pl.col("policy").is_in(_POLICIES), pl.col("capacity").is_in(OWN)
    ).drop_nulls("wait_s_median")
    if simulated.is_empty():
        return ""
    rows = simulated.drop_nulls("wait_s_recorded")
    if rows.is_empty():
        return _NO_STARTS
    idle = unused(rows)
    note = f" In the log {idle}, so none waits: {_CAUSES}" if idle else ""
    return _medians(rows) + note


def _medians(rows: pl.DataFrame) -> str:
    first = rows.row(0, named=True)
    if rows["group"].n_unique() == 1:
        of_policies = rows.select("policy", "wait_s_median").rows()
        medians = (f"{duration(median)} under {policy}" for policy, median in of_policies)
        return (
            f"Calibration: on the log's own cluster the median wait is {listed(medians)}; "
            f"{duration(first['wait_s_recorded'])} recorded."
        )
    ours, theirs = pl.col("wait_s_median"), pl.col("wait_s_recorded")
    factor = ours.is_between(theirs / _FACTOR, theirs * _FACTOR)
    close = rows.group_by("policy", maintain_order=True).agg(
        n=((ours - theirs).abs().le(_CLOSE_S) | factor).sum(), all=pl.len()
    )
    counts = (f"{n} of {total} groups under {policy}" for policy, n, total in close.rows())
    return (
        f"Calibration: on the log's own clusters the median wait is {_CLOSE} in {listed(counts)}."
    )


def unused(rows: pl.DataFrame, /) -> str:
    """Return a clause on the groups whose jobs cannot have waited for GPUs; empty without any."""
    of_policy = rows.filter(pl.col("policy").is_in(_POLICIES))
    free = of_policy.filter(
        pl.col("wait_s_mean") == 0, pl.col("gpus_recorded") < pl.col("gpus")
    ).unique("group")
    if free.is_empty():
        return ""
    used, gpus = free["gpus_recorded"].sum(), free["gpus"].sum()
    groups = "" if rows["group"].n_unique() == 1 else f" of {plural(free.height, 'group')}"
    return f"the jobs{groups} never use more than {used:,.0f} of {gpus:,.0f} GPUs at one time"
