"""Mappings of JSON lines and Parquet files, and inputs that no reader takes."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from tests.ingesters.test_mapping import JOBS, ingest_text, unix
from traceana.errors import DataError, SourceError
from traceana.ingesters import IngestError, ingest
from traceana.store import open_store

JSON = """{"id": 1, "r": {"gpus": 2.5}, "s": "DONE", "ok": true}
{"id": "b", "r": {"gpus": "x"}, "s": null}
not json

[1, 2]
{"id": 3, "r": {"gpus": 4}, "s": "DONE", "list": [1]}
"""


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "log.txt"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    data = JSON.encode()
    mapping = JOBS + 'gpus = "r.gpus"\nstatus = { column = "s", values = { DONE = "completed" } }\n'
    packed = gzip.compress(data) if name.endswith(".gz") else data
    store, _ = ingest_text(tmp_path, packed, mapping, name)
    jobs = store.scan("mine", "jobs").select("job_id", "gpus", "status").collect()
    assert jobs.rows() == [("1", 2.5, "completed"), ("b", None, None), ("3", 4.0, "completed")]
    rejected = store.scan_rejected("mine", "jobs").select("line", "rule", "text").collect().rows()
    assert rejected == [
        (3, "not_json", "not json"),
        (4, "blank_line", ""),
        (5, "not_json", "[1, 2]"),
    ]


def test_parquet_with_types(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "id": [1, 2, 3],
            "g": [2.0, float("nan"), -1.0],
            "t": pl.Series(["2026-03-01 12:00", None, "2026-03-01 13:00"]).str.to_datetime(),
            "s": pl.Series(["OK", "BAD", None], dtype=pl.Categorical),
            "nested": [[1], [2], [3]],
        }
    )
    frame.write_parquet(tmp_path / "log.parquet")
    mapping = f"""{JOBS}
gpus = "g"
submit_s = {{ time = "t", timezone = "Asia/Shanghai" }}
status = {{ column = "s", values = {{ OK = "completed", BAD = "failed" }} }}
"""
    ledger = ingest(
        tmp_path / "log.parquet", mapping=mapping, trace="mine", store=tmp_path / "store"
    )
    assert ledger.entries[0].rejected == {"gpus|min": 1}
    jobs = open_store(tmp_path / "store").scan("mine", "jobs").collect()
    assert jobs.select("job_id", "gpus", "submit_s", "status").rows() == [
        ("1", 2.0, unix("Asia/Shanghai", 2026, 3, 1, 12), "completed"),
        ("2", None, None, "failed"),
    ]
    with pytest.raises(IngestError, match=r"write \{ time = .* \}"):
        ingest(
            tmp_path / "log.parquet",
            mapping=JOBS + 'submit_s = "t"\n',
            trace="other",
            store=tmp_path / "store",
        )


def test_a_broken_parquet_file_and_a_reader_of_no_name(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="cannot be read as Parquet"):
        ingest_text(tmp_path, "PAR1 and nothing else", JOBS, "log.parquet")
    with pytest.raises(DataError, match="needs a mapping"):
        ingest(tmp_path, reader="csv")
    with pytest.raises(DataError, match="no reader is called 'xml'"):
        ingest_text(tmp_path, "id\n1\n", JOBS, reader="xml")
    with pytest.raises(DataError, match="needs an id of letters"):
        ingest(tmp_path, mapping=JOBS, trace="../up")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="no file fits"):
        ingest(tmp_path / "empty", mapping=JOBS, trace="mine", store=tmp_path / "store")
