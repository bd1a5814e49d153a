"""Traces of the PyTorch profiler (Kineto): time of each step, and of its kernels on the GPU."""

from __future__ import annotations

import re
from array import array
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.files import beginning
from traceana.ingesters.readers.frames import FrameBlock
from traceana.ingesters.readers.json import read_items
from traceana.ingesters.readers.kineto_operations import TYPES as _OPERATIONS
from traceana.ingesters.readers.kineto_operations import Launches
from traceana.ingesters.readers.reader import Reader, Rows, own_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from traceana.ingesters.expressions import Kind
    from traceana.ingesters.files import CsvFile

_TYPES: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("rank", "host"), pl.String()),
    "step": pl.Int64(),
    **dict.fromkeys(("step_s", "compute_s", "communication_s", "idle_s"), pl.Float64()),
}
_BEGINNING: Final = 1 << 20
_GPU: Final = re.compile(rb'"deviceProperties"\s*:\s*\[\s*\{')
_OPENING: Final = re.compile(r'"traceEvents"\s*:\s*\[')
_RANK: Final = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*(\d+)')
_RANK_IN_NAME: Final = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)
_HOST_IN_NAME: Final = re.compile(r"(.+)_\d+\.\d+\.pt\.trace\b")  # of tensorboard_trace_handler
_STEP: Final = re.compile(r"ProfilerStep#(\d+)")
_COMMUNICATION: Final = re.compile(r"nccl|rccl|hccl|oneccl|nvshmem", re.IGNORECASE)
_ON_GPU: Final = {"kernel": 0, "gpu_memcpy": 2, "gpu_memset": 2, "memcpy": 2, "memset": 2}
_COMPUTE, _COMMUNICATE = 0, 1
_MOST_KERNELS: Final = 20_000_000
_MOST_LAUNCHES: Final = 4_000_000


class _Activities:
    """Begin and end (microseconds) of what ran on the GPU, and of the steps."""

    def __init__(self) -> None:
        self.steps: dict[int, tuple[float, float]] = {}
        self.times, self.kinds = array("d"), array("b")

    def add(self, event: Any) -> bool:  # noqa: ANN401  an object of JSON
        """Take an event in if it is a step or on the GPU."""
        if not isinstance(event, dict) or event.get("ph") != "X":
            return False
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        kind = _ON_GPU.get(category)
        step = None if kind is not None or category.startswith("gpu") else _STEP.fullmatch(name)
        if kind is None and step is None:
            return False
        try:
            begin = float(event["ts"])
            end = begin + float(event.get("dur", 0))
        except (KeyError, TypeError, ValueError):
            return False
        if step:
            self.steps[int(step[1])] = (begin, end)
        elif kind is not None:
            self.times.extend((begin, end))
            self.kinds.append(_COMMUNICATE if _COMMUNICATION.search(name) else kind)
        return True

    def busy(self, kinds: tuple[int, ...]) -> NDArray[np.float64]:
        """Return for each step the time (s) in which an activity of these kinds runs."""
        times = np.frombuffer(self.times).reshape(-1, 2)
        own = times[np.isin(np.frombuffer(self.kinds, np.int8), kinds)]
        begin, end = _union(own)
        sums = np.concatenate([[0.0], np.cumsum(end - begin)])

        def until(moment: NDArray[np.float64]) -> NDArray[np.float64]:
            at = np.searchsorted(begin, moment, side="right")
            last = np.where(at > 0, end[np.maximum(at - 1, 0)] if end.size else 0.0, -np.inf)
            return sums[at] - np.maximum(last - moment, 0.0)

        windows = np.array([*self.steps.values()])
        return (until(windows[:, 1]) - until(windows[:, 0])) / 1e6


def _union(times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return begins and ends of the union of intervals."""
    times = times[np.argsort(times[:, 0], kind="stable")]
    latest = np.maximum.accumulate(times[:, 1])
    is_first = np.ones(len(times), np.bool)
    is_first[1:] = times[1:, 0] > latest[:-1]
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(times)) - 1 if len(times) else firsts
    return times[firsts, 0], latest[lasts]


def _blocks(
    file: CsvFile, named: dict[str, str | None], kinds: Mapping[str, Kind]
) -> Iterator[FrameBlock]:
    if "kind" in kinds:
        yield _operations(file, named, kinds)
        return
    found, others = _Activities(), 0
    for event in _events(file):
        others += not found.add(event)
        if len(found.kinds) > _MOST_KERNELS:
            raise SourceError(
                f"{file.where}: more than {_MOST_KERNELS:,} kernels; profile fewer steps"
            )
    others += len(found.kinds)
    if not found.steps:
        raise SourceError(
            f"{file.where}: no ProfilerStep in it; call prof.step() after each step of the training"
        )
    begin, end = np.array([*found.steps.values()]).T
    step_s = (end - begin) / 1e6
    rows = {"step": [*found.steps], "step_s": step_s}
    if found.kinds:
        rows |= {
            "compute_s": found.busy((_COMPUTE,)),
            "communication_s": found.busy((_COMMUNICATE,)),
            "idle_s": np.maximum(step_s - found.busy((0, 1, 2)), 0.0),
        }
    frame = (
        pl.DataFrame(rows)
        .sort("step")
        .with_columns(pl.lit(named.get(name)).alias(name) for name in _TYPES if name not in rows)
    )
    used = frame.select(pl.col(name).cast(_TYPES[name]) for name in (kinds or _TYPES))
    yield FrameBlock(used, kinds, 1, not_applicable=others)


def _operations(
    file: CsvFile, named: dict[str, str | None], kinds: Mapping[str, Kind]
) -> FrameBlock:
    found, others, used = Launches(beginning(file, _BEGINNING), named["rank"]), 0, 0
    for event in _events(file):
        is_complete = isinstance(event, dict) and event.get("ph") == "X"
        name = str(event.get("name", "")) if is_complete else ""
        communicates = _COMMUNICATION.search(name) is not None
        is_used = is_complete and found.add(event, communicates=communicates)
        others += not is_used
        used += is_used
        if used > _MOST_LAUNCHES:
            raise SourceError(
                f"{file.where}: more than {_MOST_LAUNCHES:,} kernels and their launches; profile "
                "fewer steps"
            )
    rows = found.operations()
    beside = {name: pl.lit(named.get(name), _TYPES[name]) for name in kinds if name not in rows}
    return FrameBlock(rows.with_columns(**beside).select(*kinds), kinds, 1, not_applicable=others)


def _events(file: CsvFile) -> Iterator[Any]:
    for text, event in read_items(file, opening=_OPENING):
        if event is None:
            raise SourceError(f"{file.where}: it ends within an event: {text[:60]!r}")
        yield event


def _open(file: CsvFile, _timezone: str) -> Rows:
    start = beginning(file, _BEGINNING)
    if not _detect(file):
        raise SourceError(
            f"{file.where}: no trace of the PyTorch profiler; export it with "
            "prof.export_chrome_trace() or tensorboard_trace_handler()"
        )
    rank = _RANK.search(start)
    in_name = _RANK_IN_NAME.search(file.name)
    host = _HOST_IN_NAME.match(file.name)
    named = {
        "rank": rank[1].decode() if rank else in_name[1] if in_name else None,
        "host": host[1] if host else None,
    }
    types = _TYPES | (_OPERATIONS if _GPU.search(start) else {})
    return Rows(tuple(types), partial(_blocks, file, named), types)


def _detect(file: CsvFile) -> bool:
    if not file.head.lstrip(b"\xef\xbb\xbf \t").startswith(b"{"):
        return False
    start = beginning(file, _BEGINNING)
    return b'"traceEvents"' in start and (b'"schemaVersion"' in start or b"ProfilerStep#" in start)


READER: Final = Reader("kineto", _detect, _open, (".json",), own_mapping("kineto"))
"""Reader of traces of the PyTorch profiler."""
