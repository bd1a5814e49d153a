"""The papers whose statements are judged. A new one is one file and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceana.claims import antman_minibatch, dynamic_batching, itp_elasticflow, pai, zeus

if TYPE_CHECKING:
    from traceana.claims.claim import Claim

PAPERS: Final[dict[str, tuple[Claim, ...]]] = {
    "antman-minibatch": antman_minibatch.CLAIMS,
    "pai": pai.CLAIMS,
    "zeus": zeus.CLAIMS,
    "itp-elasticflow": itp_elasticflow.CLAIMS,
    "dynamic-batching": dynamic_batching.CLAIMS,
}
"""By name of the paper, its claims."""
