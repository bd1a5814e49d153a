"""A section of the report, which traces it is built over, and what it is built from."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.modules import import_named, load_entry_points
from traceana.page.blocks import Content, Drawing

if TYPE_CHECKING:
    from traceana.store import Ledger, Store, Trace


@dataclass(frozen=True)
class DataSource:
    """Path of a store, and whether the synthetic sample replaces it."""

    path: Path
    """The folder given, else TRACEANA_STORE, else ``data``."""
    is_sample: bool
    """Whether the synthetic sample is used, since there is no ledger."""
    command: str | None = None
    """The command that made a temporary store, which the page names instead of it."""

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
            return all(shown.synthetic for shown in self.traces)
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


Needs = Mapping[str, tuple[str, ...]]
"""Tables, and the columns of each in which a trace must have values."""


_GROUP: Final = "traceana.sections"
SIMULATED: Final = "Simulations"
PARTS: Final = (
    "Reproduction of published claims",
    "Workload",
    "Runtimes",
    "Failures",
    "Utilization",
    "Stragglers",
    "Energy",
    SIMULATED,
    "Appendix",
)
"""Parts of the page after its summary, in their order."""


@dataclass(frozen=True)
class Section:
    """A section of the report."""

    id: str
    title: str
    """Its name in addresses, and its heading."""
    order: int
    """Order within a part."""
    build: Callable[..., Content] = field(repr=False)
    """Returns the content: of the traces that qualify, or of the whole context if nothing is
    needed."""
    needs: tuple[Needs, ...] = ()
    """Alternatives: a trace qualifies if it has the tables and columns of one of them."""
    unless: Needs = field(default_factory=dict)
    """A trace that has these tables and columns does not qualify; empty: none."""
    figures: tuple[str, ...] = ()
    """Ids of the figures that the section draws."""
    shares: str = ""
    """The frame of one row per task that it needs, "cohort" or "times": one process builds all the
    sections that share a frame."""
    part: str = "Appendix"
    """One of :data:`PARTS`."""
    question: str = ""
    """What the section answers, in one line below its heading."""
    more: Callable[[Sequence[Trace]], list[Drawing]] | None = field(default=None, repr=False)
    """Returns drawings that the page has not, for ``traceana figures``."""

    def traces(self, context: Context, /) -> list[Trace]:
        """Return the traces in the store that qualify, in alphabetical order."""

        def has(trace: Trace, needs: Needs) -> bool:
            return all(trace.has(table, columns) for table, columns in needs.items())

        return [
            trace
            for trace in context.traces
            if any(has(trace, needs) for needs in self.needs)
            and not (self.unless and has(trace, self.unless))
        ]

    @property
    def needed(self) -> str:
        """Tables, and columns of each, that a trace must have values in."""
        return " or ".join(
            " and ".join(
                f"`{table}`" + (f" ({', '.join(columns)})" if columns else "")
                for table, columns in needs.items()
            )
            for needs in self.needs
        )


@cache
def sections() -> tuple[Section, ...]:
    """Return the sections of the modules named ``section*.py`` and of other packages, in order."""
    modules = import_named("questions/*/section*.py", "claims/section*.py", "report/section*.py")
    every = [part for module in modules for part in vars(module).values() if type(part) is Section]
    for where, _, section in load_entry_points(_GROUP, "section"):
        if not isinstance(section, Section) or section.part not in PARTS:
            raise DataError(f"{where}: it is not a traceana Section of {', '.join(PARTS)}")
        every.append(section)
    return tuple(sorted(every, key=lambda part: (PARTS.index(part.part), part.order)))
