"""The papers whose statements are judged. A new one is one file and one line here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from traceana.claims.claim import Claim


@dataclass(frozen=True)
class Paper:
    """A paper, or the publisher's description of a trace.

    Attributes
    ----------
    title
        What it is called.
    holds
        Its claims in order, or the name of the file of this folder that has them as CLAIMS: it is
        imported, and all analyses with it, when the claims are asked for.
    """

    title: str
    holds: tuple[Claim, ...] | str

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Its claims, in order."""
        if not isinstance(self.holds, str):
            return self.holds
        claims: tuple[Claim, ...] = import_module(f"traceana.claims.{self.holds}").CLAIMS
        return claims


PAPERS: Final[dict[str, Paper]] = {
    "antman-minibatch": Paper("AntMan (OSDI'20)", "antman_minibatch"),
    "pai": Paper("Alibaba PAI (NSDI'22), analysis of its tasks, and openb (ATC'23)", "pai"),
    "zeus": Paper("Zeus (NSDI'23)", "zeus"),
    "itp-elasticflow": Paper("Microsoft ITP and ElasticFlow (ASPLOS'23)", "itp_elasticflow"),
    "dynamic-batching": Paper("Dynamic batching (ACSOS'20)", "dynamic_batching"),
}
"""By the name that ``--paper`` takes."""
