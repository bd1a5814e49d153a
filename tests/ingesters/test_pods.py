"""Rarer members of Kubernetes' pods and jobs, each worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.ingesters.conftest import Write
from traceana.ingesters import ingest
from traceana.store import Store


def when(minute: int) -> str:
    return f"2026-03-02T08:{minute:02}:00Z"


def limits(**amounts: str) -> dict[str, Any]:
    return {"containers": [{"resources": {"limits": amounts}}]}


def ended(start: int, end: int, code: int = 0) -> dict[str, Any]:
    return {
        "terminated": {
            "startedAt": when(start),
            "finishedAt": when(end),
            "exitCode": code,
            "reason": f"R{code}",
        }
    }


def disrupted(reason: str) -> dict[str, Any]:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    state = {"phase": "Failed", "conditions": [condition]}
    return {"status": {**state, "containerStatuses": [{"state": ended(3, 7, 137)}]}}


Case = tuple[dict[str, Any], dict[str, Any]]
PODS: list[Case] = [
    ({"spec": limits(**{"nvidia.com/mig-4g.24gb": "1"})}, {"gpus": 1, "gpu_type": "4g.24gb"}),
    ({"spec": limits(**{"nvidia.com/mig-2g.12gb": "3"})}, {"gpus": 1.5, "gpu_type": "2g.12gb"}),
    (
        {"spec": limits(**{"nvidia.com/mig-7g.80gb": "1", "nvidia.com/gpu": "2"})},
        {"gpus": 3, "gpu_type": "7g.80gb"},
    ),
    ({"spec": limits(**{"nvidia.com/mig-7g.80gb": "0"})}, {"gpus": 0, "gpu_type": None}),
    (
        {
            "spec": limits(**{"nvidia.com/gpu": "1"})
            | {"nodeSelector": {"accelerator": "a", "nvidia.com/gpu.product": "H100"}}
        },
        {"gpus": 1, "gpu_type": "H100"},
    ),
    ({"spec": {"nodeSelector": {"accelerator": "a"}}}, {"gpus": 0, "gpu_type": None}),
    (
        {
            "spec": {
                "containers": [
                    {"resources": {"limits": {"cpu": "8"}, "requests": {"cpu": "1"}}},
                    {"resources": {"limits": {"cpu": "2"}}},
                    {},
                ],
                "initContainers": [{"resources": {"requests": {"cpu": "2500m"}}}],
            }
        },
        {"cpus": 3},
    ),
    ({"spec": {"initContainers": [{"resources": {"requests": {"cpu": "500m"}}}]}}, {"cpus": 0.5}),
    (
        {
            "spec": {
                "initContainers": [{"resources": {"requests": {"cpu": "4"}}}],
                **limits(cpu="3", memory="1Gi"),
                "priority": 7,
                "nodeName": "n9",
            }
        },
        {"cpus": 4, "memory_gib": 1, "priority": 7, "node": "n9"},
    ),
    (
        {"metadata": {"labels": {"runai/queue": "r", "kueue.x-k8s.io/queue-name": "k"}}},
        {"queue": "k", "user": None},
    ),
    (
        {
            "metadata": {
                "labels": {"app": "bert", "user": "eva", "job-name": "bert-7"},
                "annotations": {"scheduling.volcano.sh/queue-name": "long", "user": "other"},
            }
        },
        {"job_name": "bert", "user": "eva", "queue": "long", "group": "default/bert-7"},
    ),
    ({"metadata": {"labels": {"job-name": "bert-7"}}}, {"job_name": "bert-7"}),
    (
        {"metadata": {"ownerReferences": [{"name": "bert-7-7d9f8b6c5d-x2vqk"}]}},
        {"job_name": "bert-7"},
    ),
    ({"metadata": {"ownerReferences": [{"name": "bert-28512345-x2vqk"}]}}, {"job_name": "bert"}),
    (
        {"metadata": {"ownerReferences": [{"name": "bert-large-train"}]}},
        {"job_name": "bert-large-train"},
    ),
    (
        {"metadata": {"ownerReferences": [{"name": "cron-1234567"}, {"name": "other"}]}},
        {"job_name": "cron-1234567", "group": "default/cron-1234567"},
    ),
    ({"metadata": {"ownerReferences": [{"name": "cron-12345678"}]}}, {"group": "default/cron"}),
    (
        {
            "metadata": {"creationTimestamp": when(1)},
            "status": {
                "phase": "Succeeded",
                "startTime": when(2),
                "conditions": [{"lastTransitionTime": when(9)}, {"lastTransitionTime": when(5)}],
            },
        },
        {"start_s": 120, "end_s": 540, "runtime_s": 420, "submit_s": 60, "status": "completed"},
    ),
    (
        {
            "status": {
                "phase": "Running",
                "startTime": when(2),
                "conditions": [{"lastTransitionTime": when(9)}],
            }
        },
        {"start_s": 120, "end_s": None, "runtime_s": None, "end_reason": None},
    ),
    (
        {
            "status": {
                "phase": "Failed",
                "startTime": when(1),
                "containerStatuses": [
                    {"state": ended(3, 7), "restartCount": 1},
                    {"state": ended(4, 6, 3)},
                    {
                        "state": {"running": {"startedAt": when(5)}},
                        "lastState": ended(2, 8, 5),
                        "restartCount": 2,
                    },
                ],
            }
        },
        {"start_s": 120, "end_s": 420, "exit_code": "3", "end_reason": "R3", "restarts": 3},
    ),
    (
        {"status": {"phase": "Succeeded", "containerStatuses": [{"state": ended(3, 7)}]}},
        {"start_s": 180, "end_s": 420, "exit_code": "0", "end_reason": "R0", "restarts": 0},
    ),
    (
        {
            "status": {
                "phase": "Succeeded",
                "containerStatuses": [
                    {"state": ended(3, 7)},
                    {
                        "state": {
                            "terminated": {
                                "startedAt": when(3),
                                "finishedAt": when(5),
                                "reason": "no code",
                            }
                        }
                    },
                ],
            }
        },
        {"end_s": 420, "exit_code": "0", "end_reason": "R0"},
    ),
    ({"status": {"phase": "Failed", "reason": "Preempted"}}, {"status": "cancelled"}),
    ({"status": {"phase": "Running", "reason": "Preempting"}}, {"status": "running"}),
    (
        {"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on ..."}},
        {"status": "cancelled", "end_reason": "Evicted"},
    ),
    (
        {"status": {"phase": "Failed", "reason": "Evicted", "message": "... exceeds the limit"}},
        {"status": "failed", "end_reason": "Evicted"},
    ),
    (disrupted("PreemptionByScheduler"), {"status": "cancelled", "exit_code": "137"}),
    (disrupted("EvictionByEvictionAPI"), {"status": "cancelled"}),
    (
        disrupted("DeletionByTaintManager"),
        {"status": "failed", "end_reason": "DeletionByTaintManager"},
    ),
    (
        {"status": {"phase": "Failed", "reason": "Terminated", "message": "... node shutdown."}},
        {"status": "failed", "end_reason": "NodeShutdown"},
    ),
    ({"status": {"phase": "Failed", "reason": "NodeLost"}}, {"status": "failed"}),
]
JOBS: list[Case] = [
    ({"spec": {"template": {"spec": limits(cpu="2")}}}, {"cpus": 2, "status": "pending"}),
    (
        {"spec": {"parallelism": 4, "template": {"spec": limits(cpu="2", memory="1Gi")}}},
        {"cpus": 8, "memory_gib": 4},
    ),
    (
        {
            "status": {
                "startTime": when(1),
                "conditions": [
                    {"type": "Complete", "status": "True", "lastTransitionTime": when(4)}
                ],
            }
        },
        {"status": "completed", "end_s": 240, "runtime_s": 180},
    ),
    (
        {
            "status": {
                "startTime": when(1),
                "completionTime": when(3),
                "conditions": [
                    {"type": "Complete", "status": "True", "lastTransitionTime": when(4)}
                ],
            }
        },
        {"end_s": 180},
    ),
    (
        {
            "status": {
                "startTime": when(1),
                "conditions": [
                    {"type": "Failed", "status": "False", "lastTransitionTime": when(4)}
                ],
            }
        },
        {"status": "running", "end_s": None},
    ),
    (
        {
            "status": {
                "startTime": when(1),
                "conditions": [
                    {"type": "Suspended", "status": "True", "lastTransitionTime": when(4)}
                ],
            }
        },
        {"status": "running", "end_s": None},
    ),
    (
        {"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "Deadline"}]}},
        {"status": "failed", "end_reason": "Deadline", "start_s": None},
    ),
]


@pytest.mark.parametrize(("kind", "cases"), [("Pod", PODS), ("Job", JOBS)])
def test_members_of_an_object(write: Write, tmp_path: Path, kind: str, cases: list[Case]) -> None:
    items = [
        {**case, "kind": kind, "metadata": {"name": f"p{place}"} | case.get("metadata", {})}
        for place, (case, _) in enumerate(cases)
    ]
    text = json.dumps({"kind": "List", "items": items})
    ledger = ingest(write("x.json", text) / "x.json", store=tmp_path / "store")
    assert ledger.entries[0].rows_kept == len(cases)
    jobs = Store(tmp_path / "store").scan("x", "jobs").collect()
    eight = pl.datetime(2026, 3, 2, 8).dt.epoch("s")
    jobs = jobs.with_columns(pl.col("submit_s", "start_s", "end_s") - eight)
    for place, (case, expected) in enumerate(cases):
        row = jobs.row(by_predicate=pl.col("job_id") == f"default/p{place}", named=True)
        assert {name: row[name] for name in expected} == pytest.approx(expected), case


@pytest.mark.parametrize("meta", [{"name": ["a"]}, {"name": {"b": "c"}}, {"name": True}])
def test_a_member_of_another_type_is_rejected(
    write: Write, tmp_path: Path, meta: dict[str, Any]
) -> None:
    pods = [{"kind": "Pod", "metadata": one, "spec": {}} for one in ({"name": "a"}, meta)]
    path = write("pods.json", json.dumps({"kind": "PodList", "items": pods}))
    (entry,) = ingest(path, store=tmp_path / "store").entries
    assert entry.rejected == {"malformed": 1}
