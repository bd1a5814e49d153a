"""``traceana simulate schedule``: the jobs of a trace under scheduling policies."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import polars as pl
from polars.exceptions import PanicException, PolarsError

from traceana.cli import options
from traceana.cli.output import Shown, print_result, show_fraction, write_frame
from traceana.errors import DataError
from traceana.questions.deadlines.plans import PLANS_NEEDS, jobs_of_window
from traceana.questions.scheduling.what_if import cluster_of, jobs_to_schedule
from traceana.simulate import simulate_deadlines, synthesize_deadlines
from traceana.simulate.deadlines.tables import DeadlinePolicies
from traceana.simulate.placement.simulate import Workload, summarize_placement, sweep_placement
from traceana.simulate.placement.tables import PlacementRuns, PlacementSummary
from traceana.simulate.schedule.capacity import calibrate, read_profiles
from traceana.simulate.schedule.simulate import recorded_waits, sweep_schedules
from traceana.simulate.schedule.tables import ScheduleGroups
from traceana.stats.arguments import MOST_RESAMPLES, check_choice, check_count

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
    trace: str,
    policy: str = "fifo,easy,sjf",
    group: str | None = None,
    gpus: str | None = None,
    profiles: Path | None = None,
    scale_load: float = 1.0,
    replications: int = 0,
    store: Path | None = None,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Schedule the jobs of a trace on its clusters under policies."""
    check_count("--replications", replications, least=0, most=MOST_RESAMPLES)
    policies = options.load_objects(policy, "--policy")
    chosen = options.qualifying_trace(options.open_simulated(store), trace, _NEEDED)
    jobs, running, _ = chosen.once(jobs_to_schedule, None)
    if group is not None and group not in jobs.columns:
        valued = [name for name in jobs.columns if jobs[name].count()]
        raise DataError(f"--group {group}: jobs have no such column; use {', '.join(valued)}")
    by = group or "cluster"
    planned = chosen.has("training_plans", ("iterations",))
    plans = chosen.table("training_plans") if planned else None
    if profiles is not None:
        read_profiles(profiles)  # also where no policy uses them
    with show_fraction("schedules") as progress:
        results = sweep_schedules(
            jobs,
            policies,
            plans=plans,
            group=by,
            gpus=_gpus(gpus),
            profiles=profiles,
            **cluster_of(chosen),
            scale_load=scale_load,
            replications=replications,
            processes=os.cpu_count() or 1,
            progress=progress,
        )
    calibration = calibrate(results) if scale_load == 1 else ""
    scheduled = int(results.filter(policy=next(iter(policies)))["jobs"].sum())
    recorded = recorded_waits(jobs, group=by)
    results = results if recorded is None else pl.concat([recorded, results])
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


def _gpus(text: str | None) -> float | str | None:
    with suppress(TypeError, ValueError):  # none, or a change
        return float(text or "")
    return text


def _note(excluded: int, running: int, by: str) -> str:
    note = f"; {excluded:,} without submission, runtime or GPUs are excluded" if excluded else ""
    note += f"; {running:,} that run hold their GPUs until the end" if running else ""
    return note if by == "cluster" else f"{note}; a cluster of its own for each {by}"


_PLACED: Final = ({"jobs": ("gpus",), "machines": ("gpus",)},)
_POLICIES: Final = "random,dotprod,clustering,packing,bestfit,fgd"
_TIES: Final = ("name", "random")
_ARRIVED: Final = (50, 80, 100, 120)


def place(
    *,
    trace: str,
    policy: str = _POLICIES,
    seeds: int = 3,
    ties: str = "name",
    store: Path | None = None,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Fill a cluster with jobs that share GPUs."""
    check_count("--seeds", seeds, most=MOST_RESAMPLES)
    check_choice("--ties", ties, _TIES)
    policies = options.load_objects(policy, "--policy")
    chosen = options.qualifying_trace(options.open_simulated(store), trace, _PLACED)
    jobs, machines = chosen.jobs, chosen.table("machines")
    drawn = range(1, seeds + 1)
    with show_fraction("placement") as progress:
        runs = sweep_placement(
            jobs, machines, policies=policies, seeds=drawn, ties=(ties,), progress=progress
        )
    write_frame(runs, out, PlacementRuns)
    with_gpus = machines.filter(machines["gpus"] > 0)
    without = jobs["gpus"].null_count()
    unplaceable = Workload(jobs, machines).count_unplaceable()
    note = f"; {unplaceable:,} jobs fit on no machine, even if all are empty" if unplaceable else ""
    note += f"; {without:,} jobs without a number of GPUs are excluded" if without else ""
    about = {
        "trace": chosen.id,
        "synthetic": chosen.synthetic,
        "jobs": jobs["gpus"].count(),
        "machines": with_gpus.height,
        "gpus": with_gpus["gpus"].sum(),
        "jobs_without_gpu_number": without,
        "jobs_that_fit_on_no_machine": unplaceable,
    }
    summary = summarize_placement(runs).filter(pl.col("arrived").is_in(_ARRIVED))
    print_result(
        f"{chosen.id}: {about['jobs']:,} jobs on {with_gpus.height:,} machines with "
        f"{about['gpus']:,.0f} GPUs{note}\n",
        about,
        Shown(name="results", frame=runs, table=PlacementSummary, rows=summary),
        as_json=json,
    )


_SUFFIXES: Final = (".csv", ".parquet")


def deadlines(
    *,
    jobs: str | None = None,
    policies: str = "fifo,sjf,edf,least_slack",
    capacity: float | None = None,
    deadline: str | None = None,
    store: Path | None = None,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Schedule jobs with deadlines under simple policies."""
    path = Path(jobs or "")
    is_file = path.suffix in _SUFFIXES or len(path.parts) > 1 or path.is_file()
    name, rows, synthetic, before = _read_file(path) if is_file else _read_store(store, jobs)
    drawn = None if deadline else synthesize_deadlines(rows)
    results = simulate_deadlines(
        rows,
        plans=drawn,
        policies=[*options.load_objects(policies, "--policies").values()],
        capacity=capacity,
        deadline=deadline or "deadline_s",
    )
    made = "" if deadline else ", SYNTHETIC deadlines"
    if drawn is not None:  # an interval would be that of the random numbers
        results = results.with_columns(pl.lit(None, pl.Float64).alias(end) for end in _ENDS)
    made += f"; {before:,} submitted before the window are left out" if before else ""
    write_frame(results, out, DeadlinePolicies)
    about: dict[str, Any] = {"jobs_of": name, "jobs": rows.height, "deadline": deadline}
    print_result(
        f"{name}: {rows.height:,} jobs{made}",
        about | {"synthetic": synthetic},
        Shown(
            name="policies",
            frame=results,
            table=DeadlinePolicies,
            columns=[each for each in results.columns if each not in _ENDS or deadline],
        ),
        as_json=json,
    )


_ENDS: Final = ("ci_low", "ci_high")


def _read_file(file: Path) -> tuple[str, pl.DataFrame, bool, int]:
    if file.suffix not in _SUFFIXES:
        raise DataError(f"{file}: the ending must be one of {', '.join(_SUFFIXES)}")
    try:
        if file.suffix == ".csv":
            return str(file), pl.read_csv(file, glob=False), False, 0
        return str(file), pl.read_parquet(file, use_pyarrow=True), False, 0
    except (OSError, ValueError, PanicException, PolarsError) as error:
        raise DataError(f"{file}: cannot be read ({str(error).splitlines()[0]})") from None


def _read_store(store: Path | None, trace: str | None) -> tuple[str, pl.DataFrame, bool, int]:
    opened = options.open_simulated(store)
    with_plans = opened.traces(table="training_plans") if trace is None else []
    needs = PLANS_NEEDS if with_plans else _NEEDED
    chosen = options.qualifying_trace(opened, trace, needs)
    rows = jobs_of_window(chosen).collect()
    return chosen.id, rows, chosen.synthetic, chosen.manifest.tables["jobs"].rows - rows.height
