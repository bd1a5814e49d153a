"""Print tables, write frames to files, and show progress."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import polars as pl
    from rich.table import Table

    from traceana.results.tables import ResultTable


_SHORT = 30
"""Longer texts may wrap."""


def print_table(table: Table) -> None:
    """Print a table at the width its columns need at the least; a narrower terminal wraps it.

    Columns that all must not wrap need their full width.
    """
    from rich.console import Console

    out = Console(markup=False, highlight=False)
    wide = Console(width=10_000)
    measured = wide.measure(table)
    rigid = all(column.no_wrap for column in table.columns)
    least = measured.maximum if rigid else measured.minimum
    if out.width < least:
        out = Console(markup=False, highlight=False, width=least)
    out.print(table)


def print_frame(
    frame: pl.DataFrame,
    table: type[ResultTable] | None = None,
    /,
    *,
    columns: Sequence[str] | None = None,
    headings: Mapping[str, str] | None = None,
) -> None:
    """Print a frame, each column as its declaration states."""
    from rich.table import Table

    from traceana.results.display import cells_of

    cells = cells_of(frame, table, columns=columns, headings=headings)
    printed = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for place, (heading, numeric) in enumerate(zip(cells.headings, cells.numeric, strict=True)):
        short = max((len(row[place]) for row in cells.rows), default=0) <= _SHORT
        printed.add_column(heading, justify="right" if numeric else "left", no_wrap=short)
    for row in cells.rows:
        printed.add_row(*row)
    print_table(printed)


def frame_writer(
    out: Path | None, table: type[ResultTable] | None = None, /
) -> Callable[[pl.DataFrame], object]:
    """Return a function that writes a frame to `out`, by its ending; None writes nothing.

    The headings of a CSV have the units of the table's declaration.

    Raises
    ------
    DataError
        If the ending is none of .csv, .json and .parquet, or there is no such folder.
    """
    from traceana.errors import DataError

    if out is None:
        return lambda _: None
    writers: dict[str, Callable[[pl.DataFrame], object]] = {
        ".csv": lambda frame: frame.rename(_headings(frame, table)).write_csv(out),
        ".json": lambda frame: frame.write_json(out),
        ".parquet": lambda frame: frame.write_parquet(out),
    }
    if out.suffix not in writers:
        raise DataError(f"--out {out}: the ending must be one of {', '.join(writers)}")
    if not out.parent.is_dir():
        raise DataError(f"--out {out}: there is no folder {out.parent}; make it first")

    def write(frame: pl.DataFrame) -> None:
        try:
            writers[out.suffix](frame)
        except OSError as error:
            # Polars says what is wrong in the text alone, and names the file in it again
            why = error.strerror or str(error).partition(":")[0]
            raise DataError(f"--out {out}: cannot be written ({why}); name another file") from error

    return write


def _headings(frame: pl.DataFrame, table: type[ResultTable] | None) -> dict[str, str]:
    from traceana.results.tables import headings

    return dict(zip(frame.columns, headings(table, frame.columns), strict=True)) if table else {}


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
