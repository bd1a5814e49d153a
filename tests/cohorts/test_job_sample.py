"""A sample is of whole jobs, the same on every engine and in every run."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

from traceana.cohorts import tasks as job_sample
from traceana.cohorts.cohort import form_cohort
from traceana.cohorts.tasks import draw_jobs, task_owners
from traceana.ingesters import add_table
from traceana.questions.workload.analyze import describe_workload
from traceana.store import Store

N_JOBS = 20_000


@pytest.fixture(scope="module")
def tasks() -> pl.DataFrame:
    """Jobs of one to four tasks, with digests for ids."""
    rng = np.random.default_rng(7)
    each = rng.integers(1, 5, N_JOBS)
    ids = np.array([rng.bytes(12).hex() for _ in range(N_JOBS)])
    return pl.DataFrame({"job_id": ids.repeat(each), "hours": rng.exponential(3.0, each.sum())})


def test_jobs_are_drawn_whole_to_the_number_of_tasks_and_the_same_each_time(
    tasks: pl.DataFrame,
) -> None:
    sample = draw_jobs(tasks, max_tasks=15_000)
    assert sample == draw_jobs(tasks.lazy(), max_tasks=15_000)
    rows = sample.rows_of(tasks)
    assert rows.height == sample.drawn
    assert 14_900 < sample.drawn <= 15_000
    assert sample.tasks == tasks.height
    jobs = set(rows["job_id"])
    assert tasks.filter(pl.col("job_id").is_in(jobs)).height == rows.height
    assert f"{rows.height:,} of {tasks.height:,} tasks" in sample.description


def test_every_engine_draws_and_reads_the_same(tasks: pl.DataFrame) -> None:
    sample = draw_jobs(tasks, max_tasks=15_000)
    relation: duckdb.DuckDBPyRelation = duckdb.from_arrow(tasks.to_arrow())
    assert draw_jobs(relation, max_tasks=15_000) == sample
    there = sample.rows_of(relation).pl().sort("job_id", "hours")
    assert there.equals(sample.rows_of(tasks.lazy()).collect().sort("job_id", "hours"))


@pytest.mark.parametrize("form", ["job_{:07d}", "{}", "j{:04d}-of-pool-a"])
def test_counted_ids_are_drawn_as_well(form: str) -> None:
    ids = pl.DataFrame({"job_id": [form.format(i) for i in range(9000)]})
    sample = draw_jobs(ids, max_tasks=4000)
    drawn = sample.rows_of(ids).height
    # the end of some ids tells nothing: then all jobs have the one ending that there is
    assert drawn == (9000 if form.endswith("a") else sample.drawn)
    assert form.endswith("a") or 3000 < drawn <= 4000


def test_endings_are_longer_where_few_would_be_drawn(tasks: pl.DataFrame) -> None:
    sample = draw_jobs(tasks, max_tasks=200)
    assert sample.letters > 3
    assert len(sample.endings) >= 50
    assert 0 < sample.rows_of(tasks).height == sample.drawn <= 200


def test_owners_are_those_of_the_jobs_of_the_tasks(tmp_path: Path) -> None:
    def table(name: str, rows: dict[str, list[object]], **about: str) -> None:
        columns = "".join(f"{column} = {column!r}\n" for column in rows)
        facts = "".join(f"{fact} = {value!r}\n" for fact, value in about.items())
        mapping = f"[{name}]\n{columns}" + (f"[{name}.about]\n{facts}" if facts else "")
        frame = pl.DataFrame(rows, strict=False)
        add_table(frame, trace="somewhere", table=name, store=tmp_path, mapping=mapping)

    def owners() -> pl.DataFrame:
        return task_owners(Store(tmp_path).trace("somewhere"))

    keys: dict[str, list[object]] = {
        "job_id": ["b", "a", "c", "b"],
        "task_name": ["w", "w", "w", "ps"],
        "status": ["completed"] * 4,
        "start_s": [1.0] * 4,
        "end_s": [2.0] * 4,
    }
    table("tasks", keys)
    table("instances", keys)
    assert owners().columns == []
    jobs: dict[str, list[object]] = {
        "job_id": ["a", "b", "c"],
        "inst_id": ["1", "2", None],
        "user": ["u", None, None],
        "status": ["completed"] * 3,
    }
    table("jobs", jobs)
    tags: dict[str, list[object]] = {"inst_id": ["2", "1", "2"], "group": ["z", None, "y"]}
    table("job_tags", tags)
    assert owners()["user"].to_list() == [None, "u", None, None]
    y, u = pl.Series(["y", "u"]).hash()
    assert owners()["group"].to_list() == [y, None, None, y]
    table("job_tags", tags, group_fallback="user")
    assert owners()["group"].to_list() == [y, u, None, y]


def test_a_trace_of_jobs_alone_is_sampled_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = pl.int_range(N_JOBS, eager=True).cast(pl.Float64)
    jobs = pl.DataFrame({"job_id": [f"j{i:05d}" for i in range(N_JOBS)], "submit_s": times})
    jobs = jobs.with_columns(runtime_s=1 + times % 7, gpus=1.0, status=pl.lit("completed"))
    add_table(jobs, trace="mine", table="jobs", store=tmp_path)
    monkeypatch.setattr(job_sample, "MAX_TASKS", 10_000)
    monkeypatch.setattr(job_sample, "SAMPLED_TASKS", 5_000)
    session = Store(tmp_path)
    cohort = form_cohort(session.trace("mine"))
    # 1,000 endings of 20 jobs each, of which 250 are drawn
    assert cohort.rows.height == 5_000
    assert cohort.title.endswith("a sample of 25.0 % of its jobs")
    assert "5,000 of 20,000 jobs (25.0 %), drawn by the end of their job_id" in cohort.sampled
    whole = describe_workload(session.trace("mine"))
    assert whole.summary["jobs"].item() == N_JOBS
    assert whole.observation is not None
    assert whole.observation.n == N_JOBS
