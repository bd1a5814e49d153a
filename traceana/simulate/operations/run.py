"""Dependencies of the operations of a step, and the replay of its events over arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.simulate.operations.read import (
    ALL_GATHER,
    ALL_REDUCE,
    BACKWARD,
    CLIP,
    COMMUNICATION,
    COMPUTE,
    DATA_PARALLEL,
    EMBEDDING,
    FORWARD,
    GARBAGE,
    LAYERNORM,
    OPTIMIZER,
    POINT_TO_POINT,
    REDUCE_SCATTER,
    SYNCHRONIZED,
    TRANSFERS,
    Operations,
    read_operations,
)
from traceana.stats.arrays import Floats

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_TOLERANCE_S: Final = 5e-5
"""Clocks of two workers may differ by so much."""
_NEXT: Final = {"forward-send": 1, "forward-recv": -1, "backward-send": -1, "backward-recv": 1}
_PARTNER: Final = {"forward-send": "forward-recv", "backward-send": "backward-recv"}


@dataclass(frozen=True)
class Event:
    """Operations that begin together, when all that they wait for has ended."""

    members: tuple[int, ...]
    waits_for: tuple[tuple[int, ...], ...]
    """Operations that each member waits for."""
    before: tuple[int, ...]
    """Operations that any member waits for."""
    synchronized: bool
    """Whether all data-parallel ranks begin together."""
    last_used: tuple[int, ...] = ()
    """Operations that no later event waits for."""


@dataclass(frozen=True)
class Graph:
    """Events in an order in which each comes after all that it waits for."""

    events: tuple[Event, ...]
    last: tuple[int, ...]
    """Operations that end a step."""


@dataclass
class _Builder:
    operations: Operations
    waits_for: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    groups: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        operations = self.operations
        self.start, self.end = operations.start[:, 0, 0], operations.end[:, 0, 0]
        self.nodes: dict[tuple[str, int], list[int]] = defaultdict(list)
        for node, (kind, stage) in enumerate(zip(operations.kind, operations.stage, strict=True)):
            self.nodes[str(kind), int(stage)].append(node)  # in the order of their sequence
        self.chunks = max(int(operations.chunk.max()), 0) + 1

    def of(self, stage: int, *kinds: str) -> list[int]:
        """Return the operations of a stage in the order of their start."""
        nodes = [node for kind in kinds for node in self.nodes[kind, stage]]
        sequence, kind = self.operations.sequence, self.operations.kind
        return sorted(nodes, key=lambda node: (self.start[node], sequence[node], kind[node]))

    def chunk(self, node: int) -> int:
        return max(int(self.operations.chunk[node]), 0)

    def leads_on(self, compute: int, kind: str, stage: int) -> bool:
        """Return whether a transfer of this kind at a compute has a partner in another stage."""
        stages = self.operations.stages
        chunk = int(self.operations.global_chunk[compute])
        if chunk < 0:
            chunk = self.chunk(compute) * stages + stage
        return 0 <= chunk + _NEXT[kind] < self.chunks * stages

    def chain(self, nodes: Iterable[int]) -> None:
        for before, after in pairwise(nodes):
            self.waits_for[after].append(before)


def build_graph(operations: Operations, /) -> Graph:
    """Return the dependencies, from the first step of the first data-parallel rank."""
    builder = _Builder(operations)
    partners: dict[tuple[str, int], list[int]] = {}
    # a job with one data-parallel rank may record these collectives of other dimensions
    parallel = len(operations.dp_ranks) > 1 or bool(set(operations.kind) & set(DATA_PARALLEL))
    overlapped = ALL_REDUCE in operations.kind
    for stage in range(operations.stages):
        computes = builder.of(stage, *COMPUTE)
        builder.chain(computes)
        for kind in POINT_TO_POINT:
            partners[kind, stage] = _match(builder, kind, stage)
        _delay_first_backward(builder, computes, stage)
        if parallel:
            _join_data_parallel(builder, stage, overlapped=overlapped)
        _finish(builder, computes, stage, overlapped=overlapped)
    _pair(builder, partners)
    _gather(builder)
    return _order(builder)


def _match(builder: _Builder, kind: str, stage: int) -> list[int]:
    """Match transfers with computes of their direction; return those that need a partner."""
    direction, way = kind.split("-")
    computes = builder.nodes[f"{direction}-compute", stage]
    transfers = builder.of(stage, kind)
    builder.chain(transfers)
    launched = _launched(builder, transfers, computes, way)
    leads_on = [builder.leads_on(compute, kind, stage) for compute in computes]
    missing = len(computes) - len(launched)
    if missing == 1 and stage in (0, builder.operations.stages - 1):
        places = list(range(len(computes)))[slice(1, None) if way == "recv" else slice(-1)]
    else:  # transfers that lead nowhere may not be recorded
        places = [place for place, leads in enumerate(leads_on) if leads or not missing]
    if len(places) != len(launched):
        raise DataError(
            f"operations: {builder.operations.place(stage)}: {len(launched)} {kind} for "
            f"{len(computes)} {direction}-compute; each needs one"
        )
    with_partner = []
    for node, place in zip(launched, places, strict=True):
        compute = computes[place]
        if way == "send":
            builder.waits_for[node].append(compute)
        else:
            builder.waits_for[compute].append(node)
            if place:
                builder.waits_for[node].append(computes[place - 1])
        if leads_on[place]:
            with_partner.append(node)
    alone = set(transfers) - set(with_partner)
    builder.groups += [(node,) for node in sorted(alone)]
    return with_partner


def _launched(builder: _Builder, transfers: list[int], computes: list[int], way: str) -> list[int]:
    """Return the transfers that a compute may have launched, or waited for."""
    if way == "recv":
        latest = builder.start[computes].max() + _TOLERANCE_S
        return [node for node in transfers if builder.start[node] <= latest]
    earliest = builder.end[computes].min() - _TOLERANCE_S
    return [node for node in transfers if builder.end[node] >= earliest]


def _delay_first_backward(builder: _Builder, computes: Sequence[int], stage: int) -> None:
    kinds = [builder.operations.kind[node] for node in computes]
    first = kinds.index(BACKWARD)
    if first >= 2:
        for kind in ("backward-send", "backward-recv"):
            for node in builder.nodes[kind, stage][:1]:
                builder.waits_for[node].append(computes[first - 2])


def _join_data_parallel(builder: _Builder, stage: int, *, overlapped: bool) -> None:
    builder.chain(builder.of(stage, ALL_GATHER, REDUCE_SCATTER))
    forward = builder.of(stage, FORWARD)
    gathered = {builder.chunk(node): node for node in builder.nodes[ALL_GATHER, stage]}
    for chunk, node in gathered.items():
        of_chunk = [compute for compute in forward if builder.chunk(compute) == chunk]
        builder.waits_for[(of_chunk or forward)[0]].append(node)
    if overlapped:
        backward = builder.of(stage, BACKWARD)
        first = {
            builder.chunk(node): node for node in reversed(builder.nodes[REDUCE_SCATTER, stage])
        }
        for chunk, node in first.items():
            of_chunk = [before for before in backward if builder.chunk(before) == chunk]
            latest = max(of_chunk or backward, key=lambda before: builder.end[before])
            builder.waits_for[node].append(latest)


def _finish(builder: _Builder, computes: Sequence[int], stage: int, *, overlapped: bool) -> None:
    """Add what follows the last compute, to the optimizer."""
    last = max(computes, key=lambda node: builder.end[node])
    garbage = builder.nodes[GARBAGE, stage]
    builder.chain([last, *garbage])
    before = [garbage[-1] if garbage else last]
    scattered = builder.nodes[REDUCE_SCATTER, stage]
    first, second = (LAYERNORM, EMBEDDING), (CLIP, OPTIMIZER)
    kinds = (*first, ALL_REDUCE, *second) if overlapped else (*first, REDUCE_SCATTER, *second)
    if overlapped:
        before += scattered[-1:]
    chained = [node for kind in kinds for node in builder.nodes[kind, stage]]
    if chained:
        builder.waits_for[chained[0]] += before
    builder.chain(chained)


def _pair(builder: _Builder, partners: dict[tuple[str, int], list[int]]) -> None:
    operations = builder.operations
    stages = operations.stages
    for send, receive in _PARTNER.items():
        for stage in range(stages):
            other = (stage + _NEXT[send]) % stages
            sent, received = partners[send, stage], partners[receive, other]
            if len(sent) != len(received):
                sender, receiver = (operations.workers[place, 0] for place in (stage, other))
                raise DataError(
                    f"operations: step {operations.steps[0]}, worker {sender}: {len(sent)} {send} "
                    f"for {len(received)} {receive} of worker {receiver}; each needs a partner"
                )
            builder.groups += zip(sent, received, strict=True)


def _gather(builder: _Builder) -> None:
    """Add the groups of collectives: within a stage, at both ends of the pipeline, over all."""
    operations = builder.operations
    last = operations.stages - 1
    of_all: dict[tuple[str, int], list[int]] = defaultdict(list)
    for node, kind in enumerate(operations.kind):
        if kind in DATA_PARALLEL:
            builder.groups.append((node,))
        elif kind in (EMBEDDING, CLIP):
            of_all[str(kind), int(operations.sequence[node])].append(node)
    for (kind, _), nodes in of_all.items():
        stages = {int(operations.stage[node]) for node in nodes}
        needed = {0, last} if kind == EMBEDDING else set(range(last + 1))
        if wrong := needed ^ stages:
            here, stage = nodes[0], min(wrong)
            verb = "lacks it" if stage in needed else "has it"
            raise DataError(
                f"operations: {operations.name(here)} joins "
                f"{'the first and last stage' if kind == EMBEDDING else 'all stages'}, but worker "
                f"{operations.workers[stage, 0]} (stage {stage}) {verb}"
            )
        builder.groups.append(tuple(nodes))


def _order(builder: _Builder) -> Graph:
    """Return the events in topological order."""
    operations = builder.operations
    n = len(operations.kind)
    grouped = {node for group in builder.groups for node in group}
    groups = [*builder.groups, *((node,) for node in range(n) if node not in grouped)]
    event_of = np.empty(n, dtype=np.int64)
    for event, group in enumerate(groups):
        event_of[list(group)] = event
    order = _sort_events(builder, event_of, len(groups))
    if len(order) < len(groups):
        _tell_circle(builder, groups, event_of, set(range(len(groups))) - set(order))
    events: list[Event] = []
    used: set[int] = {int(node) for node in np.flatnonzero(operations.kind == OPTIMIZER)}
    last = tuple(sorted(used))
    for event in reversed(order):
        members = groups[event]
        waits = tuple(tuple(sorted(set(builder.waits_for[node]))) for node in members)
        every = {node for part in waits for node in part}
        needed = every | set(members)
        events.append(
            Event(
                members=members,
                waits_for=waits,
                before=tuple(sorted(every)),
                synchronized=operations.kind[members[0]] in SYNCHRONIZED,
                last_used=tuple(sorted(needed - used)),
            )
        )
        used |= needed
    return Graph(tuple(reversed(events)), last)


def _sort_events(builder: _Builder, event_of: NDArray[Any], n: int) -> list[int]:
    """Return the events, each after those that it waits for; without those in a circle."""
    followers: list[list[int]] = [[] for _ in range(n)]
    open_ends = np.zeros(n, dtype=np.int64)
    for node, before in builder.waits_for.items():
        for other in before:
            followers[event_of[other]].append(int(event_of[node]))
            open_ends[event_of[node]] += 1
    order = [event for event in range(n) if not open_ends[event]]
    for event in order:  # grows while it is walked through
        for follower in followers[event]:
            open_ends[follower] -= 1
            if not open_ends[follower]:
                order.append(follower)
    return order


def _tell_circle(
    builder: _Builder, groups: Sequence[tuple[int, ...]], event_of: NDArray[Any], left: set[int]
) -> NoReturn:
    """Raise a DataError that names the operations of a circle."""
    path, event = [], min(left)
    while event not in path:
        path.append(event)
        waits = (other for node in groups[event] for other in builder.waits_for[node])
        event = next(int(event_of[other]) for other in waits if event_of[other] in left)
    circle = path[path.index(event) :]
    operations = builder.operations
    shown = [groups[one][0] for one in reversed(circle)]
    names = " -> ".join(
        f"{operations.kind[node]} {operations.sequence[node]} of worker "
        f"{operations.workers[operations.stage[node], 0]}"
        for node in [*shown[:4], shown[0]]
    )
    raise DataError(
        f"operations: step {operations.steps[0]}: operations wait for one another in a circle, "
        f"{names}; check start_s and sequence of these"
    )


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

    An operation begins when all that it waits for has ended; a step ends with its last optimizer.
    """
    ends: dict[int, Times] = {}
    _run(graph.events, ends, durations)
    return _step_times(graph, ends)


def replay_ranks(
    graph: Graph, base: Durations, other: Durations, shape: tuple[int, int], /
) -> Times:
    """Return the step times over (ranks, steps) if one rank at a time has other durations.

    Up to the first collective whose begin may vary, all ranks are replayed at once.
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
    """Return the step times with the recorded delays: start minus the latest end waited for."""
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

    The own duration of communication is its end minus the latest start of its group; the ideal one
    is the median of its kind, and of computation the mean.
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
