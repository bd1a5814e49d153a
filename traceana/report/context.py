"""What the sections of a report are built from, and how the page is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceana.catalog import get_trace
from traceana.report.blocks import Absent
from traceana.store.session import Session

if TYPE_CHECKING:
    from traceana.report.origin import Origin


@dataclass(frozen=True)
class Context(Session):
    """A session with what the page states and which figures it draws.

    Attributes
    ----------
    origin
        Where the store is from.
    date
        The date to show, if any.
    figures
        Ids of the figures to draw; None draws all.
    formats
        Formats besides SVG in which they are drawn: pdf, png.
    """

    origin: Origin = field(kw_only=True)
    date: str | None = None
    figures: frozenset[str] | None = None
    formats: tuple[str, ...] = ()

    def title(self, trace: str | None, /) -> str:
        """Return the title of a trace, in the store or not."""
        known = trace is None or trace in self.ledgers
        return super().title(trace) if known else get_trace(str(trace)).title

    def absent(self, trace: str, table: str, /, *, what: str) -> Absent:
        """Return which table is missing, and the commands that add it."""
        return Absent(
            f"{what}: table `{table}` of {get_trace(trace).title} is not in the store.",
            (
                f"traceana fetch {trace} --to files/{trace}",
                f"traceana ingest files/{trace} {self.origin.option}",
            ),
        )
