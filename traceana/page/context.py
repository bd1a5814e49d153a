"""What the sections of a report are built from, and how the page is made."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from traceana.errors import DataError

if TYPE_CHECKING:
    from traceana.store import Ledger, Store, Trace


@dataclass(frozen=True)
class DataSource:
    """Path of a store, and whether the synthetic sample replaces it.

    Attributes
    ----------
    path
        The folder given, else TRACEANA_STORE, else ``data``.
    is_sample
        Whether the synthetic sample is used, since there is no ledger.
    command
        The command that made a temporary store, which the page names instead of it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from traceana.report import DataSource
    >>> DataSource(Path("data"), is_sample=True).is_sample
    True
    """

    path: Path
    is_sample: bool
    command: str | None = None

    @property
    def reproduction(self) -> str:
        """The command that makes the page again; folders would tell of the machine."""
        text = self.command or f"traceana report {self.option}"
        for word in shlex.split(text):
            path = Path(word.partition("=")[2] or word)
            if path.is_absolute() and path.name:
                text = text.replace(str(path), path.name)
        return text

    @property
    def noun(self) -> str:
        """What is read first."""
        return "synthetic sample" if self.is_sample else "ledgers"

    @property
    def option(self) -> str:
        """The path as an option of the command line, quoted where it must be."""
        return f"--store {shlex.quote(str(self.path))}"

    @property
    def notice(self) -> str:
        """One sentence on what was not found and how to ingest."""
        return (
            f"nothing is ingested under {self.path}, so the SYNTHETIC sample is used; for real "
            f"files: traceana ingest PATH {self.option}"
        )


@dataclass(frozen=True)
class Context:
    """An open store with what the page states."""

    store: Store
    """The store."""
    data_source: DataSource
    """Where the store is from."""
    date: str | None = None
    """The date to show, if any."""

    @cached_property
    def traces(self) -> tuple[Trace, ...]:
        """The traces in the store, in alphabetical order of their ids."""
        return tuple(self.store.trace(trace) for trace in self.store.traces())

    @property
    def ledgers(self) -> dict[str, Ledger]:
        """Ledger of each trace, by its id."""
        return {trace.id: trace.ledger for trace in self.traces}

    def label(self, trace: str | None, /) -> str:
        """Return the title of a trace, marked if its rows are synthetic."""
        return "Simulated, without a trace" if trace is None else self.store.trace(trace).label

    def synthetic(self, trace: str | None, /) -> bool:
        """Return whether a trace has synthetic rows; None: whether all traces have."""
        if trace is None:
            return all(one.synthetic for one in self.traces)
        return self.store.trace(trace).synthetic

    def check_unchanged(self) -> None:
        """Check that the traces are as they were when the store was opened."""
        for trace in self.traces:
            trace.check_unchanged()


def read_date() -> str | None:
    """Return the date in SOURCE_DATE_EPOCH, if it is set."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return None
    try:
        return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        raise DataError(
            f"SOURCE_DATE_EPOCH is {epoch!r}; it must be whole seconds since 1970"
        ) from None
