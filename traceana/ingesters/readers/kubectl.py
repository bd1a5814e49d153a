"""Pods or jobs of Kubernetes, as ``kubectl get pods -A --output json`` prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from traceana.ingesters.files import CsvFile, beginning
from traceana.ingesters.parsing import own_table
from traceana.ingesters.readers.json import array_blocks
from traceana.ingesters.readers.reader import Reader, Rows, own_mapping

_QUANTITY: Final = re.compile(r"([+-]?\d*\.?\d+(?:[eE][+-]?\d+)?)(m|u|n|[kKMGTPE]i?)?")
_SCALE: Final = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3} | {
    f"{letter}{binary}": float((1024 if binary else 1000) ** power)
    for power, letter in enumerate("KMGTPE", 1)
    for binary in ("i", "")
}
_GPU: Final = re.compile(
    r"(?:nvidia|amd)\.com/gpu(?:\.shared)?|gpu\.intel\.com/(?:i915|xe)|habana\.ai/gaudi|google\.com/tpu|"
    r"cloud-tpus\.google\.com/.+|huawei\.com/Ascend.*|aws\.amazon\.com/neuron"
)
_MIG: Final = re.compile(r"nvidia\.com/mig-((\d+)g\.\w+)")
_OF_FOUR: Final = {"1g.6gb", "2g.12gb", "4g.24gb"}  # an A30 has four slices, other GPUs seven
_LABELS: Final[dict[str, list[str]]] = {
    what: names.split() for what, names in own_table("formats")["kubernetes"].items()
}
"""Labels or annotations, the first one that is there."""
_DRAWN: Final = "-[bcdfghjklmnpqrstvwxz2456789]"
_SUFFIX: Final = re.compile(
    rf"(?:-\d{{8,}})?(?:{_DRAWN}{{8,10}}|(?:{_DRAWN}{{8,10}})?(?:-\d+)?{_DRAWN}{{5}})$"
)
"""What Kubernetes appends to names: a CronJob's time, a ReplicaSet's hash, an index, characters."""
_TIMESTAMP: Final = re.compile(r"-\d{8,}$")  # a CronJob appends the time to its jobs' names
_OF_OTHERS: Final = re.compile("(?i)preempt|evict")
"""Reasons of a failed pod that the scheduler or its node removed."""
_ENDS: Final = {"Complete": "Succeeded", "Failed": "Failed"}
"""States of jobs by the condition that they reached."""


def read_quantity(text: str | None, /) -> float | None:
    """Read a quantity of Kubernetes, such as 500m, 1Gi or 2G; None if it is none."""
    match = _QUANTITY.fullmatch(text or "")
    return float(match[1]) * _SCALE[match[2] or ""] if match else None


def _resources(pod: dict[str, Any]) -> dict[str, float]:
    """Return what a pod requests: its containers' sum, or an init container's if that is more."""
    total: dict[str, float] = {}
    first = pod.get("initContainers") or []
    # an init container that restarts always runs beside the containers
    sidecars = [container for container in first if container.get("restartPolicy") == "Always"]
    for container in [*(pod.get("containers") or ()), *sidecars]:
        for name, amount in _requests(container):
            total[name] = total.get(name, 0.0) + amount
    for container in first:
        for name, amount in _requests(container):
            total[name] = max(total.get(name, 0.0), amount)
    return total


def _requests(container: dict[str, Any]) -> Iterable[tuple[str, float]]:
    resources = _object(container, "resources")
    requests = _object(resources, "limits") | _object(resources, "requests")
    for name, text in requests.items():
        amount = read_quantity(text)
        if amount is None:
            raise ValueError(f"{name}: {text!r} is not a quantity")
        yield name, amount


def _gpus(resources: dict[str, float], pod: dict[str, Any]) -> tuple[float, str | None]:
    whole = sum(amount for name, amount in resources.items() if _GPU.fullmatch(name))
    shares, profiles = 0.0, set()
    for name, amount in resources.items():
        if amount and (match := _MIG.fullmatch(name)):
            shares += amount * int(match[2]) / (4 if match[1] in _OF_FOUR else 7)
            profiles.add(match[1])
    gpus = whole + shares
    selected = _first(_object(pod, "nodeSelector"), _LABELS["gpu_type"]) if gpus else None
    return gpus, "+".join(sorted(profiles)) or selected


def _job(item: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a job: its pods run at once as often as its parallelism."""
    meta, status = _object(item, "metadata"), _object(item, "status")
    conditions = status.get("conditions") or ()
    reached = {state.get("type"): state for state in conditions if state.get("status") == "True"}
    none: tuple[str, dict[str, Any]] = ("", {})
    ended, end = next(((name, reached[name]) for name in _ENDS if name in reached), none)
    begin, name = status.get("startTime"), meta.get("name")
    finished = (status.get("completionTime") or end.get("lastTransitionTime")) if end else None
    row = _names(meta) | _requested(_object(item, "spec", "template", "spec"))
    pods = float(_object(item, "spec").get("parallelism", 1))
    scaled = ("cpus", "memory_bytes", "gpus")
    return row | {
        "job": _first(_object(meta, "labels"), _LABELS["app"]) or (name and _SUFFIX.sub("", name)),
        "group": row["id"] and _TIMESTAMP.sub("", row["id"]),
        "state": _ENDS.get(ended, "Running" if begin else "Pending"),
        "reason": end.get("reason"),
        "started": begin,
        "finished": finished,
        "restarts": str(int(status.get("failed") or 0)),
        "runtime_s": _seconds(begin, finished),
        **{key: str(pods * float(row[key])) for key in scaled if row[key] is not None},
    }


def _pod(item: dict[str, Any]) -> dict[str, Any]:
    meta, pod, status = (_object(item, name) for name in ("metadata", "spec", "status"))
    containers = status.get("containerStatuses") or ()
    return {
        **_names(meta),
        **_requested(pod),
        **_course(status),
        "qos": status.get("qosClass"),
        "restarts": str(sum(int(container.get("restartCount") or 0) for container in containers)),
    }


def _names(meta: dict[str, Any]) -> dict[str, Any]:
    name, space = meta.get("name"), meta.get("namespace", "default")
    labels = _object(meta, "annotations") | _object(meta, "labels")
    owners = meta.get("ownerReferences") or [{}]
    owner = owners[0].get("name") or _first(labels, _LABELS["job"]) or name
    return {
        "id": f"{space}/{name}" if name else None,
        "name": name,
        "namespace": space,
        "user": _first(labels, _LABELS["user"]),
        "job": _first(labels, _LABELS["app"]) or (owner and _SUFFIX.sub("", owner)),
        "group": _TIMESTAMP.sub("", f"{space}/{owner}") if owner else None,
        "queue": _first(labels, _LABELS["queue"]),
        "created": meta.get("creationTimestamp"),
    }


def _requested(pod: dict[str, Any]) -> dict[str, Any]:
    resources = _resources(pod)
    amounts = {name: str(amount) for name, amount in resources.items()}
    gpus, gpu_type = _gpus(resources, pod)
    return {
        "node": pod.get("nodeName"),
        "priority": pod.get("priority"),
        "cpus": amounts.get("cpu"),
        "memory_bytes": amounts.get("memory"),
        "gpus": str(gpus),
        "gpu_type": gpu_type,
    }


def _course(status: dict[str, Any]) -> dict[str, Any]:
    """Return when and how a pod ran and ended, by the states of its containers."""
    phase, containers = status.get("phase"), status.get("containerStatuses") or ()
    over = phase in ("Succeeded", "Failed")
    states, past = ([_object(c, name) for c in containers] for name in ("state", "lastState"))
    ended = [state["terminated"] for state in states if "terminated" in state]
    # the first that failed, else the first
    cause: dict[str, Any] = max(
        ended, key=lambda end: str(end.get("exitCode", 0)) != "0", default={}
    )
    state, reason = _cause(status, cause) if over else (phase, None)
    begun = [run for state in (*states, *past) for run in state.values()]
    begin = min(_stated(begun, "startedAt"), default=status.get("startTime"))
    finished = _stated(ended, "finishedAt")
    finished = finished or _stated(status.get("conditions"), "lastTransitionTime")
    end = max(finished, default=None) if over else None
    return {
        "state": state,
        "reason": reason,
        "exit_code": cause.get("exitCode"),
        "started": begin,
        "finished": end,
        "runtime_s": _seconds(begin, end),
    }


def _cause(status: dict[str, Any], end: dict[str, Any]) -> tuple[str, str | None]:
    """Return the state and reason of a pod that is over; `end` is the end of its container."""
    reason = status.get("reason") or end.get("reason")
    for state in () if "reason" in status else status.get("conditions") or ():
        if (state.get("type"), state.get("status")) == ("DisruptionTarget", "True"):
            reason = state.get("reason")
    if reason in ("Terminated", "Shutdown"):
        reason = "NodeShutdown"  # a kubelet's only use of these words
    is_own = status["phase"] != "Failed" or "limit" in str(status.get("message"))
    if reason and not is_own and _OF_OTHERS.match(str(reason)):
        return reason, reason
    return status["phase"], reason


def _object(item: dict[str, Any], *path: str) -> dict[str, Any]:
    for name in path:
        item = item.get(name) or {}
    return item


def _stated(states: Iterable[dict[str, Any]] | None, name: str) -> list[str]:
    return [state[name] for state in states or () if state.get(name)]


def _first(marks: dict[str, str], names: Iterable[str]) -> str | None:
    return next((marks[name] for name in names if name in marks), None)


def _seconds(begin: str | None, end: str | None) -> str | None:
    if begin is None or end is None:
        return None
    return str((datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds())


def _find_kind(file: CsvFile) -> tuple[str, bool] | None:
    """Return the kind of a file's objects, and whether they are in a list; None for other files."""
    if file.opening not in (b"{", b"["):
        return None
    start = beginning(file, 1 << 16)
    kind = re.search(rb'"kind"\s*:\s*"(Pod|Job)(?:List)?"', start)
    items = file.opening == b"[" or re.search(rb'"items"\s*:', start)
    whole = items or (b'"metadata"' in start and b'"spec"' in start)
    return (kind[1].decode(), bool(items)) if kind and whole else None


def _open(file: CsvFile, _timezone: str) -> Rows:
    kind, listed = _find_kind(file) or ("Pod", True)
    file = replace(file, rows="" if file.opening == b"[" else "items")

    def row_of(item: dict[str, Any]) -> dict[str, Any] | None:
        """Return the row of a pod or of a job; None for an item of another kind."""
        if item.get("kind", kind) != kind:
            return None
        return _pod(item) if kind == "Pod" else _job(item)

    # a pod without members has the columns of every row
    return Rows(tuple(_pod({})), partial(array_blocks, file, row_of, listed=listed))


READER: Final = Reader(
    "kubectl",
    lambda file: _find_kind(file) is not None,
    _open,
    (".json", ".jsonl", ".ndjson"),
    own_mapping("kubectl"),
)
