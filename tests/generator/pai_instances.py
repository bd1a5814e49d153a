"""Instances of the PAI sample, what they and their machines used, and the tags of the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tests.generator.draw import heavy_tail, hex_ids
from tests.generator.pai_shares import (
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
    WORKLOAD_TAGGED,
    lose,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.generator.pai_groups import Machines
    from tests.generator.pai_jobs import Course

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


_TYPE_ASKED_FOR: Final = 0.2
_IDLE: Final = 0.1  # instances that leave their GPU unused


def draw_tags(rng: np.random.Generator, jobs: pl.DataFrame, n: int) -> pl.DataFrame:
    """Tag all but a few jobs."""
    tags = jobs[rng.permutation(jobs.height)[:n]]
    return tags.with_columns(
        gpu_type_spec=_keep(rng, tags["gpu_type"], _TYPE_ASKED_FOR),
        workload=_keep(rng, tags["workload"], WORKLOAD_TAGGED),
    )


def draw_sensors(rng: np.random.Generator, instances: pl.DataFrame, n: int) -> pl.DataFrame:
    """Draw the mean use of some instances; a GPU's may exceed the request."""
    seen = instances[rng.permutation(instances.height)[:n]]
    memory = seen["plan_mem"].to_numpy() * rng.beta(1.5, 4, n)
    gpu = seen["plan_gpu"]
    use = np.where(rng.random(n) < _IDLE, 0.0, heavy_tail(rng, 0.45, n, sigma=0.8))
    device = (rng.random(n) * seen["cap_gpu"].to_numpy()).astype(np.int64)
    gpu_memory = heavy_tail(rng, 4.0, n, sigma=0.9)
    return seen.with_columns(
        gpu_name=_where(gpu, pl.format("/dev/nvidia{}", pl.Series(device))),
        cpu_usage=seen["plan_cpu"].to_numpy() * heavy_tail(rng, 0.35, n, sigma=0.9),
        gpu_wrk_util=_where(gpu, gpu * use),
        avg_mem=pl.Series(memory),
        max_mem=pl.Series(memory * (1 + rng.random(n))),
        avg_gpu_wrk_mem=_where(gpu, pl.Series(gpu_memory)),
        max_gpu_wrk_mem=_where(gpu, pl.Series(gpu_memory * (1 + rng.random(n)))),
        read=heavy_tail(rng, 2e7, n, sigma=1.5),
        write=heavy_tail(rng, 1e7, n, sigma=1.5),
        read_count=heavy_tail(rng, 3000, n, sigma=1.0),
        write_count=heavy_tail(rng, 3000, n, sigma=1.0),
    )


def draw_machine_metrics(rng: np.random.Generator, instances: pl.DataFrame, n: int) -> pl.DataFrame:
    """Draw the state of the machine over the life of some instances that have both their times."""
    spans = instances.filter(pl.col("start_time") > 0, pl.col("end_time") > 0)
    seen = spans[rng.permutation(spans.height)[:n]]
    n = seen.height
    user = 100 * rng.beta(2, 4, n)
    kernel = 100 * rng.beta(1.5, 30, n)
    waits = heavy_tail(rng, 0.02, n, sigma=1.5)
    return seen.with_columns(
        # this table's times are printed without a decimal
        pl.col("start_time", "end_time").cast(pl.Int64),
        machine_cpu_iowait=waits,
        machine_cpu_kernel=kernel,
        machine_cpu_usr=user,
        machine_gpu=np.where(seen["cap_gpu"] > 0, heavy_tail(rng, 35, n, sigma=0.8), 0.0),
        machine_load_1=heavy_tail(rng, 20, n, sigma=0.7),
        machine_net_receive=heavy_tail(rng, 1e8, n, sigma=1.0),
        machine_num_worker=1 + heavy_tail(rng, 6, n, sigma=0.7),
        machine_cpu=np.minimum(user + kernel + waits, 100),
    )


def _keep(rng: np.random.Generator, values: pl.Series, share: float) -> pl.Expr:
    """Keep a random fraction of the values and empty the others."""
    kept: NDArray[np.bool_] = rng.random(len(values)) < share
    return pl.when(pl.Series(kept)).then(values)


def _where(given: pl.Series, values: pl.Expr | pl.Series) -> pl.Expr:
    return pl.when(given.is_not_null()).then(values)
