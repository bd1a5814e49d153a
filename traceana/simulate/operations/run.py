"""Dependencies of the operations of a step, and the replay of its events over arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from narwhals.stable.v2.typing import IntoFrame
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.simulate.operations import read
from traceana.stats.arrays import Floats

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


class _Builder:
    """Operations of a step by kind and stage, and what each waits for."""

    def __init__(self, operations: read.Operations) -> None:
        self.operations = operations
        self.waits_for: dict[int, list[int]] = defaultdict(list)
        self.groups: list[tuple[int, ...]] = []
        self.start, self.end = operations.start[:, 0, 0], operations.end[:, 0, 0]
        self.chunk: list[int] = np.maximum(operations.chunk, 0).tolist()
        self.nodes: dict[tuple[str, int], list[int]] = defaultdict(list)
        for node, (kind, stage) in enumerate(zip(operations.kind, operations.stage, strict=True)):
            self.nodes[str(kind), int(stage)].append(node)  # in the order of their sequence

    def of(self, stage: int, *kinds: str) -> list[int]:
        """Return the operations of a stage in the order of their start."""
        nodes = [node for kind in kinds for node in self.nodes[kind, stage]]
        sequence, kind = self.operations.sequence, self.operations.kind
        return sorted(nodes, key=lambda node: (self.start[node], sequence[node], kind[node]))

    def leads_on(self, compute: int, kind: str, stage: int) -> bool:
        """Return whether a transfer of this kind at a compute has a partner in another stage."""
        stages = self.operations.stages
        chunk = int(self.operations.global_chunk[compute])
        if chunk < 0:
            chunk = self.chunk[compute] * stages + stage
        return 0 <= chunk + _NEXT[kind] < (max(self.chunk) + 1) * stages

    def chain(self, nodes: Iterable[int]) -> None:
        for before, after in pairwise(nodes):
            self.waits_for[after].append(before)


def build_graph(operations: read.Operations, /) -> Graph:
    """Return the dependencies, from the first step of the first data-parallel rank."""
    builder = _Builder(operations)
    partners: dict[tuple[str, int], list[int]] = {}
    # a job with one data-parallel rank may record these collectives of other dimensions
    parallel = len(operations.dp_ranks) > 1 or bool(set(operations.kind) & set(read.DATA_PARALLEL))
    overlapped = read.ALL_REDUCE in operations.kind
    for stage in range(operations.stages):
        computes = builder.of(stage, *read.COMPUTE)
        builder.chain(computes)
        for kind in read.POINT_TO_POINT:
            partners[kind, stage] = _match(builder, kind, stage)
        # transfers of the first backward wait for the forward two before it
        first = [operations.kind[node] for node in computes].index(read.BACKWARD)
        for kind in ("backward-send", "backward-recv") if first >= 2 else ():
            for node in builder.nodes[kind, stage][:1]:
                builder.waits_for[node].append(computes[first - 2])
        if parallel:
            _join_data_parallel(builder, stage, overlapped=overlapped)
        _finish(builder, computes, stage, overlapped=overlapped)
    for send, receive in _PARTNER.items():
        for stage in range(operations.stages):
            other = (stage + _NEXT[send]) % operations.stages
            sent, received = partners[send, stage], partners[receive, other]
            if len(sent) != len(received):
                raise DataError(
                    f"operations: {operations.place(stage)}: {len(sent)} {send} for "
                    f"{len(received)} {receive} of worker {operations.workers[other, 0]}; each "
                    "needs a partner"
                )
            builder.groups += zip(sent, received, strict=True)
    _gather(builder)
    return _order(builder)


def _match(builder: _Builder, kind: str, stage: int) -> list[int]:
    """Match transfers with computes of their direction; return those that need a partner."""
    direction, way = kind.split("-")
    computes = builder.nodes[f"{direction}-compute", stage]
    transfers = builder.of(stage, kind)
    builder.chain(transfers)
    # a compute waits for a receive that began before it, and launches a send that ends after it
    if way == "recv":
        latest_start = builder.start[computes].max() + _TOLERANCE_S
        launched = [node for node in transfers if builder.start[node] <= latest_start]
    else:
        earliest_end = builder.end[computes].min() - _TOLERANCE_S
        launched = [node for node in transfers if builder.end[node] >= earliest_end]
    leads_on = [builder.leads_on(compute, kind, stage) for compute in computes]
    places = list(range(len(computes)))
    missing = len(computes) - len(launched)
    if missing == 1 and stage in (0, builder.operations.stages - 1):
        places.pop(0 if way == "recv" else -1)
    elif missing:  # transfers that lead nowhere may not be recorded
        places = [place for place in places if leads_on[place]]
    if len(places) != len(launched):
        raise DataError(
            f"operations: {builder.operations.place(stage)}: {len(launched)} {kind} for "
            f"{len(computes)} {direction}-compute; each needs one"
        )
    for node, place in zip(launched, places, strict=True):
        if way == "send":
            builder.waits_for[node].append(computes[place])
        else:
            builder.waits_for[computes[place]].append(node)
            builder.chain([*computes[max(place - 1, 0) : place], node])
    return [node for node, place in zip(launched, places, strict=True) if leads_on[place]]


def _join_data_parallel(builder: _Builder, stage: int, *, overlapped: bool) -> None:
    chunk = builder.chunk
    builder.chain(builder.of(stage, read.ALL_GATHER, read.REDUCE_SCATTER))
    forward, backward = builder.of(stage, read.FORWARD), builder.of(stage, read.BACKWARD)
    for node in {chunk[node]: node for node in builder.nodes[read.ALL_GATHER, stage]}.values():
        of_chunk = [compute for compute in forward if chunk[compute] == chunk[node]]
        builder.waits_for[(of_chunk or forward)[0]].append(node)
    if overlapped:
        scatters = reversed(builder.nodes[read.REDUCE_SCATTER, stage])
        for node in {chunk[node]: node for node in scatters}.values():
            of_chunk = [before for before in backward if chunk[before] == chunk[node]]
            last = max(of_chunk or backward, key=lambda before: builder.end[before])
            builder.waits_for[node].append(last)


def _finish(builder: _Builder, computes: Sequence[int], stage: int, *, overlapped: bool) -> None:
    """Add what follows the last compute, to the optimizer."""
    last = max(computes, key=lambda node: builder.end[node])
    garbage = builder.nodes[read.GARBAGE, stage]
    builder.chain([last, *garbage])
    before = [last, *garbage][-1:]
    if overlapped:
        before += builder.nodes[read.REDUCE_SCATTER, stage][-1:]
    reduced = read.ALL_REDUCE if overlapped else read.REDUCE_SCATTER
    kinds = (read.LAYERNORM, read.EMBEDDING, reduced, read.CLIP, read.OPTIMIZER)
    chained = [node for kind in kinds for node in builder.nodes[kind, stage]]
    if chained:
        builder.waits_for[chained[0]] += before
    builder.chain(chained)


def _gather(builder: _Builder) -> None:
    """Add the groups of collectives over stages: at both ends of the pipeline, or over all."""
    operations = builder.operations
    joins = (
        (read.EMBEDDING, "the first and last stage", {0, operations.stages - 1}),
        (read.CLIP, "all stages", set(range(operations.stages))),
    )
    for kind, what, needed in joins:
        of_all: dict[int, list[int]] = defaultdict(list)
        for node in np.flatnonzero(operations.kind == kind).tolist():
            of_all[int(operations.sequence[node])].append(node)
        for nodes in of_all.values():
            if wrong := needed ^ set(operations.stage[nodes].tolist()):
                stage = min(wrong)
                raise DataError(
                    f"operations: {operations.name(nodes[0])} joins {what}, but worker "
                    f"{operations.workers[stage, 0]} (stage {stage}) "
                    f"{'lacks it' if stage in needed else 'has it'}"
                )
            builder.groups.append(tuple(nodes))


def _order(builder: _Builder) -> Graph:
    """Return the events in topological order."""
    operations, waits_for = builder.operations, builder.waits_for
    group_of: dict[int, tuple[int, ...]] = {node: (node,) for node in range(len(operations.kind))}
    group_of |= {node: group for group in builder.groups for node in group}
    graph = {
        group: {group_of[other] for node in group for other in waits_for[node]}
        for group in group_of.values()
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise _circle(operations, [group[0] for group in error.args[1]]) from None
    events: list[Event] = []
    used: set[int] = set(np.flatnonzero(operations.kind == read.OPTIMIZER).tolist())
    last = tuple(sorted(used))
    for members in reversed(order):
        waits = tuple(tuple(sorted(set(waits_for[node]))) for node in members)
        before = tuple(sorted({node for part in waits for node in part}))
        last_used = {*before, *members} - used
        synchronized = operations.kind[members[0]] in read.SYNCHRONIZED
        events.append(Event(members, waits, before, synchronized, tuple(sorted(last_used))))
        used |= last_used
    return Graph(tuple(reversed(events)), last)


def _circle(operations: read.Operations, nodes: Sequence[int]) -> DataError:
    """Return the error of operations that wait for one another; the first is also the last."""
    names = " -> ".join(
        f"{operations.kind[node]} {operations.sequence[node]} of worker "
        f"{operations.workers[operations.stage[node], 0]}"
        for node in [*nodes[:-1][:4], nodes[0]]
    )
    return DataError(
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
    """Return the time of each step with these own durations; one time if all steps agree."""
    return _step_times(graph, _run(graph.events, durations.__getitem__))


def replay_ranks(
    graph: Graph, base: Durations, other: Durations, shape: tuple[int, int], /
) -> Times:
    """Return the step times over (ranks, steps) if one rank at a time has other durations."""
    steps, ranks = shape
    joined = _joined(graph) if ranks > 1 else set()
    before = [event for event in graph.events if not joined.intersection(event.members)]
    after = [event for event in graph.events if joined.intersection(event.members)]
    needed = {node for event in after for node in event.before}
    needed = (needed | set(graph.last)) - joined
    base_ends, other_ends = (_run(before, each.__getitem__, keep=needed) for each in (base, other))
    # if all other ranks agree, one of them is enough
    uniform = all(np.size(duration) == 1 for duration in base)

    def of_some(some: NDArray[np.int64]) -> Times:
        def pack(base: Any, other: Any) -> Any:  # noqa: ANN401
            """Lay out (some ranks, steps, all ranks) with one rank replaced."""
            if base is other:
                return base
            replaced = np.broadcast_to(other, shape)[:, some].T
            if uniform:
                others = np.broadcast_to(np.reshape(base, (1, 1)), replaced.shape)
                return np.stack([replaced, others][:ranks], axis=-1)
            laid = np.array(np.broadcast_to(base, (len(some), *shape)))
            laid[np.arange(len(some)), :, some] = replaced
            return laid

        ends = {node: pack(base_ends[node], other_ends[node]) for node in needed}
        ends = _run(after, lambda node: pack(base[node], other[node]), ends)
        return np.broadcast_to(_step_times(graph, ends), (len(some), steps))

    size = steps * (2 if uniform else ranks)
    at_once = max(_BLOCK // size, 1)
    return np.concatenate(
        [of_some(np.arange(ranks)[first : first + at_once]) for first in range(0, ranks, at_once)]
    )


def replay_recorded(
    graph: Graph, durations: Durations, start: NDArray[Any], end: NDArray[Any], /
) -> Times:
    """Return the step times with the recorded delays: start minus the latest end waited for."""

    def begin(event: Event, ends: dict[int, Times]) -> Any:  # noqa: ANN401
        starts = []
        for node, before in zip(event.members, event.waits_for, strict=True):
            delay = start[node] - latest(end[other] for other in before)
            waited = latest(ends[other] for other in before)
            starts.append(waited + np.where(delay <= -NEGLIGIBLE_S, 0, delay))
        return _begin(event, starts)

    return _step_times(graph, _run(graph.events, durations.__getitem__, begin=begin))


def replay_timeline(
    graph: Graph, durations: Durations, shape: tuple[int, int, int], /
) -> tuple[Times, Times]:
    """Return begin and end of each operation over (operations, steps, ranks)."""
    begins, ends = np.zeros(shape), np.zeros(shape)
    for event in graph.events:
        begin = _after_all(event, ends)
        for node in event.members:
            begins[node] = begin
            ends[node] = begin + durations[node]
    return begins, ends


def transfer_durations(
    graph: Graph, operations: read.Operations, durations: NDArray[Any], /
) -> None:
    """Replace durations of transfers by their end minus the latest start of their group."""
    for event in graph.events:
        if operations.kind[event.members[0]] in read.TRANSFERS:
            begin = _begin(event, [operations.start[node] for node in event.members])
            for node in event.members:
                np.subtract(operations.end[node], begin, out=durations[node])
                durations[node][durations[node] <= -NEGLIGIBLE_S] = 0


def latest(arrays: Iterable[Any], /) -> Any:  # noqa: ANN401  of any dtype
    """Return the largest of arrays, element by element; 0 of none."""
    names = list(arrays)
    return reduce(np.maximum, names) if names else _ZERO


def _begin(event: Event, arrays: Iterable[Any]) -> Any:  # noqa: ANN401
    begin = latest(arrays)
    return begin.max(axis=-1, keepdims=True) if event.synchronized else begin


def _after_all(event: Event, ends: Any) -> Any:  # noqa: ANN401
    return _begin(event, [ends[other] for other in event.before])


def _run(
    events: Iterable[Event],
    duration_of: Callable[[int], Any],
    earlier: Mapping[int, Times] = MappingProxyType({}),
    *,
    begin: Callable[[Event, dict[int, Times]], Any] = _after_all,
    keep: Collection[int] = (),
) -> dict[int, Times]:
    """Return the ends of operations without those that no later event waits for, unless kept."""
    ends = dict(earlier)
    for event in events:
        begin_s = begin(event, ends)
        for node in event.members:
            ends[node] = begin_s + duration_of(node)
        for node in event.last_used:
            if node not in keep:
                ends.pop(node, None)
    return ends


def _step_times(graph: Graph, ends: dict[int, Times]) -> Times:
    return latest(ends[node] for node in graph.last).max(axis=-1)


def _joined(graph: Graph) -> set[int]:
    """Return the operations that may begin later because of another rank."""
    joined: set[int] = set()
    for event in graph.events:
        if (event.synchronized and event.before) or joined.intersection(event.before):
            joined |= set(event.members)
    return joined


@dataclass(frozen=True)
class Model:
    """Operations of a job, their graph, and own durations over (operations, steps, ranks)."""

    operations: read.Operations
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
        chosen = zip(ideal, self.ideal, self.own, strict=True)
        return [constant if is_ideal else duration for is_ideal, constant, duration in chosen]


IntoModel: TypeAlias = IntoFrame | Model  # operations, or a job of them that was prepared


def prepare(operations: IntoModel, /) -> Model:
    """Read the operations of one job, unless it was read before."""
    if isinstance(operations, Model):
        return operations
    operations_read, recorded = read.read_operations(operations)
    graph = build_graph(operations_read)
    transfer_durations(graph, operations_read, recorded)
    ideal = np.empty(len(operations_read.kind))
    for kind in np.unique(operations_read.kind):
        durations = recorded[operations_read.kind == kind]
        usual = (
            np.median(durations) if kind in read.COMMUNICATION else durations.mean(dtype=np.float64)
        )
        ideal[operations_read.kind == kind] = usual
    if not ideal[np.isin(operations_read.kind, read.COMPUTE)].any():
        raise DataError(
            f"operations: duration_s is 0 in all {' and '.join(read.COMPUTE)}; durations are needed"
        )
    return Model(operations_read, graph, recorded.astype(np.float64, copy=False), ideal)
