"""Instances of the PAI sample: how many a task has, and how each of them went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.samples.draw import hex_ids
from traceana.samples.pai_shares import (
    FAILED,
    INTERRUPTED,
    MOST_INSTANCES,
    ONE_INSTANCE_TASKS,
    ROWS,
    RUNNING,
    START_LOST,
    STATUS_WORDS,
    TERMINATED,
    WAITING,
    lose,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceana.samples.pai_jobs import Course
    from traceana.samples.pai_machines import Machines

_SIGMA: Final = 2.0
_LARGEST_SHARE: Final = 0.03
_ENDED_THOUGH_RUNNING: Final = 0.15
_INTERRUPTED: Final = 0.3
_RETRIED: Final = 0.002


def draw_instances_of_tasks(rng: np.random.Generator, n: int, total: int) -> NDArray[np.int64]:
    """Draw the instances of each task: mostly one, else a heavy tail, `total` in all."""
    one = round(ONE_INSTANCE_TASKS / ROWS["pai_task_table"] * n)
    several = rng.permutation(n)[one:]
    beyond_two = total - n - len(several)
    weight = np.exp(_SIGMA * rng.standard_normal(len(several)))
    # in a small sample no single task may outweigh the others
    weight = np.minimum(weight, _LARGEST_SHARE * weight.sum())
    size = np.ones(n, dtype=np.int64)
    size[several] += 1 + np.floor(weight / weight.sum() * beyond_two).astype(np.int64)
    size = np.minimum(size, MOST_INSTANCES)
    while short := total - int(size.sum()):  # what rounding down and the cut have taken
        size[several[size[several] < MOST_INSTANCES][:short]] += 1
    return size


def draw_instances(
    rng: np.random.Generator, tasks: pl.DataFrame, course: Course, *, machines: Machines
) -> pl.DataFrame:
    """Draw the instances; a task's first spans it, the others begin later and end sooner."""
    task = np.repeat(np.arange(tasks.height), tasks["inst_num"].cast(pl.Int64).to_numpy())
    n = len(task)
    later = np.append(False, task[1:] == task[:-1])
    span = (course.end - course.start)[task]
    start = course.start[task] + later * np.floor(rng.random(n) * np.minimum(span / 2, 60))
    end = course.end[task] - later * np.floor(rng.random(n) ** 4 * span / 2)
    status = course.status[task]
    # some tasks are Running still although all their instances ended
    ended = (rng.random(tasks.height) < _ENDED_THOUGH_RUNNING) & (course.status == RUNNING)
    status[ended[task]] = TERMINATED
    status[(status == FAILED) & later & (rng.random(n) < _INTERRUPTED)] = INTERRUPTED
    worker = hex_ids(rng, n, digits=60)
    # a worker that is tried again has a second row
    again = later & (rng.random(n) < _RETRIED)
    of_task = tasks.select("job_name", "inst_id", "task_name", "plan_cpu", "plan_mem", "plan_gpu")
    on_machine = machines.table.select("machine", "cap_gpu")
    start_lost = (status == WAITING) | (rng.random(n) < START_LOST)
    return (
        of_task[task]
        .with_columns(
            inst_name=hex_ids(rng, n, digits=60),
            worker_name=worker.gather(np.arange(n) - again),
            status=STATUS_WORDS.gather(status),
            start_time=lose(rng, start, start_lost),
            end_time=lose(rng, end, ~(course.end_known | ended)[task]),
        )
        .hstack(on_machine[machines.draw(rng, course.gpu_type[task])])
        .with_columns(pl.when(pl.Series(status != WAITING)).then("machine"))
    )
