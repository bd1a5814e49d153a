"""Sections in; out a self-contained page, or a Markdown text with its figures beside it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import groupby
from typing import Any, Final, TypeAlias

import jinja2
from markupsafe import Markup, escape

from traceana.page.blocks import (
    Block,
    Content,
    Gallery,
    Heading,
    Picture,
    Table,
    Text,
)
from traceana.page.finding import Finding
from traceana.page.section import PARTS, SIMULATED, Context, Section
from traceana.questions.workload.analyze_consumers import FACTS, facts_of, failed_as
from traceana.report.section_provenance import terms_of
from traceana.store import Trace
from traceana.tables.formatting import in_sentence, listed, plural
from traceana.tables.formatting import text as shortened

_MAX_RESULTS: Final = 6
_FEW_RESULTS: Final = 3
_MAX_ALERTS: Final = 10
_WEIGHTS: Final = {"exact": 1.0, "estimated": 0.8}
_LEAST_COST: Final = 0.05
"""Of the largest cost of the page: what costs less is no main result."""
_MOST_HEIGHT: Final = 1.05
"""Of a figure in a small form, in widths."""
_MAX_ROWS: Final = 8
_MAX_COLUMNS: Final = 8
_VIEW_BOX: Final = re.compile(r'viewBox="([^"]+)"')
_CODE: Final = re.compile(r"`([^`]+)`")
_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|ms|s|min|h|d|kB|MB|GB)(?!\w))")
_DATE: Final = re.compile(r"(?<![\w/.=-])\d{4}-\d\d-\d\d(?: \d\d:\d\d)?(?![\w/-])")
_SENTENCE: Final = re.compile(r"(?<=[^.]\.) (?=[A-Z0-9])")
_BRACKET: Final = re.compile(r" \(((?:[^()]|\([^()]*\))*)\)([.;:].*)", re.DOTALL)
_ONLY_N: Final = re.compile(r" \((?:[^();]*\bn = [\d,]+[^();]*;? ?)+\)\.")
_WORD: Final = re.compile(r"[a-z]+(?:[;,.]|$| (?!=))")
"""At the beginning of a sentence: neither a name before a colon nor a quantity."""
_P: Final = re.compile(r"\bp ([=<]) ")
_NUMBER: Final = re.compile(r"\d[\d.,]*\d|\d")
_ADDRESS: Final = re.compile(r"https?://[^\s<>]+")


TraceFacts: TypeAlias = "tuple[Trace, list[tuple[str, str]]]"


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
    def is_empty(self) -> bool:
        """Whether the store has no data for it."""
        return not (self.content.findings or self.content.failed) and not (
            any(not isinstance(block, Text | Heading) for block in self.blocks)
        )

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
        """Its first figure and the view box of this, unless it is too tall for a small one."""
        picture = next(iter(self.shown), None)
        match = picture and _VIEW_BOX.search(picture.svg)
        if not picture or not match:
            return None
        _, _, width, height = map(float, match[1].split())
        return (picture, match[1]) if height < _MOST_HEIGHT * width else None


def group_parts(built: list[Built], /) -> list[tuple[str, list[Built]]]:
    """Return the sections under the part that each belongs to."""
    return [(part, list(group)) for part, group in groupby(built, lambda each: each.section.part)]


@dataclass(frozen=True)
class Ranked:
    """A main result or an alert: its sentence, and the section that has it."""

    part: Built
    text: str
    score: float
    heading: str = ""
    machine: str = ""
    hours: float = 0.0
    """GPU-hours, less for an estimate."""


def main_results(built: list[Built], facts: Sequence[TraceFacts] = (), /) -> list[Ranked]:
    """Return the main results, the most costly first: one of each section, then further ones."""
    stated = _NUMBER.findall(str(facts[0][1])) if len(facts) == 1 else []
    scored = _ranked(built, lambda finding: "" if finding.alert else _short(finding))
    scored = [result for result in scored if result.score >= _LEAST_COST]
    best = {id(result.part): result for result in reversed(scored)}  # one of each section
    chosen = sorted(best.values(), key=lambda result: -result.score)[:_MAX_RESULTS]
    others = [result for result in scored if result not in chosen]
    further: list[Ranked] = []
    for name, sections in group_parts(built):
        led = name in (PARTS[0], PARTS[-1], SIMULATED) or best.keys() & {*map(id, sections)}
        results = [] if led else [result for part in sections for result in _first(part, {*stated})]
        chosen += results[:1]
        further += results[1:]
    room = further if len(chosen) < _FEW_RESULTS else []
    return sorted((chosen + others + room)[:_MAX_RESULTS], key=lambda result: -result.score)


def _first(part: Built, stated: set[str]) -> list[Ranked]:
    findings = [
        finding
        for finding in part.content.every_finding
        if isinstance(finding, Finding) and finding.heading and finding.may_lead
        if not (finding.alert or finding.cost_gpu_h or finding.cost_jobs)
        if not (numbers := {*_NUMBER.findall(finding.heading)}) or numbers - stated
    ]
    return [Ranked(part, _short(finding), 0.0, finding.heading) for finding in findings[:1]]


def _short(text: Finding) -> str:
    if not text.heading:
        return str(text)
    return _SENTENCE.split(text, maxsplit=1)[0].rstrip(".") + "."


def alerts(built: list[Built], /) -> list[Ranked]:
    """Return the alerts of all findings, the most costly first; those of a machine are one."""
    stated: dict[str, Ranked] = {}
    for alert in _ranked(built, lambda finding: finding.alert):
        name = alert.machine or alert.text
        first = stated.setdefault(name, alert)
        if first is not alert:
            more = alert.text.rpartition(f"{name.rpartition(': ')[2]}: ")[2]
            stated[name] = replace(first, text=f"{first.text}; {more}")
    return list(stated.values())[:_MAX_ALERTS]


def result_texts(built: list[Built], context: Context, /) -> list[str]:
    """Return the alerts and the main results as short texts."""
    results = main_results(built, trace_facts(context))
    return [result.text for result in (*alerts(built), *results)]


def _ranked(built: list[Built], text: Callable[[Finding], str]) -> list[Ranked]:
    """Return texts of findings that cost something, by cost and certainty."""
    findings = [
        (part, finding)
        for part in built
        for finding in part.content.every_finding
        if isinstance(finding, Finding) and text(finding) and finding.may_lead
    ]
    hours = max((of.cost_gpu_h for _, of in findings), default=0.0) or 1.0
    jobs = max((of.cost_jobs for _, of in findings), default=0.0) or 1.0
    scored = [
        Ranked(
            part,
            text(of),
            max(of.cost_gpu_h / hours, of.cost_jobs / jobs / 2) * _WEIGHTS[of.certainty],
            of.heading,
            of.machine,
            of.cost_gpu_h * _WEIGHTS[of.certainty],
        )
        for part, of in findings
    ]
    scored = sorted((of for of in scored if of.score > 0), key=lambda of: -of.score)
    # those with hours follow each other by hours, however many jobs they concern
    by_hours = iter(sorted(scored, key=lambda of: -of.hours))
    return [replace(next(by_hours), score=of.score) if of.hours else of for of in scored]


def shorten_lead(content: Content, /) -> Content:
    """Return the content with one figure, or an excerpt of a table, open; the fold has the rest."""
    pictures = [
        drawing for block in content.lead if isinstance(block, Gallery) for drawing in block.drawn
    ]
    tables = [block for block in content.lead if isinstance(block, Table)]
    rest = [block for block in content.lead if not isinstance(block, Gallery | Table)]
    folded: list[Block] = [Gallery(tuple(pictures[1:]))] if pictures[1:] else []
    opened: list[Block] = [Gallery((pictures[0],))] if pictures else []
    if tables and not pictures:
        first = tables.pop(0)
        long = len(first.rows) > _MAX_ROWS or len(first.headings) > _MAX_COLUMNS
        opened.append(_excerpt(first) if long else first)
        folded += [first] if long else []
    return replace(content, lead=(*rest, *opened), blocks=(*folded, *tables, *content.blocks))


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
    """Number figures and tables (S1, S2, ... in folds); assign ids to these and headings."""
    numbers, names = Counter[str](), Counter[str]()
    explained: set[str] = set()
    defined_in: dict[str, str] = {}

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
            caption=f"{picture.caption} {picture.described}".strip(),
            reading=reading,
        )

    def defined(paragraph: Text, section: str) -> Text:
        definitions = [each for each in paragraph.definitions if each in defined_in]
        new = [each for each in paragraph.definitions if each and each not in defined_in]
        elsewhere = dict.fromkeys(defined_in[each] for each in definitions)
        elsewhere.pop(section, None)
        defined_in.update(dict.fromkeys(new, section))
        where = f"Definitions: see {listed(map(repr, elsewhere))}." if elsewhere else ""
        return Text(" ".join(filter(None, (where, *new, paragraph.text.strip()))))

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
        title = part.section.title
        stated = [
            [defined(block, title) if isinstance(block, Text) else block for block in blocks]
            for blocks in (content.lead, content.blocks)
        ]
        lead, blocks = (
            tuple(numbered(block, name, fold) for block in blocks if block != Text(""))
            for blocks, fold in zip(stated, ("", "S"), strict=True)
        )
        return replace(part, content=replace(content, lead=lead, blocks=blocks))

    return [of_section(part) for part in built]


def slug(text: str, /) -> str:
    """Return a text as an id of the page."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-").lower()


def environment() -> jinja2.Environment:
    """Return what renders the templates."""
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader("traceana.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.tests["kind"] = lambda block, name: type(block).__name__ == name
    return templates


def render_page(
    built: list[Built],
    context: Context,
    /,
    *,
    title: str,
    absent: Sequence[Section] = (),
    papers: bool = False,
) -> str:
    """Write the page, one HTML document; `absent` are sections without data."""
    templates = environment()
    seen: set[str] = set()
    templates.filters |= {"prose": write_prose, "explain": explainer(terms_of(context), seen)}
    templates.filters |= {"slug": slug, "in_sentence": in_sentence, "dict": dict}
    templates.filters |= {"without": _without, "below": _below}
    templates.globals["begin_section"] = seen.clear
    shown = _shown(built, context)
    facts = shown["facts"]
    return templates.get_template("page.html.jinja").render(
        **shown,
        absent=absent,
        others=[trace for trace in context.traces if trace not in dict(facts)],
        fact_names=[name for name in FACTS if any(name in dict(stated) for _, stated in facts)],
        has_failures=any("Failed" in dict(stated) for _, stated in facts),
        failed_as=[(trace, words) for trace in context.traces if (words := failed_as(trace))],
        repeats=_repeats(context),
        altered=_altered(context),
        papers=papers,
        command=context.data_source.reproduction,
        date=context.date,
        version=version("traceana"),
        title=name_page(title, context),
        heading=title,
        wholly_synthetic=context.synthetic(None),
        data_source=context.data_source,
    )


def _shown(built: list[Built], context: Context) -> dict[str, Any]:
    facts = trace_facts(context)
    titles = [trace.title for trace in context.traces]
    return {
        "parts": group_parts(built),
        "results": main_results(built, facts),
        "alerts": alerts(built),
        "facts": [fact for fact in facts if fact[1]],
        "traces": titles
        if len({*titles}) == len(titles)
        else [trace.label for trace in context.traces],
        "synthetic": [trace.label for trace in context.traces if trace.synthetic],
        "left_out": context.store.left_out,
    }


def _without(text: str, heading: str) -> str:
    if not text.startswith(heading):
        return text
    rest = text.removeprefix(heading)
    return rest if rest.startswith(" ") else _capital(rest.lstrip(".,:; "))


def _below(text: str, heading: str) -> str:
    """Return a finding without the heading above it, if what is left stands alone."""
    rest = text.removeprefix(heading)
    if _ONLY_N.fullmatch(rest):
        return text
    if bracket := _BRACKET.match(rest):
        rest = ": " + bracket[1] + bracket[2]
    return _capital(rest[2:]) if rest.startswith((": ", "; ", ". ")) else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def trace_facts(context: Context, /) -> list[TraceFacts]:
    """Return the facts in the head of the page: of each trace (name, value)."""
    return [(trace, facts_of(trace)) for trace in context.traces]


def name_page(title: str, context: Context, /) -> str:
    """Return the title with a word before it where data are synthetic."""
    if context.synthetic(None):
        return f"SYNTHETIC sample: {title}"
    return f"Partly SYNTHETIC: {title}" if any(t.synthetic for t in context.traces) else title


def _repeats(context: Context) -> list[tuple[str, str]]:
    labels = {trace.id: trace.label for trace in context.traces}
    pairs = [(trace.label, labels.get(trace.manifest.repeats or "")) for trace in context.traces]
    return [(label, other) for label, other in pairs if other]


def _altered(context: Context) -> list[str]:
    return [
        trace.title
        for trace in context.traces
        if not (trace.synthetic or trace.ledger.files["as_published"].fill_null(value=True).all())
    ]


def explainer(terms: Mapping[str, str], seen: set[str], /) -> Callable[..., Markup]:
    """Return what writes prose, new or all uses of terms with their meaning as a tooltip."""
    terms = {
        str(escape(form)): text
        for term, text in terms.items()
        for form in (term, term[0].upper() + term[1:])
    }
    words = "|".join(map(re.escape, sorted(terms, key=len, reverse=True)))
    pattern = re.compile(rf"(<[^>]*>)|(?<![\w./-])({words})(?=s?(?!\w|[.-]\w))")

    def mark(match: re.Match[str], every: bool) -> str:
        term = match[2]
        if term is None or (term.lower() in seen and not every):
            return match[0]
        seen.add(term.lower())
        return f'<abbr title="{escape(terms[term])}">{term}</abbr>'

    def explain(text: str, *, every: bool = False) -> Markup:
        marked = pattern.sub(lambda match: mark(match, every), write_prose(text))
        return Markup(marked)  # noqa: S704  escaped above

    return explain


def write_prose(text: str, /) -> Markup:
    """Escape a text; `code`, dates and addresses become elements, a number stays with its unit."""
    safe = _UNIT.sub("\N{NO-BREAK SPACE}", str(escape(shortened(text))))
    safe = safe.replace("n = ", "n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    safe = _P.sub("p\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", safe)
    safe = _CODE.sub(r"<code>\1</code>", _DATE.sub(r"<time>\g<0></time>", safe))
    return Markup(_ADDRESS.sub(r'<a href="\g<0>">\g<0></a>', safe))  # noqa: S704  escaped above


_CODE_SPAN: Final = re.compile(r"(`[^`]+`)")
_MARKS: Final = re.compile(r"[\\*<\[\]]")
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_NOT_IN_ANCHORS: Final = re.compile(r"[^\w\- ]")


def render_markdown(built: list[Built], context: Context, /, *, title: str, figures: str) -> str:
    """Write the report as Markdown (GitHub's, for the tables)."""
    templates = environment()
    templates.autoescape = False
    # a heading's anchor as those who show Markdown name it
    templates.filters |= {
        "prose": _prose,
        "cell": lambda text: _prose(text).replace("|", "\\|"),
        "anchor": lambda title: _NOT_IN_ANCHORS.sub("", title.lower()).replace(" ", "-"),
    }
    text = templates.get_template("page.md.jinja").render(
        **_shown(built, context), title=name_page(title, context), heading=title, figures=figures
    )
    return _BLANK_LINES.sub("\n\n", text).rstrip() + "\n"


def _prose(text: str) -> str:
    """Escape what Markdown would read as a mark, outside of `code`; a name may have lines."""
    return "".join(
        part if part.startswith("`") else _MARKS.sub(r"\\\g<0>", part)
        for part in _CODE_SPAN.split(" ".join(shortened(text).splitlines()))
    )
