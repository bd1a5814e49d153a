"""The reference page of the figures, written from the registry.

``python -m traceana.figures.document > docs/reference/figures.md`` writes it anew.
"""

from __future__ import annotations

import sys
from typing import Final

from traceana.figures.registry import figures

_HEAD: Final = """\
# Figures

This page is generated from `traceana/figures/registry.py`; a test holds it against it. Write it
anew with `python -m traceana.figures.document > docs/reference/figures.md`.

`traceana figures ID... --out DIR` writes every picture that the report has of a figure, as SVG, PDF
and PNG; in Python, `traceana.figures` has a `plot_` function for each. A figure takes a finished
result and computes nothing. Its source is the published figure that it draws again, or traceana.

| id | shows | drawn from | source |
|---|---|---|---|
"""


def figures_page() -> str:
    """Return the reference page of all figures as Markdown."""
    rows = (
        f"| `{name}` | {entry.shows} | {entry.result} | {entry.source} |\n"
        for name, entry in figures().items()
    )
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(figures_page())
