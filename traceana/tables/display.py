"""Result tables as text: one rendering for the page, the terminal and notebooks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeVar

from traceana.tables import formatting

if TYPE_CHECKING:
    import polars as pl

    from traceana.tables.declare import ResultTable

Frame = TypeVar("Frame", "pl.DataFrame", "pl.LazyFrame")
DASH: Final = "\N{EN DASH}"
KEY_HEADINGS: Final = {
    "cov_job_id": "CoV row",
    "cpus": "CPUs",
    "dataset": "Data set",
    "ddof": "ddof",
    "eta_j": "Energy to the target (J)",
    "gpu": "GPU",
    "gpu_type": "GPU type",
    "gpus": "GPUs",
    "gpus_requested": "GPUs requested",
    "job_id": "Job",
    "n": "n",
    "n_instances": "Instances",
    "pvalue": "p",
    "pvalue_adjusted": "Adjusted p",
    "qos": "QoS class",
    "tta_s": "Time to the target (s)",
    "worker_id": "Worker",
}
_FIRST_ROWS: Final = 10
_FORMULA: Final = "(?s)^([=+@\t\r\n\uff1d\uff0b\uff20\uff0d-].)"  # wide signs count as well


@dataclass(frozen=True)
class Cells:
    """A table whose cells are text."""

    headings: tuple[str, ...]
    numeric: tuple[bool, ...]
    """Of each column, its heading and whether it contains numbers."""
    rows: tuple[tuple[str, ...], ...]
    """The rows; the first cell names the row."""


def neutral(frame: Frame, /) -> Frame:
    """Return a frame for a CSV file: what a spreadsheet takes for a formula gets an apostrophe."""
    import polars as pl  # noqa: PLC0415  a page needs none of it

    words = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    made = frame.with_columns(
        words.str.replace(_FORMULA, "'$1").str.replace(r"^'(-[0-9.]+)$", "$1")  # a number is none
    )
    return made.rename(lambda name: re.sub(_FORMULA, r"'\1", name))


def without_far_quantiles(frame: pl.DataFrame, /) -> pl.DataFrame:
    """Set quantiles (p99_s, runtime_s_p95) of n values or jobs to null beyond 1/n and 1 - 1/n."""
    import polars as pl  # noqa: PLC0415  a page needs none of it

    n = next((name for name in ("n", "jobs") if name in frame.columns), None)
    level_of = re.compile(r"(?:^|_)p(\d\d)(?:_s|_wait_s|_pending_s)?$")
    levels = {name: level_of.search(name) for name in frame.columns}
    tails = {
        name: min(level := int(values[1]), 100 - level)
        for name, values in levels.items()
        if values and n
    }
    return frame.with_columns(
        pl.when(pl.col(n or "") * tail >= 100).then(name).alias(name)
        for name, tail in tails.items()
    )


def key_heading(name: str, /) -> str:
    """Return the heading of a column that no table declares, such as one of `by`."""
    words, _, unit = name.rpartition("_")
    is_unit = unit in formatting.UNITS and words and not words.endswith("_per")
    if name not in KEY_HEADINGS and is_unit:
        return f"{key_heading(words)} ({formatting.UNITS[unit]})"
    return KEY_HEADINGS.get(
        name, re.sub("^share_", "fraction_", name).replace("_", " ").capitalize()
    )


def cells_of(
    frame: pl.DataFrame,
    table: type[ResultTable] | None = None,
    /,
    *,
    columns: Sequence[str] | None = None,
    headings: Mapping[str, str] = {},
    null: Mapping[str, str] = {},
) -> Cells:
    """Return a frame as text; two adjacent columns of one heading are the ends of an interval."""
    declared = table.columns() if table else {}
    facts = {name: dict(column.metadata or {}) for name, column in declared.items()}
    left = list(frame.columns if columns is None else columns)[::-1]
    shown, numeric, texts = list[str](), list[bool](), list[list[str]]()
    while left:
        name = left.pop()
        metadata: dict[str, Any] = facts.get(name, {})
        is_number = frame.schema[name].is_numeric()
        display = metadata.get("display") or ("plain" if is_number else "as_text")
        heading = headings.get(name) or metadata.get("heading") or key_heading(name)
        values = [frame[name].to_list()]
        if left and facts.get(left[-1], {}).get("heading") == heading:
            display = f"{display}_range"
            values.append(frame[left.pop()].to_list())
        write = getattr(formatting, display)
        empty = null.get(name, DASH)
        shown.append(heading)
        numeric.append(is_number)
        texts.append([empty if None in row else write(*row) for row in zip(*values, strict=True)])
    return Cells(tuple(shown), tuple(numeric), tuple(zip(*texts, strict=True)))


def html_table(frame: pl.DataFrame, table: type[ResultTable] | None = None, /) -> str:
    """Return the first ten rows of a frame as an HTML table, with the number of all rows."""
    cells = cells_of(frame.head(_FIRST_ROWS), table)
    head = "".join(f"<th>{escape(heading)}</th>" for heading in cells.headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells.rows
    )
    more = f"<p>{_FIRST_ROWS} of {frame.height:,} rows</p>" if frame.height > _FIRST_ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def text_table(frame: pl.DataFrame, table: type[ResultTable], columns: Sequence[str], /) -> str:
    """Return keys and these columns, but those of nulls, of the first ten rows as aligned text."""
    keys = [name for name in frame.columns if name not in table.columns()]
    some = columns or table.columns()
    shown = [name for name in (*keys, *some) if name in keys or frame[name].count()]
    cells = cells_of(frame.head(_FIRST_ROWS), table, columns=shown)
    rows = [cells.headings, *cells.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = (
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, cells.numeric, strict=True)
        ).rstrip()
        for row in rows
    )
    more = f"\n{_FIRST_ROWS} of {frame.height:,} rows" if frame.height > _FIRST_ROWS else ""
    return "\n".join(aligned) + more


def csv_text(frame: pl.DataFrame, table: type[ResultTable] | None = None, /) -> str:
    """Return a frame as CSV: headings with the declared units, no cell that is a formula."""
    import polars as pl  # noqa: PLC0415  as above

    from traceana.tables.declare import headings  # noqa: PLC0415

    names = dict(zip(frame.columns, headings(table, frame.columns), strict=True))
    flat = frame.with_columns(
        pl.col(name).cast(pl.List(pl.String)).list.join(" ")
        for name, kind in frame.schema.items()
        if isinstance(kind, pl.List)
    )
    digits = pl.selectors.float().round_sig_figs(formatting.DIGITS)
    return neutral(flat.with_columns(digits).rename(names)).write_csv()
