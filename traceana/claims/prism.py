"""Prism: services of disaggregated GPUs, cluster-trace-gpu-v2025 of alibaba/clusterdata."""

from __future__ import annotations

from traceana.claims.undecided import undecided

__all__ = ["undecided"]
