"""Jobs of Slurm as JSON: ``sacct --json`` of its accounting, ``squeue --json`` of its queue."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.files import beginning
from traceana.ingesters.readers.frames import SUBMISSION, FrameBlock
from traceana.ingesters.readers.json import array_blocks
from traceana.ingesters.readers.reader import Reader, Rows, own_mapping
from traceana.ingesters.readers.sacct_fields import NO_NODE, expand_lists, gpu_percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_BEGINNING: Final = 1 << 20
_MIB: Final = 1 / 1024
_PER_CPU: Final = 1 << 63  # a flag of Slurm 21 in the memory requested
_NO_VALUE: Final = 4e9  # Slurm's marks of no value are near 2**32 and 2**64
_OVER: Final = ("RUNNING", "PENDING", "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING")
_SIZES: Final = {"": 1.0} | {letter: 1024.0**n for n, letter in enumerate("KMGTP", 1)}

Item = dict[str, Any]


def _number(value: Any) -> float | None:  # noqa: ANN401
    """Return a number, also one in an object that states whether it is set."""
    if isinstance(value, dict):
        is_set = value.get("set", True) and not value.get("infinite", False)
        return _number(value.get("number")) if is_set else None
    return None if value in (None, "") else float(value)


def _object(value: object) -> Item:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Item]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _word(value: Any) -> str | None:  # noqa: ANN401
    """Return a text, the first of a list of texts."""
    text = value[0] if isinstance(value, list) and value else value
    return text if isinstance(text, str) and text else None


def _moment(value: Any) -> float | None:  # noqa: ANN401
    """Return a time; 0 is none."""
    return _number(value) or None


def _tres(resources: list[Item]) -> tuple[dict[str, float], str | None]:
    """Return the amounts of a list of resources, and the types of GPUs among them."""
    amounts: dict[str, float] = {}
    types = set()
    typed = 0.0
    for resource in resources:
        kind, name = str(resource.get("type") or ""), str(resource.get("name") or "")
        amount = _number(resource.get("count")) or 0.0
        key = name or kind
        if kind == "gres" and name.startswith("gpu:"):
            types.add(name.removeprefix("gpu:"))
            typed += amount
        amounts[key] = amounts.get(key, 0.0) + amount
    if typed:
        amounts.setdefault("gpu", typed)
    return amounts, "+".join(sorted(types)) or None


def _tres_text(text: str) -> tuple[dict[str, float], str | None]:
    """Read resources as ``cpu=4,mem=16G,gres/gpu:a100=2``; memory is in MiB."""
    parts = []
    for name, amount, prefix in re.findall(r"([^=,]+)=([\d.]+)([KMGTP]?)(?=,|$)", text):
        count = float(amount) * _SIZES[prefix]
        kind, _, gres = name.partition("/")
        in_mib = count / 1024**2 if name == "mem" and prefix else count
        parts.append({"type": kind, "name": gres, "count": in_mib})
    return _tres(parts)


def _usage(steps: list[Item]) -> dict[str, float | None]:
    """Return what the steps of a job used: the most memory and GPUs, and all energy."""
    memory, busy, whole, parts = [0.0], [0.0], [0.0], [0.0]
    for step in steps:
        consumed = _object(_object(step.get("tres")).get("consumed"))
        total, _ = _tres(_list(consumed.get("total")))
        mean, _ = _tres(_list(consumed.get("average")))
        tasks = _number(_object(step.get("tasks")).get("count")) or 1.0
        memory.append(total.get("mem", 0.0))
        busy.append(total.get("gpuutil", mean.get("gpuutil", 0.0) * tasks))
        energy = _object(_object(step.get("statistics")).get("energy"))
        joules = _number(energy.get("consumed")) or 0.0
        name = str(_object(step.get("step")).get("name"))
        (whole if name in ("batch", "extern") else parts).append(joules if joules < 1e18 else 0.0)
    return {
        "memory": max(memory) or None,
        "busy": max(busy) or None,
        "energy": max(*whole, sum(parts)) or None,
    }


def _exit_code(value: Any) -> str | None:  # noqa: ANN401
    nested = isinstance(value, dict) and "return_code" in value
    code = _number(value["return_code"] if nested else value)
    if not nested and code is not None:  # as wait() returns it
        return f"{code // 256:.0f}:{code % 128:.0f}"
    signal = _object(value).get("signal")
    number = _first(_number(_object(signal).get("id")), _number(_object(signal).get("signal_id")))
    return None if code is None else f"{code:.0f}:{number or 0:.0f}"


def _id(item: Item, job: object, task: object) -> tuple[str | None, str | None]:
    """Return the id of a job, and of its array."""
    own_id, array = _number(item.get("job_id")), _number(job)
    place = _number(task) if array else None
    if array and place is not None and place < _NO_VALUE:
        return f"{array:.0f}_{place:.0f}", f"{array:.0f}"
    return (None, None) if own_id is None else (f"{own_id:.0f}", None)


def _memory(item: Item, cpus: float | None, nodes: float | None) -> float | None:
    """Return the memory requested in GiB, which is stated per CPU or per node in MiB."""
    plain = _number(item.get("memory"))
    per_cpu = _number(item.get("memory_per_cpu"))
    per_node = _number(item.get("memory_per_node"))
    if plain and plain >= _PER_CPU:
        per_cpu, plain = plain - _PER_CPU, None
    if per_cpu and cpus:
        return per_cpu * cpus * _MIB
    memory = per_node or plain
    return memory * (nodes or 1.0) * _MIB if memory else None


def _limit(value: Any) -> float | None:  # noqa: ANN401
    """Return a time limit in seconds, stated in minutes."""
    minutes = _number(value)
    return None if minutes is None or minutes > _NO_VALUE else minutes * 60


def _utilization(comment: Item, busy: float, gpus: float | None) -> float | None:
    """Return the utilization of GPUs that comments state, else that of the busiest step."""
    stated = _first(*(gpu_percent(str(text)) for text in comment.values() if text))
    if stated is None and busy and gpus and busy <= 100 * gpus:
        return busy / 100 / gpus
    return stated


def accounting_row(item: Item, /) -> dict[str, str | None]:
    """Return the row of a job of ``sacct --json``."""
    time, array, tres = (_object(item.get(name)) for name in ("time", "array", "tres"))
    required, association = _object(item.get("required")), _object(item.get("association"))
    state, comment = _object(item.get("state")), _object(item.get("comment"))
    allocated, given_type = _tres(_list(tres.get("allocated")))
    requested, asked_type = _tres(_list(tres.get("requested")))
    nodes = _first(
        requested.get("node"), allocated.get("node"), _number(item.get("allocation_nodes"))
    )
    cpus = _first(requested.get("cpu"), _number(required.get("CPUs")), allocated.get("cpu"))
    used = _usage(_list(item.get("steps")))
    gpus = _first(allocated.get("gpu"), requested.get("gpu"), 0.0)
    memory = requested.get("mem") or allocated.get("mem")
    cpu = _object(time.get("total"))
    cpu_s = (_number(cpu.get("seconds")) or 0.0) + (_number(cpu.get("microseconds")) or 0.0) / 1e6
    job_id, array_id = _id(item, array.get("job_id"), array.get("task_id", array.get("task")))
    row = {
        "job_id": job_id,
        "array_id": array_id,
        "User": _word(item.get("user")) or _word(association.get("user")),
        "Account": _word(item.get("account")) or _word(association.get("account")),
        "submit": _moment(time.get("submission")),
        "start": _moment(time.get("start")),
        "end": _moment(time.get("end")),
        "runtime_s": _number(time.get("elapsed")),
        "time_limit_s": _limit(time.get("limit")),
        "nodes": nodes,
        "cpus": cpus,
        "memory_gib": memory * _MIB if memory else _memory(required, cpus, nodes),
        "gpus": gpus,
        "gpu_type": given_type or asked_type,
        "state": _word(state.get("current")) or _word(item.get("state")),
        "reason": _word(state.get("reason")),
        "cpu_time_s": cpu_s or None,
        "memory_gib_used": used["memory"] / 2**30 if used["memory"] else None,
        "energy_j": used["energy"],
        "gpu_utilization": _utilization(comment, used["busy"] or 0.0, gpus),
    }
    return _row(item, row, is_allocated=bool(allocated))


def queue_row(item: Item, /) -> dict[str, str | None]:
    """Return the row of a job of ``squeue --json``; times that Slurm expects are none."""
    state = _word(item.get("job_state"))
    allocated, given_type = _tres_text(str(item.get("tres_alloc_str") or ""))
    requested, asked_type = _tres_text(str(item.get("tres_req_str") or ""))
    cpus = _first(requested.get("cpu"), _number(item.get("cpus")))
    nodes = _first(requested.get("node"), _number(item.get("node_count")))
    start = None if state in ("PENDING", "CONFIGURING") else _moment(item.get("start_time"))
    end = None if state in _OVER else _moment(item.get("end_time"))
    memory = requested.get("mem")
    job_id, array_id = _id(item, item.get("array_job_id"), item.get("array_task_id"))
    row = {
        "job_id": job_id,
        "array_id": array_id,
        "User": _word(item.get("user_name")),
        "Account": _word(item.get("account")),
        "submit": _moment(item.get("submit_time")),
        "start": start,
        "end": end,
        "runtime_s": end - start if start is not None and end is not None else None,
        "time_limit_s": _limit(item.get("time_limit")),
        "nodes": nodes,
        "cpus": cpus,
        "memory_gib": memory * _MIB if memory else _memory(item, cpus, nodes),
        "gpus": _first(allocated.get("gpu"), requested.get("gpu"), 0.0),
        "gpu_type": given_type or asked_type,
        "state": state,
        "reason": _word(item.get("state_reason")),
    }
    return _row(item, row, is_allocated=bool(allocated))


def _row(
    item: Item, row: dict[str, str | float | None], *, is_allocated: bool
) -> dict[str, str | None]:
    """Complete a row; a job that never ran has no start, one that has not ended no end."""
    nodes = _word(item.get("nodes"))
    nodes = None if nodes in NO_NODE else nodes
    state = row["state"]
    at_once = row["start"] is not None and row["start"] == row["end"]
    if (
        state == "CANCELLED"
        and not row["runtime_s"]
        and (at_once or nodes is None or not is_allocated)
    ):
        row["start"] = None
    if state in _OVER:
        row["end"] = None
    if row["start"] is None:
        row["runtime_s"] = None
    row |= {
        "JobName": _word(item.get("name")),
        "Cluster": _word(item.get("cluster")),
        "Partition": _word(item.get("partition")),
        "QOS": _word(item.get("qos")),
        "Priority": _number(item.get("priority")),
        "restarts": _number(item.get("restart_cnt")),
        "ExitCode": _exit_code(item.get("exit_code")),
        "NodeList": nodes,
    }
    return {k: repr(v) if isinstance(v, int | float) else v for k, v in row.items()}


def _blocks(file: CsvFile, kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    row_of = queue_row if _find_form(file) == b"job_state" else accounting_row
    for block in array_blocks(replace(file, rows="jobs"), row_of, kinds):
        frame = block.frame
        if "NodeList" in frame.columns:
            frame = frame.with_columns(expand_lists(frame["NodeList"]))
        if "submit" in frame.columns:
            frame = frame.with_columns(pl.col("submit").fill_null("").alias(SUBMISSION))
        yield replace(block, frame=frame)


def _open(file: CsvFile, _timezone: str) -> Rows:
    if not _find_form(file):
        raise SourceError(f"{file.where}: no jobs of sacct --json or squeue --json are in it")
    # a job without members has the columns of every row
    return Rows(tuple(accounting_row({})), partial(_blocks, file))


def _find_form(file: CsvFile) -> bytes | None:
    """Return the member by which jobs of the queue and of the accounting differ, b"" of no jobs."""
    if file.opening != b"{":
        return None
    text = beginning(file, _BEGINNING)
    jobs = re.search(rb'"jobs"\s*:\s*\[\s*(\]?)', text)
    if jobs and jobs[1] and re.search(rb'"[Ss]lurm"\s*:', text):
        return b""
    form = re.search(rb'"(job_state|association|allocation_nodes|submission)"\s*:', text)
    return form[1] if jobs and form else None


READER: Final = Reader(
    "slurm_json",
    lambda file: _find_form(file) is not None,
    _open,
    (".json",),
    own_mapping("slurm_json"),
)
"""Reader of ``sacct --json`` and ``squeue --json``, of Slurm 21 to 25."""
