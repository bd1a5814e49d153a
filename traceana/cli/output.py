"""Print a table so that no number is cropped, however narrow the terminal; show progress."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table


def print_table(table: Table) -> None:
    """Print a table at the width its columns need at the least; a narrower terminal wraps it."""
    from rich.console import Console

    out = Console(markup=False, highlight=False)
    wide = Console(width=10_000)
    least = wide.measure(table).minimum
    if out.width < least:
        out = Console(markup=False, highlight=False, width=least)
    out.print(table)


@contextmanager
def show_steps(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on a terminal, and nothing elsewhere; give what tells it of each step."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(what, total=None)

        def tell(done: int, steps: int, step: str) -> None:
            progress.update(bar, completed=done, total=steps, description=step)

        yield tell
