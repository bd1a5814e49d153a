"""What the sections of a report are built from, and how the page is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceana.store.session import Session

if TYPE_CHECKING:
    from traceana.report.data_source import DataSource


@dataclass(frozen=True)
class Context(Session):
    """A session with what the page states."""

    data_source: DataSource = field(kw_only=True)
    """Where the store is from."""
    date: str | None = None
    """The date to show, if any."""
