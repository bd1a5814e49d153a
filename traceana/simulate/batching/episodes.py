"""Recorded workers of a job, and the cost of its straggler episodes under a controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.simulate.batching.workers import LARGEST
from traceana.simulate.frames import read_columns
from traceana.store.frames import column_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    from traceana.simulate.batching.run import Course
    from traceana.simulate.batching.split import Reals

_COLUMNS = {"by": "job_id", "worker": "worker_id", "time": "time_s", "value": "batch_time"}


@dataclass(frozen=True)
class RecordedJob:
    """The times of a job at which all its workers have a sample.

    `times` is (time, worker); `excluded` counts the other times.
    """

    job_id: str
    worker_id: tuple[str, ...]
    time_s: Reals
    times: Reals
    excluded: int


def read_samples(
    samples: IntoFrame, roles: Mapping[str, str], /
) -> tuple[list[RecordedJob], dict[str, int]]:
    """Return the jobs of a frame of samples, in their order; see :func:`replay_batching`.

    Jobs without a time at which all of two or more workers have a sample come second, with their
    number of times.
    """
    table = _read(samples, roles)
    jobs: list[RecordedJob] = []
    others: dict[str, int] = {}
    for (job,), group in table.group_by("job_id", maintain_order=True):
        wide = group.pivot("worker_id", index="time_s", values="batch_time").sort("time_s")
        complete = wide.drop_nulls()
        if complete.is_empty() or complete.width < 3:
            others[str(job)] = wide.height
            continue
        jobs.append(
            RecordedJob(
                str(job),
                tuple(complete.columns[1:]),
                complete["time_s"].to_numpy(),
                complete.drop("time_s").to_numpy(),
                wide.height - complete.height,
            )
        )
    if not jobs:
        raise DataError(
            "samples: no job has a time at which all of two or more workers have a sample"
        )
    return jobs, others


def _read(samples: IntoFrame, roles: Mapping[str, str]) -> pl.DataFrame:
    kinds: dict[str, type[pl.DataType]] = {
        roles["by"]: pl.String,
        roles["worker"]: pl.String,
        roles["time"]: pl.Float64,
        roles["value"]: pl.Float64,
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
    return table


_KEYS: Final[dict[str, type[pl.DataType]]] = {
    "job_id": pl.String,
    "worker_id": pl.String,
    "onset_s": pl.Float64,
    "end_s": pl.Float64,
}
_IN_A_ROW: Final = 3
"""Consecutive steps near the oracle's that count as recovery."""


def read_episodes(episodes: IntoFrame, by: str, /) -> pl.DataFrame:
    """Return [job_id, worker_id, onset_s, end_s], one row per episode."""
    job = by if by in column_names(episodes) else "job_id"
    kinds = {job if name == "job_id" else name: kind for name, kind in _KEYS.items()}
    table = read_columns(episodes, kinds, "episodes").rename({job: "job_id"})
    if sum(table.null_count().row(0)) or not (table["onset_s"] <= table["end_s"]).all():
        raise DataError("episodes: each row needs a job, a worker, and an end not before its onset")
    return table


def with_and_without(job: RecordedJob, episodes: pl.DataFrame | None, /) -> Reals:
    """Return times (step, 1 + episodes, worker): as recorded, then without each episode.

    Without it, the worker's samples in it are at most the median of those outside its episodes.
    """
    number = 0 if episodes is None else episodes.height
    runs = np.repeat(job.times[:, None, :], 1 + number, axis=1)
    if episodes is None:
        return runs
    for run, episode in enumerate(episodes.iter_rows(named=True), start=1):
        worker = _place(job, episode)
        outside = ~_in_any(job, episodes.filter(worker_id=episode["worker_id"]))
        if outside.any():
            usual = np.median(job.times[outside, worker])
            within = _ticks(job, episode)
            runs[within, run, worker] = np.minimum(runs[within, run, worker], usual)
    return runs


def episode_rows(
    job: RecordedJob,
    episodes: pl.DataFrame,
    courses: dict[str, Course],
    names: Sequence[str],
    /,
    *,
    within: float,
) -> list[dict[str, Any]]:
    """Return one row per episode and controller, from the runs of `with_and_without`."""
    rows = []
    best = courses["oracle"].step_s[:, 0]
    for run, episode in enumerate(episodes.iter_rows(named=True), start=1):
        ticks = _ticks(job, episode)
        others = ~_in_any(job, episodes.filter(worker_id=episode["worker_id"]))
        for name in names:
            step_s = courses[name].step_s
            row: dict[str, Any] = {
                **episode,
                "controller": name,
                "n_steps": int(ticks.sum()),
                "note": _note(ticks, others),
            }
            if ticks.any():
                spent = step_s[ticks, 0]
                good = spent <= (1 + within) * best[ticks]
                start = _first_in_a_row(good)
                clock = job.time_s[ticks]
                row |= {
                    "time": float(spent.sum()),
                    "ratio_to_oracle": float(spent.sum() / best[ticks].sum()),
                    "fraction_within": float(good.mean()),
                    "recovery_steps": start,
                    "recovery_s": None if start is None else float(clock[start] - clock[0]),
                }
                if others.any():
                    later = job.time_s > episode["end_s"]
                    without = float(step_s[ticks, run].sum())
                    row |= {
                        "cost": float(spent.sum()) - without,
                        "cost_fraction": float(spent.sum()) / without - 1,
                        "cost_after": float((step_s[later, 0] - step_s[later, run]).sum()),
                    }
            rows.append(row)
    return rows


def _place(job: RecordedJob, episode: dict[str, Any]) -> int:
    if episode["worker_id"] not in job.worker_id:
        raise DataError(
            f"episodes: {job.job_id} has no worker {episode['worker_id']!r}; it has "
            f"{', '.join(job.worker_id)}"
        )
    return job.worker_id.index(episode["worker_id"])


def _ticks(job: RecordedJob, episode: dict[str, Any]) -> NDArray[np.bool_]:
    inside: NDArray[np.bool_] = (job.time_s >= episode["onset_s"]) & (
        job.time_s <= episode["end_s"]
    )
    return inside


def _in_any(job: RecordedJob, episodes: pl.DataFrame) -> NDArray[np.bool_]:
    inside = np.zeros(len(job.time_s), dtype=bool)
    for episode in episodes.iter_rows(named=True):
        inside |= _ticks(job, episode)
    return inside


def _note(ticks: NDArray[np.bool_], others: NDArray[np.bool_]) -> str | None:
    if not ticks.any():
        return "no time of the episode has all workers"
    return None if others.any() else "the worker has no sample outside its episodes"


def _first_in_a_row(good: NDArray[np.bool_]) -> int | None:
    if len(good) < _IN_A_ROW:
        return None
    runs = np.lib.stride_tricks.sliding_window_view(good, _IN_A_ROW).all(axis=-1)
    return int(runs.argmax()) if runs.any() else None
