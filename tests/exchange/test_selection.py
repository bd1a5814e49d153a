"""A part of a trace is a trace: a month, a queue."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

import traceana
from traceana.errors import DataError

MARCH = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
DAY = 86_400
JOBS = pl.DataFrame(
    {
        "job_id": ["a", "b", "c", "d", "e"],
        "queue": ["gpu", "cpu", "gpu", "gpu", None],
        "gpus": [1, 0, 8, 4, 2],
        "submit_s": [MARCH - DAY, MARCH, MARCH + 30 * DAY, MARCH + 31 * DAY, None],
        "start_s": [MARCH - DAY, MARCH, MARCH + 30 * DAY, MARCH + 31 * DAY, MARCH + DAY],
        "end_s": [MARCH, MARCH + 60, None, MARCH + 32 * DAY, MARCH + 2 * DAY],
        "status": ["completed", "failed", "running", "completed", "completed"],
    }
)
STEPS = pl.DataFrame(
    {"job_id": ["a", "b"], "worker_id": ["0", "0"], "step": [1, 1], "batch_time": [1.0, 2.0]}
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    traceana.add_table(JOBS, trace="mine", table="jobs", store=folder, title="Mine")
    traceana.add_table(STEPS, trace="mine", table="worker_samples", store=folder)
    return folder


def chosen(store: Path, out: Path, **limits: object) -> list[str]:
    traceana.select_jobs("mine", store=store, out=out, **limits)  # type: ignore[arg-type]
    jobs = traceana.open_store(out).scan("mine", "jobs").collect()
    held = traceana.open_store(store).scan("mine", "jobs").collect()
    same = ["job_id", "queue", "gpus", "submit_s"]
    assert jobs[same].equals(held.join(jobs.select("job_id"), on="job_id", how="semi")[same])
    names: list[str] = jobs["job_id"].to_list()
    return names


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"since": "2026-03-01", "until": "2026-04-01"}, ["b", "c", "e"]),
        ({"since": date(2026, 3, 31), "until": datetime(2026, 4, 1, tzinfo=UTC)}, ["c"]),
        ({"until": MARCH}, ["a"]),
        ({"since": str(MARCH + 1)}, ["b", "c", "d", "e"]),
        ({"where": "queue = 'gpu' AND gpus >= 4"}, ["c", "d"]),
        ({"where": "queue <> 'gpu'"}, ["b"]),
        ({"where": "user = 'x' OR group = 'y' OR queue <> 'gpu'"}, ["b"]),
        ({}, ["a", "b", "c", "d", "e"]),
    ],
)
def test_jobs_are_chosen_by_submission_and_condition(
    store: Path, tmp_path: Path, limits: dict[str, object], expected: list[str]
) -> None:
    assert chosen(store, tmp_path / "out", **limits) == expected


def test_what_happens_later_is_not_seen(store: Path, tmp_path: Path) -> None:
    out = traceana.select_jobs("mine", store=store, out=tmp_path / "o", until=MARCH + 1.5 * DAY)
    trace = traceana.open_store(out).trace("mine")
    e = trace.jobs.filter(pl.col("job_id") == "e").row(0, named=True)
    assert (e["status"], e["end_s"], e["runtime_s"]) == ("running", None, DAY / 2)
    assert trace.manifest.window == "stated"


def test_a_window_states_when_the_export_ends(store: Path, tmp_path: Path) -> None:
    window = ("2026-03-01", "2026-05-01")
    out = traceana.select_jobs("mine", store=store, out=tmp_path / "o", window=window)
    trace = traceana.open_store(out).trace("mine")
    assert trace.manifest.window_end_s == MARCH + 61 * DAY
    assert trace.jobs["job_id"].to_list() == ["b", "c", "d", "e"]
    # c still runs: 8 GPUs from 31 March to the end of April; d and e ran for a day each
    hours = traceana.workload_summary(trace.jobs, window=(MARCH, MARCH + 61 * DAY))["gpu_hours"]
    assert hours.item() == 8 * 31 * 24 + 4 * 24 + 2 * 24


def test_a_date_is_midnight_in_the_zone_of_the_trace(store: Path, tmp_path: Path) -> None:
    berlin = (
        '[trace]\ntimezone = "Europe/Berlin"\n[jobs]\njob_id = "job_id"\nsubmit_s = "submit_s"\n'
    )
    traceana.add_table(JOBS, trace="mine", table="jobs", store=store, mapping=berlin)
    assert chosen(store, tmp_path / "out", until="2026-03-01") == ["a"]  # 23:00 UTC the day before
    assert chosen(store, tmp_path / "out", since="2026-03-01", until="2026-03-02") == ["b"]


def test_tables_of_jobs_follow_and_the_manifest_says_so(store: Path, tmp_path: Path) -> None:
    chosen(store, tmp_path / "out", since="2026-03-01", where="gpus < 8")
    part = traceana.open_store(tmp_path / "out")
    assert part.scan("mine", "worker_samples").collect()["job_id"].to_list() == ["b"]
    manifest = part.manifest("mine")
    assert manifest.title == "Mine (since 2026-03-01, where gpus < 8)"
    whole = traceana.open_store(store).manifest("mine")
    assert manifest.window_end_s == whole.window_end_s  # what still ran then is censored
    assert manifest.window_start_s == MARCH


def test_a_table_of_which_nothing_is_left_qualifies_for_nothing(
    store: Path, tmp_path: Path
) -> None:
    assert chosen(store, tmp_path / "out", where="gpus = 8") == ["c"]
    assert not traceana.open_store(tmp_path / "out").manifest("mine").has("worker_samples")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"since": "next week"}, "write 2026-03-31"),
        ({"where": "gpus >"}, "not an SQL condition"),
        ({"where": "gppus > 1"}, r"no column is called 'gppus' \(did you mean 'gpus'\?\); it has"),
        ({"where": "gpus"}, "where 'gpus'"),
        ({"where": "MAX(gpus) = gpus"}, r"cannot be used \(MAX\)"),
        ({"where": "submit_s < now()"}, r"cannot be used \(NOW\)"),
        ({"where": "gpus > SUM(gpus) OVER (PARTITION BY queue)"}, r"cannot be used \(Window\)"),
        ({"where": "gpus > 100"}, "no job is left"),
        ({"since": True}, "pass a date, a time or seconds"),
        (
            {"window": ("2026-03-31T00:00Z", "2026-03-01T00:00Z")},
            "the begin, 2026-03-31 00:00 UTC, is after the end, 2026-03-01 00:00 UTC",
        ),
    ],
)
def test_mistakes_are_one_line(
    store: Path, tmp_path: Path, limits: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message) as raised:
        chosen(store, tmp_path / "out", **limits)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_a_clock_without_dates_takes_seconds(tmp_path: Path) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0.0, 60.0]})
    traceana.add_table(jobs, trace="mine", table="jobs", store=tmp_path / "own")
    assert chosen(tmp_path / "own", tmp_path / "out", since="60") == ["b"]
    with pytest.raises(DataError, match="has no dates"):
        chosen(tmp_path / "own", tmp_path / "out", since="2026-03-01")


def test_the_rejected_rows_of_its_files_are_stated(tmp_path: Path) -> None:
    log = tmp_path / "sacct.txt"
    log.write_text(
        "JobID|State|Submit|Start|End|Elapsed\n"
        "71|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|01:00:00\n"
        "72|FAILED|2026-03-02T08:05:00|2026-03-02T08:06:00|2026-03-02T08:07:00|00:01:00\n"
        "73|TIMEOUT|soon|2026-03-02T08:06:00|2026-03-02T09:06:00|01:00:00\n"
    )
    traceana.ingest(log, store=tmp_path / "store")
    out = tmp_path / "out"
    traceana.select_jobs("sacct", store=tmp_path / "store", out=out, since="2026-03-02")
    page = traceana.build_report(out, out=tmp_path / "page", only=["data-quality"])
    text = (page.parent / "index.md").read_text()
    assert "of `sacct.txt`: 3 rows read, 2 kept and 1 rejected" in text
