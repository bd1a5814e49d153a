"""The papers whose statements are judged. A new one is one file and one line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceana.claims import antman_minibatch, dynamic_batching, itp_elasticflow, pai, zeus

if TYPE_CHECKING:
    from traceana.claims.claim import Claim


@dataclass(frozen=True)
class Paper:
    """A paper, or the publisher's description of a trace: its title, and its claims in order."""

    title: str
    claims: tuple[Claim, ...]


PAPERS: Final[dict[str, Paper]] = {
    "antman-minibatch": Paper("AntMan (OSDI'20)", antman_minibatch.CLAIMS),
    "pai": Paper("Alibaba PAI (NSDI'22), analysis of its tasks, and openb (ATC'23)", pai.CLAIMS),
    "zeus": Paper("Zeus (NSDI'23)", zeus.CLAIMS),
    "itp-elasticflow": Paper("Microsoft ITP and ElasticFlow (ASPLOS'23)", itp_elasticflow.CLAIMS),
    "dynamic-batching": Paper("Dynamic batching (ACSOS'20)", dynamic_batching.CLAIMS),
}
"""By the name that ``--paper`` takes."""
