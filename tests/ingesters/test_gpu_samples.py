"""Samples of GPUs from nvidia-smi, dcgmi and Prometheus become rows of gpu_samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.ingesters.conftest import Write
from traceana.errors import SourceError
from traceana.ingesters import ingest
from traceana.store import Store, TableEntry

SMI = """timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/03/02 08:00:00.120, 0, 45 %, 2048 MiB, 250.50 W
2026/03/02 08:00:00.125, 1, 0 %, 3 MiB, [N/A]
2026/03/02 08:00:30.120, 0, [Not Supported], N/A, 61.00 W
timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W]
2026/03/02 08:01:00.120, 0, 100 %, 40960 MiB, 400.00 W
2026/03/02 08:01:00.125, 1, much, 3 MiB, 60.00 W
2026/03/02 08:01:30.120, 0
"""

DCGMI = """#Entity   GPUTL   FBUSD   POWER
ID                MB      W
GPU 0     45      2048    250.500
GPU 1     0       3       N/A
#Entity   GPUTL   FBUSD   POWER
ID                MB      W
GPU 0     100     40960   400.000
"""


def read(files: Path, store: Path, **options: Any) -> tuple[pl.DataFrame, TableEntry]:
    (entry,) = ingest(files, store=store, **options).entries
    assert entry.rows_read == entry.rows_kept + entry.rows_rejected
    rows = Store(store).scan(entry.trace, "gpu_samples").collect()
    return rows.sort("machine_id", "time_s", "gpu"), entry


def test_nvidia_smi_units_and_missing_values(write: Write, tmp_path: Path) -> None:
    rows, entry = read(write("node01.csv", SMI) / "node01.csv", tmp_path / "store")
    assert entry.rejected == {"short_row": 1}
    assert entry.nulled == {"utilization|not_a_number": 1}
    assert rows["machine_id"].unique().to_list() == ["node01"]
    assert rows["time_s"][0] == pytest.approx(1772438400.12)  # date -d '2026-03-02 08:00 UTC' +%s
    assert rows.select("gpu", "utilization", "memory_gib", "power_w").rows() == [
        ("0", 0.45, 2.0, 250.5),
        ("1", 0.0, 3 / 1024, None),
        ("0", None, None, 61.0),
        ("0", 1.0, 40.0, 400.0),
        ("1", None, 3 / 1024, 60.0),
    ]


def test_nvidia_smi_without_units_and_in_a_time_zone(write: Write, tmp_path: Path) -> None:
    text = (
        "hostname, timestamp, uuid, utilization.gpu [%], memory.used [MiB]\n"
        "n7, 2026/03/02 09:00:00, GPU-5fc3, 45, 1024\n"
    )
    file = write("all.csv", text) / "all.csv"
    rows, _ = read(file, tmp_path / "store", timezone="Europe/Berlin")
    assert rows.select("machine_id", "gpu", "time_s", "utilization", "memory_gib").row(0) == (
        "n7",
        "GPU-5fc3",
        1772438400.0,
        0.45,
        1.0,
    )


def test_nvidia_smi_with_unix_times_and_a_named_index(write: Write, tmp_path: Path) -> None:
    text = "timestamp,gpu_index,utilization.gpu [%]\n1772438400,0,45\n1772438400.5,1,0\n"
    rows, _ = read(write("n7.csv", text) / "n7.csv", tmp_path / "store")
    assert rows.select("gpu", "time_s", "utilization").rows() == [
        ("0", 1772438400.0, 0.45),
        ("1", 1772438400.5, 0.0),
    ]


def test_dcgmi_samples_without_a_time_are_a_second_apart(write: Write, tmp_path: Path) -> None:
    rows, entry = read(write("node02.log", DCGMI) / "node02.log", tmp_path / "store")
    assert not entry.rejected
    assert rows.select("gpu", "time_s", "utilization", "memory_gib", "power_w").rows() == [
        ("0", 0.0, 0.45, 2.0, 250.5),
        ("1", 0.0, 0.0, 3 / 1024, None),
        ("0", 1.0, 1.0, 40.0, 400.0),
    ]


@pytest.mark.parametrize("stamp", ["1772438400.5", "2026-03-02 08:00:00.5"])
def test_dcgmi_times_before_each_line(stamp: str, write: Write, tmp_path: Path) -> None:
    text = "".join(f"{stamp} {line}\n" for line in DCGMI.splitlines()[:4])
    rows, _ = read(write("node02.log", text) / "node02.log", tmp_path / "store")
    assert rows["time_s"].to_list() == [1772438400.5, 1772438400.5]


def answer(*series: tuple[dict[str, str], list[Any]]) -> dict[str, Any]:
    result = [{"metric": labels, "values": values} for labels, values in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


LABELS = {"Hostname": "node03", "gpu": "1", "instance": "10.0.0.3:9400", "pod": "dcgm-exporter-x"}
MATRIX = answer(
    (
        {"__name__": "DCGM_FI_DEV_GPU_UTIL", "exported_pod": "train-0", **LABELS},
        [[1772438400, "45"], [1772438430.5, "NaN"]],
    ),
    ({"__name__": "DCGM_FI_DEV_POWER_USAGE", **LABELS}, [[1772438400, "250.5"]]),
    ({"__name__": "DCGM_FI_DEV_SM_CLOCK", **LABELS}, [[1772438400, "1410"]]),
    (
        {
            "__name__": "nvidia_gpu_memory_used_bytes",
            "instance": "node04:9445",
            "minor_number": "0",
        },
        [[1772438400, "2147483648"], "odd"],
    ),
    (
        {"__name__": "nvidia_gpu_jobId", "instance": "node04:9445", "minor_number": "0"},
        [[1772438400, "812"]],
    ),
)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("content", [MATRIX, MATRIX["data"]])
def test_prometheus_series_become_samples(
    content: dict[str, Any], indent: int | None, write: Write, tmp_path: Path
) -> None:
    file = write("gpus.json", json.dumps(content, indent=indent)) / "gpus.json"
    rows, entry = read(file, tmp_path / "store")
    assert entry.rejected == {"not_a_point": 1}
    assert entry.rows_not_applicable == 1  # a clock is no column
    names = ("machine_id", "gpu", "utilization", "memory_gib", "power_w", "job_id")
    assert set(rows.select(names).rows()) == {
        ("node03", "1", 0.45, None, None, "default/train-0"),
        ("node03", "1", None, None, None, "default/train-0"),
        ("node03", "1", None, None, 250.5, None),
        ("node04", "0", None, 2.0, None, None),
        ("node04", "0", None, None, None, "812"),
    }


def test_a_file_per_metric_and_a_later_day_update_the_trace(write: Write, tmp_path: Path) -> None:
    days = [1772438400, 1772524800]
    for number, name in enumerate(("GPU_UTIL", "POWER_USAGE")):
        for day in days:
            one = answer(({"__name__": f"DCGM_FI_DEV_{name}", **LABELS}, [[day, "50"]]))
            files = write(f"day{days.index(day)}/{number}.json", json.dumps(one))
    for _ in range(2):
        for folder in ("day0", "day1"):
            rows, _ = read(files / folder, tmp_path / "store", trace="mine")
    assert rows["time_s"].to_list() == [days[0], days[0], days[1], days[1]]
    assert rows["power_w"].drop_nulls().to_list() == [50.0, 50.0]


def test_other_files_are_told_what_is_missing(write: Write, tmp_path: Path) -> None:
    file = write("a.csv", "timestamp, index\n2026/03/02 08:00:00, 0\n") / "a.csv"
    with pytest.raises(SourceError, match=r"its heading lacks utilization\.gpu; make it with"):
        ingest(file, reader="nvidia-smi", store=tmp_path / "store")
    file = write("b.log", "#Entity  TMPTR\nID\nGPU 0  45\n") / "b.log"
    with pytest.raises(SourceError, match=r"no field of its heading is known"):
        ingest(file, store=tmp_path / "store")
