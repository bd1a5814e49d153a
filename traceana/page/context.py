"""What the sections of a report are built from, and how the page is made."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceana.store.session import Session

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class DataSource:
    """Path of a store, and whether the synthetic sample replaces it.

    Attributes
    ----------
    path
        The folder given, else TRACEANA_STORE, else ``data``.
    is_sample
        Whether the synthetic sample is used, since there is no ledger.

    Examples
    --------
    >>> from pathlib import Path
    >>> from traceana.report import DataSource
    >>> DataSource(Path("data"), is_sample=True).is_sample
    True
    """

    path: Path
    is_sample: bool

    @property
    def option(self) -> str:
        """The path as an option of the command line, quoted where it must be."""
        return f"--store {shlex.quote(str(self.path))}"

    def commands(self, trace: str, /) -> tuple[str, str]:
        """Return the commands that download a public trace and ingest it."""
        return (
            f"traceana fetch {trace} --to files/{trace}",
            f"traceana ingest files/{trace} {self.option}",
        )

    @property
    def notice(self) -> str:
        """One sentence on what was not found and how to ingest."""
        return (
            f"nothing is ingested under {self.path}, so the SYNTHETIC sample is used; for real "
            f"files: traceana ingest PATH {self.option}"
        )


@dataclass(frozen=True)
class Context(Session):
    """A session with what the page states."""

    data_source: DataSource = field(kw_only=True)
    """Where the store is from."""
    date: str | None = None
    """The date to show, if any."""
