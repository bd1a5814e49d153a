"""A training job ready to be replayed, and the replay of its events over arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.simulate.operations.graph import Graph, build_graph
from traceana.simulate.operations.read import (
    COMMUNICATION,
    COMPUTE,
    TRANSFERS,
    Operations,
    read_operations,
)
from traceana.stats.arrays import Floats

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.simulate.operations.graph import Event, Graph
    from traceana.simulate.operations.read import Operations


Times: TypeAlias = NDArray[np.float64]
Durations: TypeAlias = Sequence[Any]
"""Own duration of each operation: over (steps, ranks), or one number for all."""

NEGLIGIBLE_S: Final = 1e-2
"""A duration or delay of minus this or less is an error of clocks, and counts as 0."""
_ZERO: Final = np.zeros((1, 1))
_BLOCK: Final = 500_000
"""Times of an operation that are replayed at once."""


def replay(graph: Graph, durations: Durations, /) -> Times:
    """Return the time of each step with these own durations; one time if all steps agree.

    An operation begins when all that it waits for has ended. Operations of a group begin together,
    and each ends after its own duration. A step ends with its last optimizer.
    """
    ends: dict[int, Times] = {}
    _run(graph.events, ends, durations)
    return _step_times(graph, ends)


def replay_ranks(
    graph: Graph, base: Durations, other: Durations, shape: tuple[int, int], /
) -> Times:
    """Return the step times over (ranks, steps) if one rank at a time has other durations.

    Ranks do not depend on each other up to the first collective whose begin may vary, so that up to
    there all of them are replayed at once. `shape` has the number of steps and ranks.
    """
    joined = _joined(graph) if shape[1] > 1 else frozenset()
    before = [event for event in graph.events if not joined.intersection(event.members)]
    after = [event for event in graph.events if joined.intersection(event.members)]
    needed = {node for event in after for node in event.before}
    needed = (needed | set(graph.last)) - joined
    both: list[dict[int, Times]] = [{}, {}]
    for ends, durations in zip(both, (base, other), strict=True):
        _run(before, ends, durations, keep=needed)
    uniform = all(np.size(rank) == 1 for rank in base)
    parts = []
    size = shape[0] * (2 if uniform else shape[1])
    block = max(_BLOCK // size, 1)
    for first in range(0, shape[1], block):
        ranks = np.arange(first, min(first + block, shape[1]))
        pack = _packer(ranks, shape, uniform=uniform)
        ends = {node: pack(both[0][node], both[1][node]) for node in needed}
        _run(after, ends, _Packed(base, other, pack))
        parts.append(np.broadcast_to(_step_times(graph, ends), (len(ranks), shape[0])))
    return np.concatenate(parts)


def replay_recorded(
    graph: Graph, durations: Durations, start: NDArray[Any], end: NDArray[Any], /
) -> Times:
    """Return the step times with the recorded launch delays.

    The launch delay of an operation is its start minus the latest end of what it waits for.
    """
    ends: dict[int, Times] = {}
    for event in graph.events:
        starts = []
        for node, before in zip(event.members, event.waits_for, strict=True):
            delay = start[node] - latest([end[other] for other in before])
            begin = latest([ends[other] for other in before])
            starts.append(begin + np.where(delay <= -NEGLIGIBLE_S, 0, delay))
        begin = _begin(event, starts)
        for node in event.members:
            ends[node] = begin + durations[node]
        for node in event.last_used:
            del ends[node]
    return _step_times(graph, ends)


def replay_timeline(
    graph: Graph, durations: Durations, shape: tuple[int, int, int], /
) -> tuple[Times, Times]:
    """Return begin and end of each operation over (operations, steps, ranks)."""
    begins, ends = np.zeros(shape), np.zeros(shape)
    for event in graph.events:
        begin = _begin(event, [ends[other] for other in event.before])
        for node in event.members:
            begins[node] = begin
            ends[node] = begin + durations[node]
    return begins, ends


def transfer_durations(graph: Graph, operations: Operations, durations: NDArray[Any], /) -> None:
    """Replace durations of transfers by their end minus the latest start of their group."""
    for event in graph.events:
        if operations.kind[event.members[0]] in TRANSFERS:
            begin = _begin(event, [operations.start[node] for node in event.members])
            for node in event.members:
                np.subtract(operations.end[node], begin, out=durations[node])
                durations[node][durations[node] <= -NEGLIGIBLE_S] = 0


def latest(arrays: Iterable[Any], /) -> Any:  # noqa: ANN401  of any dtype
    """Return the largest of arrays, element by element; 0 of none."""
    names = list(arrays)
    return reduce(np.maximum, names) if names else _ZERO


def _run(
    events: Iterable[Event],
    ends: dict[int, Times],
    durations: Durations,
    *,
    keep: Iterable[int] = (),
) -> None:
    kept = set(keep)
    for event in events:
        begin = _begin(event, [ends[other] for other in event.before])
        for node in event.members:
            ends[node] = begin + durations[node]
        for node in event.last_used:
            if node not in kept:
                ends.pop(node, None)


def _begin(event: Event, arrays: Iterable[Any]) -> Any:  # noqa: ANN401
    begin = latest(arrays)
    return begin.max(axis=-1, keepdims=True) if event.synchronized else begin


def _step_times(graph: Graph, ends: dict[int, Times]) -> Times:
    times: Times = latest(ends[node] for node in graph.last).max(axis=-1)
    return times


def _joined(graph: Graph) -> frozenset[int]:
    """Return the operations that may begin later because of another rank."""
    joined: set[int] = set()
    for event in graph.events:
        if (event.synchronized and event.before) or joined.intersection(event.before):
            joined |= set(event.members)
    return frozenset(joined)


class _Packed(Sequence[Any]):
    """Durations laid out when they are needed, which keeps them out of memory."""

    def __init__(self, base: Durations, other: Durations, pack: Callable[[Any, Any], Any]) -> None:
        self._base, self._other, self._pack = base, other, pack

    def __getitem__(self, node: Any) -> Any:  # noqa: ANN401
        return self._pack(self._base[node], self._other[node])

    def __len__(self) -> int:
        return len(self._base)


def _packer(
    ranks: NDArray[np.int64], shape: tuple[int, int], *, uniform: bool
) -> Callable[[Any, Any], Any]:
    """Return a function that lays out (ranks, steps, all ranks) with one rank replaced."""
    rows = np.arange(len(ranks))

    def pack(base: Any, other: Any) -> Any:  # noqa: ANN401
        if base is other:
            return base
        replaced = np.broadcast_to(other, shape)[:, ranks].T
        if uniform:
            alone = shape[1] == 1
            others = np.broadcast_to(np.reshape(base, (1, 1)), replaced.shape)
            return np.stack([replaced] if alone else [replaced, others], axis=-1)
        laid = np.array(np.broadcast_to(base, (len(ranks), *shape)))
        laid[rows, :, ranks] = replaced
        return laid

    return pack


@dataclass(frozen=True)
class Model:
    """Operations of a job, their graph, and own durations over (operations, steps, ranks)."""

    operations: Operations
    graph: Graph
    own: Floats
    ideal: Floats
    """Ideal duration of each operation: one value per kind."""

    @property
    def shape(self) -> tuple[int, int]:
        """Return the number of steps and of data-parallel ranks."""
        return len(self.operations.steps), len(self.operations.dp_ranks)

    def step_times(self, durations: Durations, /) -> Times:
        """Return the time of each step with these own durations."""
        return np.broadcast_to(replay(self.graph, durations), self.shape[:1])

    def mixed(self, ideal: NDArray[np.bool_], /) -> Durations:
        """Return own durations, and ideal ones of the operations that are marked."""
        return [
            self.ideal[node] if is_ideal else self.own[node] for node, is_ideal in enumerate(ideal)
        ]


def prepare(operations: IntoFrame, /) -> Model:
    """Read the operations of one job and return what is needed to replay it.

    The own duration of computation is its duration; that of communication is its end minus the
    latest start of its group, which contains no waiting for others. The ideal duration of a kind is
    the mean of computation and the median of communication, over all steps and workers.
    """
    operations_read, own = read_operations(operations)
    graph = build_graph(operations_read)
    transfer_durations(graph, operations_read, own)
    ideal = np.empty(len(operations_read.kind))
    for kind in np.unique(operations_read.kind):
        durations = own[operations_read.kind == kind]
        usual = np.median(durations) if kind in COMMUNICATION else durations.mean(dtype=np.float64)
        ideal[operations_read.kind == kind] = usual
    if not ideal[np.isin(operations_read.kind, COMPUTE)].any():
        raise DataError(
            f"operations: duration_s is 0 in all {' and '.join(COMPUTE)}; durations are needed"
        )
    return Model(operations_read, graph, own.astype(np.float64, copy=False), ideal)
