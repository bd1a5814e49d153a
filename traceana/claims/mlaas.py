"""MLaaS in the Wild (NSDI'22): Alibaba's PAI trace."""

from __future__ import annotations

from traceana.claims.undecided import more_gpus, undecided

__all__ = ["more_gpus", "undecided"]
