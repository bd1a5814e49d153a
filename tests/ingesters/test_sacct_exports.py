"""Exports of sacct as sites have them: without a header, abbreviated, requeued, of steps only."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.ingesters.conftest import Write
from tests.ingesters.test_sacct import FIELDS, one, read, record, sacct, step
from traceana.cli import app
from traceana.errors import SourceError
from traceana.ingesters import ingest
from traceana.ingesters.readers.sacct import expand_hosts, gpu_percent
from traceana.store import open_store


def other(write: Write, tmp_path: Path, header: str, *records: str) -> pl.DataFrame:
    return read(write("log.txt", sacct(*records, header=header)), tmp_path)[0]


def test_counts_with_units_are_multiples_of_1024(write: Write, tmp_path: Path) -> None:
    tres = "billing=9,cpu=2K,gres/gpu=1.5K,gres/gpu:a100=1.5K,mem=64T,node=0.19K"
    row = one(write, tmp_path, ReqCPUS="2K", NNodes="0.25K", AllocTRES=tres)
    assert (row["cpus"], row["nodes"], row["gpus"], row["memory_gib"]) == (2048, 256, 1536, 64)


def test_no_nodes_are_0_00k(write: Write, tmp_path: Path) -> None:
    header = "JobID|State|Submit|ReqNodes|AllocNodes|ReqCPUS"
    jobs = other(write, tmp_path, header, "1|PENDING|2026-03-02T08:00:00|0.00K|0.00K|0.00K")
    assert jobs.select("nodes", "cpus").rows() == [(None, None)]


HEADLESS = [
    (
        "71|ada|gpu|COMPLETED|0:0|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30|01:00:00|"
        "1-00:00:00|cpu=8,gres/gpu=4,node=1|gpu[003-005,007]"
    ),
    (
        "72|bob|cpu|CANCELLED by 17|0:0|2026-03-02T08:01:00|Unknown|2026-03-02T08:02:00|00:00:00|"
        "UNLIMITED||None assigned"
    ),
    (
        "73_4|eva|gpu|TIMEOUT|0:15|2026-03-02T08:03:00|2026-03-02T08:04:00|2026-03-02T08:34:00|00:30:00|"
        "00:30:00|cpu=8,gres/gpu=1,node=1|gpu001"
    ),
]
NAMES = "JobID,User,Partition,State,ExitCode,Submit,Start,End,Elapsed,Timelimit,AllocTRES,NodeList"


@pytest.mark.parametrize("last", ["", "|"])
@pytest.mark.parametrize("named", [False, True])
def test_records_without_a_header(tmp_path: Path, last: str, *, named: bool) -> None:
    path = tmp_path / "log.txt"
    path.write_text("".join(f"{line}{last}\n" for line in HEADLESS))
    columns = NAMES.split(",") if named else None
    (entry,) = ingest(path, store=tmp_path / "s", columns=columns).entries
    assert (entry.rows_read, entry.rows_kept) == (3, 3)
    store = open_store(tmp_path / "s")
    jobs = store.scan("log", "jobs").collect()
    assert jobs.select(
        "job_id", "status", "runtime_s", "time_limit_s", "gpus", "NodeList"
    ).rows() == [
        ("71", "completed", 3600, 86_400, 4, "gpu003,gpu004,gpu005,gpu007"),
        ("72", "cancelled", None, None, None, None),
        ("73_4", "failed", 1800, 1800, 1, "gpu001"),
    ]
    assert jobs["user"].to_list() == (["ada", "bob", "eva"] if named else [None] * 3)
    notes = " ".join(store.manifest("log").notes)
    assert ("not read: column 2, column 3" in notes) is not named


def test_the_columns_are_asked_for_where_they_are_not_found(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("71|ada|COMPLETED|x\n72|bob|FAILED|y\n")
    with pytest.raises(SourceError, match=r"--columns JobID,User,Partition,State,Submit"):
        ingest(path, store=tmp_path / "s")
    arguments = ["ingest", str(path), "--store", str(tmp_path / "s"), "--columns"]
    done = CliRunner().invoke(app, [*arguments, "JobID,User,State,JobName"])
    assert done.exit_code == 0
    with pytest.raises(SourceError, match="3 columns are named, its first line has 4"):
        ingest(path, store=tmp_path / "t", columns=["JobID", "User", "State"])


def test_a_table_without_a_header_has_the_named_columns(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,4\nb,2\n")
    mapping = '[jobs]\njob_id = "id"\ngpus = "g"\n'
    ingest(
        tmp_path / "x.csv", mapping=mapping, columns=["id", "g"], trace="m", store=tmp_path / "s"
    )
    jobs = open_store(tmp_path / "s").scan("m", "jobs").collect()
    assert jobs.select("job_id", "gpus").rows() == [("a", 4), ("b", 2)]


def test_a_file_of_steps_alone_is_refused(write: Write, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"it has 2 steps of jobs .* and no job"):
        read(write("log.txt", sacct(step("1", "batch"), step("1", "0"))), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"Start": "2026-03-02T09:00:30"},
        {"NodeList": "None assigned"},
        {"AllocTRES": ""},
    ],
)
def test_a_job_cancelled_before_it_ran_has_no_start(
    write: Write, tmp_path: Path, changes: dict[str, str]
) -> None:
    fields = [*FIELDS, "NodeList"]
    base = {"NodeList": "gpu1"}
    cancelled = base | {"JobID": "1", "State": "CANCELLED by 7", "Elapsed": "00:00:00"} | changes
    rows = [
        f"{record(**values)}|{values['NodeList']}"
        for values in (
            cancelled,
            base | {"JobID": "2"},
            cancelled | {"JobID": "3", "Elapsed": "00:05:00"},
        )
    ]
    jobs = other(write, tmp_path, "|".join(fields), *rows)
    found = jobs.select(ran=pl.col("start_s").is_not_null(), runtime="runtime_s").rows()
    assert found == [(False, None), (True, 3600), (True, 300)]


def test_requeued_records_are_counted(write: Write, tmp_path: Path) -> None:
    rows = [
        record(JobID="1", State="REQUEUED", Start="2026-03-02T08:00:10", End="2026-03-02T08:10:00"),
        record(JobID="2"),
        record(JobID="1", State="REQUEUED", Start="2026-03-02T08:20:10", End="2026-03-02T08:30:00"),
        record(JobID="1"),
    ]
    jobs, _ = read(write("log.txt", sacct(*rows)), tmp_path)
    assert sorted(jobs.select("status", "restarts").rows()) == [
        ("cancelled", 0),
        ("cancelled", 1),
        ("completed", 0),
        ("completed", 2),
    ]
    jobs, _ = read(write("log.txt", sacct(record(JobID="1"))), tmp_path / "b")
    assert jobs["restarts"].to_list() == [None]  # none is listed, so it is not known


def test_usage_is_summed_over_tasks(write: Write, tmp_path: Path) -> None:
    header = "JobID|State|Submit|AllocTRES|NTasks|MaxRSS|TRESUsageInTot|TRESUsageInAve|Comment"
    times = "COMPLETED|2026-03-02T08:00:00|cpu=8,gres/gpu=4"
    rows = [
        f"1|{times}||||||",
        f"1.0|{times}|4|2G|cpu=01:00:00,mem=7G|gres/gpuutil=50|",
        f"2|{times}|||||user note gpu_util=45.5 ok",
        f"3|{times}||||||",
        f"3.0|{times}|4|2G||cpu=00:10:00,mem=1G|",
    ]
    rows = [row.removesuffix("|") if row.count("|") > header.count("|") else row for row in rows]
    jobs = other(write, tmp_path, header, *rows)
    assert jobs.select("memory_gib_used", "cpu_time_s", "gpu_utilization").rows() == [
        (7, 3600, 0.5),
        (None, None, 0.455),
        (4, 2400, None),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu_util=45.5", 0.455),
        ('{"gpu_util": 45}', 0.45),
        ("GPU 3", None),
        ("gpu_util=0.45", 0.45),
        ("gpuutil: 0.5%", 0.005),
        ("gpu_utilization=1", 0.01),
        ("gpu_util=400", None),
    ],
)
def test_utilization_in_a_comment(text: str, expected: float | None) -> None:
    assert gpu_percent(text) == expected


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("gpu[003-005,007]", ["gpu003", "gpu004", "gpu005", "gpu007"]),
        ("a[1-2]b[01-02]-x,login", ["a1b01-x", "a1b02-x", "a2b01-x", "a2b02-x", "login"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[0-99999999]", ["n0-99999999"]),
        ("n[1", ["n", "1"]),
    ],
)
def test_lists_of_nodes(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


@given(st.lists(st.integers(0, 999), min_size=1, max_size=20, unique=True))
def test_a_list_in_any_order_has_as_many_nodes(numbers: list[int]) -> None:
    names = [f"gpu{number:03d}" for number in numbers]
    assert expand_hosts(f"gpu[{','.join(name[3:] for name in names)}]") == names


@pytest.mark.parametrize(("old", "is_export"), [(1, True), (7, False), (300, True)])
def test_the_window_of_an_export_begins_with_its_first_end(
    write: Write, tmp_path: Path, old: int, *, is_export: bool
) -> None:
    """Few jobs of the days before it ended in it, or many, of which none ended as soon as later."""
    day = dt.timedelta(days=1)
    begin = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    rows = []
    for job in range(old + 300):
        submit = begin + (job * 10 / old if job < old else 10 + (job - old) / 30) * day
        end = max(submit, begin + 10 * day) + dt.timedelta(hours=1)
        times = {"Submit": submit, "Start": submit, "End": end}
        rows.append(
            record(
                JobID=str(job), **{name: f"{at:%Y-%m-%dT%H:%M:%S}" for name, at in times.items()}
            )
        )
    read(write("log.txt", sacct(*rows)), tmp_path)
    first = open_store(tmp_path / "store").manifest("log").window_start_s
    ended = begin + 10 * day + dt.timedelta(hours=1)
    assert first == (ended.timestamp() - 1 if is_export else begin.timestamp())


def test_the_window_of_a_few_jobs_begins_with_the_first(write: Write, tmp_path: Path) -> None:
    """Two jobs ran for days before the others were submitted."""
    days = [("1", 0, 9), ("2", 1, 9), ("3", 8, 9), ("4", 8.5, 9)]
    begin = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    rows = []
    for job, submit, end in days:
        times = {"Submit": submit, "Start": submit, "End": end}
        at = {name: begin + day * dt.timedelta(days=1) for name, day in times.items()}
        rows.append(record(JobID=job, **{name: f"{x:%Y-%m-%dT%H:%M:%S}" for name, x in at.items()}))
    read(write("log.txt", sacct(*rows)), tmp_path)
    assert open_store(tmp_path / "store").manifest("log").window_start_s == begin.timestamp()
