"""Jobs of ``sacct --json`` and ``squeue --json``, as Slurm 21 to 25 write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from traceana.errors import SourceError
from traceana.ingesters import ingest
from traceana.ingesters.readers import sacct
from traceana.store import open_store


def flat(number: int | None) -> object:
    """Return a number as Slurm 21 wrote it."""
    return number


def nested(number: int | None) -> object:
    """Return a number as Slurm writes it since 23.02."""
    return {"set": number is not None, "infinite": False, "number": number or 0}


def tres(**counts: int) -> list[dict[str, object]]:
    return [
        {"type": kind.split("_")[0], "name": ":".join(kind.split("_")[1:]), "id": 1, "count": count}
        for kind, count in counts.items()
    ]


def accounting(form: Any, *, lists: bool, **changes: Any) -> dict[str, Any]:
    step = {
        "tres": {
            "consumed": {
                "total": tres(cpu=9000, mem=3 << 30, gres_gpuutil=150),
                "max": tres(mem=1 << 30),
                "average": tres(gres_gpuutil=75),
            }
        },
        "statistics": {"energy": {"consumed": form(5000)}},
        "tasks": {"count": 2},
        "step": {"id": "71.0", "name": "python"},
    }
    state = "COMPLETED"
    job = {
        "account": "vision",
        "user": "ada",
        "cluster": "c1",
        "partition": "gpu",
        "qos": "normal",
        "name": "train",
        "job_id": 71,
        "nodes": "gpu[001-002]",
        "priority": form(120),
        "allocation_nodes": 2,
        "restart_cnt": 1,
        "association": {"account": "vision", "user": "ada"},
        "array": {"job_id": 0, "task_id": form(None)},
        "comment": {"job": "", "administrator": "", "system": ""},
        "state": {"current": [state] if lists else state, "reason": "None"},
        "exit_code": {"status": "SUCCESS", "return_code": form(3)},
        "required": {"CPUs": 16, "memory_per_node": form(2048), "memory_per_cpu": form(None)},
        "time": {
            "submission": 1_700_000_000,
            "start": 1_700_000_060,
            "end": 1_700_003_660,
            "elapsed": 3600,
            "limit": form(90),
            "total": {"seconds": 7000, "microseconds": 500_000},
        },
        "tres": {
            "allocated": tres(cpu=16, mem=65_536, node=2, gres_gpu=8, gres_gpu_a100=8),
            "requested": tres(cpu=16, mem=65_536, node=2, gres_gpu=8),
        },
        "steps": [step],
    }
    return job | changes


def read(jobs: list[dict[str, Any]], folder: Path, indent: int | None = None) -> Any:
    folder.mkdir(exist_ok=True)
    content = {"meta": {"plugin": {"type": "openapi/dbv0.0.37"}}, "errors": [], "jobs": jobs}
    (folder / "log.json").write_text(json.dumps(content, indent=indent))
    (entry,) = ingest(folder / "log.json", store=folder / "store").entries
    assert entry.rows_read == entry.rows_kept == len(jobs)
    return open_store(folder / "store").scan("log", "jobs").collect()


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("form", "lists"), [(flat, False), (nested, True)])
def test_accounting_of_every_version(
    tmp_path: Path, form: Any, indent: int | None, *, lists: bool
) -> None:
    row = read([accounting(form, lists=lists)], tmp_path, indent).row(0, named=True)
    expected = {
        "job_id": "71",
        "array_id": None,
        "user": "ada",
        "account": "vision",
        "queue": "gpu",
        "status": "completed",
        "end_reason": "COMPLETED",
        "exit_code": "3:0",
        "priority": 120,
        "submit_s": 1_700_000_000,
        "start_s": 1_700_000_060,
        "end_s": 1_700_003_660,
        "runtime_s": 3600,
        "time_limit_s": 5400,
        "nodes": 2,
        "cpus": 16,
        "memory_gib": 64,
        "gpus": 8,
        "gpu_type": "a100",
        "restarts": 1,
        "cpu_time_s": 7000.5,
        "memory_gib_used": 3,
        "energy_j": 5000,
        "NodeList": "gpu001,gpu002",
    }
    assert {name: row[name] for name in expected} == expected
    assert row["gpu_utilization"] == pytest.approx(1.5 / 8)


@pytest.mark.parametrize(("form", "lists"), [(flat, False), (nested, True)])
def test_jobs_that_run_or_never_ran_have_no_end_or_start(
    tmp_path: Path, form: Any, *, lists: bool
) -> None:
    def state(word: str) -> dict[str, Any]:
        return {"current": [word] if lists else word, "reason": "None"}

    times = {"submission": 1_700_000_000, "elapsed": 0, "limit": form(None)}
    running = times | {"start": 1_700_000_060, "end": 0, "elapsed": 90}
    removed = times | {"start": 1_700_000_500, "end": 1_700_000_500}
    jobs = [
        accounting(form, lists=lists, job_id=1, state=state("RUNNING"), time=running),
        accounting(
            form,
            lists=lists,
            job_id=2,
            state=state("CANCELLED"),
            time=removed,
            nodes="None assigned",
            tres={"allocated": [], "requested": tres(cpu=1)},
        ),
        accounting(form, lists=lists, job_id=4, array={"job_id": 3, "task_id": form(7)}),
    ]
    found = read(jobs, tmp_path).select(
        "job_id", "status", "start_s", "end_s", "runtime_s", "array_id"
    )
    assert found.rows() == [
        ("1", "running", 1_700_000_060, None, 90, None),
        ("2", "cancelled", None, 1_700_000_500, None, None),
        ("3_7", "completed", 1_700_000_060, 1_700_003_660, 3600, "3"),
    ]


@pytest.mark.parametrize(("form", "lists"), [(flat, False), (nested, True)])
def test_the_queue(tmp_path: Path, form: Any, *, lists: bool) -> None:
    def job(number: int, word: str, **changes: Any) -> dict[str, Any]:
        return {
            "job_id": number,
            "job_state": [word] if lists else word,
            "account": "vision",
            "user_name": "ada",
            "partition": "gpu",
            "name": "train",
            "submit_time": form(1_700_000_000),
            "start_time": form(1_700_000_060),
            "end_time": form(1_700_090_000),
            "time_limit": form(90),
            "node_count": form(1),
            "cpus": form(4),
            "tres_req_str": "cpu=4,mem=16G,node=1,gres/gpu=2",
            "tres_alloc_str": "",
            "nodes": "g1",
            "array_job_id": form(0),
            "array_task_id": form(None),
            "restart_cnt": 0,
            "exit_code": form(256),
        } | changes

    jobs = [
        job(1, "RUNNING", tres_alloc_str="cpu=4,mem=16G,node=1,gres/gpu:h100=2"),
        job(2, "PENDING", nodes="", start_time=form(1_800_000_000)),
        job(3, "FAILED"),
    ]
    found = read(jobs, tmp_path).select(
        "status", "start_s", "end_s", "gpus", "gpu_type", "memory_gib"
    )
    assert found.rows() == [
        ("running", 1_700_000_060, None, 2, "h100", 16),
        ("pending", None, None, 2, None, 16),
        ("failed", 1_700_000_060, 1_700_090_000, 2, None, 16),
    ]


def test_an_export_without_steps_has_no_cpu_time(tmp_path: Path) -> None:
    """``sacct -X --json`` has a total of 0 s for every job, and -2 for energy."""
    job = accounting(nested, lists=True, steps=[])
    job["time"] |= {"total": {"seconds": 0, "microseconds": 0}}
    job["tres"]["allocated"] += [{"type": "energy", "name": "", "id": 3, "count": -2}]
    found = read([job], tmp_path).select("cpu_time_s", "energy_j", "memory_gib_used", "gpus")
    assert found.rows() == [(None, None, None, 8)]


def test_an_export_without_jobs(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text('{"jobs": [\n ], "meta": {"slurm": {"release": "25.05.3"}}}')
    with pytest.raises(SourceError, match=r"log.json: no jobs of sacct --json or squeue --json"):
        ingest(tmp_path / "log.json", store=tmp_path / "store")


def test_lists_of_nodes_beyond_the_limit_of_a_block_stay_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sacct, "_MOST_OF_A_BLOCK", 3)
    jobs = [
        accounting(flat, lists=False, job_id=number, nodes=f"n{number}[1-2]") for number in range(3)
    ]
    assert read(jobs, tmp_path)["NodeList"].to_list() == ["n01,n02", "n11,n12", "n2[1-2]"]
