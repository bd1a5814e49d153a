"""A mapping of odd types, or too deep, is one line that names the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceana.errors import TraceanaError
from traceana.ingesters import IngestError, ingest
from traceana.store import Ledger, open_store

ID = '[jobs]\njob_id = "id"\n'


def ingest_csv(folder: Path, mapping: str, content: str = "id,g\na,1\nb,2\n") -> Ledger:
    (folder / "x.csv").write_text(content)
    return ingest(folder / "x.csv", mapping=mapping, trace="t", store=folder / "store")


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ("trace = 5\n" + ID, r"\[trace\]: '5' is not a table"),
        ("[trace]\ntitle = [1]\n" + ID, r"\[trace\]: title: '\[1\]' is not text in quotes"),
        ("[trace]\nkeep = [[1]]\n" + ID, r"\[trace\] keep: '\[1\]' is not text"),
        ("[trace]\nkeep = 'g'\n" + ID, r"\[trace\] keep: 'g' is not a list of texts"),
        ("[trace]\nabsolute_times = 1\n" + ID, "absolute_times: '1' is not true or false"),
        ("[trace]\nutc_offset_h = nan\n" + ID, "utc_offset_h: 'nan' is not a finite number"),
        ("[trace]\nnotes = [1]\n" + ID, "notes: '1' is not text in quotes"),
        (ID + 'status = { column = "g", values = 5 }\n', "values: '5' is not a table"),
        (ID + 'gpus = { column = "g", values = { a = [1] } }\n', "is not text or a number"),
        (ID + 'gpus = { column = "g", minimum = "x" }\n', "minimum: 'x' is not a finite number"),
        (ID + "gpus = { column = 5 }\n", "column: '5' is not text in quotes"),
        (ID + 'submit_s = { time = "g", format = 5 }\n', "format: '5' is not text in quotes"),
        (ID + "[jobs.source]\ng = 5\n", r"\[jobs.source\] g: '5' is not a table"),
        (ID + "about = 5\n", r"\[jobs\] about: '5' is not a table"),
        (ID + "[jobs.about]\nworkers_per_job = 'x'\n", "workers_per_job: 'x' is not a whole"),
        ("[trace]\nindependent_unit = 'usr'\n" + ID, "independent_unit: no column is called 'usr'"),
        ("[trace]\nindependent_unit = ''\n" + ID, "independent_unit: no column is called ''; "),
        (ID + "[jobs.about]\ngroups = ['g']\n", "groups: no column is called 'g'; use one of"),
        ("x = " + "[" * 3000 + "]" * 3000 + "\n" + ID, "not TOML"),
        (ID + f'gpus = "{"g+" * 5000}g"\n', "has too many terms"),
        (ID + f'gpus = "{"(" * 5000}g{")" * 5000}"\n', "has too many terms"),
        (ID + f'gpus = "{"x" * 5000}"\n', "the source has no column 'x+\\.\\.\\.'"),
    ],
)
def test_an_odd_mapping_is_one_short_line(tmp_path: Path, mapping: str, message: str) -> None:
    with pytest.raises(TraceanaError, match=message) as raised:
        ingest_csv(tmp_path, mapping)
    error = raised.value
    lines = [x for _, x in error.ledger.failures] if isinstance(error, IngestError) else [error]
    for line in map(str, lines):
        assert "\n" not in line
        assert len(line) < 1000


def test_the_unit_of_independence_is_any_column_of_the_trace(tmp_path: Path) -> None:
    facts = "[trace]\nindependent_unit = 'g'\n"
    with pytest.raises(TraceanaError, match="no column is called 'g'; use one of job_id"):
        ingest_csv(tmp_path, facts + ID)
    ingest_csv(tmp_path, facts + "keep = ['g']\n" + ID)
    # a later mapping of another table may name a column of the first
    machines = facts + '[machines]\nmachine_id = "id"\ngpus = "1"\n'
    ingest_csv(tmp_path, machines)
    assert open_store(tmp_path / "store").manifest("t").independent_unit == "g"


def test_two_columns_are_equal_as_text_and_ordered_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("id,a,b\n1,1.0,1\n2,7,7\n3,9,10\n")
    cases = "CASE WHEN a = b THEN 1 WHEN a <> b AND a < b THEN 2 ELSE 3 END"
    ingest(path, mapping=f'[jobs]\njob_id = "id"\ngpus = "{cases}"\n', trace="t", store=tmp_path)
    rows = open_store(tmp_path).scan("t", "jobs").sort("job_id").collect()
    assert rows["gpus"].to_list() == [3.0, 1.0, 2.0]


def test_in_compares_text_with_text_where_a_number_is_computed(tmp_path: Path) -> None:
    mapping = ID + "gpus = \"CASE WHEN id IN ('a', 'c') THEN 4 WHEN g IN (2, 3) THEN 8 END\"\n"
    ingest_csv(tmp_path, mapping)
    rows = open_store(tmp_path / "store").scan("t", "jobs").collect()
    assert rows.select("job_id", "gpus").rows() == [("a", 4.0), ("b", 8.0)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,g\na,1\n".encode("utf-16"), "text in UTF-16 or UTF-32; save it as UTF-8"),
        (b"id,g\ra,1\r", "lines end in CR alone"),
        (b"[" * 100_000, "cannot|not JSON|no JSON object"),
    ],
    ids=["utf-16", "cr", "deep"],
)
def test_an_odd_text_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(TraceanaError, match=message):
        ingest(tmp_path / "x.csv", mapping=ID, trace="t", store=tmp_path / "store")


def test_a_fact_that_is_refused_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    ingest_csv(tmp_path, ID)
    with pytest.raises(TraceanaError, match="no fact is called 'titel'"):
        ingest_csv(tmp_path, "[trace]\ntitel = 'x'\n" + ID, "id\nc\n")
    rows = open_store(tmp_path / "store").scan("t", "jobs").collect()
    assert rows["job_id"].to_list() == ["a", "b"]


def test_a_file_that_is_written_while_it_is_read_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    ingest_csv(tmp_path, ID)
    file.write_text("id\nc\n")

    def write_more(*_: object) -> None:
        file.write_text(f"{file.read_text()}d\n")

    with pytest.raises(TraceanaError, match=r"x\.csv: changed while it was read; ingest a copy"):
        ingest(file, mapping=ID, trace="t", store=tmp_path / "store", progress=write_more)
    rows = open_store(tmp_path / "store").scan("t", "jobs").collect()
    assert rows["job_id"].to_list() == ["a", "b"]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such device here")
def test_a_device_is_neither_data_nor_a_mapping(tmp_path: Path) -> None:
    with pytest.raises(TraceanaError, match="/dev/zero: a pipe, socket or device; save its"):
        ingest("/dev/zero", mapping=ID, trace="t", store=tmp_path)
    with pytest.raises(TraceanaError, match="longer than 1 MiB, which no mapping is"):
        ingest(tmp_path, mapping="/dev/zero", trace="t", store=tmp_path)
