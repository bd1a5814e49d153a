"""What an ingester states for one table: row for row, so that no row can get lost on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl


@dataclass(frozen=True)
class Recipe:
    """How rows of a publisher's CSVs become rows of one of our tables.

    Attributes
    ----------
    table
        Name of the table (see :data:`traceana.schema.TABLES`).
    columns
        From the CSV's base name without ``.csv``, the table's columns as expressions over the
        publisher's columns. Columns of the table that are not named become null. Expressions,
        not a frame: what an ingester does is row by row, and no row can get lost in it.
    numbers, whole_numbers
        The publisher's columns that hold numbers; a cell that is not one rejects its row.
    nulls
        Words that mean missing in a publisher's column, beside the empty cell; in a column of
        numbers, however such a number is written.
    words
        By publisher's column, its words and ours (none of them ``unknown``); a word that is not
        listed becomes ``unknown`` and is counted.
    reshape
        Turns a frame of text cells (with a column of line numbers that it must carry along)
        into one with another number of rows, before anything else; rows are counted after it.
    """

    table: str
    columns: Callable[[str], Mapping[str, pl.Expr]]
    numbers: tuple[str, ...] = ()
    whole_numbers: tuple[str, ...] = ()
    nulls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reshape: Callable[[pl.DataFrame], pl.DataFrame] | None = None
