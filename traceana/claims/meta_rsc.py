"""Mean times to failure that Meta projects for its Research SuperCluster (HPCA'25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from traceana.claims.claim import Claim
    from traceana.store import Store

_GPUS_PER_NODE: Final = 8


def mean_time_to_failure(_store: Store, claim: Claim) -> float:
    """Return 1 / (r N) in hours."""
    nodes = claim.values["gpus"] / _GPUS_PER_NODE
    hours: float = 24 * 1000 / (claim.values["rate"] * nodes)
    return hours
