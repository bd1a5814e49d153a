"""A block of text cells becomes rows of a table, and rejected rows with the rule each broke."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.ingesters.block import LINE, BadLine, Block
from traceana.schema import REJECTED, get_rules, get_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceana.ingesters.recipe import Recipe

ROW: Final = "__row"
UNKNOWN: Final = "unknown"
_RIGHT: Final = "__right"
_LARGEST: Final = 2.0**63

_NONE_REJECTED: Final = pl.DataFrame(schema=REJECTED).select("line", "rule", "text")
_FAILED: Final = pl.Schema({ROW: pl.UInt32, "rule": pl.String})


@dataclass(frozen=True)
class Converted:
    """One block's rows.

    Attributes
    ----------
    kept
        Columns of the table, and :data:`LINE`.
    rejected
        Columns `line`, `rule` and `text` of :data:`REJECTED`.
    unknown_words
        By publisher's column, how often each word came that the recipe does not list.
    """

    kept: pl.DataFrame
    rejected: pl.DataFrame
    unknown_words: dict[str, Counter[str]]


def convert(block: Block, recipe: Recipe, stem: str, /) -> Converted:
    """Convert and check one block of a CSV whose base name without ``.csv`` is `stem`.

    Every row is in `kept` or in `rejected`. Rows with the same key are left to the store, which
    sees all blocks.
    """
    numbers = [*recipe.numbers, *recipe.whole_numbers]
    reshaped = recipe.reshape is not None
    typed = None if reshaped else block.typed(numbers)
    if typed is not None:
        rows = _rows_without_fault(typed, recipe, stem)
        if rows is not None:
            return Converted(rows, _NONE_REJECTED, {})
        as_text = typed.with_row_index(ROW)
        cells = as_text
        bad_lines = []
    else:
        text = recipe.reshape(block.cells) if recipe.reshape else block.cells
        as_text = text.with_row_index(ROW)
        cells = as_text.with_columns(_read_number(name) for name in numbers)
        bad_lines = block.bad
    cells = cells.with_columns(_nulls(recipe))
    broken = _check_numbers(cells, recipe)
    if typed is None and block.not_utf8:
        broken += _broken_text(cells)
    failed = pl.concat([pl.DataFrame(schema=_FAILED), *broken])
    good = cells.join(failed, on=ROW, how="anti", maintain_order="left") if len(failed) else cells
    good, unknown_words = _map_words(good, recipe)
    kept, invalid = _check(good, recipe, stem)
    failed = pl.concat([failed, invalid]).unique(ROW, keep="first", maintain_order=True)
    rejected = [_NONE_REJECTED]
    if len(failed):
        rejected += _rejected_rows(as_text, failed, block, reshaped=reshaped)
    rejected += [_reject_line(bad, reshaped=reshaped) for bad in bad_lines]
    return Converted(
        kept.drop(ROW), pl.concat(rejected).sort("line", maintain_order=True), unknown_words
    )


def _rows_without_fault(typed: pl.DataFrame, recipe: Recipe, stem: str) -> pl.DataFrame | None:
    """Return a block's rows, or None if there is a fault or an unknown word in any.

    Does in one pass what :func:`convert` does step by step where it must tell of faults.
    """
    query = (
        typed.lazy()
        .with_columns(_nulls(recipe))
        .with_columns(
            pl.all_horizontal(True, *_right(recipe).values()).alias(_RIGHT),
            *(pl.col(c).replace_strict(w, return_dtype=pl.String) for c, w in recipe.words.items()),
        )
        .select(_RIGHT, LINE, *_stated(recipe, stem))
        .with_columns(pl.all_horizontal(_RIGHT, *_rules(recipe.table).values()).alias(_RIGHT))
    )
    try:
        rows = query.collect(engine="in-memory")
    except pl.exceptions.InvalidOperationError:  # an unknown word, or what cannot be cast
        return None
    return rows.drop(_RIGHT) if rows[_RIGHT].all() else None


def _nulls(recipe: Recipe) -> list[pl.Expr]:
    """Make null what stands for a missing value; of a number, however it is written."""
    numbers = (*recipe.numbers, *recipe.whole_numbers)
    nulls = []
    for column, words in recipe.nulls.items():
        missing = {float(word) for word in words} if column in numbers else set(words)
        given = pl.all_horizontal(pl.col(column) != word for word in missing)
        nulls.append(pl.when(given).then(pl.col(column)).alias(column))
    return nulls


def _mapped(column: str) -> str:
    return f"__{column}"


def _our_words(column: str, words: Mapping[str, str]) -> pl.Expr:
    ours = pl.col(column).replace_strict(words, default=UNKNOWN, return_dtype=pl.String)
    return pl.when(pl.col(column).is_not_null()).then(ours).alias(_mapped(column))


def _stated(recipe: Recipe, stem: str) -> list[pl.Expr]:
    """Return the table's columns as expressions over the publisher's."""
    stated = recipe.columns(stem)
    return [
        stated.get(name, pl.lit(None)).cast(column.dtype).alias(name)
        for name, column in get_table(recipe.table).columns().items()
    ]


def _read_number(name: str) -> pl.Expr:
    """Read a number from text; what is none becomes infinite, as no number in a table may be."""
    text = pl.col(name)
    return pl.when(text.is_not_null()).then(
        text.cast(pl.Float64, strict=False).fill_null(float("inf"))
    )


def _right(recipe: Recipe) -> dict[str, pl.Expr]:
    """Return by rule what holds for a finite number, or for a whole one where that belongs."""
    right = {f"{name}|not_a_number": pl.col(name).is_finite() for name in recipe.numbers}
    for name in recipe.whole_numbers:
        number = pl.col(name)
        right[f"{name}|not_a_whole_number"] = (number == number.floor()) & (number.abs() < _LARGEST)
    return right


def _check_numbers(cells: pl.DataFrame, recipe: Recipe) -> list[pl.DataFrame]:
    """Tell the cells that are no finite number, or no whole one where that belongs."""
    return [
        _failures(cells.filter(~holds), rule)
        for rule, holds in _right(recipe).items()
        if not cells.select(holds.all()).item()
    ]


def _broken_text(cells: pl.DataFrame) -> list[pl.DataFrame]:
    return [
        _failures(
            cells.filter(pl.col(name).str.contains("\ufffd", literal=True)),
            f"{name or 'index'}|not_utf8",
        )
        for name, dtype in cells.schema.items()
        if dtype == pl.String
    ]


def _failures(rows: pl.DataFrame, rule: str) -> pl.DataFrame:
    return rows.select(ROW, pl.lit(rule).alias("rule"))


def _map_words(cells: pl.DataFrame, recipe: Recipe) -> tuple[pl.DataFrame, dict[str, Counter[str]]]:
    unknown: dict[str, Counter[str]] = {}
    mapped = cells.with_columns(_our_words(column, words) for column, words in recipe.words.items())
    for column in recipe.words:
        strange = cells[column].filter(mapped[_mapped(column)] == UNKNOWN)
        if len(strange):
            unknown[column] = Counter(strange.to_list())
    return mapped.with_columns(pl.col(_mapped(c)).alias(c) for c in recipe.words), unknown


def _check(cells: pl.DataFrame, recipe: Recipe, stem: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build the table's rows and hold them against its declaration, but for the key."""
    rows = cells.select(ROW, LINE, *_stated(recipe, stem))
    rules = _rules(recipe.table)
    holds = rows.select(pl.all_horizontal(rules.values())).to_series()
    if holds.all():
        return rows, pl.DataFrame(schema=_FAILED)
    first_broken = pl.coalesce(
        pl.when(~rule).then(pl.lit(name.replace("|check__", "|"))) for name, rule in rules.items()
    )
    return rows.filter(holds.fill_null(value=True)), rows.filter(~holds).select(
        ROW, rule=first_broken
    )


@cache
def _rules(table: str) -> dict[str, pl.Expr]:
    return {name: rule for name, rule in get_rules(table).items() if name != "primary_key"}


def _rejected_rows(
    cells: pl.DataFrame, failed: pl.DataFrame, block: Block, *, reshaped: bool
) -> list[pl.DataFrame]:
    told = failed.join(cells, on=ROW, how="left", maintain_order="left")
    text = pl.Series([block.text_of(line) for line in told[LINE]], dtype=pl.String)
    if reshaped:
        parts = told.select(pl.exclude(ROW, LINE, "rule"))
        text = parts.select(pl.concat_str(pl.all(), separator=",", ignore_nulls=True)).to_series()
    return [told.select(pl.col(LINE).alias("line"), "rule", text.alias("text"))]


def _reject_line(bad: BadLine, *, reshaped: bool) -> pl.DataFrame:
    """One rejected row a line; where lines are reshaped, one a cell that holds something."""
    texts = [cell for cell in bad.cells[1:] if cell] if reshaped else [bad.text]
    return pl.DataFrame(
        {"line": [bad.line] * len(texts), "rule": [bad.rule] * len(texts), "text": texts},
        schema={name: REJECTED[name] for name in ("line", "rule", "text")},
    )
