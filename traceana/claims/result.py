"""Verdicts on published claims."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from traceana.claims.claim import VERDICTS
from traceana.results.base import Result
from traceana.results.claims import ClaimVerdicts

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, repr=False)
class ClaimResults(Result):
    """What :func:`check_claims` found.

    Attributes
    ----------
    table
        One row per claim, with the columns of :class:`~traceana.results.claims.ClaimVerdicts`.
    evidence
        Rows behind a verdict, by claim.
    altered
        Files, as ``trace/file``, whose sha256 differs from that of the published file.
    """

    tables = MappingProxyType({"table": ClaimVerdicts})

    table: pl.DataFrame
    evidence: dict[str, pl.DataFrame]
    altered: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many claims have each verdict, every verdict named."""
        return {verdict: self.table.filter(verdict=verdict).height for verdict in VERDICTS}

    @property
    def headline(self) -> str:
        """The counts in a line."""
        told = ", ".join(f"{number} {verdict}" for verdict, number in self.counts.items())
        number = self.table.height
        return f"{number} claim{'' if number == 1 else 's'}: {told}"

    def summary(self) -> str:
        """Return a short text on the result."""
        differs = self.table.filter(verdict="differs").iter_rows(named=True)
        lines = [self.headline]
        lines += [f"{row['id']}: {row['published']}; measured {row['measured']}" for row in differs]
        lines += [f"not as published: {name}" for name in self.altered]
        return "\n".join(lines)
