"""Every rule of a mapping, on files of a cluster that does not exist."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import tempfile
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana.errors import DataError
from traceana.ingesters import IngestError, ingest
from traceana.store import Ledger, Store, open_store

JOBS = """
[jobs]
job_id = "id"
"""


def ingest_text(
    folder: Path, text: str | bytes, mapping: str, name: str = "log.csv", **options: Any
) -> tuple[Store, Ledger]:
    folder.mkdir(exist_ok=True, parents=True)
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    ledger = ingest(file, mapping=mapping, trace="mine", store=folder / "store", **options)
    return open_store(folder / "store"), ledger


def column(folder: Path, cells: list[str], stated: str, target: str = "runtime_s") -> list[Any]:
    """Return a table's column from one column of text; None where its row is rejected."""
    rows = "".join(f'{i},"{cell}"\n' for i, cell in enumerate(cells))
    store, _ = ingest_text(folder, f"id,x\n{rows}0z,\n", f"{JOBS}{target} = {stated}\n")
    jobs = store.scan("mine", "jobs").collect()
    found = dict(jobs.select("job_id", target).iter_rows())
    return [found.get(str(i), "rejected") for i in range(len(cells))]


def rules(store: Store, table: str = "jobs") -> list[str]:
    return store.scan_rejected("mine", table).collect()["rule"].to_list()


def test_a_log_by_a_mapping_alone(tmp_path: Path) -> None:
    rng = random.Random(5)
    states = ["DONE", "ERR", "CANCELLED by 1001", "CANCELLED by 7", "NODE_FAIL"]
    lines, gpu_hours, kept = [], 0.0, Counter[str]()
    for i in range(800):
        gpus, minutes, state = rng.choice([0, 1, 2, 8]), rng.randrange(1, 3000), rng.choice(states)
        day, hour = divmod(minutes, 1440)
        elapsed = f"{day}-{hour // 60:02d}:{hour % 60:02d}:00"
        broken = i % 50 == 7
        lines.append([f"j{i}", "many" if broken else gpus, elapsed, state, f"team {i % 3}"])
        gpu_hours += 0 if broken else gpus * minutes / 60
        kept[state.split()[0]] += 1
    text = io.StringIO()
    csv.writer(text, delimiter=";").writerows(
        [["id", "GPU count", "elapsed", "st", "team"], *lines]
    )
    mapping = """
[trace]
title = "Some cluster"
independent_unit = "user"
failure_statuses = ["failed", "cancelled"]
keep = ["team"]
[jobs]
job_id = "id"
user = "UPPER(team)"
gpus = "GPU count"
runtime_s = { duration = "elapsed" }
[jobs.status]
column = "st"
values = { DONE = "completed", ERR = "failed", "CANCELLED*" = "cancelled" }
[jobs.about]
unit_noun = "submissions"
"""
    store, ledger = ingest_text(tmp_path, text.getvalue(), mapping)
    (entry,) = ledger.entries
    assert (entry.rows_read, entry.rows_kept, entry.rejected) == (800, 800, {})
    assert (entry.nulled, entry.mostly_nulled) == ({"GPU count|not_a_number": 16}, ())
    jobs = store.scan("mine", "jobs").collect()
    assert (jobs["gpus"] * jobs["runtime_s"]).sum() / 3600 == pytest.approx(gpu_hours, rel=1e-12)
    assert dict(jobs["status"].value_counts().iter_rows()) == {
        "completed": kept["DONE"],
        "failed": kept["ERR"],
        "cancelled": kept["CANCELLED"],
        "unknown": kept["NODE_FAIL"],
    }
    assert entry.unknown_words == {"st": {"NODE_FAIL": kept["NODE_FAIL"]}}
    assert set(jobs["team"]) == {"team 0", "team 1", "team 2"}
    assert set(jobs["user"]) == {"TEAM 0", "TEAM 1", "TEAM 2"}
    manifest = store.manifest("mine")
    assert (manifest.title, manifest.source) == ("Some cluster", "mapping")
    assert manifest.failure_statuses == ("failed", "cancelled")
    assert manifest.tables["jobs"].unit_noun == "submissions"
    assert "team" in manifest.tables["jobs"].columns
    assert store.traces("jobs", ["gpus", "runtime_s", "status", "user"]) == ["mine"]


def test_values_of_several_words_are_counted_together(tmp_path: Path) -> None:
    rows = "".join(f"{i},CANCELLED by {1000 + i}\n" for i in range(300)) + "z,LOST\n"
    _, ledger = ingest_text(tmp_path, f"id,s\n{rows}", JOBS + 'status = "s"\n')
    assert ledger.entries[0].unknown_words == {"s": {"CANCELLED ...": 300, "LOST": 1}}


def test_a_status_without_values_is_ours(tmp_path: Path) -> None:
    found = column(tmp_path, ["COMPLETED", "failed", "Odd", ""], '"x"', "status")
    assert found == ["completed", "failed", "unknown", None]


@pytest.mark.parametrize(
    ("stated", "cells", "expected"),
    [
        (
            '"x"',
            ["1.5", "-0", "1e3", "a", "", "inf", " 1"],
            [1.5, 0.0, 1000.0, None, None, None, None],
        ),
        ('"x / 60"', ["90", ""], [1.5, None]),
        ('"COALESCE(x, 7)"', ["2", ""], [2.0, 7.0]),
        ('"CASE WHEN x > 10 THEN 10 ELSE x END"', ["12", "3"], [10.0, 3.0]),
        ('"x * 1.5"', ["2"], [3.0]),
        ("\"SPLIT_PART(x, ':', 2)\"", ["gpu:4", "gpu:a"], [4.0, None]),
        ('"CAST(SUBSTR(x, 2) AS DOUBLE)"', ["v4", "vv", "v1"], [4.0, None, 1.0]),
        ("\"CASE WHEN x = 'none' THEN 0 ELSE CAST(x AS DOUBLE) END\"", ["none", "3"], [0.0, 3.0]),
        ('"8"', ["a", "b"], [8.0, 8.0]),
        (
            '{ duration = "x" }',
            ["1-02:03:04", "02:03:04", "03:04.5", "17", "1 day, 0:00:01"],
            [93784.0, 7384.0, 184.5, None, 86401.0],
        ),
        ('{ duration = "x", unit = "min" }', ["1.5", "a"], [90.0, None]),
        (
            '{ column = "x", values = { "15m" = 900, "1h" = 3600.5 } }',
            ["15m", "1h", "2h"],
            [900.0, 3600.5, None],
        ),
        ('{ column = "x", maximum = 10 }', ["9", "11"], [9.0, "rejected"]),
    ],
)
def test_numbers(tmp_path: Path, stated: str, cells: list[str], expected: list[Any]) -> None:
    assert column(tmp_path, cells, stated) == expected


def test_whole_numbers(tmp_path: Path) -> None:
    assert column(tmp_path, ["2", "2.0", "2.5", "a"], '"x"', "nodes") == [2, 2, None, None]
    assert column(tmp_path / "b", ["4", "3"], '"x / 2"', "nodes") == [2, None]
    entry = open_store(tmp_path / "b" / "store").ledger("mine").entries[0]
    assert entry.nulled == {"nodes|not_a_whole_number": 1}


@pytest.mark.parametrize(
    ("stated", "cells", "expected"),
    [
        (
            '{ size = "x" }',
            ["16G", "512Mi", "1.5T", "1073741824", "big"],
            [16.0, 0.5, 1536.0, 1.0, None],
        ),
        ('{ size = "x", unit = "MiB" }', ["2048", "2048K"], [2.0, 2 / 1024]),
        ('{ size = "x", base = 1000 }', ["1G", "1GiB"], [1e9 / 2**30, 1.0]),
    ],
)
def test_sizes(tmp_path: Path, stated: str, cells: list[str], expected: list[Any]) -> None:
    assert column(tmp_path, cells, stated, "memory_gib") == pytest.approx(expected)


def unix(zone: str, *moment: int, fold: int = 0) -> float:
    return datetime(*moment, fold=fold, tzinfo=ZoneInfo(zone)).timestamp()  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("stated", "cells", "expected"),
    [
        (
            '{ time = "x" }',
            [
                "2026-03-01 12:00:00",
                "2026-03-01T12:00:00.5Z",
                "2026-03-01",
                "2026-03-01 12:00:00+08:00",
                "noon",
            ],
            [
                unix("UTC", 2026, 3, 1, 12),
                unix("UTC", 2026, 3, 1, 12) + 0.5,
                unix("UTC", 2026, 3, 1),
                unix("UTC", 2026, 3, 1, 4),
                "rejected",
            ],
        ),
        (
            '{ time = "x", format = "%d/%b/%Y:%H:%M:%S %z" }',
            ["01/Mar/2026:12:00:00 -0500"],
            [unix("UTC", 2026, 3, 1, 17)],
        ),
        # in Berlin clocks went from 02:00 to 03:00 on 29 March, and from 03:00 back on 25 October
        (
            '{ time = "x", format = "%Y-%m-%d %H:%M", timezone = "Europe/Berlin" }',
            [
                "2026-03-29 01:59",
                "2026-03-29 02:30",
                "2026-03-29 03:00",
                "2026-10-25 02:30",
                "2026-10-25 03:00",
            ],
            [
                unix("UTC", 2026, 3, 29, 0, 59),
                "rejected",
                unix("UTC", 2026, 3, 29, 1),
                unix("Europe/Berlin", 2026, 10, 25, 2, 30),
                unix("UTC", 2026, 10, 25, 2),
            ],
        ),
        ('{ time = "x", unit = "ms" }', ["1700000000500", "x"], [1700000000.5, "rejected"]),
        ('"x"', ["1700000000"], [1700000000.0]),
    ],
)
def test_times(tmp_path: Path, stated: str, cells: list[str], expected: list[Any]) -> None:
    assert column(tmp_path, cells, stated, "submit_s") == expected


def test_words_for_null_and_types_of_the_source(tmp_path: Path) -> None:
    text = "id,t,g,n\na,0,N/A,007\nb,0.00,2,8\nc,5,,9\n"
    mapping = f"""{JOBS}
submit_s = "t"
gpus = "COALESCE(g, 0)"
job_name = "n"
group = "n || '-' || g"
[jobs.source]
t = {{ type = "number", null = ["0", "0.0"] }}
g = {{ null = ["N/A"] }}
"""
    store, _ = ingest_text(tmp_path, text, mapping)
    jobs = store.scan("mine", "jobs").collect()
    assert jobs["submit_s"].to_list() == [None, None, 5.0]
    assert jobs["gpus"].to_list() == [0.0, 2.0, 0.0]
    assert jobs["job_name"].to_list() == ["007", "8", "9"]
    assert jobs["group"].to_list() == [None, "8-2", None]


def test_names_of_the_file_and_its_folder(tmp_path: Path) -> None:
    for cluster in ("Earth", "Venus"):
        (tmp_path / "data" / cluster).mkdir(parents=True)
        (tmp_path / "data" / cluster / "log.csv.gz").write_bytes(gzip.compress(b"id\n1\n2\n"))
    (tmp_path / "data" / "Venus" / "log.csv.gz").write_bytes(gzip.compress(b"id\n3\n"))
    mapping = """[jobs]
job_id = "id"
cluster = "file_folder"
queue = "CONCAT(file_name, '-', id)"
account = "'run 7'"
"""
    ledger = ingest(tmp_path / "data", mapping=mapping, trace="m", store=tmp_path / "store")
    assert [file.file for file in ledger.entries[0].files] == [
        "Earth/log.csv.gz",
        "Venus/log.csv.gz",
    ]
    jobs = open_store(tmp_path / "store").scan("m", "jobs").collect()
    assert jobs.select("job_id", "cluster", "queue", "account").rows() == [
        ("1", "Earth", "log-1", "run 7"),
        ("2", "Earth", "log-2", "run 7"),
        ("3", "Venus", "log-3", "run 7"),
    ]


@pytest.mark.parametrize(
    "expression",
    [
        *(
            "SUM(x)",
            "x / MAX(x)",
            "COUNT(*)",
            "ROW_NUMBER() OVER (ORDER BY x)",
            "FIRST(x)",
            "now()",
        ),
        *(
            "SUM(x) OVER (PARTITION BY id)",
            "MEDIAN(x)",
            "unnest(x)",
            "CURRENT_DATE",
            "COLUMNS('x')",
        ),
        *("STRING_AGG(x, ',')", "QUANTILE_CONT(x, 0.5)", "LAG(x) OVER (ORDER BY x)"),
    ],
)
def test_what_looks_at_several_rows_is_refused(tmp_path: Path, expression: str) -> None:
    with pytest.raises(IngestError, match=r"\[jobs\] gpus.*cannot be used") as error:
        ingest_text(tmp_path, "id,x\na,1\n", f'{JOBS}gpus = "{expression}"\n')
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (JOBS + 'gpu = "x"', r"jobs has no column 'gpu' \(did you mean gpus\?\)"),
        ('[job]\njob_id = "id"', r"no table is called 'job' \(did you mean jobs\?\)"),
        (JOBS + 'gpus = { colum = "x" }', "state one of time, duration, size, column"),
        (JOBS + 'gpus = { column = "x", value = {} }', r"'value' \(did you mean values\?\)"),
        (JOBS + 'gpus = { time = "x" }', "a time is in seconds"),
        (JOBS + 'submit_s = { time = "x", unit = "msec" }', r"did you mean ms\?"),
        (JOBS + 'submit_s = { time = "x", timezone = "Europe/Berlim" }', "mean Europe/Berlin"),
        (JOBS + 'submit_s = { time = "x", format = "%H %Z" }', "%Z is ambiguous"),
        (JOBS + 'status = { column = "x", values = { a = "complete" } }', r"mean completed\?"),
        (JOBS + "gpus = 4", "write an expression in quotes"),
        (JOBS + "gpus = ", "not TOML"),
        ('[trace]\nkeep = ["user"]' + JOBS, "keep names 'user', which is a column of jobs"),
        ('[trace]\ntimezone = "CET+1"' + JOBS, "no time zone 'CET\\+1'"),
        (
            '[trace]\ntimezone = "CEST"' + JOBS,
            "no time zone 'CEST'; write one .*/Berlin$",
        ),
        ('[trace]\nreader = "cvs"' + JOBS, r"no reader is called 'cvs' \(did you mean csv\?\)"),
        ('[trace]\ntitle = "x"', "no table in it"),
        (JOBS + '[jobs.source]\nx = { typ = "text" }', r"did you mean type\?"),
    ],
)
def test_a_wrong_mapping_is_one_line(tmp_path: Path, mapping: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        ingest_text(tmp_path, "id,x\na,1\n", mapping + "\n")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (JOBS + 'gpus = "gpu_cnt"', r"no column 'gpu_cnt' \(did you mean 'gpu_count'\?\)"),
        (JOBS + 'gpus = "gpu_cnt / 2"', r"did you mean 'gpu_count'"),
        (JOBS + 'gpus = "gpu count"', r"did you mean the column 'gpu_count'\?\) nor an SQL"),
        ('[machines]\ngpus = "gpu_count"', "states no machine_id, which every row needs"),
        ('[trace]\nkeep = ["site"]' + JOBS, "keep names 'site', which no source has"),
        (f'[trace]\ntitle = "{"x" * 1001}"' + JOBS, "title has 1,001 characters; at most 1,000"),
        ('[trace]\ntitel = "x"' + JOBS, r"no fact is called 'titel' \(did you mean title\?\)"),
        (JOBS + 'gpus = "LENGTH(gpu_count) + FOO(id)"', "nor an SQL expression"),
    ],
)
def test_a_mapping_that_does_not_fit_is_one_line(
    tmp_path: Path, mapping: str, message: str
) -> None:
    with pytest.raises(IngestError, match=message) as error:
        ingest_text(tmp_path, "id,gpu_count\na,1\n", mapping + "\n")
    assert "\n" not in str(error.value)


def test_a_changed_mapping_changes_the_table(tmp_path: Path) -> None:
    text = "id,x\na,120\n"
    assert ingest_text(tmp_path, text, JOBS + 'runtime_s = "x"\n')[1].entries[0].state == "written"
    _, again = ingest_text(tmp_path, text, JOBS + 'runtime_s = "x"\n')
    assert again.entries[0].state == "unchanged"
    store, ledger = ingest_text(tmp_path, text, JOBS + 'runtime_s = "x * 60"\n')
    assert ledger.entries[0].state == "written"
    assert store.scan("mine", "jobs").collect()["runtime_s"].to_list() == [7200.0]


def test_no_row_kept_is_an_error_with_the_rules(tmp_path: Path) -> None:
    ingest_text(tmp_path, "id,x\na,1\n", JOBS + 'submit_s = "x"\n')
    with pytest.raises(IngestError) as error:
        ingest_text(tmp_path, "id,x\na,one\nb,two\nc\n", JOBS + 'submit_s = "x"\n')
    assert str(error.value) == (
        "mine/jobs: none of 3 rows could be kept: 2 by x|not_a_number, 1 by short_row; "
        "the first is line 2 of log.csv: a,one"
    )
    assert open_store(tmp_path / "store").scan("mine", "jobs").collect().height == 1


def test_numbers_as_times_say_what_a_time_needs(tmp_path: Path) -> None:
    mapping = JOBS + 'submit_s = { time = "at" }\n'
    with pytest.raises(IngestError, match=r'ISO 8601; a number needs `unit`, such as "s"$'):
        ingest_text(tmp_path, "id,at\na,1700000000\n", mapping)


def test_names_that_are_used_inside_do_not_collide(tmp_path: Path) -> None:
    names = ["__line", "__row", "foo", "job", "sample", "cov", "rule", "line", "text", "row", "id"]
    text = ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n" + "x," * 10 + "2\n"
    mapping = f'[trace]\nkeep = {json.dumps(names[:-1])}\n{JOBS}gpus = "__line"\nnodes = "foo"\n'
    store, ledger = ingest_text(tmp_path, text, mapping)
    assert ledger.entries[0].nulled == {"__line|not_a_number": 1, "foo|not_a_number": 1}
    assert store.scan("mine", "jobs").select("__row", "rule", "cov").collect().rows() == [
        ("1",) * 3,
        ("x",) * 3,
    ]


def test_several_tables_of_one_mapping(tmp_path: Path) -> None:
    mapping = JOBS + '[machines]\nmachine_id = "node"\ngpus = "g"\ncpus = "c"\nmemory_gib = "m"\n'
    (tmp_path / "jobs.csv").write_text("id\na\n")
    (tmp_path / "nodes.csv").write_text("node\tg\tc\tm\nn1\t8\t64\t512\n")
    (tmp_path / "readme.csv").write_text("nothing\n1\n")
    ledger = ingest(tmp_path, mapping=mapping, trace="m", store=tmp_path / "store")
    assert ledger.tables.select("table", "rows_kept").rows() == [("jobs", 1), ("machines", 1)]
    assert "readme.csv" in ledger.not_recognized[0]
    with pytest.raises(IngestError, match="no column 'id'"):
        ingest(tmp_path / "readme.csv", mapping=mapping, trace="m", store=tmp_path / "store")


cells = st.sampled_from(
    ["1", "2.5", "", "x", "-3", "1e3", "nan", '"a;b"', '"', "é", "NA", "2026-01-01 00:00:00"]
)
lines = st.one_of(st.lists(cells, min_size=4, max_size=4), st.lists(cells, max_size=6))


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(lines, min_size=1, max_size=8))
def test_every_row_is_kept_or_rejected(rows: list[list[str]]) -> None:
    mapping = """[jobs]
job_id = "CONCAT('j', file_name, a, b, c, d)"
gpus = "a * 2"
submit_s = { time = "b" }
nodes = "c"
status = "d"
cpus = "CAST(d AS DOUBLE)"
[jobs.source]
a = { null = ["NA"] }
"""
    text = "\n".join(["a;b;c;d", "1;;1;1", *(";".join(row) for row in rows)]) + "\n"
    with tempfile.TemporaryDirectory() as name:
        store, ledger = ingest_text(Path(name), text, mapping)
        (entry,) = ledger.entries
        assert entry.rows_read == entry.rows_kept + entry.rows_rejected
        open_quotes = sum('"' in row for row in rows)  # two of them may make one row of lines
        assert entry.rows_read <= 1 + len(rows)
        assert entry.rows_read == 1 + len(rows) or open_quotes > 1
        rejected = store.scan_rejected("mine", "jobs").collect()
        assert rejected.height == entry.rows_rejected
        assert set(rejected["line"]) <= set(range(3, 3 + len(rows)))
        assert store.scan("mine", "jobs").collect().height == entry.rows_kept


def test_a_derived_start_is_not_before_submission_by_a_rounding_error(tmp_path: Path) -> None:
    assert 2115072.0 - (2115072.0 - 989445.0000000001) < 989445.0000000001
    text = "id,made,began,gone\na,989445.0000000001,989445.0000000001,2115072.0\nb,9,8,20\n"
    mapping = f'{JOBS}submit_s = "made"\nend_s = "gone"\nruntime_s = "gone - began"\n'
    store, _ = ingest_text(tmp_path, text, mapping)
    assert store.scan("mine", "jobs").collect()["start_s"].to_list() == [989445.0000000001]
    assert rules(store) == ["start_not_before_submission"]  # by a second


@pytest.mark.parametrize("missing", ["start_s", "end_s", "runtime_s"])
def test_of_start_end_and_runtime_the_third_follows(tmp_path: Path, missing: str) -> None:
    (tmp_path / "log.csv").write_text("id,start_s,end_s,runtime_s\na,100,160,60\nb,100,,\n")
    named = [name for name in ("start_s", "end_s", "runtime_s") if name != missing]
    (tmp_path / "m.toml").write_text(
        '[jobs]\njob_id = "id"\n' + "".join(f'{name} = "{name}"\n' for name in named)
    )
    ingest(tmp_path / "log.csv", mapping=tmp_path / "m.toml", trace="log", store=tmp_path / "s")
    jobs = open_store(tmp_path / "s").scan("log", "jobs").collect().sort("job_id")
    assert jobs[missing].to_list() == [
        {"start_s": 100, "end_s": 160, "runtime_s": 60}[missing],
        None,
    ]
