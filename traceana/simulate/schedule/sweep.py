"""Several policies on the same jobs, in several processes where it pays."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.schedule.profiles import implied_rates
from traceana.simulate.schedule.simulate import read_schedule_jobs, simulate_schedule
from traceana.simulate.schedule.tables import ScheduleGroups
from traceana.tables.declare import declared, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from narwhals.stable.v2.typing import IntoFrame

_SMALL: Final = 20_000
"""Jobs times policies below which processes do not pay."""
_WEEK_S: Final = 7 * 86_400
_PLANNED: Final = {"model", "batch_size", "iterations"}


def sweep_schedules(
    jobs: IntoFrame,
    policies: Mapping[str, Any],
    /,
    *,
    plans: IntoFrame | None = None,
    group: str | None = "cluster",
    processes: int = 1,
    replications: int = 0,
    rng: int = 1,
    progress: Callable[[float], object] = lambda _: None,
    **how: Any,  # noqa: ANN401  what simulate_schedule takes
) -> pl.DataFrame:
    """Return the outcome of :func:`simulate_schedule` by policy, then group.

    Several processes share large sweeps. Each replication is a log of weeks that are drawn with
    replacement from those of the group, the same for all policies and on as many GPUs; the
    quantiles of their mean waits are the interval. Weeks count from the first submission.
    """
    table = read_schedule_jobs(jobs, plans=plans, group=group)
    if how.get("profiles") is None and set(table.columns) >= _PLANNED:
        how["profiles"] = implied_rates(table)
    groups = table.group_by("group").len().sort("len", "group", descending=[True, False])
    tasks = [
        (
            *(name, policy, str(each), table.filter(group=each).drop("row", "known")),
            (how, replications, rng),
        )
        for each in groups["group"]
        for name, policy in policies.items()
    ]
    frame: dict[tuple[str, str], pl.DataFrame] = {}
    processes = min(processes, len(tasks))
    if table.height * len(policies) * (1 + replications) < _SMALL or processes == 1:
        for task in tasks:
            frame[task[0], task[2]] = _run(*task)
            progress(len(frame) / len(tasks))
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(_run, *task): (task[0], task[2]) for task in tasks}
            for future in as_completed(futures):
                frame[futures[future]] = future.result()
                progress(len(frame) / len(tasks))
    order = sorted(groups["group"])
    return declared(
        pl.concat(frame[name, each] for name in policies for each in order), ScheduleGroups
    )


def _run(
    name: str,
    policy: Any,  # noqa: ANN401  what simulate_schedule takes
    group: str,
    jobs: pl.DataFrame,
    options: tuple[Mapping[str, Any], int, int],
    /,
) -> pl.DataFrame:
    how, replications, seed = options
    groups = simulate_schedule(jobs, policy=policy, group="group", **how).groups
    low = high = None
    if replications:
        generator = np.random.default_rng(seed)
        same = {**how, "gpus": groups["gpus"].item(), "machines": None}
        logs = (_draw_weeks(jobs, group, generator) for _ in range(replications))
        runs = (simulate_schedule(log, policy=policy, group="group", **same) for log in logs)
        waits = [wait for run in runs if (wait := run.groups["wait_s_mean"].item()) is not None]
        if waits:
            low, high = np.quantile(waits, (0.025, 0.975)).tolist()
    return groups.with_columns(
        pl.lit(name).alias("policy"),
        pl.lit(low, pl.Float64).alias("wait_s_ci_low"),
        pl.lit(high, pl.Float64).alias("wait_s_ci_high"),
    )


def _draw_weeks(jobs: pl.DataFrame, group: str, generator: np.random.Generator) -> pl.DataFrame:
    """Draw as many weeks as the jobs have, with replacement, and put them in sequence."""
    week = (pl.col("submit_s") - pl.col("submit_s").min()) // _WEEK_S
    of_week = jobs.drop_nulls("submit_s").with_columns(week.alias("week"))
    weeks = int(of_week["week"].max() or 0) + 1  # type: ignore[arg-type]
    if weeks < 2:
        raise DataError(
            f"replications need submissions in two weeks or more; those of group {group} are in one"
        )
    times = [name for name in ("submit_s", "start_s", "deadline_s") if name in jobs.columns]
    drawn = [
        of_week.filter(week=week).with_columns(pl.col(times) + (place - week) * _WEEK_S)
        for place, week in enumerate(generator.integers(weeks, size=weeks).tolist())
    ]
    return pl.concat(drawn).drop("week")


def recorded_waits(jobs: IntoFrame, /, *, group: str | None = "cluster") -> pl.DataFrame | None:
    """Return the waits of the log itself by group, or None without starts.

    Policies on the log's own clusters compare with these: the calibration of the simulation.
    """
    table = read_schedule_jobs(jobs, group=group).filter("known")
    if "start_s" not in table.columns or not table["start_s"].count():
        return None
    wait = pl.col("start_s") - pl.col("submit_s")
    rows = (
        table.sort("group")
        .group_by("group", maintain_order=True)
        .agg(
            pl.lit("recorded").alias("policy"),
            pl.len().cast(pl.Int64).alias("jobs"),
            wait.mean().alias("wait_s_mean"),
            wait.median().alias("wait_s_median"),
            wait.quantile(0.95).alias("wait_s_p95"),
        )
    )
    every = pl.concat([pl.DataFrame(schema=schema_of(ScheduleGroups)), rows], how="diagonal")
    return declared(every, ScheduleGroups)
