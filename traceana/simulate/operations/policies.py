"""What-ifs of a replayed job: which operations get which durations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.simulate.operations.read import COMMUNICATION, COMPUTE, POINT_TO_POINT, Operations
from traceana.simulate.operations.run import Durations, Graph, Model, build_graph

Values: TypeAlias = str | int | Sequence[str] | Sequence[int] | None
"""One value of a grouping or several; None is all."""

GROUPINGS: Final = ("kind", "stage", "dp_rank", "worker", "step")
"""What operations can be grouped by."""
_SETS: Final[dict[str, frozenset[str]]] = {
    "compute": frozenset(COMPUTE),
    "communication": COMMUNICATION,
    "forward-pp-comm": frozenset(POINT_TO_POINT[:2]),
    "backward-pp-comm": frozenset(POINT_TO_POINT[2:]),
}
"""Names of several kinds."""


class Policy(Protocol):
    """Durations of a what-if."""

    def plan(self, model: Model, /) -> tuple[Graph, Durations]:
        """Return a graph and the own duration of each of its operations."""


@dataclass(frozen=True)
class Group:
    """Operations chosen by their kind, stage, data-parallel rank, worker and step."""

    _: KW_ONLY
    kind: Values = None
    stage: Values = None
    dp_rank: Values = None
    worker: Values = None
    step: Values = None

    def marks(self, model: Model, /) -> list[NDArray[np.bool_]]:
        """Return which operations are chosen: an array over (steps, ranks) for each."""
        operations = model.operations
        kinds = None if self.kind is None else _listed(self.kind)
        if kinds and not set(_SETS).isdisjoint(kinds):  # no job has all kinds of communication
            several = sorted({kind for name in kinds for kind in _SETS.get(name, {name})})
            kinds = [kind for kind in several if kind in operations.kind] or several
        of_kind = _among("kind", kinds, operations.kind)
        nodes = of_kind & _among("stage", self.stage, operations.stage)
        steps = _among("step", self.step, operations.steps)[:, None]
        workers = _among("worker", self.worker, operations.workers)
        pairs = workers & _among("dp_rank", self.dp_rank, operations.dp_ranks)
        nothing = np.zeros((1, 1), dtype=bool)
        return [
            steps & pairs[stage] if chosen else nothing
            for chosen, stage in zip(nodes, operations.stage, strict=True)
        ]

    def mix(
        self, model: Model, of_group: Iterable[Any], others: Iterable[Any], /
    ) -> tuple[Graph, Durations]:
        """Return the graph of the job, and durations of the group and of the others."""
        durations = zip(self.marks(model), of_group, others, strict=True)
        return model.graph, [np.where(mark, a, b) if mark.any() else b for mark, a, b in durations]

    def __str__(self) -> str:
        chosen = {name: getattr(self, name) for name in GROUPINGS}
        listed = (f"{name} {value}" for name, value in chosen.items() if value is not None)
        return ", ".join(listed) or "all operations"


@dataclass(frozen=True)
class Ideal(Group):
    """A group has ideal durations, and everything else is as it was.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import Ideal
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> print(traceana.replay_operations(operations, ideal=Ideal(stage=2)))
    job SYNTHETIC-job: 5 steps of 2.276 s; stage 2 ideal: 1.811 s (slowdown 1.257)
    ...
    """

    def plan(self, model: Model, /) -> tuple[Graph, Durations]:
        """Return the graph of the job and its durations."""
        return self.mix(model, model.ideal, model.own)

    def __str__(self) -> str:
        return f"{super().__str__()} ideal"


@dataclass(frozen=True)
class AsMeasured(Group):
    """A group is as it was, and everything else has ideal durations.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import AsMeasured
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> print(traceana.replay_operations(operations, ideal=AsMeasured(worker="5")))
    job SYNTHETIC-job: 5 steps of 2.276 s; everything ideal but worker 5: 2.31 s (slowdown 0.985)
    ...
    """

    def plan(self, model: Model, /) -> tuple[Graph, Durations]:
        """Return the graph of the job and its durations."""
        return self.mix(model, model.own, model.ideal)

    def __str__(self) -> str:
        return f"everything ideal but {super().__str__()}"


@dataclass(frozen=True)
class Scaled(Group):
    """The durations of a group are multiplied by a factor, and everything else is as it was.

    ``Scaled(0.9, stage=3)``: stage 3 takes 10 % less time. ``Scaled(0.5, kind="communication")``:
    the network is twice as fast.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import Scaled
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> print(traceana.replay_operations(operations, ideal=Scaled(0.5, worker="5")))
    job SYNTHETIC-job: 5 steps of 2.276 s; worker 5 x 0.5: 1.76 s (slowdown 1.293)
    ...
    """

    factor: float

    def __post_init__(self) -> None:
        if not (isinstance(self.factor, int | float) and 0 <= self.factor < float("inf")):
            raise DataError(f"factor must be a number of 0 or more; it is {self.factor!r}")

    def plan(self, model: Model, /) -> tuple[Graph, Durations]:
        """Return the graph of the job and its durations."""
        return self.mix(model, (duration * self.factor for duration in model.own), model.own)

    def __str__(self) -> str:
        return f"{super().__str__()} x {self.factor:g}"


@dataclass(frozen=True)
class BalancedStages:
    """All stages take the same time for a micro-batch: layers are split evenly over them.

    The k-th forward (backward) computation of each stage takes the mean of the stages.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import BalancedStages
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> print(traceana.replay_operations(operations, ideal=BalancedStages()))
    job SYNTHETIC-job: 5 steps of 2.276 s; stages balanced: 1.969 s (slowdown 1.156)
    ...
    """

    def plan(self, model: Model, /) -> tuple[Graph, Durations]:
        """Return the graph of the job and its durations.

        Raises a DataError if stages differ in their number of computations.
        """
        operations = model.operations
        durations = list(model.own)
        for kind in COMPUTE:
            stages = [_of(operations, kind, stage) for stage in range(operations.stages)]
            if len({len(nodes) for nodes in stages}) > 1:
                raise DataError(f"operations: stages differ in their number of {kind}")
            for peers in zip(*stages, strict=True):
                mean = model.own[list(peers)].mean(axis=0)
                for node in peers:
                    durations[node] = mean
        return model.graph, durations

    def __str__(self) -> str:
        return "stages balanced"


@dataclass(frozen=True)
class MicroBatches:
    """The same batch is split into another number of micro-batches, in the 1F1B schedule.

    Computation and transfers of a micro-batch take the mean of those recorded (by stage, step and
    rank), times the recorded number over the new one. All else is as it was.

    Examples
    --------
    >>> import traceana
    >>> from traceana.simulate import MicroBatches
    >>> operations = traceana.open_sample().scan("bytedance-stragglers-2025", "operations")
    >>> print(traceana.replay_operations(operations, ideal=MicroBatches(16)))
    job SYNTHETIC-job: 5 steps of 2.276 s; 16 micro-batches: 2.078 s (slowdown 1.095)
    ...
    """

    number: int

    def __post_init__(self) -> None:
        if not (isinstance(self.number, int) and 1 <= self.number <= 10_000):
            raise DataError(
                f"the number of micro-batches must be from 1 to 10,000; it is {self.number!r}"
            )

    def plan(self, model: Model, /) -> tuple[Graph, Durations]:
        """Return the graph of the new schedule and its durations.

        Raises a DataError if a stage has several chunks of the model.
        """
        operations = model.operations
        if max(operations.chunk.max(), 0) > 0:
            raise DataError(
                "operations: another number of micro-batches needs one chunk of the model per "
                f"stage; there are {operations.chunk.max() + 1}"
            )
        recorded = len(_of(operations, COMPUTE[0], 0))
        parts = {*COMPUTE, *POINT_TO_POINT}
        names = (operations.kind, operations.stage, operations.sequence, operations.start[:, 0, 0])
        recorded_rows = zip(*(column.tolist() for column in names), model.own, strict=True)
        rows = [row for row in recorded_rows if row[0] not in parts]
        for stage in range(operations.stages):
            for kind, sequence, start in _one_forward_one_backward(self.number, stage, operations):
                if nodes := _of(operations, kind, stage):
                    mean_s = model.own[nodes].mean(axis=0)
                    rows.append((kind, stage, sequence, start, mean_s * (recorded / self.number)))
        rows.sort(key=lambda row: row[:3])
        *columns, durations = zip(*rows, strict=True)
        kinds, stages, sequences, starts = map(np.array, columns)
        nothing = np.full(len(rows), -1)
        new = replace(
            operations,
            kind=kinds,
            stage=stages,
            sequence=sequences,
            chunk=nothing,
            global_chunk=nothing,
            start=starts[:, None, None],
            end=starts[:, None, None],
        )
        return build_graph(new), durations

    def __str__(self) -> str:
        return f"{self.number} micro-batches"


def as_policy(ideal: Policy | Mapping[str, Any] | None, /) -> Policy:
    """Return a policy; a mapping is the group that is ideal, and None is everything."""
    if ideal is None:
        return Ideal()
    if isinstance(ideal, Mapping):
        if ideal and set(ideal) <= set(GROUPINGS):
            return Ideal(**ideal)
    elif callable(getattr(ideal, "plan", None)):
        return ideal
    raise DataError(
        f'ideal must be None, a policy, or a mapping such as {{"stage": 3}} with keys of '
        f"{', '.join(GROUPINGS)}; it is {ideal!r}"
    )


def _listed(values: Values) -> list[Any]:
    return [values] if isinstance(values, str | int | np.integer) else list(values or ())


def _among(name: str, values: Values, present: NDArray[Any]) -> NDArray[np.bool_]:
    if values is None:
        return np.ones(present.shape, dtype=bool)
    names = present.astype(str)
    if unknown := [value for value in _listed(values) if str(value) not in names]:
        listed = ", ".join(map(str, np.unique(present)[:20]))
        raise DataError(f"operations: no {name} is {unknown[0]!r}; found {listed}")
    return np.isin(names, [str(value) for value in _listed(values)])


def _of(operations: Operations, kind: str, stage: int) -> list[int]:
    return np.flatnonzero((operations.kind == kind) & (operations.stage == stage)).tolist()


def _one_forward_one_backward(
    n: int, stage: int, operations: Operations
) -> list[tuple[str, int, float]]:
    """Return kind, sequence number and place in the order of a stage's operations."""
    last = operations.stages - 1
    early = min(last - stage, n)
    order = [("forward", place) for place in range(early)]
    for place in range(n - early):
        order += [("forward", early + place), ("backward", place)]
    order += [("backward", place) for place in range(n - early, n)]
    listed = []
    for at, (direction, place) in enumerate(order):
        first, final = (0, last) if direction == "forward" else (last, 0)
        if stage != first:
            listed.append((f"{direction}-recv", place, at - 0.25))
        listed.append((f"{direction}-compute", place, float(at)))
        if stage != final:
            listed.append((f"{direction}-send", place, at + 0.25))
    return listed
