"""Figures of the papers, and the command that draws each of them from a trace."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from traceana.claims.papers import PAPERS, find_papers
from traceana.errors import DataError


@dataclass(frozen=True)
class PublishedFigure:
    """A figure of a paper."""

    shows: str
    """What it shows."""
    figure: str = ""
    """Id of ours; empty if the published data cannot show it."""
    options: str = ""
    """Options of ``traceana figures`` that choose it."""
    number: str = ""
    """Its number in the paper; empty where the source does not number its figures."""
    note: str = ""
    """How ours differs, or why there is none."""
    needs: str = ""
    """File without which a store with its trace cannot show it, and the remedy."""

    @property
    def command(self) -> str:
        """The command that draws it; empty if there is none."""
        return f"traceana figures {self.figure} {self.options}".rstrip() if self.figure else ""

    @property
    def answer(self) -> str:
        """The command and how its picture differs, or why there is none."""
        note = self.note if self.figure else f"not reproducible: {self.note}"
        return f"{self.command} ({note})" if self.figure and note else self.command or note


PUBLISHED: Final[dict[str, tuple[PublishedFigure, ...]]] = {
    name: tuple(PublishedFigure(**entry) for entry in paper.figures)
    for name, paper in PAPERS.items()
    if paper.figures
}
"""By the name of the paper, as ``traceana claims --paper`` takes it."""


def traces_of(paper: str, /) -> tuple[str, ...]:
    """Return the traces that the claims of a paper need; none for a model alone."""
    claims = [one for name in find_papers(paper, PUBLISHED) for one in PAPERS[name].claims]
    return tuple(dict.fromkeys(trace for claim in claims for trace, _ in claim.tables))


def options_of(figure: PublishedFigure, /) -> dict[str, str]:
    """Return the options of ``traceana figures`` that choose a figure, by name."""
    words = figure.options.split()
    return {
        name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }


def claims_of(paper: str, number: str, /) -> list[str]:
    """Return the ids of a paper's claims that name the number of a figure, or a part of it."""
    figure = re.compile(rf"figure {re.escape(number)}(?![0-9])")
    return [
        claim.id
        for claim in (PAPERS[paper].claims if number and paper in PAPERS else ())
        if figure.search(f"{claim.section} {claim.reference}".casefold())
    ]


def numbered(paper: str, number: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figure of a paper with a number, or its parts: 7 is 7a and 7b."""
    published = figures_of(paper)
    figures = tuple(
        figure
        for figure in published
        if figure.number == number
        or (number.isdigit() and figure.number.rstrip("abcdef") == number)
    )
    if not figures:
        known = dict.fromkeys(figure.number for figure in published if figure.number)
        numbers = ", ".join(known) or "none"
        raise DataError(f"{paper} has no figure {number!r} here; its numbers are {numbers}")
    return figures


def figures_of(paper: str, /) -> tuple[PublishedFigure, ...]:
    """Return the figures of a paper, those with a number first."""
    papers = find_papers(paper, PUBLISHED)
    return tuple(sorted((figure for name in papers for figure in PUBLISHED[name]), key=_order))


def _order(figure: PublishedFigure) -> tuple[bool, int, str]:
    digits = "".join(filter(str.isdigit, figure.number))
    return not figure.number, int(digits or 0), figure.number
