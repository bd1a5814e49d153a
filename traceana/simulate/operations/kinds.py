"""Kinds of operation, and what the replay does with each."""

from __future__ import annotations

from typing import Final

FORWARD: Final = "forward-compute"
BACKWARD: Final = "backward-compute"
COMPUTE: Final = (FORWARD, BACKWARD)
"""Kinds that a worker runs one after another."""

POINT_TO_POINT: Final = ("forward-send", "forward-recv", "backward-send", "backward-recv")
"""Transfers between neighboring stages; each kind is a stream of its own."""

ALL_GATHER: Final = "params-all-gather"
REDUCE_SCATTER: Final = "grads-reduce-scatter"
ALL_REDUCE: Final = "separate-grads-all-reduce"
DATA_PARALLEL: Final = (ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE)
"""Collectives of the data-parallel ranks of a stage."""

LAYERNORM: Final = "layernorm-grads-all-reduce"
EMBEDDING: Final = "embedding-grads-all-reduce"
CLIP: Final = "optimizer-clip-main-grad"
OPTIMIZER: Final = "optimizer"
GARBAGE: Final = "gc"

KINDS: Final = (
    *COMPUTE,
    *POINT_TO_POINT,
    *DATA_PARALLEL,
    LAYERNORM,
    EMBEDDING,
    CLIP,
    OPTIMIZER,
    GARBAGE,
)
"""All kinds of operation."""

SYNCHRONIZED: Final = frozenset({*DATA_PARALLEL, CLIP})
"""Kinds that start together on all data-parallel ranks."""

TRANSFERS: Final = frozenset({*POINT_TO_POINT, *DATA_PARALLEL, EMBEDDING, CLIP})
"""Kinds that wait for other workers: only the time after the last start is their own."""

COMMUNICATION: Final = TRANSFERS | {LAYERNORM}
"""Kinds whose ideal duration is the median; that of all others is the mean."""

MERGED: Final = {kind: f"{kind.split('-')[0]}-pp-comm" for kind in POINT_TO_POINT}
"""Sends and receives of a direction count as one kind in a decomposition."""
