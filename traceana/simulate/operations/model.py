"""A training job ready to be replayed: graph, own durations and ideal durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceana.errors import DataError
from traceana.simulate.operations.graph import Graph, build_graph
from traceana.simulate.operations.kinds import COMMUNICATION, COMPUTE
from traceana.simulate.operations.read import Operations, read_operations
from traceana.simulate.operations.run import Durations, transfer_durations
from traceana.stats.arrays import Floats

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray


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
