"""Recorded workers of a job: one time a worker at each tick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError

if TYPE_CHECKING:
    from traceana.simulate.batching.split import Reals

_COLUMNS = ("job_id", "worker_id", "time_s", "batch_time")
_LARGEST = 1e12


@dataclass(frozen=True)
class RecordedJob:
    """The ticks of a job at which all its workers reported.

    `times` is (ticks, workers); `left_out` counts the other ticks.
    """

    job_id: str
    worker_id: tuple[str, ...]
    time_s: Reals
    times: Reals
    left_out: int


def read_samples(
    samples: pl.DataFrame | pl.LazyFrame, /
) -> tuple[list[RecordedJob], dict[str, int]]:
    """Read the jobs of a frame of samples, in their order; see :func:`replay_batching`.

    Jobs of which no tick has all of two workers or more come second, with their ticks.
    """
    table = _read(samples)
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
            "samples: no job has a tick at which two or more workers all reported, and nothing "
            "can be replayed"
        )
    return jobs, others


def _read(samples: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    frame = samples.lazy()
    missing = [name for name in _COLUMNS if name not in frame.collect_schema().names()]
    if missing:
        raise DataError(f"samples: column {', '.join(missing)} is missing")
    try:
        table = (
            frame.select(
                pl.col("job_id", "worker_id").cast(pl.String),
                pl.col("time_s", "batch_time").cast(pl.Float64).fill_nan(None),
            )
            .drop_nulls()
            .sort("job_id", "worker_id", "time_s")
            .collect()
        )
    except pl.exceptions.PolarsError as error:
        raise DataError(f"samples: {str(error).splitlines()[0]}") from None
    if not table["batch_time"].is_between(1 / _LARGEST, _LARGEST).all():
        raise DataError(
            f"samples: every batch_time must be a finite number above 0, from {1 / _LARGEST:g} to "
            f"{_LARGEST:g}"
        )
    if table.select("job_id", "worker_id", "time_s").is_duplicated().any():
        raise DataError("samples: a worker reports twice at a tick; keep one of the rows")
    return table
