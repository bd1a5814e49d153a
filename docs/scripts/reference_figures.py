"""The reference page of the figures, which the build of the site writes from the registry."""

from __future__ import annotations

from typing import Final

from traceana.claims.papers import PUBLISHED, PublishedFigure, claims_of
from traceana.drawing.registry import figures, get_figure

_HEAD: Final = """\
# Figures

`traceana figures ID... --out DIR` writes every version of a figure in the report, as SVG, PDF and
PNG; options choose one:

    traceana figures worker-times --job job_1 --format pdf --size 84mm --out DIR
    traceana figures energy-front --gpu a40 --dataset cifar100 --format png --dpi 600

In Python, `traceana.figures` has a `plot_` function for each. It draws a finished result, and
respects your rcParams, such as `plt.style.use("dark_background")`, and your axes. The last column
has the papers that show such a figure. Below are their figures, with the number where the
publisher of the data states it, and the reason where the data cannot show one.

| id | shows | drawn from | papers |
|---|---|---|---|
"""


def figures_page() -> str:
    """Return the reference page of all figures as Markdown."""
    rows = (
        f"| `{name}` | {entry.shows} | {entry.result} | {_papers(name)} |\n"
        for name, entry in figures().items()
    )
    return _HEAD + "".join(rows) + "".join(map(_of_paper, PUBLISHED))


def _of_paper(paper: str) -> str:
    rows = (
        f"| {one.number} | {one.shows} | {', '.join(claims_of(paper, one.number))} "
        f"| {_function(one.figure)} | {_command(one)} |\n"
        for one in PUBLISHED[paper]
    )
    head = "| number | published figure | claims | function | command |\n|---|---|---|---|---|\n"
    return f"\n## Figures of `{paper}`\n\n{head}{''.join(rows)}"


def _command(one: PublishedFigure) -> str:
    return one.answer.replace(one.command, f"`{one.command}`") if one.command else one.answer


def _function(name: str) -> str:
    return f"`{get_figure(name).plot.__name__}`" if name else ""


def _papers(name: str) -> str:
    """Return the papers that have the figure, with its numbers."""
    found = {
        paper: dict.fromkeys(one.number for one in published if one.figure == name and one.number)
        for paper, published in PUBLISHED.items()
        if any(one.figure == name for one in published)
    }
    return ", ".join(" ".join([f"`{paper}`", *numbers]) for paper, numbers in found.items())
