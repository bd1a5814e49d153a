"""``traceana reliability TRACE``: faults of machines, failures of jobs, checkpoint interval."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import polars as pl

from traceana.cli.options import qualifying_trace
from traceana.cli.output import print_json, print_rows
from traceana.questions.reliability.jobs import (
    NEEDS,
    checkpoint_interval,
    group_column,
    job_failures_of,
    reliability_of,
)
from traceana.questions.reliability.tables import (
    CheckpointIntervals,
    JobFailureIntervals,
    JobFailureResult,
    MachineReliability,
    ReliabilityResult,
)
from traceana.store import open_store
from traceana.tables.formatting import duration

_SHOWN: Final = ("n", "rate", "ci_low", "ci_high", "mttr_s", "median_s", "availability")


def reliability(
    trace: str,
    *,
    machines: int | None = None,
    checkpoint_cost: float | None = None,
    restart: float = 0.0,
    total_machines: int | None = None,
    store: Path | None = None,
    json: bool = False,
) -> None:
    """Compute fault rate, time to repair, and time to failure of a job."""
    chosen = qualifying_trace(open_store(store), trace, NEEDS)
    result = reliability_of(chosen, group_column(chosen), total_machines)
    jobs = job_failures_of(chosen, [machines or result.total_machines], total_machines)
    row = jobs.intervals.row(0, named=True)
    mttf_s = row["observed_s"] or row["mean_s"]
    checkpoints = None
    if checkpoint_cost is not None and mttf_s is not None:
        checkpoints = checkpoint_interval(mttf_s, checkpoint_s=checkpoint_cost, restart_s=restart)
    if json:
        names = ("groups", "machines", "dispersion", "concurrent", "periods")
        frames = {"results": result.overall, **{name: getattr(result, name) for name in names}}
        frames |= {"job_failure_interval": jobs.intervals, "checkpoint_interval": checkpoints}
        about = {
            "trace": chosen.id,
            "synthetic": chosen.synthetic,
            "total_machines": result.total_machines,
            "total_machines_stated": result.is_stated,
            "window_s": list(result.window_s),
        }
        print_json(about | {k: None if f is None else f.to_dicts() for k, f in frames.items()})
        return
    sys.stdout.write(f"{chosen.label}\n\n")
    _show(result, jobs, checkpoints)


def _show(
    result: ReliabilityResult, jobs: JobFailureResult, checkpoints: pl.DataFrame | None
) -> None:
    sys.stdout.write(f"{result.summary()}\n")
    if result.groups is not None and result.groups.height:
        by = result.groups.columns[0]
        sys.stdout.write(f"\nFaults by {by}\n")
        headings = {by: by.capitalize()}
        print_rows(
            result.groups,
            MachineReliability,
            columns=(by, *_SHOWN),
            headings=headings,
            null={by: "not stated"},
        )
    sys.stdout.write("\nMean time to failure of the job\n")
    columns = [name for name in jobs.intervals.columns if jobs.intervals[name].count()]
    print_rows(jobs.intervals, JobFailureIntervals, columns=columns)
    if checkpoints is not None:
        mean = duration(checkpoints["mttf_s"][0])
        sys.stdout.write(f"\nCheckpoints, for a mean time to failure of {mean}\n")
        print_rows(checkpoints, CheckpointIntervals, columns=checkpoints.columns[1:])
