"""Print tables, write frames to files, show progress; guard the output from control characters."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from traceana.errors import DataError, TraceanaError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from traceana.tables.declare import ResultTable


TYPED: Final = "traceana.command"
"""Key under which a command's context has its words."""


class ReaderGoneError(Exception):
    """The process that reads the output has ended."""


class Stream:
    """A text stream that escapes control characters; ``rich`` writes its own beneath."""

    def __init__(self, stream: IO[str], *, escape: bool = True) -> None:
        self._stream = stream
        self._escape = escape
        if escape:
            self.rich_proxied_file = Stream(stream, escape=False)

    def write(self, text: str) -> int:
        """Write a text."""
        self._attempt(self._stream.write, printable(text) if self._escape else text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts; raises as :meth:`write`."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Flush the stream; raises as :meth:`write`."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Any, *args: str) -> None:  # noqa: ANN401
        try:
            action(*args)
        except OSError as error:
            # what is buffered would be tried again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())
            if isinstance(error, BrokenPipeError):
                raise ReaderGoneError from None
            raise TraceanaError(f"the output cannot be written: {error.strerror}") from None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  all else is the stream's
        return getattr(self._stream, name)


def guard_streams() -> None:
    """Put :class:`Stream` around standard output and error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, Stream(stream))


def terminal(*, stderr: bool = False, width: int | None = None) -> Console:
    """Return a console that prints text as it is, control characters escaped."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    raw = getattr(stream, "rich_proxied_file", stream)
    console = Console(file=raw, width=width, markup=False, highlight=False)
    render = console.render_str
    # rich renders each text and each cell of a table by this method
    console.render_str = lambda text, **options: render(printable(text), **options)  # type: ignore[method-assign]
    return console


_FORMATS: Final = (".csv", ".json", ".parquet")


def print_json(content: object) -> None:
    """Print a result as indented JSON."""
    sys.stdout.write(json.dumps(content, indent=2) + "\n")


def print_rows(frame: pl.DataFrame, table: type[ResultTable], **options: Any) -> None:  # noqa: ANN401
    """Print a result table with options of `cells_of`."""
    from traceana.tables.display import cells_of

    cells = cells_of(frame, table, **options)
    print_cells(zip(cells.headings, cells.numeric, strict=True), cells.rows)


def print_cells(columns: Iterable[tuple[str, bool]], rows: Iterable[Iterable[str]]) -> None:
    """Print rows of text under headings, never cropped; numbers (True) are right-aligned."""
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for heading, numeric in columns:
        shown.add_column(heading, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    print_table(shown)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A frame of a result: in JSON under its name, on a terminal as the table declares it."""

    name: str
    frame: pl.DataFrame
    table: type[ResultTable]
    title: str = ""
    columns: Sequence[str] | None = None
    rows: pl.DataFrame | None = None
    """Rows for the terminal, if they differ from those of the frame."""


def print_result(title: str, about: Mapping[str, Any], *parts: Shown, as_json: bool) -> None:
    """Print the frames of a result, marked if its rows are synthetic."""
    if as_json:
        print_json({**about, **{part.name: part.frame.to_dicts() for part in parts}})
        return
    mark = "SYNTHETIC, no observed row in it\n" if about["synthetic"] else ""
    sys.stdout.write(f"{mark}{title}\n")
    for part in parts:
        if part.title:
            sys.stdout.write(f"\n{part.title}\n")
        rows = part.frame if part.rows is None else part.rows
        print_rows(rows, part.table, columns=part.columns)


def print_table(table: Table) -> None:
    """Print a table at least as wide as columns need that must not wrap; a terminal wraps it."""
    out = terminal()
    measured = terminal(width=10_000).measure(table)
    rigid = all(column.no_wrap for column in table.columns)
    least = measured.maximum if rigid else measured.minimum
    if out.width < least:
        out = terminal(width=least)
    with out.capture() as printed:
        out.print(table)
    lines = "".join(f"{line.rstrip()}\n" for line in printed.get().split("\n")[:-1])
    getattr(sys.stdout, "rich_proxied_file", sys.stdout).write(lines)


def check_out(out: Path | None) -> Path | None:
    """Refuse a file that cannot be made, or of an unknown format, before anything is computed."""
    if out is not None and out.suffix not in _FORMATS:
        raise DataError(f"--out {out}: the ending must be one of {', '.join(_FORMATS)}")
    if out is not None and not out.parent.is_dir():
        raise DataError(f"--out {out}: there is no folder {out.parent}; make it first")
    return out


def write_frame(
    frame: pl.DataFrame, out: Path | None, table: type[ResultTable] | None = None
) -> None:
    """Write a frame to a file, if one is named; headings of a CSV file have units."""
    from traceana.tables.display import csv_text

    if out is not None and out.suffix == ".csv":
        write_file(out, csv_text(frame, table).encode())
    elif out is not None:
        made = BytesIO()
        (frame.write_json if out.suffix == ".json" else frame.write_parquet)(made)
        write_file(out, made.getvalue())


def write_file(out: Path, content: bytes) -> None:
    """Write a file, or raise a DataError."""
    from traceana.store.writer import write_whole

    try:
        write_whole({out: content})
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"--out {out}: cannot be written ({why}); name another file") from error


@contextmanager
def show_steps(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar on a terminal; yield a function that reports each step."""
    from rich.markup import escape
    from rich.progress import Progress

    console = terminal(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(what, total=None)

        def report_step(done: int, steps: int, step: str) -> None:
            step = escape(printable(step))  # may be the name of a file
            progress.update(bar, completed=done, total=steps, description=step)

        yield report_step


@contextmanager
def show_fraction(what: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar; yield a function that reports the completed fraction."""
    with show_steps(what) as report_step:
        yield lambda fraction: report_step(round(100 * fraction), 100, what)
