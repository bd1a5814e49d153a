"""Replay recorded workers under batch-size controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.batching.controllers import (
    BatchController,
    Measured,
    Oracle,
    Uniform,
    find_controller,
)
from traceana.simulate.batching.episodes import (
    RecordedJob,
    episode_rows,
    read_episodes,
    read_samples,
    with_and_without,
)
from traceana.simulate.batching.run import (
    Course,
    check_memory,
    check_setting,
    held_back,
    run_course,
)
from traceana.simulate.batching.tables import BatchingReplay, ReplayEpisodes, ReplayJobs
from traceana.stats.arguments import as_list, is_number
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from narwhals.stable.v2.typing import IntoFrame

    from traceana.simulate.batching.split import Reals

__all__ = ["BatchingReplay", "replay_batching"]

_LARGEST_WITHIN: Final = 1000
_CONTROLLERS = ("uniform", Measured(), "proportional", "damped", "oracle")
_NONE = "no time at which all of two or more workers have a sample"
_QUANTILES = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}


def replay_batching(
    samples: IntoFrame,
    /,
    *,
    episodes: IntoFrame | None = None,
    controllers: Sequence[str | BatchController] = _CONTROLLERS,
    batch: int = 64,
    within: float = 0.1,
    by: str = "job_id",
    time: str = "time_s",
    worker: str = "worker_id",
    value: str = "batch_time",
) -> BatchingReplay:
    """Replay recorded workers as time-varying throughput under each controller.

    A recorded time t at equal batch sizes is a throughput of batch / t with an overhead of 0; the
    trace cannot separate the two. Each time at which all workers of the job have a sample is one
    step; other times are excluded and counted. A controller sees the times of a step only after
    it, so it reacts one step late; the oracle knows each step in advance.

    Parameters
    ----------
    samples
        One row per worker and time: `by`, `worker`, `time` and `value`; eager or lazy, of any
        supported engine. Rows with a null are excluded.
    episodes
        One row per straggler episode: `by`, worker_id, onset_s and end_s, such as `episodes` of
        :func:`detect_stragglers`; jobs that are not in `samples` are ignored. The job is also run
        without each episode, its samples at most the median of the worker's samples outside all its
        episodes.
    controllers
        Names or objects, as for :func:`simulate_batching`.
    batch
        Samples of a worker under equal batches: the resolution of a batch size.
    within
        Relative difference from the oracle's step up to which a step counts as recovered.
    by, worker
        Columns of the job and the worker: values of any type, which become text.
    time
        Column of the time: numbers, such as seconds or a step, or datetimes, which become Unix
        seconds.
    value
        Column of the iteration time, in any unit; the result has the same unit.

    Raises
    ------
    DataError
        If a (by, worker, time) has several rows, no job has a time with all of two or more workers,
        or an episode names an unknown worker.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> samples = pl.DataFrame({"job_id": "a", "time_s": [0, 0, 30, 30, 60, 60],
    ...                         "worker_id": ["0", "1"] * 3, "batch_time": [1.0, 2.0] * 3})
    >>> replay = traceana.replay_batching(samples, controllers=["uniform", "proportional"])
    >>> replay.jobs.select("controller", pl.col("speedup").round(2)).rows()
    [('uniform', 1.0), ('proportional', 1.28)]
    """
    chosen = _check(controllers, batch, within)
    names = [controller.name for controller in chosen]
    found_episodes = None if episodes is None else read_episodes(episodes, by)
    jobs: list[dict[str, Any]] = []
    steps: list[pl.DataFrame] = []
    workers: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    recorded, others = read_samples(
        samples, {"by": by, "time": time, "worker": worker, "value": value}
    )
    for job in recorded:
        of_job = None if found_episodes is None else found_episodes.filter(job_id=job.job_id)
        runs = with_and_without(job, of_job)
        courses = _run(runs, chosen, batch)
        for name in names:
            controller = chosen[names.index(name)]
            note = held_back(controller, courses[name])[0]
            jobs.append(_job_row(job, name, courses, note))
            workers += _worker_rows(job, name, courses[name], batch / runs[:, 0])
            steps.append(
                pl.DataFrame(
                    {
                        "job_id": job.job_id,
                        "controller": name,
                        "time_s": job.time_s,
                        "step_time": courses[name].step_s[:, 0],
                    }
                )
            )
        if of_job is not None:
            rows += episode_rows(job, of_job, courses, names, within=within)
    jobs += [
        {"job_id": job, "controller": name, "n_steps": 0, "n_excluded": ticks, "note": _NONE}
        for job, ticks in others.items()
        for name in names
    ]
    return BatchingReplay(
        pl.DataFrame(jobs, schema=schema_of(ReplayJobs)),
        pl.concat(steps),
        pl.DataFrame(workers),
        pl.DataFrame(rows, schema=schema_of(ReplayEpisodes)),
        within,
    )


def _check(
    controllers: Sequence[str | BatchController], batch: int, within: float
) -> list[BatchController]:
    if not (is_number(within) and 0 <= within <= _LARGEST_WITHIN):
        raise DataError(f"within must be from 0 to {_LARGEST_WITHIN:,}; it is {within!r}")
    if not is_number(batch, whole=True) or batch < 1:
        raise DataError(f"batch must be a whole number, 1 or more; it is {batch!r}")
    chosen = [find_controller(controller) for controller in as_list("controllers", controllers)]
    names = [controller.name for controller in chosen]
    if not names or len(set(names)) < len(names):
        raise DataError(f"controllers must have different names; found {names}")
    return chosen


def _run(runs: Reals, chosen: Sequence[BatchController], batch: int) -> dict[str, Course]:
    """Run (ticks, runs, workers) of times under each controller, uniform and oracle included."""
    ticks, number, workers = runs.shape
    check_setting(batch * workers, workers, 1, np.inf, ticks)
    check_memory(ticks, number, workers)
    all_of_them: dict[str, BatchController] = {"uniform": Uniform(), "oracle": Oracle()}
    all_of_them |= {controller.name: controller for controller in chosen}
    return {
        name: run_course(
            np.zeros((number, workers)),
            batch / runs,
            controller,
            global_batch=batch * workers,
            steps=ticks,
        )
        for name, controller in all_of_them.items()
    }


def _job_row(
    job: RecordedJob, name: str, courses: dict[str, Course], note: str | None
) -> dict[str, Any]:
    course, workers = courses[name], len(job.worker_id)
    spent, usual, best = (
        float(courses[each].step_s[:, 0].sum()) for each in (name, "uniform", "oracle")
    )
    return {
        "job_id": job.job_id,
        "controller": name,
        "n_workers": workers,
        "n_steps": len(job.time_s),
        "n_excluded": job.excluded,
        "time": spent,
        "speedup": usual / spent,
        "speedup_iterations": len(job.time_s)
        / float((course.step_s[:, 0] / courses["uniform"].step_s[:, 0]).sum()),
        "of_possible": (usual - spent) / (usual - best) if best < usual else None,
        "adjustments": int(course.adjustments[0]),
        "idle_fraction": max(0.0, float(1 - course.worker_s[0].sum() / (workers * spent))),
        "note": note,
    }


def _worker_rows(
    job: RecordedJob, name: str, course: Course, samples_per_s: Reals
) -> list[dict[str, Any]]:
    ticks = np.arange(len(job.time_s))
    batches = course.batches[np.searchsorted(course.changed, ticks, side="right") - 1, 0]
    quantiles = np.quantile(batches / samples_per_s, list(_QUANTILES.values()), axis=0)
    busy = course.worker_s[0] / course.step_s[:, 0].sum()
    return [
        {
            "job_id": job.job_id,
            "controller": name,
            "worker_id": worker,
            "mean_batch": float(batches[:, k].mean()),
            **dict(zip(_QUANTILES, quantiles[:, k].tolist(), strict=True)),
            "busy_fraction": float(busy[k]),
        }
        for k, worker in enumerate(job.worker_id)
    ]
