"""Put what a script measured into the part of a page that is marked for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from traceana import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

    from traceana.store import Store

BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->"
PAGES = Path(__file__).parents[1] / "explanation"


def as_table(frame: pl.DataFrame, /, *, digits: int = 3) -> str:
    """Return a frame as a Markdown table; floats have so many significant digits."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
        if isinstance(value, bool) or value is None:
            return "yes" if value else ""
        return f"{value:,}" if isinstance(value, int) else str(value)

    lines = [frame.columns, ["---"] * frame.width, *frame.rows()]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def write_measured(page: str, text: str, *, name: str = "") -> None:
    """Replace what stands between the marks of a page, or of its part of that name."""
    path = PAGES / page
    begin, end = (mark.replace("measured:", f"measured: {name}".rstrip()) for mark in (BEGIN, END))
    before, rest = path.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    path.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}", encoding="utf-8")


def run(page: str, measure: Callable[[Store], str]) -> None:
    """Measure on the store that the command line names, and write the page."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: python {sys.argv[0]} STORE (a folder made by traceana ingest)")
    text = measure(open_store(sys.argv[1]))
    write_measured(page, text)
    print(text)
