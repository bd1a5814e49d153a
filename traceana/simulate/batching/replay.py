"""Replay recorded workers: what each controller would have made of their time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.results.base import Result
from traceana.simulate.batching.controllers import Measured, Oracle, Uniform, find_controller
from traceana.simulate.batching.episodes import (
    EPISODES,
    episode_rows,
    read_episodes,
    with_and_without,
)
from traceana.simulate.batching.recorded import read_samples
from traceana.simulate.batching.run import check_setting, run_course

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.simulate.batching.controllers import BatchController
    from traceana.simulate.batching.recorded import RecordedJob
    from traceana.simulate.batching.run import Course
    from traceana.simulate.batching.split import Reals

_CONTROLLERS = ("uniform", Measured(), "proportional", "damped", "oracle")
_NONE = "no tick at which two or more workers all reported"
_JOBS = {
    "job_id": pl.String,
    "controller": pl.String,
    "n_workers": pl.Int64,
    "n_ticks": pl.Int64,
    "n_ticks_left_out": pl.Int64,
    "time": pl.Float64,
    "speedup": pl.Float64,
    "of_possible": pl.Float64,
    "adjustments": pl.Int64,
    "idle_share": pl.Float64,
    "note": pl.String,
}
_QUANTILES = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}


@dataclass(frozen=True, repr=False)
class BatchingReplay(Result):
    """Recorded jobs under several controllers.

    Times are in the unit of the recorded batch times.

    Attributes
    ----------
    jobs
        [job_id, controller, n_workers, n_ticks, n_ticks_left_out, time, speedup, of_possible,
        adjustments, idle_share, note]. time is the sum over ticks of the slowest worker's time;
        speedup is uniform time over it; of_possible is the share of what the oracle saves that
        this controller saves (null where the oracle saves nothing). A job of which no tick has all
        of two workers or more has nulls, and a note; it comes last and is in no other frame.
    steps
        [job_id, controller, time_s, step_time], one row a tick; time_s is the trace's clock.
    workers
        [job_id, controller, worker_id, mean_batch, p05, p25, median, p75, p95, busy_share]:
        quantiles over the ticks of the worker's iteration time; busy_share is its time at work
        over the job's time.
    episodes
        [job_id, worker_id, onset_s, end_s, controller, n_ticks, time, cost, cost_share,
        cost_after, ratio_to_oracle, share_within, recovery_steps, recovery_s, note], empty where
        no episodes were given. time is that of the episode's ticks; cost is what they take more
        than with the worker at its usual, cost_share is that over their time without the episode,
        and cost_after is what all later ticks take more; ratio_to_oracle is time over the
        oracle's time at the same ticks; share_within is the share of the ticks at which the step
        takes at most 1 + `within` times the oracle's; recovery_steps and recovery_s are the ticks,
        and the seconds of the trace's clock, from the onset to the first of three such steps in a
        row (null: not before the episode ends).
    within
        How near to the oracle's step a recovered step is.
    """

    jobs: pl.DataFrame
    steps: pl.DataFrame
    workers: pl.DataFrame
    episodes: pl.DataFrame
    within: float

    def summary(self) -> str:
        """Return a short text on the result."""
        lines = [
            f"{job}: " + ", ".join(f"{name} {speedup:.3f}" for name, speedup in rows.iter_rows())
            for (job,), rows in (
                (key, group.select("controller", "speedup"))
                for key, group in self.jobs.filter(self.jobs["note"].is_null()).group_by(
                    "job_id", maintain_order=True
                )
            )
        ]
        return "\n".join(["times as fast as uniform batches", *lines])


def replay_batching(
    samples: pl.DataFrame | pl.LazyFrame,
    /,
    *,
    episodes: pl.DataFrame | pl.LazyFrame | None = None,
    controllers: Sequence[str | BatchController] = _CONTROLLERS,
    batch: int = 64,
    within: float = 0.1,
) -> BatchingReplay:
    """Replay the workers of each job as time-varying throughput under each controller.

    A recorded batch time t at an equal batch is a throughput of batch / t, overhead taken as 0:
    the trace cannot tell the two apart. Every tick at which all workers of the job reported is one
    step; the others are left out and counted. A controller sees a tick's times only after it, so
    it is one tick late at the least; the oracle splits each tick in hindsight.

    Parameters
    ----------
    samples
        [job_id, worker_id, time_s, batch_time], one row a worker and tick; eager or lazy.
        batch_time is in any unit of time, the result in the same. Rows with a null take no part.
    episodes
        [job_id, worker_id, onset_s, end_s], one row a straggler's episode, such as `episodes` of
        `detect_stragglers`; eager or lazy. Those of jobs that are not in `samples` are left out.
        The job is run again without each episode, its samples brought down to the median of the
        worker's samples outside all its episodes.
    controllers
        Names or objects, as :func:`simulate_batching` takes them.
    batch
        Samples of a worker under equal batches: how finely a batch can be split.
    within
        A step is as good as the oracle's where it takes at most 1 + `within` times as long.

    Returns
    -------
    BatchingReplay
        In the order of jobs and controllers.

    Raises
    ------
    DataError
        If a column is missing or not numeric, a batch time is not a finite number above 0, a
        worker reports twice at a tick, no job has a tick with two workers or more, two controllers
        have one name, there is an episode of a worker that the job has not, or `within` is
        negative.
    """
    if not within >= 0:
        raise DataError(f"within is a share of the oracle's step, 0 or more; found {within}")
    chosen = [find_controller(controller) for controller in controllers]
    names = [controller.name for controller in chosen]
    if not names or len(set(names)) < len(names):
        raise DataError(f"controllers must be one or more, of different names; found {names}")
    found = None if episodes is None else read_episodes(episodes)
    jobs: list[dict[str, Any]] = []
    steps: list[pl.DataFrame] = []
    workers: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    recorded, others = read_samples(samples)
    for job in recorded:
        own = None if found is None else found.filter(job_id=job.job_id)
        runs = with_and_without(job, own)
        courses = _run(runs, chosen, batch)
        for name in names:
            jobs.append(_job_row(job, name, courses))
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
        if own is not None:
            rows += episode_rows(job, own, courses, names, within=within)
    jobs += [
        {"job_id": job, "controller": name, "n_ticks": 0, "n_ticks_left_out": ticks, "note": _NONE}
        for job, ticks in others.items()
        for name in names
    ]
    return BatchingReplay(
        pl.DataFrame(jobs, schema=_JOBS),
        pl.concat(steps),
        pl.DataFrame(workers),
        pl.DataFrame(rows, schema=EPISODES),
        within,
    )


def _run(runs: Reals, chosen: Sequence[BatchController], batch: int) -> dict[str, Course]:
    """Run (ticks, runs, workers) of times under each controller, uniform and oracle included."""
    ticks, number, workers = runs.shape
    check_setting(batch * workers, workers, 1, np.inf, ticks)
    all_of_them: dict[str, BatchController] = {"uniform": Uniform(), "oracle": Oracle()}
    all_of_them |= {controller.name: controller for controller in chosen}
    return {
        name: run_course(
            np.zeros((number, workers)), batch / runs, controller,
            global_batch=batch * workers, steps=ticks,
        )
        for name, controller in all_of_them.items()
    }  # fmt: skip


def _job_row(job: RecordedJob, name: str, courses: dict[str, Course]) -> dict[str, Any]:
    course, workers = courses[name], len(job.worker_id)
    spent, usual, best = (
        float(courses[each].step_s[:, 0].sum()) for each in (name, "uniform", "oracle")
    )
    return {
        "job_id": job.job_id,
        "controller": name,
        "n_workers": workers,
        "n_ticks": len(job.time_s),
        "n_ticks_left_out": job.left_out,
        "time": spent,
        "speedup": usual / spent,
        "of_possible": (usual - spent) / (usual - best) if best < usual else None,
        "adjustments": int(course.adjustments[0]),
        "idle_share": max(0.0, float(1 - course.worker_s[0].sum() / (workers * spent))),
        "note": None,
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
            "busy_share": float(busy[k]),
        }
        for k, worker in enumerate(job.worker_id)
    ]
