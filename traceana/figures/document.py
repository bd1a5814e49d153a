"""The reference page of the figures, written from the registry.

``python -m traceana.figures.document > docs/reference/figures.md`` writes it anew.
"""

from __future__ import annotations

import sys
from typing import Final

from traceana.figures.published import PUBLISHED
from traceana.figures.registry import figures

_HEAD: Final = """\
# Figures

This page is generated from `traceana/figures/registry.py`; a test holds it against it. Write it
anew with `python -m traceana.figures.document > docs/reference/figures.md`.

`traceana figures ID... --out DIR` writes every picture that the report has of a figure, as SVG, PDF
and PNG. One picture is chosen by options:

    traceana figures worker-times --job job_1 --format pdf --size 84mm --out DIR
    traceana figures energy-front --gpu a40 --dataset cifar100 --format png --dpi 600

`--trace` names a trace; `--feature` and `--outcome` choose figures of runtimes and failures. In
Python, `traceana.figures` has a `plot_` function for each. A figure takes a finished result and
computes nothing. It respects your rcParams, such as `plt.style.use("dark_background")`, and your
axes. Its source is the published figure that it draws again, or traceana.

| id | shows | drawn from | source |
|---|---|---|---|
"""


def figures_page() -> str:
    """Return the reference page of all figures as Markdown."""
    rows = (
        f"| `{name}` | {entry.shows} | {entry.result} | {entry.source} |\n"
        for name, entry in figures().items()
    )
    return _HEAD + "".join(rows) + "".join(map(_of_paper, PUBLISHED))


def _of_paper(paper: str) -> str:
    rows = (f"| {one.name} | `{one.figure}` | `{one.command}` |\n" for one in PUBLISHED[paper])
    head = "| published figure | id | command |\n|---|---|---|\n"
    return f"\n## Figures of `{paper}`\n\n{head}{''.join(rows)}"


if __name__ == "__main__":
    sys.stdout.write(figures_page())
