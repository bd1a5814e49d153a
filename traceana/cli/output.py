"""Print a table so that no number is cropped, however narrow the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def print_table(table: Table) -> None:
    """Print a table at the width its columns need at the least; a narrower terminal wraps it."""
    from rich.console import Console

    out = Console(markup=False, highlight=False)
    wide = Console(width=10_000)
    measured = wide.measure(table)
    # columns none of which may wrap are cropped below their full width
    least = measured.maximum if all(c.no_wrap for c in table.columns) else measured.minimum
    if out.width < least:
        out = Console(markup=False, highlight=False, width=least)
    out.print(table)
