"""Page of the papers' figures, each under its number, with its claims and its command."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from traceana.claims import PAPERS
from traceana.claims.published_figures import (
    PUBLISHED,
    PublishedFigure,
    claims_of,
    figures_of,
    options_of,
    traces_of,
)
from traceana.errors import DataError
from traceana.report.chosen_drawings import choose_drawings
from traceana.report.figure_sources import DIRECT, Choice
from traceana.report.run import draw
from traceana.store.cache import Cache, code_digest, key_of, versions
from traceana.store.ledger import ledger_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.page.blocks import Picture
    from traceana.page.context import Context

_CACHE = Cache("papers", limit_bytes=1 << 27)
_Drawn = tuple[str, str]
"""A picture as SVG, and its caption."""


def papers_page(pictures: Sequence[Picture], context: Context, /) -> str | None:
    """Return the page as HTML: figures of the papers whose traces are in the store.

    Pictures of the report are used again; others are drawn if their figure has a number or needs
    no section. None if the store has no such trace, or synthetic ones alone.
    """
    there = {trace for trace in context.ledgers if not context.synthetic(trace)}
    papers = [paper for paper in PUBLISHED if there & set(traces_of(paper))]
    if not papers:
        return None
    head = (files("traceana.report") / "templates" / "page.css").read_text(encoding="utf-8")
    body = "\n".join(_of_paper(paper, pictures, context) for paper in papers)
    links = " · ".join(f'<a href="#{one}">{escape(PAPERS[one].title)}</a>' for one in papers)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Figures of the papers</title>\n<style>\n{head}</style>\n</head>\n<body>\n"
        '<header>\n<h1>Figures of the papers</h1>\n<p><a href="index.html">Report</a></p>\n'
        f'<p>{links}</p>\n</header>\n<main id="content">\n{body}\n</main>\n</body>\n</html>\n'
    )


def _of_paper(paper: str, pictures: Sequence[Picture], context: Context) -> str:
    parts = [f'<section id="{paper}">\n<h2>{escape(PAPERS[paper].title)}</h2>']
    for one in figures_of(paper):
        name = f"Figure {one.number}" if one.number else "Not numbered"
        parts.append(f"<h3>{name}: {escape(one.shows)}</h3>")
        for svg, caption in _pictures(paper, one, pictures, context):
            parts.append(f"<figure>\n{svg}\n<figcaption>{escape(caption)}</figcaption>\n</figure>")
        if claims := claims_of(paper, one.number):
            parts.append(f"<p>Claims: {escape(', '.join(claims))}.</p>")
        if one.command:
            by_number = f"traceana figures --paper {paper} --number {one.number}"
            parts.append(f"<pre>{escape(by_number if one.number else one.command)}</pre>")
        if one.note:
            parts.append(f"<p>{escape(one.note)}.</p>")
    return "\n".join([*parts, "</section>"])


def _pictures(
    paper: str, one: PublishedFigure, pictures: Sequence[Picture], context: Context
) -> list[_Drawn]:
    if not one.figure:
        return []
    traces, choice = traces_of(paper), Choice(**options_of(one))
    same = [
        (picture.svg, picture.caption)
        for picture in pictures
        if picture.figure == one.figure
        and choice.matches(picture.key)
        and _is_of(picture.key, traces)
    ]
    if same or not (one.number or one.figure in DIRECT):
        return same
    ledgers = [ledger_json(context.store.ledger(trace)) for trace in context.ledgers]
    key = key_of(paper, one, ledgers, code_digest(), versions())
    found: list[_Drawn] | None = _CACHE.load(key)
    if found is None:
        try:
            drawings = choose_drawings(context, one.figure, traces or None, choice, {})
            drawn = [draw(drawing, context, ("svg",)) for drawing in drawings]
        except DataError:
            return []
        found = [(of["svg"].decode().rstrip(), caption) for of, caption, *_ in drawn]
        _CACHE.save(key, found)
    return found


def _is_of(key: str, traces: Sequence[str]) -> bool:
    """Return whether a picture is of one of the traces, or of no trace."""
    known = dict.fromkeys(trace for paper in PUBLISHED for trace in traces_of(paper))
    named = [trace for trace in known if trace in key]
    return not named or bool(set(named) & set(traces))
