"""Jobs and tasks of the PAI sample, calibrated to the published fractions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tests.generator.draw import DAY_S, arrivals, heavy_tail, hex_ids, pick
from tests.generator.pai_shares import (
    FAILED,
    FAILED_END_KNOWN,
    GPU_TYPES,
    MEAN_RUNTIME_S,
    NO_PLAN,
    NO_PLAN_TASKS,
    NO_TYPE,
    NO_TYPE_TASKS,
    PLAN_GPU,
    ROWS,
    START_LOST,
    STATUS_WORDS,
    STATUSES,
    TERMINATED,
    WAITING,
    lose,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.generator.pai_groups import Groups

FIRST_S: Final = 7 * DAY_S
DAYS: Final = 62
_RUNTIME_SIGMA: Final = 0.7
_THIRD_TASKS: Final = 0.15  # of the tasks past a job's first
_FIRST, _SERVER = 0, 1  # a task's place in its job
_ROLES: Final = ("worker", "ps", "evaluator")
_LONE_ROLES: Final = {
    "tensorflow": 55,
    "PyTorchWorker": 20,
    "worker": 15,
    "xComputeWorker": 5,
    "TVMTuneMain": 5,
}
_CPU_PERCENT: Final = (100, 200, 400, 500, 600, 800, 1000, 1200, 1600, 2000, 2400)
_GB: Final = (2, 4, 8, 10, 15, 20, 30, 40, 60, 100)
_PLANS: Final = np.append(np.array(list(PLAN_GPU), dtype=float), np.nan)
_TYPE_NAMES: Final = pl.Series([*GPU_TYPES, None])


@dataclass(frozen=True)
class Course:
    """How each task truly went, before anything of it is lost."""

    gpu_type: NDArray[np.int64]
    status: NDArray[np.int64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]
    end_known: NDArray[np.bool_]


def draw_jobs(
    rng: np.random.Generator, n_jobs: int, n_tasks: int, *, groups: Groups
) -> tuple[pl.DataFrame, pl.DataFrame, Course]:
    """Draw so many jobs and tasks; the frames carry a few columns more than are published."""
    job, place = _tasks_of_jobs(rng, n_jobs, n_tasks)
    first = np.flatnonzero(place == _FIRST)
    gpu_type, plan = _requests(rng, place)
    group = groups.draw(rng, gpu_type[first], plan[first])
    submitted = arrivals(rng, n_jobs, first_s=FIRST_S, days=DAYS).astype(np.float64)
    # the tasks of a job share its fate
    status = pick(rng, list(STATUSES.values()), n_jobs)[job]
    end_known = (rng.random(n_jobs) < FAILED_END_KNOWN)[job] & (status == FAILED)
    end_known |= status == TERMINATED
    by_outcome = [np.array(MEAN_RUNTIME_S[name])[gpu_type] for name in ("success", "failure")]
    mean_s = np.where(status == TERMINATED, *by_outcome) * groups.runtime[group][job]
    start = submitted[job] + np.floor(heavy_tail(rng, 200.0, n_tasks, sigma=2.0))
    end = start + np.ceil(heavy_tail(rng, mean_s, n_tasks, sigma=_RUNTIME_SIGMA))
    jobs = pl.DataFrame(
        {
            "job_name": hex_ids(rng, n_jobs, digits=24),
            "inst_id": hex_ids(rng, n_jobs, digits=60),
            "status": STATUS_WORDS.gather(status[first]),
            "start_time": lose(rng, submitted, rng.random(n_jobs) < START_LOST),
            "end_time": lose(rng, np.maximum.reduceat(end, first), ~end_known[first]),
            "gpu_type": _TYPE_NAMES.gather(gpu_type[first]),
        }
    ).hstack(groups.table[group])
    start_lost = (status == WAITING) | (rng.random(n_tasks) < START_LOST)
    tasks = pl.DataFrame(
        {
            "job_name": jobs["job_name"].gather(job),
            "inst_id": jobs["inst_id"].gather(job),
            "task_name": _role_names(rng, job, place),
            "status": STATUS_WORDS.gather(status),
            "start_time": lose(rng, start, start_lost),
            "end_time": lose(rng, end, ~end_known),
            "plan_cpu": rng.choice(_CPU_PERCENT, n_tasks).astype(float),
            "plan_mem": rng.choice(_GB, n_tasks) * 1000 / 1024,
            "plan_gpu": pl.Series(_PLANS[plan]).fill_nan(None),
            "gpu_type": _TYPE_NAMES.gather(gpu_type),
        }
    )
    return jobs, tasks, Course(gpu_type, status, start, end, end_known)


def _tasks_of_jobs(
    rng: np.random.Generator, n_jobs: int, n_tasks: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each task's job and place in it: some jobs have two tasks, some of them three."""
    more = n_tasks - n_jobs
    second = more - int(more * _THIRD_TASKS)
    chosen = rng.permutation(n_jobs)[:second]
    tasks = np.ones(n_jobs, dtype=np.int64)
    tasks[chosen] += 1
    tasks[chosen[: more - second]] += 1
    job = np.repeat(np.arange(n_jobs), tasks)
    return job, np.arange(n_tasks) - (np.cumsum(tasks) - tasks)[job]


def _role_names(
    rng: np.random.Generator, job: NDArray[np.int64], place: NDArray[np.int64]
) -> pl.Series:
    lone = np.bincount(job)[job] == 1
    drawn = len(_ROLES) + pick(rng, list(_LONE_ROLES.values()), len(job))
    return pl.Series([*_ROLES, *_LONE_ROLES]).gather(np.where(lone, drawn, place))


def _requests(
    rng: np.random.Generator, place: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw GPU type and plan_gpu (indices); parameter servers request no GPU."""
    n = len(place)
    server = place == _SERVER
    wanted = NO_PLAN_TASKS / ROWS["pai_task_table"] * n
    others = (wanted - server.sum()) / (n - server.sum())
    none = server | (rng.random(n) < others)
    plan = np.where(none, NO_PLAN, pick(rng, list(PLAN_GPU.values()), n))
    gpu_type = pick(rng, list(GPU_TYPES.values()), n)
    gpu_type[none & (rng.random(n) < NO_TYPE_TASKS / NO_PLAN_TASKS)] = NO_TYPE
    # machines with T4 and P100 have two GPUs: tasks that request more exchange types with another
    names = list(GPU_TYPES)
    on_two = np.isin(gpu_type, [names.index("T4"), names.index("P100")])
    gives = np.flatnonzero(on_two & (_PLANS[plan] > 200))
    takes = np.flatnonzero((gpu_type == names.index("MISC")) & (_PLANS[plan] <= 200))
    pairs = min(len(gives), len(takes))
    gives, takes = gives[:pairs], takes[:pairs]
    gpu_type[takes], gpu_type[gives] = gpu_type[gives], gpu_type[takes]
    return gpu_type, plan
