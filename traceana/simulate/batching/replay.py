"""Replay recorded workers and their straggler episodes under batch-size controllers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.simulate.batching.controllers import (
    BatchController,
    Measured,
    Oracle,
    Uniform,
    read_controllers,
)
from traceana.simulate.batching.simulate import (
    Course,
    check_memory,
    check_setting,
    notes_of,
    run_course,
)
from traceana.simulate.batching.tables import BatchingReplay, ReplayEpisodes, ReplayJobs
from traceana.simulate.batching.workers import LARGEST
from traceana.simulate.frames import read_columns
from traceana.stats.arguments import check_count, is_number
from traceana.stats.arrays import Floats
from traceana.store.frames import column_names
from traceana.tables.declare import schema_of

_Ticks: TypeAlias = NDArray[np.bool_]
_COLUMNS = {"by": "job_id", "worker": "worker_id", "time": "time_s", "value": "batch_time"}


@dataclass(frozen=True)
class RecordedJob:
    """The (time, worker) times at which all workers of a job have a sample; `excluded`: others."""

    job_id: str
    worker_id: tuple[str, ...]
    time_s: Floats
    times: Floats
    excluded: int


def read_samples(
    samples: IntoFrame, roles: Mapping[str, str], /
) -> tuple[list[RecordedJob], dict[str, int]]:
    """Return the jobs of a frame of samples in their order, and the times of those without any."""
    kinds: dict[str, type[pl.DataType]] = {
        name: pl.String if role in ("by", "worker") else pl.Float64 for role, name in roles.items()
    }
    table = (
        read_columns(samples, kinds, "samples", roles=roles)
        .select(pl.col(roles[role]).alias(name) for role, name in _COLUMNS.items())
        .drop_nulls()
        .sort("job_id", "worker_id", "time_s")
    )
    if not table["batch_time"].is_between(1 / LARGEST, LARGEST).all():
        raise DataError(
            f"samples: every {roles['value']} must be a finite number above 0, from "
            f"{1 / LARGEST:g} to {LARGEST:g}"
        )
    if table.select("job_id", "worker_id", "time_s").is_duplicated().any():
        raise DataError("samples: a worker has two rows at one time; keep one of them")
    jobs: list[RecordedJob] = []
    others: dict[str, int] = {}
    for (job,), group in table.group_by("job_id", maintain_order=True):
        wide = group.pivot("worker_id", index="time_s", values="batch_time").sort("time_s")
        complete = wide.drop_nulls()
        if complete.is_empty() or complete.width < 3:
            others[str(job)] = wide.height
            continue
        time_s, times = complete["time_s"].to_numpy(), complete.drop("time_s")
        names, excluded = tuple(times.columns), wide.height - complete.height
        jobs.append(RecordedJob(str(job), names, time_s, times.to_numpy(), excluded))
    if not jobs:
        raise DataError(
            "samples: no job has a time at which all of two or more workers have a sample"
        )
    return jobs, others


_IN_A_ROW: Final = 3
"""Consecutive steps near the oracle's that count as recovery."""


def read_episodes(episodes: IntoFrame | None, by: str, /) -> pl.DataFrame:
    """Return [job_id, worker_id, onset_s, end_s], one row per episode, if there are any."""
    job = by if episodes is not None and by in column_names(episodes) else "job_id"
    kinds: dict[str, type[pl.DataType]] = {job: pl.String, "worker_id": pl.String}
    kinds |= {"onset_s": pl.Float64, "end_s": pl.Float64}
    if episodes is None:
        return pl.DataFrame(schema=kinds)
    table = read_columns(episodes, kinds, "episodes").rename({job: "job_id"})
    if sum(table.null_count().row(0)) or not (table["onset_s"] <= table["end_s"]).all():
        raise DataError("episodes: each row needs a job, a worker, and an end not before its onset")
    return table


def _ticks_of(job: RecordedJob, episodes: pl.DataFrame) -> list[tuple[_Ticks, _Ticks]]:
    """Return which times are in each episode, and which in no episode of its worker."""
    onset_s, end_s = (episodes[name].to_numpy()[:, None] for name in ("onset_s", "end_s"))
    inside = (job.time_s >= onset_s) & (job.time_s <= end_s)
    names = episodes["worker_id"].to_numpy()
    outside = {name: ~inside[names == name].any(axis=0) for name in set(names)}
    return [(ticks, outside[name]) for ticks, name in zip(inside, names, strict=True)]


def with_and_without(job: RecordedJob, episodes: pl.DataFrame, /) -> Floats:
    """Return times (step, 1 + episodes, worker): as recorded, then without each episode."""
    runs = np.repeat(job.times[:, None, :], 1 + episodes.height, axis=1)
    of_each = zip(episodes["worker_id"], _ticks_of(job, episodes), strict=True)
    for run, (name, (ticks, others)) in enumerate(of_each, start=1):
        if name not in job.worker_id:
            raise DataError(
                f"episodes: {job.job_id} has no worker {name!r}; it has {', '.join(job.worker_id)}"
            )
        if others.any():
            worker = job.worker_id.index(name)
            usual = np.median(job.times[others, worker])
            runs[ticks, run, worker] = np.minimum(runs[ticks, run, worker], usual)
    return runs


def _episode_rows(
    job: RecordedJob,
    episodes: pl.DataFrame,
    courses: dict[str, Course],
    names: Sequence[str],
    within: float,
) -> Iterator[dict[str, Any]]:
    """Yield one row per episode and controller, from the runs of `with_and_without`."""
    best = courses["oracle"].step_s[:, 0]
    of_each = zip(episodes.iter_rows(named=True), _ticks_of(job, episodes), strict=True)
    for run, (episode, (ticks, others)) in enumerate(of_each, start=1):
        note = None if others.any() else "the worker has no sample outside its episodes"
        if not ticks.any():
            note = "no time of the episode has all workers"
        for name in names:
            course = courses[name]
            row = {**episode, "controller": name, "n_steps": int(ticks.sum()), "note": note}
            if ticks.any():
                step_s, clock = course.step_s[:, 0], job.time_s[ticks]
                time = float(step_s[ticks].sum())
                good = step_s[ticks] <= (1 + within) * best[ticks]
                starts = np.flatnonzero(np.convolve(good, np.ones(_IN_A_ROW), "valid") == _IN_A_ROW)
                recovers = len(good) >= _IN_A_ROW and len(starts) > 0
                row |= {
                    "time": time,
                    "ratio_to_oracle": time / best[ticks].sum(),
                    "fraction_within": good.mean(),
                    "recovery_steps": starts[0] if recovers else None,
                    "recovery_s": clock[starts[0]] - clock[0] if recovers else None,
                }
                if others.any():
                    without, later = course.step_s[:, run], job.time_s > episode["end_s"]
                    row["cost"] = time - without[ticks].sum()
                    row["cost_fraction"] = time / without[ticks].sum() - 1
                    row["cost_after"] = (step_s[later] - without[later]).sum()
            yield row


_LARGEST_WITHIN: Final = 1000
_CONTROLLERS = ("uniform", Measured(), "proportional", "damped", "oracle")
_NONE = "no time at which all of two or more workers have a sample"
_QUANTILES = {"p05": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}


def replay_batching(
    samples: IntoFrame,
    /,
    by: str = "job_id",
    *,
    episodes: IntoFrame | None = None,
    controllers: Sequence[str | BatchController] = _CONTROLLERS,
    batch: int = 64,
    within: float = 0.1,
    time: str = "time_s",
    worker: str = "worker_id",
    value: str = "batch_time",
) -> BatchingReplay:
    """Replay recorded workers as time-varying throughput under each controller.

    A recorded time t at equal batch sizes is a throughput of batch / t without overhead. Each time
    at which all workers of the job have a sample is one step; other times are excluded and counted.
    A controller sees the times of a step only after it; the oracle knows each step in advance.

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
    chosen = read_controllers(controllers)
    if not (is_number(within) and 0 <= within <= _LARGEST_WITHIN):
        raise DataError(f"within must be from 0 to {_LARGEST_WITHIN:,}; it is {within!r}")
    check_count("batch", batch, most=10**12)
    episode_table = read_episodes(episodes, by)
    jobs: list[dict[str, Any]] = []
    steps: list[pl.DataFrame] = []
    workers: list[pl.DataFrame] = []
    rows: list[dict[str, Any]] = []
    roles = {"by": by, "time": time, "worker": worker, "value": value}
    recorded, others = read_samples(samples, roles)
    for job in recorded:
        of_job = episode_table.filter(job_id=job.job_id)
        runs = with_and_without(job, of_job)
        ticks, number, n_workers = runs.shape
        setting = {"global_batch": batch * n_workers, "steps": ticks}
        check_setting(batch * n_workers, n_workers, 1, np.inf, ticks)
        check_memory(ticks, number, n_workers)
        run = partial(run_course, np.zeros((number, n_workers)), batch / runs, **setting)
        every = {"uniform": Uniform(), "oracle": Oracle(), **chosen}
        courses = {name: run(controller) for name, controller in every.items()}
        for name, controller in chosen.items():
            course, key = courses[name], {"job_id": job.job_id, "controller": name}
            (note, *_) = notes_of(controller, course)
            jobs.append(key | _job_row(job, course, courses) | {"note": note})
            steps.append(
                pl.DataFrame({**key, "time_s": job.time_s, "step_time": course.step_s[:, 0]})
            )
            changes = np.searchsorted(course.changed, np.arange(len(runs)), side="right") - 1
            batches = course.batches[changes, 0]
            times = np.quantile(batches / (batch / runs[:, 0]), [*_QUANTILES.values()], axis=0)
            columns = {
                "worker_id": job.worker_id,
                "mean_batch": batches.mean(axis=0),
                **dict(zip(_QUANTILES, times, strict=True)),
                "busy_fraction": course.worker_s[0] / course.step_s[:, 0].sum(),
            }
            workers.append(pl.DataFrame(key | columns))
        rows += _episode_rows(job, of_job, courses, list(chosen), within)
    jobs += [
        {"job_id": job, "controller": name, "n_steps": 0, "n_excluded": ticks, "note": _NONE}
        for job, ticks in others.items()
        for name in chosen
    ]
    return BatchingReplay(
        pl.DataFrame(jobs, schema=schema_of(ReplayJobs)),
        pl.concat(steps),
        pl.concat(workers),
        pl.DataFrame(rows, schema=schema_of(ReplayEpisodes)),
        within,
    )


def _job_row(job: RecordedJob, course: Course, courses: dict[str, Course]) -> dict[str, Any]:
    each = (course, courses["uniform"], courses["oracle"])
    step_s, usual_s, best_s = (of.step_s[:, 0] for of in each)
    spent, usual, best = step_s.sum(), usual_s.sum(), best_s.sum()
    n_steps = len(step_s)
    return {
        "n_workers": len(job.worker_id),
        "n_steps": n_steps,
        "n_excluded": job.excluded,
        "time": spent,
        "speedup": usual / spent,
        "speedup_iterations": n_steps / (step_s / usual_s).sum(),
        "of_possible": (usual - spent) / (usual - best) if best < usual else None,
        "adjustments": course.adjustments[0],
        "idle_fraction": course.waiting[0],
    }
