"""Acme (NSDI'24): clusters Seren and Kalos."""

from __future__ import annotations

from traceana.claims.undecided import contradicts

__all__ = ["contradicts"]
