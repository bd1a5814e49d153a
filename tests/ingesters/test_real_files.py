"""The publishers' own files, held against counts made by other means."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet
import pytest

from traceana.catalog import load_catalog
from traceana.ingesters import ingest
from traceana.store import Ledger, Store, open_store


@pytest.fixture(scope="module")
def ingested(real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Ledger]:
    path = tmp_path_factory.mktemp("store")
    ledger = ingest(real_data, store=path)
    return open_store(path), ledger


def csv_rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def members(archive: Path) -> Iterator[tuple[str, str]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            stream = opened.extractfile(member)
            if member.name.endswith(".csv") and stream:
                yield member.name, stream.read().decode()


@pytest.fixture(scope="module")
def counted(real_data: Path) -> dict[tuple[str, str], int]:
    """Rows of each table, counted with the standard library's csv and tarfile."""
    rows: Counter[tuple[str, str]] = Counter()

    def data_rows(path: Path) -> int:
        return len(csv_rows(path.read_text())) - 1

    minibatch = real_data / "alibaba-minibatch-2020"
    for path in minibatch.glob("job_*.csv"):
        rows["alibaba-minibatch-2020", "worker_samples"] += data_rows(path)
    table = csv_rows((minibatch / "coefficient_variation.csv").read_text())
    rows["alibaba-minibatch-2020", "cov_samples"] = sum(
        cell != "" for row in table[1:] for cell in row[1:]
    )
    openb = real_data / "alibaba-openb-2023"
    rows["alibaba-openb-2023", "jobs"] = data_rows(openb / "openb_pod_list_default.csv")
    rows["alibaba-openb-2023", "machines"] = data_rows(openb / "openb_node_list_all_node.csv")
    for _, text in members(real_data / "alibaba-pai-2020" / "pai_machine_spec.tar.gz"):
        rows["alibaba-pai-2020", "machines"] += len(csv_rows(text))
    for _, text in members(real_data / "microsoft-itp-2021" / "raw-traces.tar.gz"):
        rows["microsoft-itp-2021", "jobs"] += len(csv_rows(text)) - 1
    for name, text in members(real_data / "elasticflow-2023" / "elasticflow-traces.tar.gz"):
        count = len(csv_rows(text)) - 1
        rows["elasticflow-2023", "training_plans"] += count
        rows["elasticflow-2023", "jobs"] += count if name.startswith("cluster") else 0
    zeus = real_data / "zeus-2023"
    rows["zeus-2023", "training_runs"] = data_rows(zeus / "summary_train.csv")
    for path in zeus.glob("summary_power_*.csv"):
        rows["zeus-2023", "power_profiles"] += data_rows(path)
    for path in (real_data / "bytedance-stragglers-2025").glob("trace-*.parquet"):
        workers = pyarrow.parquet.read_table(path, columns=["rank", "step"]).to_pylist()
        rows["bytedance-stragglers-2025", "worker_samples"] += len(
            {(row["rank"], row["step"]) for row in workers}
        )
        rows["bytedance-stragglers-2025", "operations"] += len(workers)
    return dict(rows)


def test_every_row_read_is_counted(
    ingested: tuple[Store, Ledger], counted: dict[tuple[str, str], int]
) -> None:
    store, ledger = ingested
    tables = {(row["trace"], row["table"]): row for row in ledger.tables.to_dicts()}
    assert {table: row["rows_read"] for table, row in tables.items()} == counted
    for (trace, table), row in tables.items():
        assert row["rows_read"] == row["rows_kept"] + row["rows_rejected"]
        path = store.path / trace / f"{table}.parquet"
        assert duckdb.read_parquet(str(path)).shape[0] == row["rows_kept"]
    assert sum(row["rows_rejected"] for row in tables.values()) == 1


def test_published_row_counts_are_met(ingested: tuple[Store, Ledger]) -> None:
    _, ledger = ingested
    for row in ledger.tables.to_dicts():
        assert row["rows_read"] == load_catalog()[row["trace"]].rows[row["table"]]


def test_files_are_those_of_the_catalogue(ingested: tuple[Store, Ledger]) -> None:
    _, ledger = ingested
    assert ledger.files["as_published"].all()
    assert not ledger.synthetic


def test_the_repeated_row_of_job_2_is_the_one_rejected(ingested: tuple[Store, Ledger]) -> None:
    store, _ = ingested
    rejected = store.scan_rejected("alibaba-minibatch-2020", "worker_samples").collect()
    assert rejected.to_dicts() == [
        {
            "file": "job_2_norm.csv",
            "row": 2391,
            "line": 2392,
            "rule": "duplicate_key",
            "text": "2390,3,20,2381,851",
        }
    ]


def test_testbed_rows_are_not_jobs(ingested: tuple[Store, Ledger]) -> None:
    _, ledger = ingested
    apart = ledger.files.filter(member="195job.csv", table="jobs")
    assert apart.select("rows_read", "rows_kept", "rows_not_applicable").rows() == [(0, 0, 195)]


def test_published_statements_on_sums(ingested: tuple[Store, Ledger]) -> None:
    store, _ = ingested
    for trace in ("microsoft-itp-2021", "elasticflow-2023"):
        jobs = store.scan(trace, "jobs").collect()
        gpu_hours = (jobs["gpus"] * jobs["runtime_s"]).sum() / 3600
        assert round(gpu_hours, 1) == 1_632_719.7  # itp-gpu-hours
        assert jobs["cluster"].n_unique() == 10
    nodes = store.scan("alibaba-openb-2023", "machines").collect()
    assert nodes["gpus"].sum() > 6200  # openb-gpus
    machines = store.scan("alibaba-pai-2020", "machines").collect()
    assert machines["gpus"].sum() > 6500  # pai-machines
    assert machines.filter(pl.col("gpu_type").is_null())["gpus"].to_list() == [0.0] * 83


def test_single_rows_stand_in_the_tables_as_in_their_files(ingested: tuple[Store, Ledger]) -> None:
    store, _ = ingested
    # line 119 of summary_power_a40.csv
    power = store.scan("zeus-2023", "power_profiles").filter(
        pl.col("mean_power_w") == 116.63087520008567
    )
    assert power.collect().rows() == [
        ("a40", "imagenet", "resnet50", 192, "adadelta", 100.0, 11198.95, 116.63087520008567)
    ]
    runs = store.scan("zeus-2023", "training_runs").collect()
    never = runs["target_epoch"].null_count()
    assert 0 < never < runs.height
    pods = store.scan("alibaba-openb-2023", "jobs").collect()
    assert pods.filter(pl.col("start_s").is_null())["status"].unique().to_list() == ["pending"]
    second = pods.row(by_predicate=pl.col("job_id") == "openb-pod-0001", named=True)
    assert (second["gpus"], second["cpus"], second["memory_gib"]) == (0.46, 6.0, 12.0)
    assert second["runtime_s"] == 12902960 - 427061


def test_the_ledger_can_be_read_without_traceana(ingested: tuple[Store, Ledger]) -> None:
    store, ledger = ingested
    for trace in store.traces():
        stored = json.loads((store.path / trace / "ledger.json").read_text())
        for table, row in stored["tables"].items():
            assert row["rows_read"] == row["rows_kept"] + row["rows_rejected"]
            assert row["rows_rejected"] == sum(row["rejected"].values())
            assert all(len(file["sha256"]) == 64 for file in row["files"])
            assert table in set(ledger.tables["table"])
