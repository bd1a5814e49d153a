"""Sections in, one self-contained page out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import jinja2
from markupsafe import Markup, escape

from traceana.page.blocks import Absent, Content, Gallery, Heading, Table
from traceana.page.section import PARTS
from traceana.tables.formatting import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.page.blocks import Block, Picture
    from traceana.page.context import Context
    from traceana.page.section import Section

_MAX_RESULTS: Final = 6
_MAX_ROWS: Final = 12
_MAX_COLUMNS: Final = 9
_VIEW_BOX: Final = re.compile(r'viewBox="([^"]+)"')
_CODE: Final = re.compile(r"`([^`]+)`")
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|s|kB|MB|GB)(?!\w))")
_ADDRESS: Final = re.compile(r"https?://[^\s<>]+")


@dataclass(frozen=True)
class Built:
    """A section with its content."""

    section: Section
    content: Content

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks, in the order of the page."""
        return self.content.all_blocks

    @property
    def pictures(self) -> list[Picture]:
        """Its figures, in order."""
        galleries = (block for block in self.blocks if isinstance(block, Gallery))
        return [picture for gallery in galleries for picture in gallery.drawn]

    @property
    def headline(self) -> str:
        """Its most important result."""
        return self.content.headline or next(iter(self.content.findings), "")

    @property
    def is_absent(self) -> bool:
        """Whether the store has no data for it."""
        return all(isinstance(block, Absent) for block in self.blocks)

    @property
    def extent(self) -> str:
        """How many figures and tables are in the fold."""
        fold = Built(self.section, Content(blocks=self.content.blocks))
        numbers = {
            "figure": len(fold.pictures),
            "table": sum(isinstance(block, Table) for block in fold.blocks),
        }
        return ", ".join(plural(number, noun) for noun, number in numbers.items() if number)

    @property
    def shown(self) -> list[Picture]:
        """The figures that show its findings."""
        return Built(self.section, Content(lead=self.content.lead)).pictures

    @property
    def small(self) -> tuple[Picture, str] | None:
        """Its first figure, and the view box of this."""
        picture = next(iter(self.shown), None)
        found = picture and _VIEW_BOX.search(picture.svg)
        return (picture, found[1]) if picture and found else None


def group_parts(built: list[Built], /) -> list[tuple[str, list[Built]]]:
    """Return the sections under the part that each belongs to."""
    return [(part, list(group)) for part, group in groupby(built, lambda one: one.section.part)]


@dataclass(frozen=True)
class Coverage:
    """One trace in the summary: its title, and of each part the first section that it has."""

    title: str
    sections: tuple[str, ...]


def cover(built: list[Built], context: Context, /) -> tuple[list[str], list[Coverage]]:
    """Return the parts that need data, and which sections of each a trace appears in."""
    parts = [
        (name, [(part.section.id, part.section.traces(context)) for part in sections])
        for name, sections in group_parts(built)
        if name not in (PARTS[0], PARTS[-1])
    ]
    rows = [
        Coverage(
            context.title(trace),
            tuple(
                next((name for name, traces in sections if trace in traces), "")
                for _, sections in parts
            ),
        )
        for trace in context.ledgers
    ]
    return [name for name, _ in parts], rows


def main_results(built: list[Built], /) -> list[Built]:
    """Return the sections of the six main results: the first of each part, then the second ones."""
    ranked = [
        (place, part)
        for name, sections in group_parts(built)
        if name not in (PARTS[0], PARTS[-1])
        for place, part in enumerate(one for one in sections if one.headline and not one.is_absent)
    ]
    chosen = sorted(ranked, key=itemgetter(0))[:_MAX_RESULTS]
    return [part for part in built if any(part is one for _, one in chosen)]


def shorten_lead(content: Content, /) -> Content:
    """Return the content with excerpts of long and wide tables in its lead; the fold has them."""
    long = tuple(
        block
        for block in content.lead
        if isinstance(block, Table)
        and (len(block.rows) > _MAX_ROWS or len(block.headings) > _MAX_COLUMNS)
    )
    lead = tuple(
        _excerpt(block) if isinstance(block, Table) and block in long else block
        for block in content.lead
    )
    return replace(content, lead=lead, blocks=(*long, *content.blocks))


def _excerpt(table: Table) -> Table:
    return replace(
        table,
        caption=f"{table.caption.rstrip('.')}. Excerpt; the whole table is in the details.",
        headings=table.headings[:_MAX_COLUMNS],
        numeric=table.numeric[:_MAX_COLUMNS],
        rows=tuple(row[:_MAX_COLUMNS] for row in table.rows[:_MAX_ROWS]),
        total=table.total[:_MAX_COLUMNS],
        is_excerpt=True,
    )


def number_blocks(built: list[Built], /) -> list[Built]:
    """Assign numbers to figures and tables (S1, S2, ... in folds), and ids to these and headings.

    The first figure of a kind also gets the sentence on how to read it into its caption.
    """
    numbers, names = Counter[str](), Counter[str]()
    explained: set[str] = set()

    def following(kind: str, fold: str) -> str:
        numbers[kind + fold] += 1
        return f"{fold}{numbers[kind + fold]}"

    def unique(text: str) -> str:
        name = slug(text)
        names[name] += 1
        return name if names[name] == 1 else f"{name}-{names[name]}"

    def of_picture(picture: Picture, fold: str) -> Picture:
        name = unique(f"figure-{picture.key}")
        reading = "" if picture.figure in explained else picture.reading
        explained.add(picture.figure)
        return replace(
            picture,
            number=following("figure", fold),
            id=name,
            caption=f"{picture.caption} {reading}".strip(),
        )

    def numbered(block: Block, section: str, fold: str) -> Block:
        match block:
            case Gallery():
                return Gallery(tuple(of_picture(picture, fold) for picture in block.drawn))
            case Table():
                number, name = following("table", fold), unique(f"table-{section}")
                return replace(block, number=number, id=name)
            case Heading(text):
                return Heading(text, unique(f"heading-{section}-{text}"))
        return block

    def of_section(part: Built) -> Built:
        name, content = part.section.id, shorten_lead(part.content)
        lead = tuple(numbered(block, name, "") for block in content.lead)
        blocks = tuple(numbered(block, name, "S") for block in content.blocks)
        return replace(part, content=replace(content, lead=lead, blocks=blocks))

    return [of_section(part) for part in built]


def slug(text: str, /) -> str:
    """Return a text as an id of the page."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-").lower()


def render_page(
    built: list[Built], context: Context, /, *, title: str, traces: Sequence[str] = ()
) -> str:
    """Write the page: one self-contained HTML document.

    `traces` are those with a page of their own, in a folder with their name.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("traceana.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["prose"] = write_prose
    environment.filters["slug"] = slug
    environment.tests["kind"] = lambda block, name: type(block).__name__ == name
    return environment.get_template("page.html.jinja").render(
        parts=group_parts(built),
        results=main_results(built),
        covered=cover(built, context),
        altered=_altered(context),
        pages={context.title(trace): f"{trace}/index.html" for trace in traces},
        command=f"traceana report {context.data_source.option}",
        date=context.date,
        version=version("traceana"),
        title=name_page(title, context),
        heading=title,
        traces=trace_titles(context),
        synthetic=context.synthetic_traces,
        wholly_synthetic=_is_wholly_synthetic(context),
        data_source=context.data_source,
    )


def name_page(title: str, context: Context, /) -> str:
    """Return the title with a word before it where data are synthetic."""
    if _is_wholly_synthetic(context):
        return f"SYNTHETIC sample: {title}"
    return f"Partly SYNTHETIC: {title}" if context.synthetic_traces else title


def trace_titles(context: Context, /) -> list[str]:
    """Return the titles of the traces that a report is made from."""
    return [context.store.manifest(trace).title for trace in context.ledgers]


def _altered(context: Context) -> list[str]:
    """Return the titles of traces of which a file differs from the published one."""
    return [
        context.title(trace)
        for trace, ledger in context.ledgers.items()
        if not ledger.synthetic and not ledger.files["as_published"].fill_null(value=True).all()
    ]


def _is_wholly_synthetic(context: Context) -> bool:
    return len(context.synthetic_traces) == len(context.ledgers)


def write_prose(text: str, /) -> Markup:
    """Escape a text; `code` and addresses become elements, a number stays with its unit."""
    safe = _UNIT.sub("\N{NO-BREAK SPACE}", str(escape(text)))
    safe = safe.replace("n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    safe = _CODE.sub(r"<code>\1</code>", safe)
    return Markup(_ADDRESS.sub(r'<a href="\g<0>">\g<0></a>', safe))  # noqa: S704  escaped above
