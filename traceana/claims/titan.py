"""Titan: reliability of its GPUs (SC'20)."""

from __future__ import annotations

from traceana.claims.undecided import undecided

__all__ = ["undecided"]
