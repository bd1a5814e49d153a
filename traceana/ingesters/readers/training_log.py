"""Step times in logs of Megatron-LM, DeepSpeed and NeMo, and straggler reports of NVRx."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile, beginning, text_lines
from traceana.ingesters.parsing import own_table
from traceana.ingesters.readers.reader import (
    FrameBlock,
    Parsed,
    Reader,
    Rows,
    item_blocks,
    own_mapping,
    scaled,
)

_SUFFIXES: Final = (".log", ".txt", ".out", ".err", ".output")
_BEGINNING: Final = 1 << 22
"""Bytes of a log in which its format is looked for."""
_LONGEST: Final = 4096
"""Characters of a line that are read: searching takes the square of them."""
_COLUMNS: Final = ("worker", "step", "step_s")
_BY_RANK: Final = (*_COLUMNS, "kind", "duration_s")
_NUMBER: Final = r"([-+.\w]+)"
_FORMATS: Final = {
    "ranks": re.compile(r"\btimes across ranks \(ms\):"),
    "megatron": re.compile(
        rf"\biteration\s+(\d+)\s*/.*?elapsed time per iteration \(ms\):\s*{_NUMBER}"
    ),
    "pipeline": re.compile(rf"\bsteps?[:=]\s*(\d+)\b.*?\biter time \(s\):\s*{_NUMBER}"),
    "nemo": re.compile(
        rf"\bglobal_step[:=]\s*(\d+)\b.*?\btrain_step_timing(?: in s)?[:=]\s*{_NUMBER}"
    ),
    "timers": re.compile(rf"time \(ms\) \| fwd: {_NUMBER} \| bwd: {_NUMBER} .*?\| step: {_NUMBER}"),
    "samples": re.compile(rf"(?:\bglobal_step=|\] \d+/)(\d+),.*?\bCurrSamplesPerSec={_NUMBER}"),
}
"""Lines with a step time. Where a log has several of them, the first format counts."""
_COMPUTE: Final = ("forward-compute", "backward-compute")
_TIMERS_BY_RANK: Final = re.compile(rf"\b{_COMPUTE[1]}:[ \r]*\n[^\n]*\brank +\d+: ")
_TIMER: Final = re.compile(r"(?:^|\s)([a-z][a-z0-9-]*):\s*$")
_OF_RANK: Final = re.compile(rf"\brank +(\d+): {_NUMBER}\s*$")
_STEP: Final = re.compile(r"\[Rank (\d+)\] step=(\d+),")
_BATCH: Final = re.compile(r"\btrain_batch_size\"?[\s.:=]+(\d+)")
_WORKERS: Final = (
    re.compile(r"\[Rank (\d+)\]", re.IGNORECASE),
    re.compile(r"^\s*\[(?:default|rank)?(\d+)\]:?\s", re.IGNORECASE),
    re.compile(r"^\s*(\d+):\s"),  # srun --label
    re.compile(r"^([A-Za-z][\w.-]*\d[\w.-]*):\s"),  # of a pod or host
)
"""What a launcher puts before each line of a worker."""
_LINE_END: Final = re.compile(r"[\r\n]")  # a progress bar ends in \r
_MARKS: Final[list[str]] = own_table("formats")["training_log"]["marks"]


def find_format(file: CsvFile, /) -> str | None:
    """Return the first format that a line near the beginning of a log has."""
    text = beginning(file, _BEGINNING).decode(errors="replace")
    lines = [line[:_LONGEST] for line in _LINE_END.split(text) if _is_marked(line)]
    names = (name for name, pattern in _FORMATS.items() if any(map(pattern.search, lines)))
    return next(
        (pattern for pattern in names if pattern != "ranks" or _TIMERS_BY_RANK.search(text)), None
    )


def _is_marked(line: str) -> bool:
    return any(mark in line for mark in _MARKS)


def _open(file: CsvFile, _timezone: str) -> Rows:
    name = find_format(file)
    if name is None:
        raise SourceError(
            f"{file.where}: no step time in its first {_BEGINNING >> 20} MiB, such as "
            "'iteration 10/ 500 | elapsed time per iteration (ms): 812.4' (Megatron-LM)"
        )
    return Rows(_BY_RANK if name == "ranks" else _COLUMNS, partial(_blocks, file, name))


def _blocks(file: CsvFile, name: str, kinds: Mapping[str, Kind]) -> Iterator[FrameBlock]:
    read = _Ranks("kind" in kinds) if name == "ranks" else _Steps(name)

    def parse(line: str) -> Parsed:
        row = read(line[:_LONGEST]) if name == "ranks" or _is_marked(line) else None
        if row is None or isinstance(row, str):
            return row or True
        return dict(zip(_BY_RANK, row, strict=False))

    lines = (line for text in text_lines(file) for line in text.split("\r"))
    return item_blocks(((line, line) for line in lines), parse, kinds)


_Row = tuple[str, ...]


class _Steps:
    """Step times of a format, with the step or the size of a batch that earlier lines state."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._batch = ""
        self._steps: dict[str, str] = {}

    def __call__(self, line: str) -> _Row | str | None:
        if stated := _BATCH.search(line):
            self._batch = stated[1]
        if stated := _STEP.search(line):
            self._steps[stated[1]] = stated[2]
        match = _FORMATS[self._name].search(line)
        if match is None:
            return None
        marks = (pattern.search(line) for pattern in _WORKERS)
        worker = next((mark[1] for mark in marks if mark), "all")  # the time is that of the job
        step, *numbers = match.groups()
        if self._name == "timers":  # DeepSpeed's forward, backward and step
            step, numbers = self._steps.pop(worker, None), [*match.groups()]
            if step is None:
                return "no_step_before"
        elif self._name == "samples" and not self._batch:
            return "no_train_batch_size"
        try:
            if self._name == "samples":
                return worker, step, repr(int(self._batch) / float(numbers[0]))
            divisor = 1000 if self._name in ("timers", "megatron") else 1
            return worker, step, repr(sum(map(float, numbers)) / divisor)
        except (ValueError, ZeroDivisionError):
            return worker, step, numbers[0]


class _Ranks:
    """Megatron-LM's timers of each rank and step (`each`), or else the computation of a rank."""

    def __init__(self, each: bool) -> None:
        self._each = each
        self._step = self._kind = ""
        self._forward: dict[str, str] = {}

    def __call__(self, line: str) -> _Row | str | None:
        if stated := _FORMATS["megatron"].search(line):
            self._step, self._forward = stated[1], {}
        elif timer := _TIMER.search(line):
            self._kind = timer[1]
        elif (match := _OF_RANK.search(line)) and self._kind:
            return self._row(match[1], scaled(match[2], 1, 1000))
        return None

    def _row(self, rank: str, seconds: str) -> _Row | str | None:
        if not self._step:
            return "no_step_before"
        if self._each:
            return rank, self._step, seconds, self._kind, seconds
        if self._kind == _COMPUTE[0]:
            self._forward[rank] = seconds
        if self._kind != _COMPUTE[1]:
            return None
        try:
            return rank, self._step, repr(float(self._forward[rank]) + float(seconds))
        except (KeyError, ValueError):
            return "no_forward_compute"


READER: Final = Reader(
    "training-log",
    lambda file: file.name.endswith(_SUFFIXES) and find_format(file) is not None,
    _open,
    _SUFFIXES,
    own_mapping("training_log"),
)

_SCORE_COLUMNS: Final = ("rank", "host", "step", "score")
_REPORT: Final = re.compile(r"GPU (relative|individual) performance:")
_SCORE: Final = re.compile(r"\bRank=(\d+)\s+Node=(\S+)\s+Score=(\S+)")
_PRINTED: Final = re.compile(r"GPU relative perf scores: \{(.*)\}")  # as NVRx's examples print it
_PAIR: Final = re.compile(r"(\d+): ([^\s,]+)")
_NAMED_STEP: Final = re.compile(r"(?:\biteration\s+|\bglobal_step[:=]\s*|\bstep[:=]\s*)(\d+)")
_RELATIVE: Final = ("gpu_relative_perf_scores", "relative_scores")
_SIGN: Final = re.compile(
    rb"GPU relative perf(?:ormance:| scores: )|\"(?:gpu_relative_perf_scores|relative_scores)\"\s*:"
)
_Item = tuple[str, "Parsed"]


def _scores(file: CsvFile) -> Iterator[_Item]:
    """Yield scores relative to the fastest rank, at the last step named, else by report."""
    reports, step, seen = -1, "", set[str]()
    relative = False
    for line in text_lines(file):
        if line.startswith("{"):
            reports += 1
            yield from _of_json(line, str(reports))
        elif match := _SCORE.search(line[:_LONGEST]):
            rank, host, score = match.groups()
            row = {"rank": rank, "host": host, "step": step or str(reports), "score": score}
            # a small job lists a rank among the worst and among the best
            yield line, row if relative and rank not in seen else False
            seen.add(rank)
        elif printed := _PRINTED.search(line):
            reports += 1
            for rank, score in _PAIR.findall(printed[1]):
                row = {"rank": rank, "host": None, "step": step or str(reports), "score": score}
                yield f"rank {rank}: {score}", row
        elif begun := _REPORT.search(line[:_LONGEST]):
            relative, seen = begun[1] == "relative", set()
            reports += relative
        elif named := _NAMED_STEP.search(line[:_LONGEST]):
            step = named[1]


def _of_json(line: str, number: str) -> Iterator[_Item]:
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        yield line, "not_json"
        return
    outer = [report, *(section for section in report.values() if isinstance(section, dict))]
    scores = next(
        (section[name] for section in outer for name in _RELATIVE if name in section), None
    )
    if not isinstance(scores, dict):
        yield line, "no_scores"
        return
    hosts = report.get("rank_to_node") or {}
    for rank, score in scores.items():
        row: dict[str, Any] = {
            "rank": rank,
            "host": hosts.get(rank) if isinstance(hosts, dict) else None,
            "step": str(report.get("iteration", number)),
            "score": str(score),
        }
        yield f"rank {rank}: {score}", row


def _open_scores(file: CsvFile, _timezone: str) -> Rows:
    if not _has_reports(file):
        raise SourceError(
            f"{file.where}: no straggler report of NVRx in its first {_BEGINNING >> 20} MiB; they "
            "begin with 'GPU relative performance:'"
        )
    return Rows(_SCORE_COLUMNS, lambda kinds: item_blocks(_scores(file), lambda row: row, kinds))


def _has_reports(file: CsvFile) -> bool:
    return _SIGN.search(beginning(file, _BEGINNING)) is not None


STRAGGLER_REPORTS: Final = Reader(
    "nvrx",
    lambda file: file.name.endswith((*_SUFFIXES, ".jsonl")) and _has_reports(file),
    _open_scores,
    (*_SUFFIXES, ".jsonl"),
    own_mapping("nvrx"),
)
