"""What a section of the report is, and which traces it is built over.

A section answers one `question` in one `part` of the page. Its builder returns a
:class:`~traceana.page.blocks.Content`: findings, a lead (one or two figures and one compact
table that show them), limitations, and further blocks, which the page shows under "Details".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from traceana.errors import DataError
from traceana.modules import import_named, load_entry_points
from traceana.page.blocks import Content, Drawing

if TYPE_CHECKING:
    from traceana.page.context import Context
    from traceana.store import Trace

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
    always: bool = False
    """Whether it has content without a trace that qualifies."""
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
    """Return the sections in their order: every one in the modules named ``section*.py``.

    Other packages add sections by entry points of the group ``traceana.sections``. Raises a
    DataError if another package's section cannot be loaded.
    """
    modules = import_named("questions/*/section*.py", "claims/section*.py", "report/section*.py")
    found = [one for module in modules for one in vars(module).values() if type(one) is Section]
    for where, _, section in load_entry_points(_GROUP, "section"):
        if not isinstance(section, Section) or section.part not in PARTS:
            raise DataError(f"{where}: it is not a traceana Section of {', '.join(PARTS)}")
        found.append(section)
    return tuple(sorted(found, key=lambda one: (PARTS.index(one.part), one.order)))
