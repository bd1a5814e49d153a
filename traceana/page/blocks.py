"""What a section is made of; how a page writes each of them is the templates' business."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from traceana.page.finding import Finding
from traceana.tables.display import cells_of, csv_text, without_far_quantiles

if TYPE_CHECKING:
    import polars as pl

    from traceana.store import Trace
    from traceana.tables.declare import ResultTable


@dataclass(frozen=True)
class Text:
    """A paragraph; `code` is between backticks."""

    text: str
    definitions: tuple[str, ...] = ()
    """Sentences before it that define the rows; the page states each once."""


@dataclass(frozen=True)
class Heading:
    """A heading inside a section; the page assigns `id`."""

    text: str
    id: str = ""


@dataclass(frozen=True)
class Points:
    """Short paragraphs in a list, kept folded under its summary."""

    summary: str
    points: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """Terms with what there is to say of each; an address becomes a link."""

    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Quote:
    """Text to copy, such as a citation, kept folded under its summary."""

    summary: str
    text: str


@dataclass(frozen=True)
class Table:
    """A finished table: every cell is text already; the first cell names its row.

    `total` is a last row that sums the others up; a `folded` table opens on demand; `data` is the
    frame as CSV. The page assigns `number` and `id`; `is_excerpt` where the whole table is in the
    fold. `fault` is the declaration of a table that could not be formatted, and why.
    """

    caption: str
    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    total: tuple[str, ...] = ()
    folded: bool = False
    data: str = ""
    number: str = ""
    id: str = ""
    is_excerpt: bool = False
    fault: tuple[str, Exception] | None = None


@dataclass(frozen=True)
class Picture:
    """A figure as an `<svg>` element, and its caption.

    `key` names it, `figure` is its id in the registry, `described` states its numbers, `reading`
    how to read it, `data` is the result as CSV. The page assigns `number` and `id`.
    """

    svg: str
    caption: str
    key: str = ""
    figure: str = ""
    described: str = ""
    reading: str = ""
    data: str = ""
    number: str = ""
    id: str = ""

    @property
    def is_wide(self) -> bool:
        """Whether it needs the width of the page: it has panels side by side, more than two."""
        width = _WIDTH.search(self.svg)
        return width is not None and float(width[1]) > _WIDE


_WIDTH: Final = re.compile(r'viewBox="\S+ \S+ ([\d.]+)')
_WIDE: Final = 400.0
"""Points of two panels side by side, and more."""
SMALL_MULTIPLES: Final = "small-multiples"
_NOTE: Final = ". Note: "
"""Before the note of all rows in a caption."""


@dataclass(frozen=True)
class Drawing:
    """A result to be drawn."""

    figure: str
    """Id of the figure in the registry."""
    result: Any
    """What it takes."""
    trace: str | None
    """The trace that it shows; synthetic rows are marked. None where it shows none: then it is
    marked if all of the page is synthetic."""
    key: str
    """Name of the picture, unique on the page."""
    about: str
    """What is shown: the first words of the caption."""
    title: str | None = None
    """What the trace is called; None: its title."""
    options: dict[str, Any] = field(default_factory=dict)
    """Passed on to the figure."""
    subject: str = ""
    """What a picture alone is of, such as a data set and a GPU: its title."""

    @property
    def members(self) -> tuple[Drawing, ...]:
        """The drawings of its panels; itself if it has none."""
        return self.result if self.figure == SMALL_MULTIPLES else (self,)


def drawing(
    figure: str,
    result: Any,  # noqa: ANN401  whatever the figure takes
    trace: Trace | None,
    key: str,
    about: str,
    *,
    title: str | None = None,
    subject: str = "",
    **options: object,
) -> Drawing:
    """Return a drawing; what it does not take itself are options of the figure."""
    shown = trace.id if trace else None
    return Drawing(figure, result, shown, key, about, title, options, subject)


def small_multiples(
    panels: Sequence[Drawing], /, *, key: str, about: str, **options: object
) -> Gallery:
    """Return a gallery of one figure with the drawings of a trace as panels, if there are any."""
    if not panels:
        return Gallery(())
    first = panels[0]
    figure = Drawing(
        SMALL_MULTIPLES, tuple(panels), first.trace, key, about, first.title, {**options}
    )
    return Gallery((figure if len(panels) > 1 else first,))


def picture_key(kind: str, trace: Trace, job: str = "", /) -> str:
    """Return a key of a picture that is a valid file name and id, whatever the job's name is."""
    parts = (kind, trace.id, *([job] if job else []))
    return re.sub(r"[^A-Za-z0-9_.-]", lambda match: f"_{ord(match[0]):x}_", "-".join(parts))


@dataclass(frozen=True)
class Gallery:
    """Figures side by side where there is room; `drawn` has those that are drawn."""

    pictures: tuple[Picture | Drawing, ...]

    @property
    def drawn(self) -> list[Picture]:
        """The figures, once they are drawn."""
        return [picture for picture in self.pictures if isinstance(picture, Picture)]


Block: TypeAlias = Text | Heading | Points | Facts | Quote | Table | Gallery


@dataclass(frozen=True)
class Content:
    """What a section's builder returns, in the order of the page."""

    findings: tuple[str, ...] = ()
    """One to three results, each with effect, interval, n and comparison; :meth:`of` adds the
    trace. A :class:`~traceana.page.finding.Finding` is ranked among the main results."""
    blocks: tuple[Block, ...] = ()
    """The rest, in a fold "Details" that is closed at first."""
    lead: tuple[Block, ...] = ()
    """One or two figures that show the findings, and one compact table. Without it the first figure
    and table of `blocks` take its place."""
    limitations: str = ""
    """Two sentences."""
    failed: str = ""
    """Why the section could not be computed, with what a bug report needs; empty if it was."""

    further: tuple[str, ...] = ()
    """Findings beyond those displayed at first; they are ranked with the others."""

    def of(self, name: str, /) -> Content:
        """Return the content of one trace among others, named in every finding and caption."""
        findings, further = (
            tuple(
                each.of(name) if isinstance(each, Finding) else f"{name}: {each}"
                for each in findings
            )
            for findings in (self.findings, self.further)
        )
        lead, blocks = captioned(self.lead, name), captioned(self.blocks, name)
        return replace(self, findings=findings, further=further, lead=lead, blocks=blocks)

    @property
    def every_finding(self) -> tuple[str, ...]:
        """The findings that are displayed at first, and the others."""
        return (*self.findings, *self.further)

    @property
    def heading(self) -> str:
        """The result in a few words: the first heading, of a finding that may lead if one has."""
        titled = [each for each in self.every_finding if isinstance(each, Finding) and each.heading]
        titled.sort(key=lambda finding: not finding.is_decided)
        return titled[0].heading if titled else ""

    @property
    def all_blocks(self) -> tuple[Block, ...]:
        """The blocks of the lead and of the fold."""
        return (*self.lead, *self.blocks)


def captioned(blocks: Iterable[Block], name: str, /) -> tuple[Block, ...]:
    """Return the blocks of one trace among others, named in every caption."""
    return tuple(_captioned(block, name) for block in blocks)


def _captioned(block: Block, name: str) -> Block:
    match block:
        case Table(caption):
            about, mark, note = caption.partition(_NOTE)
            return replace(block, caption=f"{about.rstrip('.')}. {name}{mark}{note}")
        case Gallery(pictures):
            return Gallery(
                tuple(
                    replace(picture, title=picture.title or name)
                    if isinstance(picture, Drawing) and picture.trace
                    else picture
                    for picture in pictures
                )
            )
    return block


def join_parts(opening: str, parts: Iterable[tuple[str, Content]], /) -> Content:
    """Return a section of an opening and its parts, each under its heading."""
    findings: list[str] = []
    blocks: list[Block] = [Text(opening)] if opening else []
    pictures: list[Picture | Drawing] = []
    lead: list[Block] = []
    limitations: dict[str, None] = {}
    for heading, content in parts:
        findings += content.findings
        galleries = [block for block in content.lead if isinstance(block, Gallery)]
        shown = [picture for gallery in galleries for picture in gallery.pictures]
        others: list[Block] = [block for block in content.lead if not isinstance(block, Gallery)]
        room = 2 - len(pictures)
        pictures += shown[:room]
        further: list[Block] = [Gallery(tuple(shown[room:]))] if shown[room:] else []
        blocks += [Heading(heading), *further, *(others if lead else ()), *content.blocks]
        lead = lead or others
        limitations |= {content.limitations: None} if content.limitations else {}
    if pictures:
        lead = [Gallery(tuple(pictures)), *lead]
    return Content(tuple(findings), tuple(blocks), tuple(lead), " ".join(limitations))


def result_table(
    frame: pl.DataFrame,
    table: type[ResultTable] | None = None,
    /,
    *,
    caption: str,
    columns: Sequence[str] | None = None,
    headings: Mapping[str, str] | None = None,
    null: Mapping[str, str] | None = None,
    total: pl.DataFrame | None = None,
    folded: bool = False,
) -> Table:
    """Return a frame as a table of the page, formatted as declared.

    `columns`, `headings` and `null` are those of :func:`traceana.tables.display.cells_of`, `total`
    a last row. A null group, in a column before the declared ones, is "not stated". A note of all
    rows is in the caption; columns without a value are left out, and quantiles beyond 1 - 1/n are
    null.
    """
    frame = without_far_quantiles(frame)
    by = takewhile(lambda name: table and name not in table.columns(), frame.columns)
    null = {**dict.fromkeys(by, "not stated"), **(null or {})}
    shown = [
        name
        for name in (frame.columns if columns is None else columns)
        if frame.is_empty() or name in null or _has_values(frame, name)
    ]
    if "note" in shown and frame.height > 1 and frame["note"].n_unique() == 1:
        shown.remove("note")
        caption = f"{caption.rstrip('.')}{_NOTE}{frame['note'][0]}"
    options: dict[str, Any] = {"columns": shown, "headings": headings or {}}
    options["null"] = {"note": "", **null}
    try:
        cells = cells_of(frame, table, **options)
        last = () if total is None else cells_of(total, table, **options).rows[0]
        data = csv_text(frame, table)
    except Exception as error:  # noqa: BLE001  a fault of ours costs its table alone
        name = table.__name__ if table else "without declaration"
        return Table(caption, (), (), (), fault=(name, error))
    return Table(caption, cells.headings, cells.numeric, cells.rows, last, folded, data)


def _has_values(frame: pl.DataFrame, name: str) -> bool:
    ends = (name, name.replace("_low", "_high"), name.replace("_high", "_low"))
    return any(frame[end].count() for end in ends if end in frame.columns)


def traces_table(
    frames: Mapping[str, pl.DataFrame | None],
    table: type[ResultTable],
    /,
    *,
    caption: str,
    columns: Sequence[str] = (),
) -> list[Table]:
    """Return one table with the rows of several traces, by title, if any has rows."""
    import polars as pl  # noqa: PLC0415  a page needs none of it

    parts = [
        frame.select(pl.lit(title).alias("trace"), *(columns or frame.columns))
        for title, frame in frames.items()
        if frame is not None and frame.height
    ]
    return [result_table(pl.concat(parts), table, caption=caption)] if parts else []
