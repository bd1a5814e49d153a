"""Rarer fields of Slurm's accounting records: which one counts where several state the same."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.ingesters.conftest import Write
from traceana.errors import SourceError
from traceana.ingesters import ingest
from traceana.ingesters.files import list_csvs
from traceana.ingesters.readers.sacct_lines import find_layout
from traceana.store import Store

Fields = dict[str, str]
FIELDS: list[tuple[Fields, dict[str, object]]] = [
    ({"TimelimitRaw": "90"}, {"time_limit_s": 5400}),
    ({"TimelimitRaw": "90", "Timelimit": "01:00"}, {"time_limit_s": 60}),
    ({"Start": "Unknown", "Elapsed": "00:01"}, {"runtime_s": 1}),
    ({"Start": "Unknown", "Elapsed": "00:00"}, {"runtime_s": None}),
    ({"ElapsedRaw": "7", "Elapsed": "00:08"}, {"runtime_s": 7}),
    ({"ReqGRES": "gpu:a100:2", "NNodes": "3"}, {"gpus": 6, "gpu_type": "a100"}),
    ({"AllocGRES": "gpu:2,gpu:v100:1"}, {"gpus": 3, "gpu_type": "v100"}),
    ({"AllocGRES": "gpu:1", "ReqGRES": "gpu:5", "NNodes": "1"}, {"gpus": 1, "gpu_type": None}),
    ({"AllocTRES": "gres/gpu=1", "ReqTRES": "gres/gpu=2"}, {"gpus": 1}),
    ({"AllocTRES": "gres/gpu=0", "TRES": "gres/gpu=1", "ReqTRES": "gres/gpu=2"}, {"gpus": 1}),
    (
        {"TRES": "cpu=4,gres/gpu=2,mem=8G,node=2"},
        {"cpus": 4, "gpus": 2, "memory_gib": 8, "nodes": None},
    ),
    ({"AllocTRES": "cpu=4,mem=1T,node=2"}, {"cpus": 4, "gpus": 0, "memory_gib": 1024, "nodes": 2}),
    ({"ReqTRES": "mem=512"}, {"memory_gib": 0.5}),
    ({"AllocCPUS": "0", "NCPUS": "6"}, {"cpus": 6}),
    ({"AllocCPUS": "1", "NCPUS": "6"}, {"cpus": 1}),
    ({"ReqCPUS": "2", "AllocCPUS": "4"}, {"cpus": 2}),
    ({"ReqNodes": "0", "NNodes": "0", "AllocNodes": "5"}, {"nodes": 5}),
    ({"ReqNodes": "1", "NNodes": "2"}, {"nodes": 1}),
    ({"ReqMem": "2Gc"}, {"memory_gib": None}),  # the CPUs are not stated
    ({"ReqMem": "2Gc", "ReqCPUS": "3"}, {"memory_gib": 6}),
    ({"ReqMem": "1024", "ReqCPUS": "3"}, {"memory_gib": 1}),  # of the job, in MiB
    ({"MaxRSS": "2G", "TotalCPU": "00:10"}, {"memory_gib_used": 2, "cpu_time_s": 10}),
    ({"ConsumedEnergy": "1.5K"}, {"energy_j": 1500}),
    ({"ConsumedEnergy": "1.5K", "ConsumedEnergyRaw": "1498"}, {"energy_j": 1498}),
    ({"ConsumedEnergyRaw": "999999999999999000"}, {"energy_j": 999999999999999000.0}),
    ({"ConsumedEnergyRaw": "18446744073709551614"}, {"energy_j": None}),  # no value
    ({"ConsumedEnergyRaw": "1000000000000000000"}, {"energy_j": None}),
    ({"ConsumedEnergyRaw": "0"}, {"energy_j": None}),  # without a plugin that measures energy
    ({"AllocTRES": "gres/gpu=1", ".0 TRESUsageInTot": "gres/gpuutil=100"}, {"gpu_utilization": 1}),
    (
        {"AllocTRES": "gres/gpu=1", ".0 TRESUsageInTot": "gres/gpuutil=101"},
        {"gpu_utilization": None},
    ),
    (
        {"AllocTRES": "gres/gpu=1", ".0 TRESUsageInTot": "gres/gpuutil=0.5,mem=1"},
        {"gpu_utilization": 0.005},
    ),
    ({"AllocTRES": "gres/gpu=0", ".0 TRESUsageInTot": "gres/gpuutil=0"}, {"gpu_utilization": None}),
    (
        {"AllocTRES": "gres/gpu=4", ".0 TRESUsageInAve": "gres/gpuutil=50", ".0 NTasks": "4"},
        {"gpu_utilization": 0.5},
    ),
    ({"AllocTRES": "gres/gpu:a100=2"}, {"gpus": 2, "gpu_type": "a100"}),
    ({"AllocTRES": "gres/gpu:a100:4"}, {"gpus": 4, "gpu_type": "a100"}),  # as squeue prints it
    ({"ReqTRES": "gpu:3"}, {"gpus": 3, "gpu_type": None}),
    ({"AllocGRES": "gpu:0", "ReqGRES": "gpu:5", "NNodes": "1"}, {"gpus": 5}),
    ({"ReqMem": "2Gn", "ReqNodes": "3"}, {"memory_gib": 6}),
    ({"ReqMem": "0", "AllocTRES": "mem=8G"}, {"memory_gib": 8}),
    ({".batch ConsumedEnergyRaw": "9", ".0 ConsumedEnergyRaw": "4"}, {"energy_j": 9}),
    ({".extern ConsumedEnergyRaw": "1", ".0 ConsumedEnergyRaw": "4"}, {"energy_j": 4}),
    ({".0 TotalCPU": "00:02", ".1 TotalCPU": "00:03", "TotalCPU": "00:04"}, {"cpu_time_s": 5}),
    ({".0 NTasks": "2"}, {"cpu_time_s": None, "energy_j": None, "memory_gib_used": None}),
    ({".0 MaxRSS": "1G", ".1 MaxRSS": "3G", "MaxRSS": "2G"}, {"memory_gib_used": 3}),
]


def test_each_field_of_a_record_and_of_its_steps(write: Write, tmp_path: Path) -> None:
    names = sorted({name.rpartition(" ")[2] for fields, _ in FIELDS for name in fields} - {"Start"})
    header = ["JobID", "State", "Start", *names]
    lines = ["|".join(header)]
    for job, (fields, _) in enumerate(FIELDS):
        steps: dict[str, Fields] = {"": {"State": "COMPLETED", "Start": "2026-03-02T08:00:00"}}
        for name, value in fields.items():
            step, _, field = name.rpartition(" ")
            steps.setdefault(step, {})[field] = value
        for step, cells in steps.items():
            record = {"JobID": f"{job}{step}", **cells}
            lines.append("|".join(record.get(name, "") for name in header))
    folder = write("log.txt", "\n".join(lines) + "\n")
    ledger = ingest(folder / "log.txt", store=tmp_path / "store")
    assert ledger.entries[0].rejected == {}
    assert ledger.entries[0].rows_kept == len(FIELDS)
    jobs = Store(tmp_path / "store").scan("log", "jobs").collect()
    for job, (fields, expected) in enumerate(FIELDS):
        row = jobs.row(by_predicate=pl.col("job_id") == str(job), named=True)
        assert {name: row[name] for name in expected} == pytest.approx(expected), fields


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("JobID|State|User", ("JobID", "State", "User")),
        ("JobID|State|User|", ("JobID", "State", "User", "\0end")),
        ("JobID|State||User", ("JobID", "State", "\0002", "User")),
        ("\ufeffJobID|State|NodeList", ("JobID", "State", "NodeList")),
        ("JobIDRaw|State|User", ("JobID", "State", "User")),
        ("JobIDRaw|JobID|State", ("JobIDRaw", "JobID", "State")),
        ("JobID|State|Color", None),  # two that are known may be by chance
        ("JobID State Color", None),
        ("State|User|Account", None),
        ("JobID", None),
    ],
)
def test_a_header_of_three_known_fields_is_slurms(
    tmp_path: Path, header: str, columns: tuple[str, ...] | None
) -> None:
    (tmp_path / "log.txt").write_text(header + "\n")
    layout = find_layout(list_csvs(tmp_path / "log.txt", suffixes=("",)).csvs[0])
    assert (layout and layout.columns) == columns


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("JobID State User", "add --parsable2"),
        ("JobID|State|User|State", "names a field more than once"),
    ],
)
def test_a_header_that_cannot_be_used(tmp_path: Path, header: str, message: str) -> None:
    (tmp_path / "log.txt").write_text(header + "\n")
    with pytest.raises(SourceError, match=message):
        find_layout(list_csvs(tmp_path / "log.txt", suffixes=("",)).csvs[0])


def test_the_last_field_before_a_closing_separator_is_read(write: Write, tmp_path: Path) -> None:
    folder = write("log.txt", "JobID|State|User|\n1|FAILED|anna|\n2|FAILED||\n3|FAILED|b|c|\n")
    ledger = ingest(folder / "log.txt", store=tmp_path / "store")
    jobs = Store(tmp_path / "store").scan("log", "jobs").collect()
    assert dict(jobs.select("job_id", "user").iter_rows()) == {"1": "anna", "2": None}
    assert ledger.entries[0].rows_rejected == 1


TIMES = [  # of 2026-10-25 in Berlin, and the minutes of start and end from midnight UTC
    ("01:50", "02:10", "02:40", "00:30:00", 10, 40),  # either time fits: the first
    ("01:50", "02:10", "02:40", "01:30:00", 10, 100),
    ("01:00", "02:30", "03:10", "00:40:00", 90, 130),
    ("01:00", "02:30", "03:10", "01:40:00", 30, 130),
    ("01:00", "02:30", "03:10", "00:07:00", 30, 130),  # no time fits: the first
    ("02:50", "02:10", "02:20", "", 70, 80),  # by the order of the three
    ("02:10", "02:10", "02:40", "00:30:00", 10, 40),
    ("01:00", "02:50", "02:10", "", 50, 70),
    ("01:00", "02:10", "02:10", "00:00:00", 10, 10),
    ("01:00", "02:10", "02:10", "01:00:00", 10, 70),
    ("01:00", "02:10", "02:40", "", 10, 40),
    ("01:00", "02:10", "", "", 10, None),
    ("01:00", "02:10", "02:40", "00:07:00", 10, 40),  # no time fits: the first
    ("01:00", "01:30", "02:30", "01:00:00", -30, 30),
    ("01:00", "01:30", "02:30", "02:00:00", -30, 90),
]


@pytest.mark.parametrize("rows", [TIMES, [TIMES[5]]])
def test_the_hour_that_occurs_twice(
    write: Write, tmp_path: Path, rows: list[tuple[str, str, str, str, int, int | None]]
) -> None:
    lines = ["JobID|State|Submit|Start|End|Elapsed"]
    for job, (*times, elapsed, _, _) in enumerate(rows):
        cells = [time and f"2026-10-25T{time}:00" for time in times]
        lines.append("|".join([str(job), "COMPLETED", *cells, elapsed]))
    folder = write("log.txt", "\n".join(lines) + "\n")
    ingest(folder / "log.txt", store=tmp_path / "store", timezone="Europe/Berlin")
    jobs = Store(tmp_path / "store").scan("log", "jobs").collect()
    midnight = pl.datetime(2026, 10, 25).dt.epoch("s")
    found = jobs.select("job_id", ((pl.col("start_s", "end_s") - midnight) / 60))
    assert found.rows() == [(str(job), *times[-2:]) for job, times in enumerate(rows)]
