"""``traceana map FILE``: a proposed mapping, and the rows that it makes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from traceana.cli.options import ReaderOption, argument, option
from traceana.cli.streams import terminal
from traceana.errors import DataError
from traceana.tables.formatting import plural

if TYPE_CHECKING:
    import polars as pl

_ROWS = 5
_CELL = 80
"""Characters of a cell in the preview."""


def map_file(
    file: Annotated[Path, argument("Log with a header, or JSON.", "FILE")],
    *,
    out: Annotated[
        Path | None, option("File for the mapping.  [default: standard output]", "M.toml")
    ] = None,
    reader: ReaderOption = None,
) -> None:
    """Propose a mapping for a file and preview its rows.

    Uncertain lines of the mapping end in the comment # unsure.
    """
    from traceana.ingesters import IngestError, preview_mapping, propose_mapping

    text = propose_mapping(file, reader=reader)
    if out is None:
        sys.stdout.write(text)
    else:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DataError(f"--out {out}: cannot be written ({error.strerror})") from error
        sys.stderr.write(f"mapping: {out}\n")
    try:
        previews = preview_mapping(file, text)
    except IngestError as error:
        saved = f"correct {out}" if out else f"traceana map {file} --out M.toml, correct M.toml"
        name = out or "M.toml"
        raise DataError(
            f"{error}; next: {saved}, then traceana ingest {file} --mapping {name}"
        ) from error
    for table, preview in previews.items():
        entry = preview.entry
        _show(table, preview.rows)
        sys.stderr.write(
            f"{table}: {entry.rows_read:,} rows read = {entry.rows_kept:,} kept + "
            f"{entry.rows_rejected:,} rejected\n"
        )
        for rule, count in [*entry.rejected.items()][:_ROWS]:
            sys.stderr.write(f"rejected: {count:,} by {rule}\n")
        for rule, count in [*entry.nulled.items()][:_ROWS]:
            sys.stderr.write(f"set to null: {count:,} cells by {rule}\n")
    doubts = text.count("# unsure:")
    if doubts:
        sys.stderr.write(f"check what is marked unsure: {plural(doubts, 'line')}\n")
    following = f"report {file} --mapping {out}" if out else f"map {file} --out M.toml"
    sys.stderr.write(f"next: traceana {following}\n")


def _show(table: str, rows: pl.DataFrame) -> None:
    """Print the first rows with a line per column, so that a wide table fits."""
    from rich.table import Table

    shown = Table(title=f"{table}: first rows", box=None, pad_edge=False)
    shown.add_column("column", no_wrap=True)
    for number in range(min(_ROWS, rows.height)):
        shown.add_column(f"row {number + 1}")
    for name in rows.columns:
        if "\0" not in name and rows[name].count():
            values = rows[name].head(_ROWS)
            shown.add_row(name, *("-" if value is None else str(value)[:_CELL] for value in values))
    terminal(stderr=True).print(shown)
