"""Page of the papers' figures, each under its number, with its claims and its command."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.claims import PAPERS
from traceana.claims.papers import (
    PUBLISHED,
    PublishedFigure,
    claims_of,
    figures_of,
    options_of,
    traces_of,
)
from traceana.errors import DataError
from traceana.page.blocks import Picture
from traceana.page.section import Context
from traceana.report.chosen_drawings import DIRECT, Choice, Kept, choose_drawings
from traceana.report.page import environment, write_prose
from traceana.report.run import draw
from traceana.store.cache import Cache, code_digest, key_of, versions

_CACHE = Cache("papers", limit_bytes=1 << 27)
_Drawn = tuple[str, str]


def papers_of(context: Context, /) -> list[str]:
    """Return the papers whose traces are in the store."""
    traces = {trace for trace in context.ledgers if not context.synthetic(trace)}
    return [paper for paper in PUBLISHED if traces & set(traces_of(paper))]


def draw_direct(paper: str, context: Context, /) -> None:
    """Draw and keep the figures of a paper that are built without their section."""
    for figure in figures_of(paper):
        direct = DIRECT.get(figure.figure)
        if direct is not None and Choice(**options_of(figure)).has(direct.options):
            _pictures(paper, figure, (), context, kept={})


def papers_page(pictures: Sequence[Picture], context: Context, /) -> str | None:
    """Return the page of the papers whose traces are in the store, or None without such a trace."""
    papers = papers_of(context)
    if not papers:
        return None
    shown = {}
    for paper in papers:
        kept: Kept = {}
        shown[paper] = [
            (
                figure,
                _pictures(paper, figure, pictures, context, kept=kept),
                claims_of(paper, figure.number),
            )
            for figure in figures_of(paper)
        ]
    titles = {paper: PAPERS[paper].title for paper in papers}
    templates = environment()
    templates.filters["prose"] = write_prose
    page = templates.get_template("papers.html.jinja")
    return page.render(papers=shown, titles=titles, is_on_demand=_is_on_demand)


def _pictures(
    paper: str,
    published_figure: PublishedFigure,
    pictures: Sequence[Picture],
    context: Context,
    *,
    kept: Kept,
) -> list[_Drawn]:
    if not published_figure.figure:
        return []
    traces, choice = traces_of(paper), Choice(**options_of(published_figure))
    same = [
        (picture.svg, picture.caption)
        for picture in pictures
        if picture.figure == published_figure.figure
        and choice.matches(picture.key)
        and any(trace in picture.key for trace in traces)  # a picture of several names none
    ]
    if same or _is_on_demand(published_figure):
        return same
    ledgers = [ledger.json for ledger in context.ledgers.values()]
    key = key_of(paper, published_figure, ledgers, code_digest(), versions())
    made: list[_Drawn] | None = _CACHE.load(key)
    if made is None:
        try:
            name = published_figure.figure
            drawings = choose_drawings(context, name, traces or None, choice, kept)
            drawn = [draw(drawing, context, ("svg",)) for drawing in drawings]
        except DataError:
            drawn = []
        made = [(of["svg"].decode().rstrip(), caption) for of, caption, *_ in drawn]
        _CACHE.save(key, made)
    return made


def _is_on_demand(published_figure: PublishedFigure, /) -> bool:
    direct = DIRECT.get(published_figure.figure)
    chosen = Choice(**options_of(published_figure))
    return direct is not None and chosen.feature in direct.on_demand
