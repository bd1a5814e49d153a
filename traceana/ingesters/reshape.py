"""Reshaping of public files whose lines are not the rows of a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import polars as pl

from traceana.ingesters.readers.reader import LINE


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
_COLUMNS: Final = (*_OF_JOB, "attempt", "start_time", "end_time", "servers", "gpus")


def _attempts(text: str | None) -> list[dict[str, Any]]:
    try:
        attempts = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [attempt for attempt in _list(attempts) if isinstance(attempt, dict)]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _attempt(attempt: dict[str, Any]) -> tuple[str | None, ...]:
    servers = [detail for detail in _list(attempt.get("detail")) if isinstance(detail, dict)]
    gpus = sum(len(_list(server.get("gpus"))) for server in servers)
    times = (str(attempt.get(name) or "") for name in ("start_time", "end_time"))
    stated = (None if time in ("", "None") else ascii(time)[1:-1] for time in times)
    return (*stated, str(len(servers)), str(gpus) if servers else None)


def _each_attempt(cells: pl.DataFrame) -> pl.DataFrame:
    """One row per attempt; only the last one has the status of its job."""
    rows = [
        (*job, str(number), *_attempt(attempt), line)
        for *job, text, line in cells.select(*_OF_JOB, "attempts", LINE).iter_rows()
        for number, attempt in enumerate(_attempts(text), 1)
    ]
    schema = {**dict.fromkeys(_COLUMNS, pl.String()), LINE: pl.Int64()}
    attempts = pl.DataFrame(rows, schema=schema, orient="row")
    is_last = pl.int_range(pl.len()).over(LINE) == pl.len().over(LINE) - 1
    is_open = pl.col("end_time").is_null()
    state = pl.when(~is_last).then(pl.lit("Retried")).when(is_open).then(pl.lit("Running"))
    return attempts.with_columns(state.otherwise("status").alias("status"))


def _each_job(cells: pl.DataFrame) -> pl.DataFrame:
    """One row per job: first start, last end, and the GPUs of the last attempt."""
    attempts = (
        _each_attempt(cells)
        .group_by(LINE)
        .agg(
            pl.col("status", "end_time", "servers", "gpus").last(),
            pl.col("start_time").min(),
            attempt=(pl.len() - 1).cast(pl.String),
        )
    )
    jobs = cells.select(*_OF_JOB, LINE).join(attempts, LINE, "left", maintain_order="left")
    status = pl.coalesce("status_right", "status")
    return jobs.with_columns(status=status).select(*_COLUMNS, LINE)


RESHAPES: Final[
    dict[tuple[str, str], tuple[tuple[str, ...], Callable[[pl.DataFrame], pl.DataFrame]]]
] = {
    ("alibaba-minibatch-2020", "cov_samples"): (
        ("job", "sample", "cov"),
        _samples_below_each_other,
    ),
    ("philly-2017", "jobs"): (_COLUMNS, _each_job),
    ("philly-2017", "tasks"): (_COLUMNS, _each_attempt),
}
"""By trace and table, columns, and what turns text cells into another number of rows with them."""
