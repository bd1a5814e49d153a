"""What the sections of a report are built from, and how the page is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
