"""``traceana simulate schedule``: the jobs of a trace under scheduling policies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

from traceana.cli.options import JsonOption, OutOption, StoreOption, argument, option
from traceana.cli.output import Shown, print_result, show_fraction, write_frame
from traceana.cli.simulate.choose import load_objects, open_simulated, qualifying_trace
from traceana.errors import DataError

_NEEDED: Final = ({"jobs": ("submit_s", "runtime_s", "gpus")},)
_SHOWN: Final = (
    "policy",
    "group",
    "gpus",
    "capacity",
    "jobs",
    "n_declined",
    "fraction_met",
    "wait_s_mean",
    "wait_s_median",
    "wait_s_p95",
    "slowdown_mean",
    "utilization",
)


def schedule(
    *,
    trace: Annotated[str, argument("Trace of the store with jobs.", "TRACE")],
    policy: Annotated[
        str,
        option(
            "fifo, fair_share, sjf, sjf_user_mean, sjf_last_value, srtf, easy, conservative, "
            "priority, tiresias, gandiva, themis, edf, edf_admission, edf_elastic, elasticflow, or "
            "package.module:name.",
            "NAME,...",
        ),
    ] = "fifo,easy,sjf",
    group: Annotated[
        str | None,
        option(
            "Column that names the cluster of a job.  [default: cluster, if the trace has it]",
            "COLUMN",
        ),
    ] = None,
    gpus: Annotated[
        str | None,
        option(
            "GPUs of each cluster, or a change such as +10%.  [default: machines, the "
            "capacity that the trace states, or the largest demand]",
            "N|+10%",
        ),
    ] = None,
    profiles: Annotated[
        Path | None,
        option(
            "Folder with the throughput of each model as CSV.  [default: implied by the "
            "training plans]",
            "DIR",
        ),
    ] = None,
    scale_load: Annotated[float, option("Multiply the arrival rate by this factor.")] = 1.0,
    replications: Annotated[
        int, option("Logs resampled by week, for a confidence interval of the mean wait.", "N")
    ] = 0,
    store: StoreOption = None,
    json: JsonOption = False,
    out: OutOption = None,
) -> None:
    """Schedule the jobs of a trace on its clusters under policies.

    Prints waits, slowdowns and deadlines met, by policy and cluster. If the log has start times,
    the recorded waits are printed as well, and how well FIFO and EASY reproduce their medians.
    """
    import polars as pl

    from traceana.questions.scheduling.what_if import jobs_to_schedule
    from traceana.simulate.schedule.calibration import calibrate
    from traceana.simulate.schedule.profiles import read_profiles
    from traceana.simulate.schedule.sweep import recorded_waits, sweep_schedules
    from traceana.simulate.schedule.tables import ScheduleGroups
    from traceana.stats.arguments import MOST_RESAMPLES, check_count

    check_count("--replications", replications, least=0, most=MOST_RESAMPLES)
    policies = load_objects(policy, "--policy")
    chosen = qualifying_trace(open_simulated(store), trace, _NEEDED)
    jobs, running, _ = chosen.once(jobs_to_schedule, None)
    if group is not None and group not in jobs.columns:
        valued = [name for name in jobs.columns if jobs[name].count()]
        raise DataError(f"--group {group}: jobs have no such column; use {', '.join(valued)}")
    by = group or "cluster"
    plans, machines = (
        chosen.table(table) if chosen.has(table, (column,)) else None
        for table, column in (("training_plans", "iterations"), ("machines", "gpus"))
    )
    if profiles is not None:
        read_profiles(profiles)  # also where no policy uses them
    with show_fraction("schedules") as progress:
        results = sweep_schedules(
            jobs,
            policies,
            plans=plans,
            group=by,
            gpus=_gpus(gpus),
            machines=machines,
            profiles=profiles,
            capacity=chosen.manifest.capacity,
            scale_load=scale_load,
            replications=replications,
            processes=os.cpu_count() or 1,
            progress=progress,
        )
    calibration = calibrate(results) if scale_load == 1 else ""
    scheduled = int(results.filter(policy=next(iter(policies)))["jobs"].sum())
    recorded = recorded_waits(jobs, group=by)
    if recorded is not None:
        results = pl.concat([recorded, results])
    write_frame(results, out, ScheduleGroups)
    interval = ("wait_s_ci_low", "wait_s_ci_high") if replications else ()
    print_result(
        f"{chosen.id}: {jobs.height:,} jobs{_note(jobs.height - scheduled, running, by)}\n",
        {"trace": chosen.id, "synthetic": chosen.synthetic, "calibration": calibration},
        Shown(
            name="results",
            frame=results,
            table=ScheduleGroups,
            columns=(*_SHOWN[:8], *interval, *_SHOWN[8:]),
        ),
        as_json=json,
    )
    if calibration and not json:
        sys.stdout.write(f"\n{calibration}\n")


def _note(excluded: int, running: int, by: str) -> str:
    """Return which jobs of a log are scheduled, and where."""
    note = f"; {excluded:,} without submission, runtime or GPUs are excluded" if excluded else ""
    note += f"; {running:,} that run hold their GPUs until the end" if running else ""
    return note if by == "cluster" else f"{note}; a cluster of its own for each {by}"


def _gpus(text: str | None) -> float | str | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text
