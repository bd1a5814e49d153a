"""A block of text cells becomes rows of a table, and rejected rows with the rule each broke."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import dataframely as dy
import polars as pl

from traceana.ingesters.rows import LINE, BadLine, Block
from traceana.schema import get_table

if TYPE_CHECKING:
    from traceana.ingesters.recipe import Recipe

ROW: Final = "__row"
REJECTED: Final = pl.Schema(
    {"file": pl.String, "row": pl.Int64, "line": pl.Int64, "rule": pl.String, "text": pl.String}
)
"""Rejected rows: file, row (data rows counted from 1), line (as an editor counts), the first rule
that the row broke, and its text as published (of a reshaped table: its cells')."""


class _WithRow(dy.Schema):
    """The row's place in its block, which filtering must carry along."""

    row = dy.UInt32(alias=ROW)


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

    Every row is in `kept` or in `rejected`. Of rows with the same key, the first that breaks no
    other rule is kept (over blocks, too: see the store).
    """
    cells = recipe.reshape(block.cells) if recipe.reshape else block.cells
    cells = cells.with_row_index(ROW).with_columns(
        pl.when(pl.col(column).is_in(words)).then(None).otherwise(pl.col(column)).alias(column)
        for column, words in recipe.nulls.items()
    )
    as_text = cells
    cells, broken = _read_numbers(cells, recipe)
    if block.not_utf8:
        broken += _broken_text(cells)
    failed = pl.concat([pl.DataFrame(schema={ROW: pl.UInt32, "rule": pl.String}), *broken])
    good = cells.join(failed, on=ROW, how="anti", maintain_order="left") if len(failed) else cells
    good, unknown_words = _map_words(good, recipe)
    kept, invalid = _check(good, recipe, stem)
    failed = pl.concat([failed, invalid]).unique(ROW, keep="first", maintain_order=True)
    rejected = _rejected_rows(as_text, failed, block, reshaped=recipe.reshape is not None)
    rejected += [_reject_line(bad, reshaped=recipe.reshape is not None) for bad in block.bad]
    return Converted(
        kept.join(cells.select(ROW, LINE), on=ROW, how="left", maintain_order="left").drop(ROW),
        pl.concat(rejected).sort("line", maintain_order=True),
        unknown_words,
    )


def _read_numbers(cells: pl.DataFrame, recipe: Recipe) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Cast the number columns; a cell that is not one is told by its column."""
    names = [*recipe.numbers, *recipe.whole_numbers]
    numbers = cells.select(ROW, pl.col(names).cast(pl.Float64, strict=False))
    broken = []
    for name in names:
        number = numbers[name]
        right = number.is_finite()
        rule = "not_a_number"
        if name in recipe.whole_numbers:
            right &= number == number.floor()
            rule = "not_a_whole_number"
        wrong = cells[name].is_not_null() & ~right.fill_null(value=False)
        if wrong.any():
            broken.append(_failures(cells.filter(wrong), f"{name}|{rule}"))
    typed = numbers.select(
        pl.col(recipe.numbers),
        pl.col(recipe.whole_numbers).cast(pl.Int64, strict=False),
    )
    return cells.with_columns(typed), broken


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
    for column, words in recipe.words.items():
        strange = cells[column].filter(~cells[column].is_in(list(words))).drop_nulls()
        if len(strange):
            unknown[column] = Counter(strange.to_list())
    mapped = [
        pl.when(pl.col(column).is_not_null()).then(
            pl.col(column).replace_strict(words, default="unknown", return_dtype=pl.String)
        )
        for column, words in recipe.words.items()
    ]
    return cells.with_columns(mapped), unknown


def _check(cells: pl.DataFrame, recipe: Recipe, stem: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Build the table's rows and hold them against its declaration."""
    schema = get_table(recipe.table)
    stated = recipe.columns(stem)
    rows = cells.select(
        ROW,
        *(
            stated.get(name, pl.lit(None)).cast(column.dtype).alias(name)
            for name, column in schema.columns().items()
        ),
    )
    with_row: type[dy.Schema] = type(schema.__name__, (schema, _WithRow), {})
    kept, failure = with_row.filter(rows)
    rules = list(failure.counts())
    if not rules:
        return kept.select(rows.columns), pl.DataFrame(schema={ROW: pl.UInt32, "rule": pl.String})
    # the key's rule last: of rows that share a key, the first without another fault is kept
    rules.sort(key="primary_key".__eq__)
    broken = failure.details().select(
        pl.exclude(rules),
        rule=pl.coalesce(
            pl.when(pl.col(rule) == "invalid").then(pl.lit(rule.replace("|check__", "|")))
            for rule in rules
        ).replace("primary_key", "duplicate_key"),
    )
    repeated = pl.col("rule") == "duplicate_key"
    key = schema.primary_key()
    first = broken.filter(repeated).sort(ROW).unique(key, keep="first") if key else broken.clear()
    again = broken.join(first, on=ROW, how="anti")
    return (
        pl.concat([kept.select(rows.columns), first.select(rows.columns)]).sort(ROW),
        again.select(ROW, "rule").sort(ROW),
    )


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
