"""Parquet takes bounded memory, and its types are read as they are or named."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.parquet import ParquetFile

from traceana.errors import DataError, SourceError
from traceana.ingesters import IngestError, add_table, ingest
from traceana.ingesters.files import list_csvs
from traceana.ingesters.readers.parquet import read_frames
from traceana.store import open_store


def test_a_text_that_a_parquet_file_has_once_is_not_read_a_million_times(tmp_path: Path) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000, pa.int32()), ["x" * 500_000])
    pq.write_table(pa.table({"user": text}), tmp_path / "a.parquet")  # 1 GB in all
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    (file,) = list_csvs(tmp_path, suffixes=(".parquet",)).csvs
    sizes = [(part.height, part.estimated_size()) for part in read_frames(file, ["user"])]
    assert sum(height for height, _ in sizes) == 2_000
    assert max(size for _, size in sizes) < 1 << 27


def test_a_text_of_more_than_a_line_may_have_is_an_error_in_parquet(tmp_path: Path) -> None:
    for text in (["x" * (1 << 24)], ["x" * ((1 << 24) + 1)]):
        for name, column in (
            ("plain", pa.array(text)),
            ("coded", pa.array(text).dictionary_encode()),
        ):
            pq.write_table(pa.table({"id": column}), tmp_path / f"{name}.parquet")
            (file,) = list_csvs(tmp_path / f"{name}.parquet", suffixes=("",)).csvs
            if len(text[0]) == 1 << 24:
                assert [part.height for part in read_frames(file, ["id"])] == [1]
                continue
            with pytest.raises(SourceError, match="a text of more than 16 MiB"):
                list(read_frames(file, ["id"]))


def test_the_file_is_named_whose_column_has_another_type(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, kind in (("a", pa.int64()), ("b", pa.float32()), ("c", pa.timestamp("s"))):
        table = pa.table({"id": [name], "g": pa.array([1], pa.int64()).cast(kind)})
        pq.write_table(table, folder / f"{name}.parquet")
    mapping = '[trace]\n[jobs]\njob_id = "id"\ngpus = "g"\n'
    with pytest.raises(IngestError, match=r"^c\.parquet: column 'g' has type Datetime, not a num"):
        ingest(folder, mapping=mapping, trace="m", store=tmp_path / "store")
    (folder / "c.parquet").unlink()
    ingest(folder, mapping=mapping, trace="m", store=tmp_path / "store")
    jobs = open_store(tmp_path / "store").scan("m", "jobs").collect()
    assert jobs.select("job_id", "gpus").rows() == [("a", 1.0), ("b", 1.0)]


def test_a_footer_of_very_many_row_groups_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traceana.ingesters.readers.parquet._LARGEST_FOOTER", 1 << 10)
    table = pa.table({"id": [f"u{n}" for n in range(25)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    with pytest.raises(IngestError, match=r"footer of .* larger row groups"):
        ingest(
            tmp_path / "a.parquet",
            mapping='[jobs]\njob_id = "id"\n',
            store=tmp_path / "s",
            trace="m",
        )
    pq.write_table(table, tmp_path / "a.parquet")
    (entry,) = ingest(
        tmp_path / "a.parquet", mapping='[jobs]\njob_id = "id"\n', store=tmp_path / "s", trace="m"
    ).entries
    assert entry.rows_kept == 25


@pytest.mark.parametrize("form", ["time", "duration"])
def test_a_duration_is_no_time_and_a_time_no_duration(tmp_path: Path, form: str) -> None:
    kind = pa.duration("s") if form == "time" else pa.timestamp("s")
    table = pa.table({"id": ["a"], "x": pa.array([60], kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    column = "start_s" if form == "time" else "runtime_s"
    mapping = f'[jobs]\njob_id = "id"\n{column} = {{ {form} = "x" }}\n'
    other = "duration" if form == "time" else "time"
    with pytest.raises(IngestError, match=rf"'x' holds .*; write {{ {other} = "):
        ingest(tmp_path / "a.parquet", mapping=mapping, trace="m", store=tmp_path / "store")


def test_times_in_a_zone_that_nobody_knows_are_the_instants_that_are_stored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    times = pa.array([0, 10**9], pa.timestamp("s", "Mars/Olympus"))
    pq.write_table(pa.table({"id": ["a", "b"], "t": times}), tmp_path / "a.parquet")
    mapping = '[trace]\n[jobs]\njob_id = "id"\nsubmit_s = { time = "t" }\n'
    ingest(tmp_path / "a.parquet", mapping=mapping, trace="m", store=tmp_path / "store")
    jobs = open_store(tmp_path / "store").scan("m", "jobs").collect()
    assert jobs["submit_s"].to_list() == [0.0, 1e9]
    assert capfd.readouterr().err == ""  # no panic of Polars


def test_times_and_numbers_beyond_what_polars_writes_are_rejected(tmp_path: Path) -> None:
    far = pa.array([2**63 - 1, -(2**63), 2**62, 60], pa.int64())
    table = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "us": far.cast(pa.timestamp("us")),
            "s": pa.array([2**53, -(2**53), 2**52, 60]).cast(pa.timestamp("s")),
            "day": pa.array([2**31 - 1, -(2**31), 2**30, 1], pa.int32()).cast(pa.date32()),
            "wide": pa.array([Decimal(n) for n in (10**60, -1, 10**50, 1)], pa.decimal256(70, 2)),
            "clock": pa.array([1, 2, 3, 4], pa.int32()).cast(pa.time32("s")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    for column in ("us", "s", "day", "wide"):
        spec = f'"{column}"' if column == "wide" else f'{{ time = "{column}" }}'
        mapping = f'[trace]\n[jobs]\njob_id = "id"\nsubmit_s = {spec}\n'
        (entry,) = ingest(
            tmp_path / "a.parquet", mapping=mapping, trace="m", store=tmp_path / column
        ).entries
        assert entry.rejected == {"submit_s|max": 2, "submit_s|min": 1}, column
    mapping = '[trace]\n[jobs]\njob_id = "id"\nsubmit_s = { time = "clock" }\n'
    with pytest.raises(IngestError, match="times of day without a date"):
        ingest(tmp_path / "a.parquet", mapping=mapping, trace="m", store=tmp_path / "clock")


def test_a_row_of_many_times_what_is_read_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"id": ["x" * (100 << 20), "y", "z"]})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", use_dictionary=False)
    (file,) = list_csvs(tmp_path, suffixes=(".parquet",)).csvs
    monkeypatch.setattr(ParquetFile, "iter_batches", None)
    with pytest.raises(SourceError, match="a row of more than 32 MiB"):
        list(read_frames(file, ["id"]))


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "coded"])
@pytest.mark.parametrize("checksum", [False, True])
def test_a_long_text_among_short_ones_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, coded: bool, checksum: bool
) -> None:
    texts = [f"j{n}" for n in range(20_000)]
    texts[15_500] = "x" * (9 << 20)
    columns = {"id": texts, "g": [*range(20_000)]}
    pq.write_table(
        pa.table(columns),
        tmp_path / "a.parquet",
        row_group_size=5_000,
        compression="zstd",
        use_dictionary=coded,
        write_page_checksum=checksum,
        data_page_version="2.0" if checksum else "1.0",
        max_rows_per_page=500,
    )
    (file,) = list_csvs(tmp_path, suffixes=(".parquet",)).csvs
    frames = pl.concat(read_frames(file, ["id", "g"]))
    assert frames.to_dict(as_series=False) == columns
    monkeypatch.setattr("traceana.ingesters.readers.parquet._LARGEST_PAGE", 8 << 20)
    with pytest.raises(SourceError, match=r"a\.parquet: a page of 9 MiB, of which at most 8 are"):
        list(read_frames(file, ["id", "g"]))
    assert pl.concat(read_frames(file, ["g"])).height == 20_000


def test_what_was_read_of_a_parquet_file_does_not_stay_in_memory(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).random(4_000_000)
    pq.write_table(pa.table({"g": numbers}), tmp_path / "a.parquet", row_group_size=250_000)
    size = (tmp_path / "a.parquet").stat().st_size
    assert size > numbers.nbytes
    (file,) = list_csvs(tmp_path, suffixes=(".parquet",)).csvs
    tracemalloc.start()
    before, most = pa.total_allocated_bytes(), 0
    for _ in read_frames(file, ["g"]):
        held = pa.total_allocated_bytes() - before + tracemalloc.get_traced_memory()[0]
        most = max(most, held)
    tracemalloc.stop()
    assert most < size / 4


@pytest.mark.parametrize(
    ("values", "kind"), [([[1, 2], [3]], "List"), ([b"a", b"b"], "Binary")], ids=["list", "bytes"]
)
def test_a_column_that_is_not_read_is_named_with_its_type(
    tmp_path: Path, values: list[object], kind: str
) -> None:
    frame = pl.DataFrame({"job_id": ["a", "b"], "x": values})
    frame.write_parquet(tmp_path / "a.parquet")
    mapping = '[trace]\n[jobs]\njob_id = "job_id"\ngpus = "x"\n'
    given: dict[str, Any] = {"mapping": mapping, "trace": "m", "store": tmp_path / "store"}
    message = f"column 'x' has type {kind}, which is not read; write its values as text or numbers"
    with pytest.raises(IngestError, match=message):
        ingest(tmp_path / "a.parquet", **given)
    with pytest.raises(DataError, match=message):
        add_table(frame, table="jobs", **given)
    with pytest.raises(DataError, match="the source has no column 'y'; it has 'job_id'"):
        add_table(frame, table="jobs", **(given | {"mapping": mapping.replace('"x"', '"y"')}))
    add_table(frame.rename({"x": "gpus"}), trace="n", table="jobs", store=tmp_path / "store")
    assert open_store(tmp_path / "store").columns("n", "jobs").height > 0
