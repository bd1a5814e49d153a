"""Recorded workers of a job: one time per worker and step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from traceana.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceana.simulate.batching.split import Reals

_COLUMNS = {"by": "job_id", "worker": "worker_id", "time": "time_s", "value": "batch_time"}
_LARGEST = 1e12


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
    samples: pl.DataFrame | pl.LazyFrame, roles: Mapping[str, str], /
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


def _read(samples: pl.DataFrame | pl.LazyFrame, roles: Mapping[str, str]) -> pl.DataFrame:
    frame = samples.lazy()
    schema = frame.collect_schema()
    missing = {role: name for role, name in roles.items() if name not in schema}
    if missing:
        raise DataError(
            f"samples: column {', '.join(missing.values())} is missing; found "
            f"{', '.join(schema)}; pass {', '.join(f'{role}=' for role in missing)}"
        )
    columns = {name: pl.col(roles[role]) for role, name in _COLUMNS.items()}
    if schema[roles["time"]].is_temporal():
        columns["time_s"] = columns["time_s"].dt.epoch("us") / 1e6
    try:
        table = (
            frame.select(**columns)
            .with_columns(
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
            f"samples: every {roles['value']} must be a finite number above 0, from "
            f"{1 / _LARGEST:g} to {_LARGEST:g}"
        )
    if table.select("job_id", "worker_id", "time_s").is_duplicated().any():
        raise DataError("samples: a worker has two rows at one time; keep one of them")
    return table
