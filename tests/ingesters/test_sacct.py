"""Slurm's accounting records: jobs, steps, TRES, memory, times and names with any sign in them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingesters.conftest import Write
from traceana.errors import SourceError, TraceanaError
from traceana.ingesters import ingest
from traceana.store import Ledger, Store

HEADER = (
    "JobID|JobName|User|Account|Partition|State|ExitCode|Submit|Start|End|Elapsed|Timelimit|"
    "ReqCPUS|NNodes|ReqMem|MaxRSS|TotalCPU|ReqTRES|AllocTRES|ConsumedEnergyRaw"
)
FIELDS = HEADER.split("|")
PLAIN = {
    "JobID": "100",
    "JobName": "train",
    "User": "anna",
    "Account": "vision",
    "Partition": "gpu",
    "State": "COMPLETED",
    "ExitCode": "0:0",
    "Submit": "2026-03-02T08:00:00",
    "Start": "2026-03-02T08:00:30",
    "End": "2026-03-02T09:00:30",
    "Elapsed": "01:00:00",
    "Timelimit": "1-00:00:00",
    "ReqCPUS": "8",
    "NNodes": "2",
    "ReqMem": "64G",
    "AllocTRES": "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=64G,node=2",
}


def record(**fields: str) -> str:
    return "|".join({**PLAIN, **fields}.get(name, "") for name in FIELDS)


def step(job: str, name: str, **fields: str) -> str:
    empty = dict.fromkeys(("User", "Partition", "Timelimit", "AllocTRES", "ReqMem"), "")
    return record(JobID=f"{job}.{name}", **{"JobName": name, **empty, **fields})


def sacct(*records: str, header: str = "|".join(FIELDS)) -> str:
    return "\n".join([header, *records]) + "\n"


def read(
    folder: Path, tmp_path: Path, *, timezone: str | None = None, reader: str | None = None
) -> tuple[pl.DataFrame, Ledger]:
    file = folder / "log.txt"
    ledger = ingest(file, store=tmp_path / "store", timezone=timezone, reader=reader)
    return Store(tmp_path / "store").scan("log", "jobs").collect(), ledger


def one(write: Write, tmp_path: Path, **fields: str) -> dict[str, object]:
    jobs, _ = read(write("log.txt", sacct(record(**fields))), tmp_path)
    return jobs.row(0, named=True)


def test_a_file_is_detected_by_its_header_and_every_column_is_filled(
    write: Write, tmp_path: Path
) -> None:
    job = one(write, tmp_path, ReqTRES="cpu=8", TotalCPU="1-00:00:30.500", JobID="7_3")
    submitted = datetime(2026, 3, 2, 8, tzinfo=UTC).timestamp()
    expected = {
        "job_id": "7_3",
        "array_id": "7",
        "job_name": "train",
        "user": "anna",
        "account": "vision",
        "queue": "gpu",
        "status": "completed",
        "end_reason": "COMPLETED",
        "exit_code": "0:0",
        "submit_s": submitted,
        "start_s": submitted + 30,
        "end_s": submitted + 3630,
        "runtime_s": 3600.0,
        "time_limit_s": 86400.0,
        "cpus": 8.0,
        "nodes": 2,
        "memory_gib": 64.0,
        "gpus": 4.0,
        "gpu_type": "a100",
        "cpu_time_s": 86430.5,
    }
    assert {name: job[name] for name in expected} == expected


def test_steps_are_counted_apart_and_their_usage_joins_the_job(
    write: Write, tmp_path: Path
) -> None:
    text = sacct(
        record(JobID="1", TotalCPU=""),
        step("1", "batch", MaxRSS="2048K", TotalCPU="00:10.000", ConsumedEnergyRaw="1000"),
        step("1", "extern", MaxRSS="0", ConsumedEnergyRaw="1200"),
        step("1", "0", MaxRSS="3G", TotalCPU="00:20:00", ConsumedEnergyRaw="700"),
        step("1", "1", MaxRSS="1G", TotalCPU="00:30:00", ConsumedEnergyRaw="400"),
        record(JobID="2"),
        step("1", "2", MaxRSS="5G"),  # far from its job
        step("3+0", "0", MaxRSS="1.50M"),  # before its job
        record(JobID="3+0", MaxRSS=""),
        step("4", "batch", MaxRSS="9G"),  # of a job that is not in the file
    )
    jobs, ledger = read(write("log.txt", text), tmp_path)
    used = dict(jobs.select("job_id", "memory_gib_used").iter_rows())
    assert used == {"1": 5.0, "2": None, "3+0": 1.5 / 1024}
    first = jobs.row(0, named=True)
    assert first["cpu_time_s"] == 10 + 20 * 60 + 30 * 60
    assert first["energy_j"] == 1200  # the nodes', as .extern covers all; numbered steps: 1,100
    entry = ledger.entries[0]
    assert (entry.rows_read, entry.rows_kept, entry.rows_not_applicable) == (3, 3, 7)


@pytest.mark.parametrize("separator", ["|", ","])
def test_gpus_in_use_are_those_of_the_busiest_step(
    write: Write, tmp_path: Path, separator: str
) -> None:
    usage = {  # total, mean of the tasks, tasks; 4 GPUs
        "batch": ("cpu=00:01,gres/gpumem=1024M,gres/gpuutil=0,mem=1M", "gres/gpuutil=0", "1"),
        "0": ("gres/gpuutil=300,mem=2M", "gres/gpuutil=75", "4"),
        "1": ("mem=2M", "gres/gpuutil=85", "4"),  # 340 in all
    }
    names = ("TRESUsageInTot", "TRESUsageInAve", "NTasks")
    rows = ["JobID|State|AllocTRES|" + "|".join(names)]
    for job, gpus in (("1", 4), ("2", 3), ("3", 0)):
        rows.append(f"{job}|COMPLETED|cpu=8,gres/gpu={gpus}|||")
        rows += [f"{job}.{name}|COMPLETED||{'|'.join(texts)}" for name, texts in usage.items()]
    rows.append("4|COMPLETED|cpu=8,gres/gpu=2|gres/gpuutil=1844674407370955264||")
    text = "\n".join(rows).replace("|", separator) + "\n"
    jobs, ledger = read(write("log.txt", text), tmp_path, reader="sacct")
    assert ledger.entries[0].rows_kept == 4
    # job 2 has fewer GPUs than are in use: not known
    assert jobs["gpu_utilization"].to_list() == [0.85, None, None, None]


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        ("COMPLETED", "completed", "COMPLETED"),
        ("FAILED", "failed", "FAILED"),
        ("TIMEOUT", "failed", "TIMEOUT"),
        ("OUT_OF_MEMORY", "failed", "OUT_OF_MEMORY"),
        ("NODE_FAIL", "failed", "NODE_FAIL"),
        ("BOOT_FAIL", "failed", "BOOT_FAIL"),
        ("DEADLINE", "failed", "DEADLINE"),
        ("CANCELLED by 1234", "cancelled", "CANCELLED"),
        ("CANCELLED+", "cancelled", "CANCELLED"),
        ("PREEMPTED", "cancelled", "PREEMPTED"),
        ("REQUEUED", "cancelled", "REQUEUED"),
        ("RUNNING", "running", "RUNNING"),
        ("PENDING", "pending", "PENDING"),
        ("SOMETHING_NEW", "unknown", "SOMETHING_NEW"),
    ],
)
def test_states(write: Write, tmp_path: Path, state: str, status: str, reason: str) -> None:
    job = one(write, tmp_path, State=state)
    assert (job["status"], job["end_reason"]) == (status, reason)


@pytest.mark.parametrize(
    ("allocated", "requested", "expected"),
    [
        ("cpu=8,gres/gpu=4,gres/gpu:a100=4", "", (4, "a100")),
        ("cpu=8,gres/gpu:a100=4", "", (4, "a100")),
        ("gres/gpu:a100=2,gres/gpu:v100=1", "", (3, "a100+v100")),
        ("cpu=8,gres/gpu=2", "gres/gpu:h100=2", (2, "h100")),
        ("", "cpu=8,gres/gpu=3", (3, None)),
        ("cpu=8,mem=4G", "", (0, None)),
        ("", "", (None, None)),
        ("cpu=8,gres/gpumem=80G,gres/gpuutil=5", "", (0, None)),
    ],
)
def test_gpus(
    write: Write, tmp_path: Path, allocated: str, requested: str, expected: object
) -> None:
    job = one(write, tmp_path, AllocTRES=allocated, ReqTRES=requested)
    assert (job["gpus"], job["gpu_type"]) == expected


@pytest.mark.parametrize(
    ("requested", "gib"),
    [
        ("4000Mc", 8 * 4000 / 1024),
        ("16Gn", 2 * 16),
        ("64G", 64),
        ("1.5T", 1536),
        ("4096K", 4096 / 1024**2),
        ("0n", 32),  # all of the node's: the trackable resources state how much
        ("", 32),
    ],
)
def test_memory_is_that_of_the_whole_job(
    write: Write, tmp_path: Path, requested: str, gib: float
) -> None:
    job = one(write, tmp_path, ReqMem=requested, ReqTRES="cpu=8,mem=32768M,node=2")
    assert job["memory_gib"] == pytest.approx(gib)


@pytest.mark.parametrize("limit", ["UNLIMITED", "Partition_Limit", "Unknown", "None", ""])
def test_words_for_no_value_are_null(write: Write, tmp_path: Path, limit: str) -> None:
    job = one(write, tmp_path, Timelimit=limit, Start="Unknown", End="None", State="PENDING")
    assert (job["time_limit_s"], job["start_s"], job["end_s"]) == (None, None, None)


def test_a_range_of_an_array_is_one_row_and_recycled_ids_are_told_apart(
    write: Write, tmp_path: Path
) -> None:
    text = sacct(
        record(JobID="103_[4-9]", State="PENDING", Start="Unknown", End="Unknown"),
        record(JobID="103_1"),
        record(JobID="50", State="REQUEUED"),
        record(JobID="50", Submit="2026-03-02T08:00:10"),
        step("50", "0", MaxRSS="2G"),  # of the second
        record(JobID="50", Submit="2026-03-02T08:00:10"),  # the same record again
    )
    jobs, ledger = read(write("log.txt", text), tmp_path)
    assert jobs["job_id"].to_list() == ["103_[4-9]", "103_1", "50", "50@2026-03-02T08:00:10"]
    assert jobs["array_id"].to_list() == ["103", "103", None, None]
    assert jobs["memory_gib_used"].to_list() == [None, None, None, 2.0]
    assert ledger.entries[0].rejected == {"duplicate_key": 1}


BERLIN = ZoneInfo("Europe/Berlin")


def test_local_times_and_the_hour_that_occurs_twice(write: Write, tmp_path: Path) -> None:
    # clocks went from 03:00 back to 02:00 on 2026-10-25: the job ran an hour across that
    text = sacct(
        record(
            Submit="2026-10-25T01:00:00",
            Start="2026-10-25T02:30:00",
            End="2026-10-25T02:30:00",
            Elapsed="01:00:00",
        ),
        record(
            JobID="2",
            Submit="2026-10-25T02:50:00",
            Start="2026-10-25T02:10:00",
            End="2026-10-25T03:10:00",
            Elapsed="01:00:00",
        ),
    )
    jobs, ledger = read(write("log.txt", text), tmp_path, timezone="Europe/Berlin")
    early = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN).timestamp()
    assert jobs["start_s"].to_list() == [early, early + 40 * 60]
    assert jobs["end_s"].to_list() == [early + 3600, early + 100 * 60]
    assert ledger.entries[0].rows_rejected == 0
    assert Store(tmp_path / "store").manifest("log").timezone == "Europe/Berlin"


def test_unix_seconds_do_not_depend_on_the_zone(write: Write, tmp_path: Path) -> None:
    text = sacct(record(Submit="1772438400", Start="1772438430", End="1772442030"))
    jobs, _ = read(write("log.txt", text), tmp_path, timezone="Asia/Tokyo")
    assert jobs.select("submit_s", "end_s").row(0) == (1772438400.0, 1772442030.0)


@pytest.mark.parametrize("separator", ["|", ";", "\t", ",", "^^", "§"])
def test_any_separator(write: Write, tmp_path: Path, separator: str) -> None:
    text = sacct(record(AllocTRES="gres/gpu=2")).replace("|", separator)
    jobs, _ = read(write("log.txt", text), tmp_path)
    assert jobs.select("job_name", "gpus", "nodes").row(0) == ("train", 2.0, 2)


NAMES = [
    "a|b",
    "a|b|c|",
    "two\nlines",
    "\n|",
    "|",
    'the "best"',
    '"',
    "=cmd()",
    "<b>x</b>",
    *("é✓", "x" * 99999),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_any_sign_does_not_lose_the_row(
    write: Write, tmp_path: Path, name: str
) -> None:
    text = sacct(record(JobID="1"), record(JobID="2", JobName=name), record(JobID="3"))
    jobs, _ = read(write("log.txt", text), tmp_path)
    assert jobs["job_id"].to_list() == ["1", "2", "3"]
    assert jobs["job_name"][1] == name


def test_what_is_no_record_is_rejected_and_named(write: Write, tmp_path: Path) -> None:
    text = sacct(
        record(JobID="1"),
        record(JobID="2", Submit="yesterday"),
        record(JobID="3", Elapsed="long"),
        "4|cut|off",
        "|".join(FIELDS),  # two exports, one after the other
        record(JobID="5"),
    )
    jobs, ledger = read(write("log.txt", text + record(JobID="6")[:30]), tmp_path)
    assert jobs["job_id"].to_list() == ["1", "3", "5"]
    assert jobs["runtime_s"].to_list() == [3600, None, 3600]
    (entry,) = ledger.entries
    assert entry.rejected == {"short_row": 2, "JobID|not_a_job_id": 1, "Submit|not_a_time": 1}
    assert entry.nulled == {"Elapsed|not_a_duration": 1}
    rejected = Store(tmp_path / "store").scan_rejected("log", "jobs").collect()
    assert rejected["line"].to_list() == [3, 5, 6, 8]
    assert rejected["text"][0] == record(JobID="2", Submit="yesterday")


def test_mistakes_are_named_in_one_line(write: Write, tmp_path: Path) -> None:
    screen = "       JobID    JobName  Partition    Account      State\n------------ ----------\n"
    with pytest.raises(SourceError, match="add --parsable2"):
        read(write("log.txt", screen), tmp_path)
    with pytest.raises(SourceError, match=r"does not name sacct's fields, JobID among them"):
        read(write("log.txt", "a|b|c\n1|2|3\n"), tmp_path, reader="sacct")
    with pytest.raises(SourceError, match="the file is empty"):
        read(write("log.txt", ""), tmp_path)
    with pytest.raises(TraceanaError, match="no time zone 'Berlin'"):
        read(write("log.txt", sacct(record())), tmp_path, timezone="Berlin")


field = st.text(st.sampled_from('ab|"\n\t,é'), max_size=4)


@settings(deadline=None, max_examples=15)
@given(names=st.lists(st.tuples(field, st.integers(0, 2)), min_size=1, max_size=8))
def test_every_record_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, names: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("sacct")
    lines = []
    for number, (name, steps) in enumerate(names, 1):
        lines.append(record(JobID=str(number), JobName=name))
        lines += [step(str(number), str(index)) for index in range(steps)]
    (folder / "log.txt").write_text(sacct(*lines))
    jobs, ledger = read(folder, folder)
    entry = ledger.entries[0]
    assert entry.rows_read == entry.rows_kept + entry.rows_rejected == len(names)
    assert entry.rows_not_applicable == sum(steps for _, steps in names)
    assert jobs["job_name"].fill_null("").to_list() == [name for name, _ in names]


def test_a_job_that_never_started_has_no_runtime(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(
        "JobID|State|Submit|Start|End|ElapsedRaw|User\n"
        "1|PENDING|2026-03-01T08:00:00|Unknown|Unknown|0|a\n"
        "2|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T08:00:00|0|a\n"
        "3|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T08:00:05|5|a\n"
    )
    ingest(tmp_path / "sacct.txt", store=tmp_path / "store")
    jobs = Store(tmp_path / "store").scan("sacct", "jobs").collect().sort("job_id")
    assert jobs["runtime_s"].to_list() == [None, 0, 5]


def test_ids_that_are_used_again_in_another_file(write: Write, tmp_path: Path) -> None:
    write("logs/a.txt", sacct(record(JobID="50"), record(JobID="51")))
    later = {"Submit": "2026-04-02T08:00:00", "Start": "2026-04-02T08:00:30"}
    again = record(JobID="50", End="2026-04-02T09:00:30", State="FAILED", **later)
    write("logs/b.txt", sacct(again, record(JobID="51"), record(JobID="52")))
    ledger = ingest(tmp_path / "files" / "logs", store=tmp_path / "store")
    jobs = Store(tmp_path / "store").scan("logs", "jobs").collect().sort("job_id")
    assert dict(jobs.select("job_id", "status").iter_rows()) == {
        "50": "completed",
        "50@2026-04-02T08:00:00": "failed",
        "51": "completed",
        "52": "completed",
    }
    assert ledger.entries[0].rejected == {}
    assert ledger.entries[0].rows_replaced == 1  # 51, exported twice


def test_lines_that_are_no_records_and_names_over_several_lines(
    write: Write, tmp_path: Path
) -> None:
    names = {"1": "a", "2": "two\n\nlines", "3": "x|y\n|z", "4": "plain"}
    lines = ["JobID|JobName|State|Submit|Elapsed"]
    for job, name in names.items():
        lines.append(f"{job}|{name}|COMPLETED|2026-03-02T08:00:00|00:01:00")
        lines += [""] * 150 if job == "3" else []
    jobs, ledger = read(write("log.txt", "\n".join(lines) + "\n"), tmp_path)
    assert dict(jobs.select("job_id", "job_name").iter_rows()) == names
    assert ledger.entries[0].rejected == {"blank_line": 150}


FIELDS_WITH_MARKS = [*FIELDS, "Comment"]


@pytest.mark.parametrize(("separator", "end"), [("|", ""), ("|", "|"), (",", ""), (";", ";")])
def test_marks_in_several_fields_and_after_the_last(
    write: Write, tmp_path: Path, separator: str, end: str
) -> None:
    tres = {"ReqTRES": "cpu=8,mem=64G,node=2", "AllocTRES": "cpu=8,gres/gpu:a100=4,mem=64G"}
    fields = {**PLAIN, **tres}
    names = {"1": ("plain", "x"), "2_[1,4-6]": ("a|b;c", "d;e|f"), "3": ("two\n|lines", "a|;b")}
    lines = [separator.join(FIELDS_WITH_MARKS) + end]
    for job, (name, comment) in names.items():
        cells = fields | {"JobID": job, "JobName": name, "Comment": comment}
        lines.append(separator.join(cells.get(f, "") for f in FIELDS_WITH_MARKS) + end)
    jobs, ledger = read(write("log.txt", "\n".join(lines) + "\n"), tmp_path)
    assert ledger.entries[0].rejected == {}
    assert jobs["job_id"].to_list() == list(names)
    assert jobs["job_name"].to_list() == [name for name, _ in names.values()]
    assert set(jobs["gpus"]) == {4.0}
    assert set(jobs["end_reason"]) == {"COMPLETED"}


def test_requeued_runs_of_one_submission_are_jobs_of_their_own(
    write: Write, tmp_path: Path
) -> None:
    runs = [
        record(JobID="7", State="NODE_FAIL"),
        record(JobID="7", Start="2026-03-02T10:00:00", End="2026-03-02T11:00:00"),
        record(JobID="7", Start="2026-03-02T10:00:00", End="2026-03-02T11:00:00"),
        record(JobID="7", State="PENDING", Start="Unknown", End="Unknown", Elapsed="00:00:00"),
    ]
    write("logs/a.txt", sacct(*runs))
    write("logs/b.txt", sacct(*runs[:2]))
    again = "7@2026-03-02T08:00:00@2026-03-02T10:00:00"
    ended = {"7": "failed", again: "completed"}
    # the run that waits is a job; it is outdated where a later export has the others alone
    waits = ended | {"7@2026-03-02T08:00:00@unstarted": "pending"}
    for source, found, replaced in (("logs/a.txt", waits, 0), ("logs", ended, 3)):
        store = tmp_path / f"store{replaced}"
        ledger = ingest(tmp_path / "files" / source, trace="log", store=store)
        jobs = Store(store).scan("log", "jobs").collect()
        assert dict(jobs.select("job_id", "status").iter_rows()) == found
        assert ledger.entries[0].rejected == {"duplicate_key": 1}
        assert ledger.entries[0].rows_replaced == replaced
