"""What a section of the report is, and which traces it is built over.

A section answers one `question` in one `part` of the page. Its builder returns a
:class:`~traceana.page.blocks.Content`: findings, a lead (one or two figures and one compact
table that show them), limitations, and further blocks, which the page puts into a closed fold.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from traceana.catalog import load_catalog
from traceana.errors import DataError
from traceana.modules import import_named
from traceana.page.blocks import Absent, Content, arrange

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.catalog.model import CatalogEntry
    from traceana.page.blocks import Drawing
    from traceana.page.context import Context

Needs = Mapping[str, tuple[str, ...]]
"""Tables, and the columns of each in which a trace must have values."""


_GROUP: Final = "traceana.sections"
PARTS: Final = (
    "Reproduction of published claims",
    "Workload",
    "Runtimes",
    "Failures",
    "Utilization",
    "Stragglers",
    "Energy",
    "Deadlines and simulations",
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
    """Returns the content: of a session and the traces that qualify, or of the session alone if
    nothing is needed."""
    needs: tuple[Needs, ...] = ()
    """Alternatives: a trace qualifies if it has the tables and columns of one of them."""
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
    more: Callable[[Context, list[str]], list[Drawing]] | None = field(default=None, repr=False)
    """Returns drawings that the page has not, for ``traceana figures``."""

    def traces(self, context: Context, /) -> list[str]:
        """Return the traces in the store that qualify, in alphabetical order."""
        found = (
            set.intersection(
                *(
                    set(context.store.traces(table=table, columns=columns))
                    for table, columns in needs.items()
                )
            )
            for needs in self.needs
        )
        return sorted(set[str]().union(*found))

    def content(self, context: Context, /) -> Content:
        """Build the section; one block states what other traces would need."""
        if not self.needs:
            built = self.build(context)
            return built if self.part == PARTS[-1] else arrange(built)
        traces = self.traces(context)
        built = self._built(context, traces)
        absent = self._absent(context, traces)
        arranged = arrange(built)
        return replace(arranged, blocks=(*arranged.blocks, *absent))

    def _built(self, context: Context, traces: list[str]) -> Content:
        """Build the section without traces that it cannot be computed for; say why."""
        try:
            return self.build(context, traces) if traces or self.always else Content()
        except DataError as error:
            failed = {traces[0]: error} if len(traces) == 1 else {}
        for trace in traces if not failed else ():
            try:
                self.build(context, [trace])
            except DataError as error:
                failed[trace] = error
        rest = [trace for trace in traces if trace not in failed]
        built = self.build(context, rest) if rest or self.always else Content()
        why = tuple(f"{context.title(trace)}: not computed: {failed[trace]}." for trace in failed)
        return replace(built, findings=(*built.findings, *why))

    def _absent(self, context: Context, traces: list[str]) -> tuple[Absent, ...]:
        missing = [
            trace.id
            for trace in load_catalog().values()
            if trace.id not in traces and any(_could_qualify(trace, needs) for needs in self.needs)
        ]
        if traces and not missing:
            return ()
        needed = " or ".join(
            " and ".join(
                f"`{table}`" + (f" ({', '.join(columns)})" if columns else "")
                for table, columns in needs.items()
            )
            for needs in self.needs
        )
        titles = "; ".join(load_catalog()[trace].title for trace in missing)
        public = f" Public traces not shown: {titles}." if titles else ""
        return (
            Absent(
                f"Traces with values in {needed} appear here.{public}",
                tuple(line for trace in missing for line in context.data_source.commands(trace)),
            ),
        )


def _could_qualify(trace: CatalogEntry, needs: Needs) -> bool:
    """Return whether a public trace's mapping states the columns; times follow from each other."""
    mapped = tomllib.loads(trace.text)
    return all(
        table in trace.tables
        and {*columns} - {"start_s", "end_s", "runtime_s"} <= {*mapped.get(table, columns)}
        for table, columns in needs.items()
    )


@cache
def sections() -> tuple[Section, ...]:
    """Return the sections in their order: SECTION of each module named ``section*.py``.

    Other packages add sections by entry points of the group ``traceana.sections``. Raises a
    DataError if another package's section cannot be loaded.
    """
    modules = import_named("questions/*/section*.py", "claims/section*.py", "report/section*.py")
    found = [module.SECTION for module in modules if hasattr(module, "SECTION")]
    for point in entry_points(group=_GROUP):
        try:
            section = point.load()
        except Exception as error:
            raise DataError(f"section {point.name} ({point.value}): not loaded: {error}") from error
        if not isinstance(section, Section) or section.part not in PARTS:
            parts = ", ".join(PARTS)
            raise DataError(
                f"section {point.name} ({point.value}): it is not a traceana Section of {parts}"
            )
        found.append(section)
    return tuple(sorted(found, key=lambda one: (PARTS.index(one.part), one.order)))
