"""``traceana ingest`` and ``traceana tables`` as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import run_command as run

HEADER = ",worker,gpu,time,batch_time_norm\n"
ROWS = "0,0,25,1,100\n1,1,25,1,110\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "job_1_norm.csv").write_text(HEADER + ROWS + "2,0,25\n")
    (folder / "job1.csv").write_text("what,is,this\n")
    return folder


def test_what_was_read_is_shown_and_a_second_time_is_a_no_op(files: Path, tmp_path: Path) -> None:
    done = run("ingest", files, "--store", "store", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "alibaba-minibatch-2020/worker_samples     3     2         1" in done.stdout
    assert "1 by short_row" in done.stdout
    assert "is not the published file" in done.stdout
    assert "not recognized: job1.csv\nexpected: files named as published" in done.stdout
    assert "not there: alibaba-minibatch-2020/job_2_norm.csv" in done.stdout
    again = run("ingest", files, "--store", "store", cwd=tmp_path)
    assert again.returncode == 0
    assert "nothing to do" in again.stdout


def test_json_alone_on_standard_output(files: Path, tmp_path: Path) -> None:
    done = run("ingest", files, "--store", "store", "--json", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert told["tables"][0]["rows_read"] == 3
    assert told["rejections"] == [
        {
            "trace": "alibaba-minibatch-2020",
            "table": "worker_samples",
            "rule": "short_row",
            "rows": 1,
        }
    ]
    listed = json.loads(run("tables", "--store", "store", "--json", cwd=tmp_path).stdout)
    (there,) = [row for row in listed if row["rows"] is not None]
    assert (there["table"], there["rows"], there["rows_rejected"]) == ("worker_samples", 2, 1)


def test_no_number_is_cropped_on_a_narrow_terminal(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    done = run("ingest", files, "--store", "store", cwd=tmp_path)
    (row,) = [line for line in done.stdout.splitlines() if "worker_samples   " in line]
    assert row.split() == ["alibaba-minibatch-2020/worker_samples", "3", "2", "1", "written"]


def test_rows_that_a_new_ingest_replaces_are_told(files: Path, tmp_path: Path) -> None:
    (files / "job_2_norm.csv").write_text(HEADER + ROWS)
    run("ingest", files, "--store", "store", cwd=tmp_path)
    done = run("ingest", files / "job_2_norm.csv", "--store", "store", cwd=tmp_path)
    assert "built anew without rows that it had before, of job_1_norm.csv" in done.stdout
    assert "2 rows read, where 29,720 are published" in done.stdout


def test_the_version_and_short_help(tmp_path: Path) -> None:
    assert run("--version", cwd=tmp_path).stdout.startswith("traceana 0.")
    assert "What-if:" in run("-h", cwd=tmp_path).stdout


def test_a_broken_file_is_one_line_and_exit_2(files: Path, tmp_path: Path) -> None:
    (files / "summary_train.csv").write_bytes(b"")
    done = run("ingest", files, "--store", "store", cwd=tmp_path)
    assert done.returncode == 2
    broken = files / "summary_train.csv"
    assert done.stderr == f"traceana: {broken}: the file is empty; export or fetch it again\n"
    assert "worker_samples" in done.stdout


def test_an_empty_file_beside_good_ones_is_named_and_they_are_kept(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "log.csv").write_text("id|gpus\na|2\nb|1\n")
    (tmp_path / "logs" / "none.csv").write_bytes(b"")
    (tmp_path / "ours.toml").write_text('[jobs]\njob_id = "id"\ngpus = "gpus"\n')
    done = run("ingest", "logs", "--mapping", "ours.toml", "--store", "s", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ours/jobs         2     2         0  written" in done.stdout
    assert "not recognized: none.csv (the file is empty)\n" in done.stdout
    (tmp_path / "logs" / "log.csv").write_text(  # needs no mapping
        "JobID|State|Submit|Start|End\n"
        "1|COMPLETED|2026-03-02T08:00:00|2026-03-02T08:00:30|2026-03-02T09:00:30\n"
    )
    done = run("ingest", "logs", "--store", "t", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("none.csv") == 1
    done = run("ingest", "logs/none.csv", "--store", "u", cwd=tmp_path)
    assert done.returncode == 2
    assert "the file is empty" in done.stderr


def test_a_log_without_a_row_makes_no_report(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("JobID|State|Submit|Start|End\n")
    done = run("report", "log.txt", "--out", "page", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.endswith("log.txt: no row; check the dates and filters of the export\n")
    assert not (tmp_path / "page").exists()


def test_columns_of_a_table_that_have_values_have_units(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("id|user|gpus|host\na|eva|2|n1\nb||x|n2\nc||4|n3\n")
    (tmp_path / "ours.toml").write_text(
        '[trace]\nkeep = ["host"]\n[jobs]\njob_id = "id"\nuser = "user"\ngpus = "gpus"\n'
    )
    words = ("log.csv", "--mapping", "ours.toml", "--store", "s")
    assert run("ingest", *words, cwd=tmp_path).returncode == 0
    listed = json.loads(run("tables", "--store", "s", "--json", cwd=tmp_path).stdout)
    (mine,) = [row for row in listed if row["rows"] is not None]
    columns = {row["column"]: row["unit"] for row in mine["columns"]}
    assert columns == {"job_id": "text", "user": "text", "gpus": "GPUs", "host": "the source's"}
    assert all(row["columns"] is None for row in listed if row["rows"] is None)
    lines = run("tables", "--store", "s", cwd=tmp_path).stdout.splitlines()
    assert [line.split() for line in lines if line.startswith("gpus ")] == [["gpus", "GPUs"]]


@pytest.mark.parametrize("words", [("ingest", "nowhere"), ("tables", "--store", "nowhere")])
def test_a_mistake_is_one_line_and_exit_2(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "nowhere" in done.stderr


def test_the_store_is_found_in_the_environment(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEANA_STORE", str(tmp_path / "named"))
    assert run("ingest", files, cwd=tmp_path).returncode == 0
    assert (tmp_path / "named" / "alibaba-minibatch-2020" / "ledger.json").exists()
    assert "store: " + str(tmp_path / "named") in run("tables", cwd=tmp_path).stdout.replace(
        "\n", ""
    )


POLARS_SET = """
import os, runpy, sys
sys.argv = ["traceana", "ingest", sys.argv[1], "--store", "store"]
try:
    runpy.run_module("traceana", run_name="__main__")
except SystemExit:
    print(os.environ["_RJEM_MALLOC_CONF"], os.environ["POLARS_MAX_THREADS"])
"""


def test_how_polars_works_is_set_where_the_user_has_not(files: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "POLARS_MAX_THREADS": "7"}
    environment.pop("_RJEM_MALLOC_CONF", None)  # which Polars sets too, where it is loaded
    told = subprocess.run(
        [sys.executable, "-c", POLARS_SET, str(files)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert told.stdout.endswith("dirty_decay_ms:2000,muzzy_decay_ms:0 7\n")


def test_a_mapping_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(
        "id|state|gpus\na|OK|2\nb|CANCELLED by 1|x\nc|CANCELLED by 2|1\n"
    )
    (tmp_path / "ours.toml").write_text(
        '[jobs]\njob_id = "id"\ngpus = "gpus"\n'
        'status = { column = "state", values = { OK = "completed" } }\n'
    )
    words = ("log.txt", "--mapping", "ours.toml", "--store", "store")
    done = run("ingest", *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ours/jobs         3     3         0  written" in done.stdout
    assert "1 cell by gpus|not_a_number" in done.stdout
    assert "unknown values in state: 'CANCELLED ...' (2)" in done.stdout
    assert "ours/jobs " in run("tables", "--store", "store", cwd=tmp_path).stdout
    (tmp_path / "log.txt").write_text("id|state|gpus\na|OK|-1\n")
    done = run("ingest", *words, "--trace", "t", "--reader", "csv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "traceana: t/jobs: none of 1 rows could be kept: 1 by gpus|min; "
        "the first is line 2 of log.txt: a|OK|-1\n"
    )
