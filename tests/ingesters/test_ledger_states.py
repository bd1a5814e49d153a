"""What is written where nothing changed, and what an entry of no file states."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.ingesters.conftest import Write, itp_csv
from traceana.errors import DataError, SourceError, StoreError
from traceana.ingesters import IngestError, add_table, ingest
from traceana.store import open_store

MAPPING = """
[jobs]
job_id = "id"
gpus = "g"
runtime_s = "r"
memory_gib = "m"
cpus = "c"
"""
HEAD = "id,g,r,m,c\n"


def test_a_ledger_is_written_where_a_table_is(write: Write, tmp_path: Path) -> None:
    store, folder = tmp_path / "store", write("x.csv", f"{HEAD}a,1,1,1,1\n")
    ingest(folder / "x.csv", mapping=MAPPING, trace="m", store=store)
    before = (store / "m/ledger.json").read_bytes()
    (entry,) = ingest(folder / "x.csv", mapping=MAPPING, trace="m", store=store).entries
    assert entry.state == "unchanged"
    assert (store / "m/ledger.json").read_bytes() == before
    manifest = (store / "m/manifest.json").read_bytes()
    (store / "m/manifest.json").unlink()
    with pytest.raises(StoreError, match=r"manifest\.json: not a manifest that this version can"):
        ingest(folder / "x.csv", mapping=MAPPING, trace="m", store=store)
    (store / "m/ledger.json").unlink()  # as if the first ingest had been interrupted
    ingest(folder / "x.csv", mapping=MAPPING, trace="m", store=store)
    assert (store / "m/manifest.json").read_bytes() == manifest
    assert (store / "m/ledger.json").read_bytes() == before


def test_three_rules_that_reject_every_row_are_named(write: Write, tmp_path: Path) -> None:
    rows = "a,-1,1,1,1\nb,-1,1,1,1\nc,1,-1,1,1\nd,1,1,-1,1\ne,1,1,1,-1\nf,1,1,1,-1\ng,1,1,1,-1\n"
    folder = write("x.csv", HEAD + rows)
    with pytest.raises(SourceError) as raised:
        ingest(folder / "x.csv", mapping=MAPPING, trace="m", store=tmp_path / "store")
    text = str(raised.value)
    assert text.count("|min") == 3
    assert "none of 7 rows could be kept: " in text


def test_a_frame_has_rows_and_no_bytes(tmp_path: Path) -> None:
    frame = pl.DataFrame({"job_id": ["a", "b"], "gpus": [1.0, 2.0]})
    add_table(frame, trace="m", table="jobs", store=tmp_path)
    (entry,) = open_store(tmp_path).ledger("m").entries
    (file,) = entry.files
    assert (file.file, file.bytes, file.rows_kept, file.synthetic) == ("frame", 0, 2, False)


def test_a_repeated_id_is_rejected_in_one_file_and_replaced_by_another(
    write: Write, tmp_path: Path
) -> None:
    folder = write("x.csv", f"{HEAD}a,1,1,1,1\na,2,1,1,1\n")
    (entry,) = ingest(folder / "x.csv", mapping=MAPPING, trace="m", store=tmp_path / "one").entries
    assert (entry.rejected, entry.rows_replaced) == ({"duplicate_key": 1}, 0)
    write("y.csv", f"{HEAD}a,3,1,1,1\n")
    (entry,) = ingest(folder, mapping=MAPPING, trace="m", store=tmp_path / "two").entries
    assert (entry.rows_kept, entry.rows_replaced) == (1, 1)
    assert entry.rejected == {"duplicate_key": 1}


def test_rows_of_a_table_without_a_key_are_not_replaced(write: Write, tmp_path: Path) -> None:
    mapping = '[instances]\njob_id = "id"\nstatus = "s"\n'
    for name in ("x.csv", "y.csv"):
        folder = write(name, "id,s\na,failed\n")
    (entry,) = ingest(folder, mapping=mapping, trace="m", store=tmp_path / "store").entries
    assert (entry.rows_kept, entry.rows_replaced) == (2, 0)


@pytest.mark.parametrize(
    ("first", "second", "dtype"),
    [
        ("number", "number", pl.Float64),
        ("text", "text", pl.String),
        ("number", "text", pl.String),
        ("text", "number", pl.String),
    ],
)
def test_a_kept_column_is_text_where_it_once_was(
    tmp_path: Path, write: Write, first: str, second: str, dtype: type[pl.DataType]
) -> None:
    for name, kind in (("a", first), ("b", second)):
        folder = write(f"{name}.csv", f"id,n\n{name},7\n")
        mapping = (
            f'[trace]\nkeep = ["n"]\n[jobs]\njob_id = "id"\n[jobs.source]\nn.type = "{kind}"\n'
        )
        ingest(folder / f"{name}.csv", mapping=mapping, trace="m", store=tmp_path / "store")
    jobs = open_store(tmp_path / "store").scan("m", "jobs").collect()
    assert jobs.schema["n"] == dtype
    assert jobs["n"].cast(pl.Float64).to_list() == [7.0, 7.0]


def test_a_folder_that_cannot_be_written_does_not_stop_the_other_trace(
    write: Write, tmp_path: Path
) -> None:
    store, spec = tmp_path / "store", "alibaba-pai-2020"
    store.mkdir()
    (store / spec).write_text("in the way")
    folder = write("pai_machine_spec.csv", "m1,T4,96,512,2\n")
    with pytest.raises(StoreError, match="cannot be written"):
        ingest(folder, store=store)
    write("cluster01.csv", itp_csv(1))
    with pytest.raises(IngestError, match="cannot be written") as raised:
        ingest(folder, store=store)
    assert [entry.trace for entry in raised.value.ledger.entries] == ["microsoft-itp-2021"]


def test_a_mapping_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(DataError) as raised:
        ingest(tmp_path, mapping=tmp_path / "no.toml", store=tmp_path / "store")
    expected = f"{tmp_path / 'no.toml'}: the mapping cannot be read (No such file or directory)"
    assert str(raised.value) == expected


def test_words_that_are_known_are_not_counted_beside_a_bad_line(
    write: Write, tmp_path: Path
) -> None:
    folder = write("x.csv", "id,s\na,failed\nb,completed,more\nc,failed\n")
    mapping = '[jobs]\njob_id = "id"\nstatus = "s"\n'
    (entry,) = ingest(folder, mapping=mapping, trace="m", store=tmp_path / "store").entries
    assert (entry.rows_read, entry.rows_kept, entry.rejected) == (3, 2, {"long_row": 1})
    assert entry.unknown_words == {}
