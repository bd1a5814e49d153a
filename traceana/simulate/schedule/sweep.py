"""Several policies on the same jobs, in several processes where it pays."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.simulate.schedule.profiles import implied_rates
from traceana.simulate.schedule.simulate import read_schedule_jobs, simulate_schedule
from traceana.simulate.schedule.tables import ScheduleGroups
from traceana.tables.declare import declared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from narwhals.stable.v2.typing import IntoFrame

_SMALL: Final = 20_000
"""Jobs times policies below which processes do not pay."""
_PLANNED: Final = {"model", "batch_size", "iterations"}


def sweep_schedules(
    jobs: IntoFrame,
    policies: Mapping[str, Any],
    /,
    *,
    plans: IntoFrame | None = None,
    group: str | None = "cluster",
    processes: int = 1,
    progress: Callable[[float], object] = lambda _: None,
    **how: Any,  # noqa: ANN401  what simulate_schedule takes
) -> pl.DataFrame:
    """Return the outcome of :func:`simulate_schedule` by policy, then group.

    Several processes share large sweeps.
    """
    table = read_schedule_jobs(jobs, plans=plans, group=group)
    if how.get("profiles") is None and set(table.columns) >= _PLANNED:
        how["profiles"] = implied_rates(table)
    groups = table.group_by("group").len().sort("len", "group", descending=[True, False])
    tasks = [
        (name, policy, str(each), table.filter(group=each).drop("row", "known"), how)
        for each in groups["group"]
        for name, policy in policies.items()
    ]
    found: dict[tuple[str, str], pl.DataFrame] = {}
    processes = min(processes, len(tasks))
    if table.height * len(policies) < _SMALL or processes == 1:
        for task in tasks:
            found[task[0], task[2]] = _run(*task)
            progress(len(found) / len(tasks))
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(_run, *task): (task[0], task[2]) for task in tasks}
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                progress(len(found) / len(tasks))
    order = sorted(groups["group"])
    return declared(
        pl.concat(found[name, each] for name in policies for each in order), ScheduleGroups
    )


def _run(
    name: str, policy: object, _: str, jobs: pl.DataFrame, how: Mapping[str, Any], /
) -> pl.DataFrame:
    result = simulate_schedule(jobs, policy=policy, group="group", **how)  # type: ignore[arg-type]
    return result.groups.with_columns(policy=pl.lit(name))
