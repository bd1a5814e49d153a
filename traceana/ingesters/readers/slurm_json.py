"""Jobs of Slurm as JSON become records of sacct: ``sacct --json``, and ``squeue --json``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile, beginning
from traceana.ingesters.readers.json import array_blocks
from traceana.ingesters.readers.reader import FrameBlock, Reader, Rows, own_mapping
from traceana.ingesters.readers.sacct import FIELDS, NO_NODE, REQUEUED, TYPES, USED, as_jobs

_BEGINNING: Final = 1 << 20
_PER_CPU: Final = 1 << 63  # a flag of Slurm 21 in the memory requested
_NO_VALUE: Final = 4e9  # Slurm's marks of no value are near 2**32 and 2**64
_NO_ENERGY: Final = 1e18
_OVER: Final = ("RUNNING", "PENDING", "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING")
_COLUMNS: Final = (*FIELDS, *USED, "Reason")

Item = dict[str, Any]
Record = dict[str, str | None]


def _number(value: Any) -> float | None:  # noqa: ANN401
    if isinstance(value, dict):
        is_set = value.get("set", True) and not value.get("infinite", False)
        return _number(value.get("number")) if is_set else None
    return None if value in (None, "") else float(value)


def _text(number: float | None) -> str | None:
    return f"{number:f}" if number else None


def _whole(number: float | None) -> str | None:
    return None if number is None else f"{number:.0f}"


def _object(value: object) -> Item:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Item]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _word(value: Any) -> str | None:  # noqa: ANN401
    text = value[0] if isinstance(value, list) and value else value
    return text if isinstance(text, str) and text else None


def _moment(value: Any) -> str | None:  # noqa: ANN401
    """Return a time; 0 is none."""
    return _whole(_number(value) or None)


def _amounts(resources: object) -> dict[str, float]:
    amounts: dict[str, float] = {}
    for resource in _list(resources):
        kind, name = resource.get("type"), resource.get("name")
        amounts[f"{kind}/{name}" if name else str(kind)] = _number(resource.get("count")) or 0.0
    return amounts


def _tres(amounts: dict[str, float]) -> str | None:
    return ",".join([f"{name}={amount:.0f}" for name, amount in amounts.items()]) or None


def _usage(steps: list[Item]) -> Record:
    """Return what the steps of a job used: the most memory and GPUs, and all energy."""
    memory, busy, whole, parts = [0.0], [0.0], [0.0], [0.0]
    for step in steps:
        consumed = _object(_object(step.get("tres")).get("consumed"))
        total, mean = _amounts(consumed.get("total")), _amounts(consumed.get("average"))
        tasks = _number(_object(step.get("tasks")).get("count")) or 1.0
        memory.append(total.get("mem", 0.0))
        busy.append(total.get("gres/gpuutil", mean.get("gres/gpuutil", 0.0) * tasks))
        energy = _object(_object(step.get("statistics")).get("energy"))
        joules = _number(energy.get("consumed")) or 0.0
        name = str(_object(step.get("step")).get("name"))
        of_step = whole if name in ("batch", "extern") else parts
        of_step.append(joules if joules < _NO_ENERGY else 0.0)
    used = {"rss": max(memory), "busy": max(busy) / 100, "whole": max(whole), "parts": sum(parts)}
    return {name: _text(amount) for name, amount in used.items()}


def _exit_code(value: Any) -> str | None:  # noqa: ANN401
    nested = isinstance(value, dict) and "return_code" in value
    code = _number(value["return_code"] if nested else value)
    if code is None:
        return None
    if not nested:  # as wait() returns it
        return f"{code // 256:.0f}:{code % 128:.0f}"
    signal = _object(value.get("signal"))
    return f"{code:.0f}:{_number(signal.get('id')) or _number(signal.get('signal_id')) or 0:.0f}"


def _id(item: Item, job: object, task: object) -> str | None:
    own_id, array, place = _number(item.get("job_id")), _number(job), _number(task)
    if array and place is not None and place < _NO_VALUE:
        return f"{array:.0f}_{place:.0f}"
    return _whole(own_id)


def _memory(item: Item) -> str | None:
    """Return the memory requested, which is stated per CPU or per node in MiB."""
    plain = _number(item.get("memory"))
    per_cpu = _number(item.get("memory_per_cpu"))
    if plain and plain >= _PER_CPU:
        per_cpu, plain = plain - _PER_CPU, None
    per_node = _number(item.get("memory_per_node")) or plain
    return f"{per_cpu:.0f}Mc" if per_cpu else f"{per_node:.0f}Mn" if per_node else None


def _of_accounting(item: Item) -> Record:
    """Return what only ``sacct --json`` has of a job."""
    time, array, tres = (_object(item.get(name)) for name in ("time", "array", "tres"))
    required, association = _object(item.get("required")), _object(item.get("association"))
    state, comment = _object(item.get("state")), _object(item.get("comment"))
    cpu = _object(time.get("total"))
    cpu_s = (_number(cpu.get("seconds")) or 0.0) + (_number(cpu.get("microseconds")) or 0.0) / 1e6
    requested, allocated = (_amounts(tres.get(name)) for name in ("requested", "allocated"))
    return _usage(_list(item.get("steps"))) | {
        "JobID": _id(item, array.get("job_id"), array.get("task_id", array.get("task"))),
        "User": _word(item.get("user")) or _word(association.get("user")),
        "Account": _word(item.get("account")) or _word(association.get("account")),
        "Submit": _moment(time.get("submission")),
        "Start": _moment(time.get("start")),
        "End": _moment(time.get("end")),
        "ElapsedRaw": _whole(_number(time.get("elapsed"))),
        "TimelimitRaw": _limit(time.get("limit")),
        "ReqTRES": _tres(requested),
        "AllocTRES": _tres(allocated),
        "ReqCPUS": _whole(requested.get("cpu", _number(required.get("CPUs")))),
        "AllocNodes": _whole(_number(item.get("allocation_nodes"))),
        "ReqMem": None if (requested | allocated).get("mem") else _memory(required),
        "State": _word(state.get("current")) or _word(item.get("state")),
        "Reason": _word(state.get("reason")),
        "cpu": _text(cpu_s),
        "Comment": " ".join(str(text) for text in comment.values() if text) or None,
    }


def _of_queue(item: Item) -> Record:
    """Return what only ``squeue --json`` has of a job; times that Slurm expects are none."""
    state = _word(item.get("job_state"))
    start = None if state in ("PENDING", "CONFIGURING") else _moment(item.get("start_time"))
    end = None if state in _OVER else _moment(item.get("end_time"))
    return {
        "JobID": _id(item, item.get("array_job_id"), item.get("array_task_id")),
        "User": _word(item.get("user_name")),
        "Account": _word(item.get("account")),
        "Submit": _moment(item.get("submit_time")),
        "Start": start,
        "End": end,
        "ElapsedRaw": str(int(end) - int(start)) if start and end else None,
        "TimelimitRaw": _limit(item.get("time_limit")),
        "ReqTRES": _word(item.get("tres_req_str")),
        "AllocTRES": _word(item.get("tres_alloc_str")),
        "AllocCPUS": _whole(_number(item.get("cpus"))),
        "AllocNodes": _whole(_number(item.get("node_count"))),
        "ReqMem": None if "mem=" in str(item.get("tres_req_str")) else _memory(item),
        "State": state,
        "Reason": _word(item.get("state_reason")),
    }


def _limit(value: Any) -> str | None:  # noqa: ANN401
    minutes = _number(value)
    return None if minutes is None or minutes > _NO_VALUE else _whole(minutes)


def _record(of_form: Callable[[Item], Record], item: Item) -> Record:
    nodes = _word(item.get("nodes"))
    record = of_form(item) | {
        "JobName": _word(item.get("name")),
        "Cluster": _word(item.get("cluster")),
        "Partition": _word(item.get("partition")),
        "QOS": _word(item.get("qos")),
        "Priority": _whole(_number(item.get("priority"))),
        "Restarts": _whole(_number(item.get("restart_cnt"))),
        "ExitCode": _exit_code(item.get("exit_code")),
        "NodeList": None if nodes in NO_NODE else nodes,
    }
    if record["ReqTRES"] is record["AllocTRES"] is None:
        record["ReqTRES"] = "gres/gpu=0"
    if record["State"] in _OVER:
        record["End"] = None
    return record


def _blocks(file: CsvFile, timezone: str, kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    of_form = _of_queue if _find_form(file) == b"job_state" else _of_accounting
    record_of = partial(_record, of_form)
    columns: dict[str, Kind] = dict.fromkeys(record_of({}), "text")
    for block in array_blocks(replace(file, rows="jobs"), record_of, columns):
        absent = (name for name in (*USED, REQUEUED) if name not in columns)
        records = block.frame.with_columns(pl.lit(None).alias(name) for name in absent)
        records = records.with_columns(pl.col(*USED, REQUEUED).cast(pl.Float64))
        yield as_jobs(replace(block, frame=records, kinds=kinds), timezone)


def _open(file: CsvFile, timezone: str) -> Rows:
    if not _find_form(file):
        raise SourceError(f"{file.where}: no jobs of sacct --json or squeue --json are in it")
    columns = tuple(dict.fromkeys((*_COLUMNS, *TYPES)))
    return Rows(columns, partial(_blocks, file, timezone), TYPES)


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
    own_mapping("sacct").replace('reader = "sacct"', 'reader = "slurm_json"'),
)
