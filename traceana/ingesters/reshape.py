"""Reshaping of public files whose lines are not the rows of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from traceana.ingesters.readers.reader import LINE


@dataclass(frozen=True)
class Reshape:
    """What turns text cells into another number of rows, and the columns of these."""

    columns: tuple[str, ...]
    apply: Callable[[pl.DataFrame], pl.DataFrame]


def _samples_below_each_other(cells: pl.DataFrame) -> pl.DataFrame:
    """One row per sample; the empty cells after a job's last sample are padding, not samples."""
    samples = [name for name in cells.columns if name.isdigit()]
    long = cells.select(pl.col("").alias("job"), LINE, *samples).unpivot(
        samples, index=["job", LINE], variable_name="sample", value_name="cov"
    )
    sample = pl.col("sample").cast(pl.Int64)
    last = pl.when(pl.col("cov").is_not_null()).then(sample).max().over(LINE)
    return long.filter(sample <= last).sort(LINE, sample, maintain_order=True)


_OF_JOB: Final = ("jobid", "vc", "user", "submitted_time", "status")
_OF_ATTEMPT: Final = ("attempt", "start_time", "end_time", "servers", "gpus")


def _attempts(text: str | None) -> list[dict[str, Any]]:
    try:
        attempts = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [attempt for attempt in _list(attempts) if isinstance(attempt, dict)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _attempt(number: int, attempt: dict[str, Any]) -> tuple[str | None, ...]:
    servers = [detail for detail in _list(attempt.get("detail")) if isinstance(detail, dict)]
    gpus = sum(len(_list(server.get("gpus"))) for server in servers)
    times = (str(attempt.get(name) or "") for name in ("start_time", "end_time"))
    stated = (None if time in ("", "None") else ascii(time)[1:-1] for time in times)
    return (str(number), *stated, str(len(servers)), str(gpus) if servers else None)


def _each_job(job: tuple[str | None, ...], attempts: list[dict[str, Any]]) -> Iterator[Any]:
    """One row per job: first start, last end, and the GPUs of the last attempt."""
    each = [_attempt(number, attempt) for number, attempt in enumerate(attempts, 1)]
    if not each:
        yield (*job, *(None for _ in _OF_ATTEMPT))
        return
    start = min((attempt[1] for attempt in each if attempt[1]), default=None)
    running = each[-1][2] is None
    state = "Running" if running else job[-1]
    yield (*job[:-1], state, str(len(each) - 1), start, *each[-1][2:])


def _each_attempt(job: tuple[str | None, ...], attempts: list[dict[str, Any]]) -> Iterator[Any]:
    """One row per attempt; only the last one has the status of its job."""
    last = len(attempts)
    for number, attempt in enumerate(attempts, 1):
        cells = _attempt(number, attempt)
        state = (
            job[-1] if number == last and cells[2] else "Running" if number == last else "Retried"
        )
        yield (*job[:-1], state, *cells)


def _from_attempts(rows_of: Callable[..., Iterator[Any]]) -> Callable[[pl.DataFrame], pl.DataFrame]:
    schema = {**dict.fromkeys((*_OF_JOB, *_OF_ATTEMPT), pl.String()), LINE: pl.Int64()}

    def reshape(cells: pl.DataFrame) -> pl.DataFrame:
        rows = [
            (*row, line)
            for *job, text, line in cells.select(*_OF_JOB, "attempts", LINE).iter_rows()
            for row in rows_of(tuple(job), _attempts(text))
        ]
        return pl.DataFrame(rows, schema=schema, orient="row")

    return reshape


RESHAPES: Final = {
    ("alibaba-minibatch-2020", "cov_samples"): Reshape(
        ("job", "sample", "cov"), _samples_below_each_other
    ),
    ("philly-2017", "jobs"): Reshape((*_OF_JOB, *_OF_ATTEMPT), _from_attempts(_each_job)),
    ("philly-2017", "tasks"): Reshape((*_OF_JOB, *_OF_ATTEMPT), _from_attempts(_each_attempt)),
}
