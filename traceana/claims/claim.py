"""What a claim is, what a judge finds, and the verdicts on all claims."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from traceana.results.base import Result
from traceana.results.claims import ClaimVerdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from traceana.store.session import Session

VERDICTS: Final = ("reproduced", "differs", "untested", "not testable")
"""Equal to the precision printed; not so; its tables are not at hand; no public data decides it."""


@dataclass(frozen=True, repr=False)
class Judgement(Result):
    """What a judge found.

    Attributes
    ----------
    verdict
        One of :data:`VERDICTS`.
    measured
        What was measured, as text; None where nothing was.
    note
        The reason for the verdict, in a sentence.
    evidence
        The rows behind it, few enough to be shown; None where the measured text says it all.
    """

    verdict: str
    measured: str | None
    note: str
    evidence: pl.DataFrame | None = None


@dataclass(frozen=True)
class Claim:
    """A published statement, and the function that judges it.

    Attributes
    ----------
    id, paper
        Its name, and the name of its paper in :data:`traceana.claims.PAPERS`.
    statement, published
        What was said, and the value that is compared, as printed. Nothing else is typed in:
        what is measured is computed.
    needs
        The tables, as (trace, table), that it is judged from; empty where the statement is judged
        by itself. Where one is not in the store, has no row, is synthetic or lacks a file of its
        publisher's, the claim is untested and its judge is not called.
    judge
        Takes the :class:`~traceana.claims.Data` and returns a :class:`Judgement`.
    function
        The public functions that measure it.
    every_file
        False where some of the publisher's files of a table are enough.
    """

    id: str
    paper: str
    statement: str
    published: str
    needs: tuple[tuple[str, str], ...]
    judge: Callable[[Session], Judgement]
    function: str = "Store.scan"
    every_file: bool = True


def decide(
    *, holds: bool, measured: str, note: str, evidence: pl.DataFrame | None = None
) -> Judgement:
    """Return ``reproduced`` where the statement holds, else ``differs``."""
    return Judgement("reproduced" if holds else "differs", measured, note, evidence)


def untested(note: str, /) -> Judgement:
    """Return ``untested``: what the claim needs is not there."""
    return Judgement("untested", None, note)


def not_testable(measured: str, note: str, *, evidence: pl.DataFrame | None = None) -> Judgement:
    """Return ``not testable``: what can be measured, and why it decides nothing."""
    return Judgement("not testable", measured, note, evidence)


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
