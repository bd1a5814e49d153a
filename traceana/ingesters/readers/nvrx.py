"""Straggler reports of the NVIDIA Resiliency Extension: in a log, or as JSON lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from traceana.errors import SourceError
from traceana.ingesters.files import beginning, text_lines
from traceana.ingesters.readers.frames import item_blocks
from traceana.ingesters.readers.reader import Reader, Rows, own_mapping
from traceana.ingesters.readers.training_log import BEGINNING, LONGEST, SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceana.ingesters.files import CsvFile
    from traceana.ingesters.readers.frames import Parsed

_COLUMNS: Final = ("rank", "host", "step", "score")
_REPORT: Final = re.compile(r"GPU (relative|individual) performance:")
_SCORE: Final = re.compile(r"\bRank=(\d+)\s+Node=(\S+)\s+Score=(\S+)")
_PRINTED: Final = re.compile(r"GPU relative perf scores: \{(.*)\}")  # as NVRx's examples print it
_PAIR: Final = re.compile(r"(\d+): ([^\s,]+)")
_STEP: Final = re.compile(r"(?:\biteration\s+|\bglobal_step[:=]\s*|\bstep[:=]\s*)(\d+)")
_RELATIVE: Final = ("gpu_relative_perf_scores", "relative_scores")
_SIGN: Final = re.compile(
    rb"GPU relative perf(?:ormance:| scores: )|\"(?:gpu_relative_perf_scores|relative_scores)\"\s*:"
)
_Item = tuple[str, "Parsed"]


def _scores(file: CsvFile) -> Iterator[_Item]:
    """Yield the scores of all ranks relative to the fastest; others belong to no table.

    The step is the last one that the log names before the report, else the number of the report.
    """
    reports, step, seen = -1, "", set[str]()
    relative = False
    for line in text_lines(file):
        if line.startswith("{"):
            reports += 1
            yield from _of_json(line, str(reports))
        elif match := _SCORE.search(line[:LONGEST]):
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
        elif begun := _REPORT.search(line[:LONGEST]):
            relative, seen = begun[1] == "relative", set()
            reports += relative
        elif named := _STEP.search(line[:LONGEST]):
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


def _open(file: CsvFile, _timezone: str) -> Rows:
    if not _has_reports(file):
        raise SourceError(
            f"{file.where}: no straggler report of NVRx in its first {BEGINNING >> 20} MiB; they "
            "begin with 'GPU relative performance:'"
        )
    return Rows(_COLUMNS, lambda kinds: item_blocks(_scores(file), lambda row: row, kinds))


def _has_reports(file: CsvFile) -> bool:
    return _SIGN.search(beginning(file, BEGINNING)) is not None


READER: Final = Reader(
    "nvrx",
    lambda file: file.name.endswith((*SUFFIXES, ".jsonl")) and _has_reports(file),
    _open,
    (*SUFFIXES, ".jsonl"),
    own_mapping("nvrx"),
)
"""Reader of NVRx's straggler reports."""
