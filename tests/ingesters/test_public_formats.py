"""Public traces without files here, on look-alikes written as their publishers describe them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from traceana.catalog import fetch
from traceana.errors import CatalogError, SourceError
from traceana.ingesters import ingest
from traceana.store import open_store

HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)
ACME = (
    "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue"
)


def table(tmp_path: Path, trace: str, name: str = "jobs") -> pl.DataFrame:
    ledger = ingest(tmp_path / "files", store=tmp_path / "store")
    (entry,) = (one for one in ledger.entries if (one.trace, one.table) == (trace, name))
    assert entry.rows_read == entry.rows_kept + entry.rows_rejected
    return open_store(tmp_path / "store").scan(trace, name).collect()


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("zipped", [False, True])
def test_helios_clusters_are_folders(tmp_path: Path, *, zipped: bool) -> None:
    row = "u1,vc1,8,40,1,{},2020-06-09 18:41:01,2020-06-09 18:41:11,2020-06-09 19:41:11,3600,10"
    for cluster, state in (("Earth", "TIMEOUT"), ("Venus", "COMPLETED")):
        write(tmp_path / f"files/data/{cluster}/cluster_log.csv", HELIOS, f"7,{row.format(state)}")
    if zipped:
        shutil.make_archive(str(tmp_path / "data"), "zip", tmp_path / "files", "data")
        shutil.rmtree(tmp_path / "files/data")
        shutil.move(tmp_path / "data.zip", tmp_path / "files/data.zip")
    jobs = table(tmp_path, "helios-2020").sort("cluster")
    shown = jobs.select("job_id", "cluster", "status", "end_reason", "gpus", "runtime_s", "queue")
    assert shown.rows() == [
        ("Earth/7", "Earth", "failed", "TIMEOUT", 8.0, 3600.0, "vc1"),
        ("Venus/7", "Venus", "completed", "COMPLETED", 8.0, 3600.0, "vc1"),
    ]
    # date --date "2020-06-09 18:41:01 +08:00" +%s
    assert jobs["submit_s"].to_list() == [1591699261.0] * 2
    missing = open_store(tmp_path / "store").missing("helios-2020", "jobs")
    assert set(missing) == {"Saturn/cluster_log.csv", "Uranus/cluster_log.csv"}


def test_acme_runtime_is_end_minus_start(tmp_path: Path) -> None:
    times = "2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:38+00:00"
    write(
        tmp_path / "files/trace_kalos.csv",
        f"{ACME},gpu_time,mem_per_pod_GB,shared_mem_per_pod,fail_time,stop_time",
        f"dlctk696,uf794,2,16,120,Other,FAILED,{times},40,10,640,200,100,,",
    )
    seren = times.replace("+00:00", "+08:00")
    write(
        tmp_path / "files/trace_seren.csv",
        f"{ACME},gpu_time",
        f"5778432,u95,1,8,128,Pretrain,COMPLETED,{seren},30,10,240",
    )
    jobs = table(tmp_path, "acme-2023").sort("cluster")
    shown = jobs.select("cluster", "status", "gpus", "runtime_s", "duration", "workload")
    assert shown.rows() == [
        ("kalos", "failed", 16.0, 30.0, 40.0, "Other"),
        ("seren", "completed", 8.0, 30.0, 30.0, "Pretrain"),
    ]
    assert jobs["start_s"][0] - jobs["start_s"][1] == 8 * 3600


def attempt(start: str | None, end: str | None, gpus: int) -> dict[str, Any]:
    detail = [{"ip": "m47", "gpus": [f"gpu{i}" for i in range(gpus)]}]
    return {"start_time": start, "end_time": end, "detail": detail}


@pytest.mark.parametrize(
    ("odd", "rule"),
    [
        ({"detail": 5}, None),
        ({"detail": [{"gpus": 5}, 5]}, None),
        ({"start_time": 5}, "start_time|not_a_time"),
        ({"start_time": ["x"]}, "start_time|not_a_time"),
        ({"start_time": "\ud800"}, "start_time|not_a_time"),
    ],
)
def test_an_odd_attempt_of_philly_rejects_its_row_alone(
    tmp_path: Path, odd: dict[str, object], rule: str | None
) -> None:
    one = attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8)
    jobs = [
        {
            "status": "Pass",
            "vc": "v",
            "jobid": name,
            "attempts": [one, one | more],
            "submitted_time": "2017-10-07 01:11:39",
            "user": "u",
        }
        for name, more in (("a", {}), ("b", odd))
    ]
    (tmp_path / "files").mkdir()
    (tmp_path / "files/cluster_job_log").write_text(json.dumps(jobs, indent=1))
    ingest(tmp_path / "files", store=tmp_path / "store")
    tasks = open_store(tmp_path / "store").ledger("philly-2017").entries[1]
    assert (tasks.table, tasks.rejected) == ("tasks", {rule: 1} if rule else {})


def test_philly_attempts_are_tasks(tmp_path: Path) -> None:
    done = [
        attempt("2017-10-07 01:12:09", "2017-10-07 01:13:23", 8),
        attempt("2017-10-07 01:13:30", "2017-10-09 06:53:12", 4),
    ]
    running = [attempt("2017-10-07 01:12:09", None, 2)]
    jobs = [
        {
            "status": status,
            "vc": "ee9e8c",
            "jobid": name,
            "attempts": attempts,
            "submitted_time": submitted,
            "user": "ce2f4c",
        }
        for name, status, attempts, submitted in (
            ("a", "Pass", done, "2017-10-07 01:11:39"),
            ("b", "Failed", running, "2017-10-07 01:11:39"),
            ("c", "Killed", [], "None"),
        )
    ]
    (tmp_path / "files").mkdir()
    (tmp_path / "files/cluster_job_log").write_text(json.dumps(jobs, indent=1))
    write(
        tmp_path / "files/cluster_machine_list",
        "machineId,number of GPUs, single GPU mem",
        "m31,8, 24GB",
    )
    found = table(tmp_path, "philly-2017")
    shown = found.select("job_id", "status", "gpus", "restarts", "start_s", "end_s", "submit_s")
    # Pacific daylight time: date --date "2017-10-07 01:12:09 -07:00" +%s
    assert shown.rows() == [
        ("a", "completed", 4.0, 1, 1507363929.0, 1507557192.0, 1507363899.0),
        ("b", "running", 2.0, 0, 1507363929.0, None, 1507363899.0),
        ("c", "cancelled", None, None, None, None, None),
    ]
    store = open_store(tmp_path / "store")
    tasks = store.scan("philly-2017", "tasks").collect()
    assert tasks.select("job_id", "task_name", "status", "gpus").rows() == [
        ("a", "attempt 1", "failed", 8.0),
        ("a", "attempt 2", "completed", 4.0),
        ("b", "attempt 1", "running", 2.0),
    ]
    machines = store.scan("philly-2017", "machines").collect()
    assert machines.select("machine_id", "gpus", "cpus").rows() == [("m31", 8.0, None)]


def test_a_pointer_of_git_lfs_is_not_the_data(tmp_path: Path) -> None:
    write(tmp_path / "files/cluster_job_log", "version https://git-lfs.github.com/spec/v1", "oid x")
    with pytest.raises(SourceError, match=r"a pointer instead of the data \(Git LFS"):
        ingest(tmp_path / "files", store=tmp_path / "store")


def test_spot_jobs_and_nodes(tmp_path: Path) -> None:
    write(
        tmp_path / "files/job_info_df.csv",
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,"
        "job_type",
        "job-1,org-2,A100,11,2,4,60,3600,Spot",
    )
    write(
        tmp_path / "files/node_info_df.csv",
        "node_name,gpu_model,gpu_capacity_num,cpu_num",
        "node-1,A100,8,128",
    )
    jobs = table(tmp_path, "alibaba-spot-2026")
    shown = jobs.select("gpus", "cpus", "qos", "account", "runtime_s", "status")
    assert shown.rows() == [(8.0, 44.0, "Spot", "org-2", 3600.0, None)]


@pytest.mark.parametrize("job", ["XX", "job_3-b"])
def test_operations_are_summed_by_worker_and_step(tmp_path: Path, job: str) -> None:
    rows = [
        (0, 0, 0, 7, "forward-compute", 10.0, 0.25),
        (0, 0, 0, 7, "backward-compute", 10.5, 0.5),
        (0, 0, 0, 7, "forward-recv", 10.25, 5.0),
        (1, 0, 1, 7, "forward-compute", 0.0, None),
        (1, 0, 1, 9, "forward-compute", 0.0, 1.5),
    ]
    names = ["rank", "dp_rank", "stage", "step", "optype", "start_ts", "duration"]
    (tmp_path / "files").mkdir()
    numbers = {"seq_id": 0, "mb_id": -1, "mc": 0, "gmc": 1}
    frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        **{name: pl.lit(value) for name, value in numbers.items()}
    )
    frame.write_parquet(tmp_path / f"files/trace-{job}.parquet")
    samples = table(tmp_path, "bytedance-stragglers-2025", "worker_samples")
    shown = samples.select("job_id", "worker_id", "step", "batch_time", "stage", "step_s")
    assert shown.rows() == [(job, "0", 7, 0.75, "0", 5.25), (job, "1", 9, 1.5, "1", 1.5)]
    entry, operations = ingest(tmp_path / "files", store=tmp_path / "store").entries
    assert (operations.table, operations.rows_kept) == ("operations", 4)
    assert operations.rejected == {"duration_s|nullability": 1}
    assert (entry.rows_read, entry.rows_rejected) == (3, 1)
    assert sum(file.rows_not_applicable for file in entry.files) == 2
    rejected = open_store(tmp_path / "store").scan_rejected(
        "bytedance-stragglers-2025", "worker_samples"
    )
    assert rejected.collect()["row"].to_list() == [2]
    first = open_store(tmp_path / "store").scan("bytedance-stragglers-2025", "operations").first()
    assert first.collect().to_dicts() == [
        {
            "job_id": job,
            "step": 7,
            "worker_id": "0",
            "dp_rank": 0,
            "stage": 0,
            "kind": "forward-compute",
            "start_s": 10.0,
            "duration_s": 0.25,
            "sequence": 0,
            "micro_batch": None,
            "chunk": 0,
            "global_chunk": 1,
        }
    ]


def test_files_without_a_checksum_are_not_fetched(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"get them from .*msr-fiddle/philly-traces and run"):
        fetch("philly-2017", to=tmp_path)
