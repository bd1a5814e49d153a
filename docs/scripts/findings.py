"""Put what a script measured into the part of a page that is marked for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


PAGES = Path(__file__).parents[1] / "explanation"


def as_table(frame: pl.DataFrame, /, *, digits: int = 3, percent: bool = False) -> str:
    """Return a frame as a Markdown table; floats to so many digits, or in percent."""

    def cell(value: object) -> str:
        if isinstance(value, float) and percent:
            return f"{100 * value:.1f}"
        if isinstance(value, float):
            return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"
        if isinstance(value, bool) or value is None:
            return "yes" if value else ""
        return f"{value:,}" if isinstance(value, int) else str(value)

    lines = [frame.columns, ["---"] * frame.width, *frame.rows()]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def write_measured(page: str, text: str, *, name: str = "") -> None:
    """Replace what stands between the marks of a page, or those of one of its parts."""
    part = f"{name} " if name else ""
    begin, end = f"<!-- measured: {part}begin -->\n", f"<!-- measured: {part}end -->"
    path = PAGES / page
    before, rest = path.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    path.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}", encoding="utf-8")
