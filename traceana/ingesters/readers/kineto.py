"""Traces of the PyTorch profiler (Kineto): time of each step, and operations of a rank."""

from __future__ import annotations

import json
import math
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile, beginning
from traceana.ingesters.readers.json import read_items
from traceana.ingesters.readers.reader import FrameBlock, Reader, Rows, own_mapping

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
_STEP: Final = re.compile(r"ProfilerStep#(\d{1,18})(?!\d)")
_COMMUNICATION: Final = re.compile(r"nccl|rccl|hccl|oneccl|nvshmem", re.IGNORECASE)
_ON_GPU: Final = {"kernel": 0, "gpu_memcpy": 2, "gpu_memset": 2, "memcpy": 2, "memset": 2}
_COMPUTE, _COMMUNICATE = 0, 1
_MOST_KERNELS: Final = 20_000_000
_MOST_LAUNCHES: Final = 4_000_000
_OPERATIONS: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("step", "dp_rank", "stage"), pl.Int64()),
    "kind": pl.String(),
    **dict.fromkeys(("start_s", "duration_s"), pl.Float64()),
}
_GROUPS: Final = re.compile(rb'"pg_config"\s*:\s*(?=\[)')
_WORLD: Final = re.compile(rb'"world_size"\s*:\s*(\d+)')
_STAGES: Final = re.compile(r"(?<![a-z])pp(?![a-z])|pipeline")
_DATA: Final = re.compile(r"^(?!.*tensor).*((?<![a-z])(f?s?dp|dp)(?![a-z])|data_parallel)")
_DEFAULT: Final = re.compile(r"|default_pg|undefined")
_COLLECTIVES: Final = (
    (re.compile(r"reduce_?scatter"), "grads-reduce-scatter"),
    (re.compile(r"all_?gather"), "params-all-gather"),
    (re.compile(r"all_?reduce"), "separate-grads-all-reduce"),
)
_FORWARD, _BACKWARD, _OPTIMIZER, _TRANSFER = range(4)
_COMPUTED: Final = {
    _FORWARD: "forward-compute",
    _BACKWARD: "backward-compute",
    _OPTIMIZER: "optimizer",
}


class _Activities:
    """Begin and end (microseconds) of what ran on the GPU, and of the steps."""

    def __init__(self) -> None:
        self.steps: dict[int, tuple[float, float]] = {}
        self.times, self.kinds = array("d"), array("b")

    def add(self, event: dict[str, Any], begin: float, end: float) -> bool:
        """Take an event in if it is a step or on the GPU."""
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        kind = _ON_GPU.get(category)
        if kind is not None:
            self.times.extend((begin, end))
            self.kinds.append(_COMMUNICATE if _COMMUNICATION.search(name) else kind)
        elif not category.startswith("gpu") and (step := _STEP.fullmatch(name)):
            self.steps[int(step[1])] = (begin, end)
            return True
        return kind is not None

    @property
    def size(self) -> int:
        """How many activities there are."""
        return len(self.kinds)

    def by_step(self) -> pl.DataFrame:
        """Return the time of each step, and where the GPU was used that of its activities."""
        begin, end = np.array([*self.steps.values()]).T
        rows = {"step": [*self.steps], "step_s": (end - begin) / 1e6}
        if self.kinds:
            rows |= {
                "compute_s": self.busy((_COMPUTE,)),
                "communication_s": self.busy((_COMMUNICATE,)),
                "idle_s": np.maximum(rows["step_s"] - self.busy((0, 1, 2)), 0.0),
            }
        return pl.DataFrame(rows).sort("step")

    def busy(self, kinds: tuple[int, ...]) -> NDArray[np.float64]:
        """Return for each step the time (s) in which an activity of these kinds runs."""
        times = np.frombuffer(self.times).reshape(-1, 2)
        spans = times[np.isin(np.frombuffer(self.kinds, np.int8), kinds)]
        begin, end = _union(spans)
        sums = np.concatenate([[0.0], np.cumsum(end - begin)])

        def until(moment: NDArray[np.float64]) -> NDArray[np.float64]:
            at = np.searchsorted(begin, moment, side="right")
            last = np.where(at > 0, end[np.maximum(at - 1, 0)] if end.size else 0.0, -np.inf)
            return sums[at] - np.maximum(last - moment, 0.0)

        windows = np.array([*self.steps.values()])
        return (until(windows[:, 1]) - until(windows[:, 0])) / 1e6


def _union(times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
        launches = _Launches(beginning(file, _BEGINNING), named["rank"])
        others = _read(file, launches, _MOST_LAUNCHES, "kernels and their launches")
        frame = launches.operations()
    else:
        activities = _Activities()
        others = _read(file, activities, _MOST_KERNELS, "kernels") + activities.size
        if not activities.steps:
            raise SourceError(
                f"{file.where}: no ProfilerStep in it; call prof.step() after each step of the "
                "training"
            )
        frame = activities.by_step()
    types = _TYPES | _OPERATIONS
    beside = (pl.lit(named.get(n)).alias(n) for n in kinds or _TYPES if n not in frame.columns)
    used = frame.with_columns(beside).select(pl.col(n).cast(types[n]) for n in kinds or _TYPES)
    yield FrameBlock(used, kinds, 1, not_applicable=others)


def _read(file: CsvFile, into: _Activities | _Launches, most: int, what: str) -> int:
    """Read the events with a time, and return how many others there are."""
    others = 0
    for text, event in read_items(file, opening=_OPENING):
        if event is None:
            raise SourceError(f"{file.where}: it ends within an event: {text[:60]!r}")
        is_used = False
        if isinstance(event, dict) and event.get("ph") == "X":
            with suppress(KeyError, TypeError, ValueError):
                begin = float(event["ts"])
                is_used = into.add(event, begin, begin + float(event.get("dur", 0)))
        others += not is_used
        if into.size > most:
            raise SourceError(f"{file.where}: more than {most:,} {what}; profile fewer steps")
    return others


class _Launches:
    """Kernels of a rank with the times (microseconds) at which they were launched."""

    def __init__(self, start: bytes, rank: str | None) -> None:
        self.size = 0
        self.rank = None if rank is None else int(rank)
        self.groups = _groups(start, self.rank)
        world = _WORLD.search(start)
        self.world = int(world[1]) if world else 1
        self.steps: dict[int, tuple[float, float]] = {}
        self.launched: dict[int, float] = {}
        self.backward, self.optimizer, self.kernels = array("d"), array("d"), array("d")
        self.transfers: list[tuple[float, float, int, dict[str, Any], str]] = []

    def add(self, event: dict[str, Any], begin: float, end: float) -> bool:
        """Take an event in if it is needed."""
        category, name = str(event.get("cat", "")).lower(), str(event.get("name", ""))
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        launch = int(args.get("correlation", -1))
        if category == "kernel" and _COMMUNICATION.search(name):
            self.transfers.append((begin, end, launch, args, name))
        elif category == "kernel":
            self.kernels.extend((begin, end, launch))
        elif category in ("cuda_runtime", "cuda_driver"):
            self.launched[launch] = begin
        elif name.startswith("autograd::engine::evaluate_function"):
            self.backward.extend((begin, end))
        elif name.startswith("Optimizer.step#") and not category.startswith("gpu"):
            self.optimizer.extend((begin, end))
        elif (step := _STEP.fullmatch(name)) and not category.startswith("gpu"):
            self.steps[int(step[1])] = (begin, end)
        else:
            return False
        self.size += 1
        return True

    def operations(self) -> pl.DataFrame:
        """Return the operations of each step."""
        for *_, args, _ in self.transfers:
            ranks = str(args.get("Process Group Ranks", ""))
            if ranks and "..." not in ranks:
                name = str(args.get("Process Group Description", "")).lower()
                self.groups.setdefault(name, [int(number) for number in re.findall(r"\d+", ranks)])
        stage, dp_rank = self._place()
        transfers = [
            (begin, end, self.launched.get(launch, begin), self._kind(args, name))
            for begin, end, launch, args, name in self.transfers
        ]
        rows = [*self._computed(transfers)]
        steps = sorted((begin, end, step) for step, (begin, end) in self.steps.items())
        for begin, end, launch, kind in transfers:
            at = bisect_right(steps, launch, key=itemgetter(0)) - 1
            _, until, step = steps[at] if at >= 0 else (0.0, -math.inf, 0)
            if kind and launch < until:
                rows.append((step, kind, begin / 1e6, (end - begin) / 1e6))
        names = ("step", "kind", "start_s", "duration_s")
        frame = pl.DataFrame(
            rows, schema={name: _OPERATIONS[name] for name in names}, orient="row"
        ).with_columns(dp_rank=pl.lit(dp_rank, pl.Int64), stage=pl.lit(stage, pl.Int64))
        return frame.sort("step", "start_s").select(*_OPERATIONS)

    def _place(self) -> tuple[int | None, int | None]:
        """Return stage and data-parallel rank; null where the groups do not state them."""
        if self.rank is None:
            return None, None
        pipeline, data = self._ranks(_STAGES), self._ranks(_DATA)
        sends = any(_is_transfer(args, name) for *_, args, name in self.transfers)
        stage = pipeline.index(self.rank) if pipeline else None if sends else 0
        if data:
            return stage, data.index(self.rank)
        alone = all(_DEFAULT.fullmatch(name) for name in self.groups)
        return stage, self.rank if alone and self.world > 1 else 0

    def _ranks(self, pattern: re.Pattern[str]) -> list[int]:
        matching = (ranks for name, ranks in self.groups.items() if pattern.search(name))
        return next((ranks for ranks in matching if self.rank in ranks), [])

    def _kind(self, args: dict[str, Any], name: str) -> str | None:
        group = str(args.get("Process Group Description", "")).lower()
        pipeline = self._ranks(_STAGES)
        what = str(args.get("Collective name") or name).lower()
        if _is_transfer(args, name):
            way = "send" if what.startswith("send") else "recv"
            peer = str(args.get("Dst Rank" if way == "send" else "Src Rank"))
            ranks = [*map(str, pipeline)]
            if peer not in ranks:
                return None
            further = ranks.index(peer) - pipeline.index(self.rank or 0)
            forward = further > 0 if way == "send" else further < 0
            wraps = abs(further) == len(pipeline) - 1 > 1
            return f"{'forward' if forward != wraps else 'backward'}-{way}"
        if "embedding" in group:
            return "embedding-grads-all-reduce"
        if _DATA.search(group) or (_DEFAULT.fullmatch(group) and not pipeline):
            return next((kind for pattern, kind in _COLLECTIVES if pattern.search(what)), None)
        return None

    def _computed(
        self, transfers: list[tuple[float, float, float, str | None]]
    ) -> list[tuple[int, str, float, float]]:
        """Return runs of kernels that were launched by the same pass, without one in between."""
        kernels = np.frombuffer(self.kernels).reshape(-1, 3)
        launch = np.array([self.launched.get(int(kernel[2]), kernel[0]) for kernel in kernels])
        label = np.where(_within(launch, self.backward), _BACKWARD, _FORWARD)
        label[_within(launch, self.optimizer)] = _OPTIMIZER
        between = [at for _, _, at, kind in transfers if kind and kind[-4:] in ("send", "recv")]
        begin = np.concatenate([kernels[:, 0], between])
        end = np.concatenate([kernels[:, 1], between])
        launch = np.concatenate([launch, between])
        label = np.concatenate([label, np.full(len(between), _TRANSFER)]).astype(int)
        order = np.argsort(launch, kind="stable")
        begin, end, launch, label = (part[order] for part in (begin, end, launch, label))
        rows = []
        for step, (first, last) in self.steps.items():
            low, high = np.searchsorted(launch, (first, last))
            labels = label[low:high]
            cuts = np.flatnonzero(np.diff(labels)) + 1
            # what follows the last backward pass, such as clipping, is of no forward pass
            backward = np.flatnonzero(labels == _BACKWARD)
            latest = backward[-1] if backward.size else -1
            for run in np.split(np.arange(low, high), cuts):
                if run.size and label[run[0]] != _TRANSFER:
                    if label[run[0]] == _FORWARD and run[0] - low > latest:
                        continue
                    start = float(begin[run].min())
                    length = float(end[run].max()) - start
                    rows.append((step, _COMPUTED[int(label[run[0]])], start / 1e6, length / 1e6))
        return rows


def _is_transfer(args: dict[str, Any], name: str) -> bool:
    what = str(args.get("Collective name") or name).lower()
    return what.startswith(("send", "recv")) or "sendrecv" in what


def _within(moments: NDArray[np.float64], spans: array[float]) -> NDArray[np.bool_]:
    times = np.sort(np.frombuffer(spans).reshape(-1, 2), axis=0)
    begun = np.searchsorted(times[:, 0], moments, side="right")
    ended = np.searchsorted(times[:, 1], moments, side="right")
    return begun > ended


def _groups(start: bytes, rank: int | None) -> dict[str, list[int]]:
    """Return the ranks of the groups of a rank that the beginning of a file lists, by name."""
    match = _GROUPS.search(start)
    if not match:
        return {}
    try:
        groups = json.JSONDecoder().raw_decode(start[match.end() :].decode(errors="replace"))[0]
        return {
            str(group.get("pg_desc", "")).lower(): [int(rank) for rank in group.get("ranks", [])]
            for group in groups
            if rank in group.get("ranks", [])
        }
    except (ValueError, TypeError, AttributeError):
        return {}


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
    start = beginning(file, _BEGINNING) if file.opening == b"{" else b""
    return b'"traceEvents"' in start and (b'"schemaVersion"' in start or b"ProfilerStep#" in start)


READER: Final = Reader("kineto", _detect, _open, (".json",), own_mapping("kineto"))
