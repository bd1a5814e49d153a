"""A proposal for headings as people write them, and what its preview counts."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import traceana
from traceana.cli import app
from traceana.ingesters import ingest
from traceana.ingesters.propose import preview_mapping
from traceana.ingesters.propose_columns import TIME_UNITS, split_unit
from traceana.store import open_store

ODD = """Job,Who?,Queued (epoch ms),Runtime (min),vCPU,Memory GB,GPU config,GPU type,Host(s),st
j1,ada,1772438400000,12.5,8,64,A100-80G x4,55,n1,DONE
j2,bob,1772438500000,1.5,4,32,H100 x8,61,"n2,n3",ERR
"""


def test_headings_with_units_and_other_words(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(ODD)
    text = traceana.propose_mapping(path)
    assert 'gpu_type = "GPU type"' not in text  # its values are temperatures
    ingest(path, mapping=text, trace="m", store=tmp_path / "s")
    jobs = open_store(tmp_path / "s").scan("m", "jobs").collect()
    assert jobs.select("job_id", "user", "submit_s", "runtime_s", "cpus", "memory_gib").rows() == [
        ("j1", "ada", 1_772_438_400, 750, 8, 64),
        ("j2", "bob", 1_772_438_500, 90, 4, 32),
    ]
    assert jobs.select("gpus", "gpu_type", "node").rows() == [
        (4, "A100-80G", "n1"),
        (8, "H100", "n2,n3"),
    ]
    units = dict(open_store(tmp_path / "s").columns("m", "jobs").select("column", "unit").rows())
    assert (units["GPU type"], units["gpus"]) == ("the source's", "GPUs")
    every = {"GPU type": "GPU type", "node": "Host(s)"}
    assert tomllib.loads(text)["trace"]["keep"] == every
    assert jobs["status"].to_list() == ["completed", "failed"]  # by the values of "st"


def test_seconds_alone_are_a_runtime(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job,submitted,seconds,gpus\n1,2026-03-02T08:00:00Z,3600,4\n")
    assert 'runtime_s = "seconds"' in traceana.propose_mapping(path)


@pytest.mark.parametrize(
    ("cells", "gpus", "kinds"),
    [
        ("4x A100,2x RTX6000", [4, 2], ["A100", "RTX6000"]),
        ("4 x A100,2 x H100", [4, 2], ["A100", "H100"]),
        ("a100:4,h100:8", [4, 8], ["a100", "h100"]),
        ("V100x4,P100x1", [4, 1], ["V100", "P100"]),
        ("V100 x4,none,P100 x1", [4, 0, 1], ["V100", None, "P100"]),
    ],
)
def test_type_and_number_of_gpus_in_one_cell(
    tmp_path: Path, cells: str, gpus: list[int], kinds: list[str | None]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,gpu\n" + "".join(f"{n},{one}\n" for n, one in enumerate(cells.split(","))))
    ingest(path, mapping=traceana.propose_mapping(path), trace="m", store=tmp_path / "s")
    jobs = open_store(tmp_path / "s").scan("m", "jobs").collect()
    assert (jobs["gpus"].to_list(), jobs["gpu_type"].to_list()) == (gpus, kinds)


def test_operations_are_proposed_for_a_file_of_them(tmp_path: Path) -> None:
    rows = "".join(f"{r},0,{r},5,forward-compute,{t},0.5,{t}\n" for r in (0, 1) for t in range(3))
    (tmp_path / "run7.csv").write_text(
        "rank,dp_rank,stage,step,optype,start_ts,duration,seq_id\n" + rows
    )
    text = traceana.propose_mapping(tmp_path / "run7.csv")
    (entry,) = ingest(tmp_path / "run7.csv", mapping=text, trace="m", store=tmp_path / "s").entries
    assert (entry.table, entry.rows_kept) == ("operations", 6)
    found = open_store(tmp_path / "s").scan("m", "operations").collect()
    assert found.row(0, named=True) | {"chunk": None} == found.row(0, named=True)
    assert found["job_id"].unique().to_list() == ["run7"]


@pytest.mark.parametrize(("rows", "named"), [(100, False), (6, True)])
def test_few_repeated_ids_leave_the_id_to_the_row_number(
    tmp_path: Path, rows: int, *, named: bool
) -> None:
    ids = [f"j{n // 2 if n < 4 else n}" for n in range(rows)]
    path = tmp_path / "x.csv"
    path.write_text("job_id,user\n" + "".join(f"{one},u\n" for one in ids))
    text = traceana.propose_mapping(path)
    assert f"2 of {rows} rows repeat" in text
    [(entry, _)] = preview_mapping(path, text)
    assert entry.rows_read == rows
    assert entry.ids_are_rows is not named
    assert entry.rejected == ({"duplicate_key": 2} if named else {})


def test_the_next_step_that_is_printed_exists(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("job,begin,finish\na,1772438500,1772438400\n")
    result = CliRunner().invoke(app, ["map", str(path)])
    assert result.exit_code != 0
    assert "none of 1 rows could be kept: 1 by end_not_before_start" in str(result.exception)
    out = tmp_path / "m.toml"
    result = CliRunner().invoke(app, ["map", str(path), "--out", str(out)])
    assert f"correct {out}, then traceana ingest {path} --mapping {out}" in str(result.exception)
    assert out.is_file()
    path.write_text("job,begin\na,1772438500\n")
    shown = CliRunner().invoke(app, ["map", str(path)]).stderr
    (step,) = re.findall(r"next: traceana (.*)", shown)
    assert step == f"map {path} --out M.toml"


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        ("Queued (epoch ms)", ("queued", "ms")),
        ("wall time [h]", ("wall_time", "h")),
        ("Start (UTC)", ("start", None)),
        ("Runtime in minutes", ("runtime", "min")),
        ("Who?", ("who", None)),
        ("Host(s)", ("host", None)),
    ],
)
def test_units_of_headings(heading: str, expected: tuple[str, str | None]) -> None:
    assert split_unit(heading, TIME_UNITS) == expected


def test_headings_of_an_internal_database(tmp_path: Path) -> None:
    path = tmp_path / "odd.jsonl"
    rows = [
        {
            "job": {"uid": f"u{n:03}", "owner": {"login": f"anna{n % 3}"}},
            "asked_at": f"2026-03-02T08:00:{n:02}Z",
            "scheduled": f"2026-03-02T08:01:{n:02}Z",
            "completed": f"2026-03-02T09:01:{n:02}Z",
            "state": "completed" if n % 2 else "In progress",
            "gpu": {"count": 2, "model": "A100"},
            "hosts": ["n1", "n2"] if n % 4 else [],
        }
        for n in range(24)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pl.DataFrame(rows).write_parquet(tmp_path / "odd.parquet")
    for file in (path, tmp_path / "odd.parquet"):
        text = traceana.propose_mapping(file)
        assert "# unsure" not in text
        ingest(file, mapping=text, trace="m", store=tmp_path / file.suffix)
        jobs = open_store(tmp_path / file.suffix).scan("m", "jobs").collect().sort("job_id")
        names = ("job_id", "user", "status", "runtime_s", "gpus", "gpu_type", "node")
        assert jobs.select(names).rows()[:2] == [
            ("u000", "anna0", "running", 3600, 2, "A100", None),
            ("u001", "anna1", "completed", 3600, 2, "A100", "n1,n2"),
        ]


def test_what_differs_in_each_row_is_no_user_and_what_is_not_found_is_stated(
    tmp_path: Path,
) -> None:
    lines = (f"{n},x{n},2026-03-02T08:00:{n:02}Z,{n % 2}" for n in range(24))
    (tmp_path / "jobs.csv").write_text("id,uid,created,completed_\n" + "\n".join(lines) + "\n")
    text = traceana.propose_mapping(tmp_path / "jobs.csv")
    assert tomllib.loads(text)["trace"]["keep"] == ["uid", "completed_"]
    assert "# unsure: no column is known as user, status, runtime_s, gpus, node; is one" in text


@pytest.mark.parametrize(
    ("table", "expected", "lines"),
    [
        ("machines", ("n1", "A100", 8, 64), "hostname,gpu_model,gpus,mem_gb,rack\nn1,A100,8,64,r1"),
        (
            "gpu_samples",
            ("n1", "0", 1_772_438_400, 0.005, 2, 60),
            "time,host,device,util_pct,fb_used_mib,watts\n2026-03-02T08:00:00Z,n1,0,0.5,2048,60",
        ),
        (
            "faults",
            ("n1", 1_772_438_400, 1_772_438_460, 60, "gpu"),
            "hostname,went_down,back_up,category\nn1,2026-03-02T08:00:00Z,2026-03-02T08:01:00Z,gpu",
        ),
    ],
)
def test_tables_of_machines(
    tmp_path: Path, table: str, expected: tuple[object, ...], lines: str
) -> None:
    (tmp_path / "x.csv").write_text(lines + "\n")
    text = traceana.propose_mapping(tmp_path / "x.csv")
    ingest(tmp_path / "x.csv", mapping=text, trace="m", store=tmp_path / "s")
    (row,) = open_store(tmp_path / "s").scan("m", table).collect().rows()
    assert tuple(cell for cell in row if cell is not None)[: len(expected)] == expected
