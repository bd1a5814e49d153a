"""A block of cells becomes rows of a table, and rejected rows with the rule that each broke."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl
from polars.exceptions import PolarsError

from traceana.ingesters.readers.lines import LINE, BadLine
from traceana.ingesters.recipe import LARGEST_WHOLE
from traceana.schema import REJECTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceana.ingesters.readers.reader import AnyBlock
    from traceana.ingesters.recipe import Recipe

ROW: Final = "\0row"
UNKNOWN: Final = "unknown"
_RIGHT: Final = "\0right"
_RULE: Final = "\0rule"
_NONE_REJECTED: Final = pl.DataFrame(schema=REJECTED).select("line", "rule", "text")
_FAILED: Final = pl.Schema({ROW: pl.UInt32, "rule": pl.String})


@dataclass(frozen=True)
class Converted:
    """One block's rows.

    Attributes
    ----------
    kept
        Columns of the table, and ``LINE``.
    rejected
        Columns `line`, `rule` and `text` of :data:`~traceana.schema.REJECTED`.
    unknown_words
        By column of the source, how often each value came that is not mapped.
    """

    kept: pl.DataFrame
    rejected: pl.DataFrame
    unknown_words: dict[str, Counter[str]]


def convert(block: AnyBlock, recipe: Recipe, /) -> Converted:
    """Convert and check one block.

    Every row is in `kept` or in `rejected`. Rows with the same key are left to the builder, which
    sees all blocks.
    """
    reshaped = recipe.reshape is not None
    typed = None if reshaped else block.typed(set(recipe.numbers.values()))
    bad_lines: list[BadLine] = []
    if typed is not None:
        rows = _rows_without_fault(typed.rename(recipe.views), recipe)
        if rows is not None:
            return Converted(rows, _NONE_REJECTED, {})
        source = typed.with_row_index(ROW)
    else:
        text = recipe.reshape(block.cells) if recipe.reshape else block.cells
        source = text.with_row_index(ROW)
        bad_lines = block.bad
    cells = source.rename(recipe.views)
    cells = cells.with_columns(
        _read_number(n) for n in recipe.numbers if cells[n].dtype.is_(pl.String)
    )
    cells = cells.with_columns(_nulls(recipe))
    broken = [
        _failures(cells, f"{s}|not_a_number", ~pl.col(n).is_finite())
        for n, s in recipe.numbers.items()
    ]
    for stage in (recipe.reread, recipe.derived):
        cells, failed = _attempt(cells, {name: one.value for name, one in stage.items()})
        broken.append(failed)
        for name, one in stage.items():
            if one.rule:
                broken.append(_failures(cells, one.rule, _unread(name, one.of)))
    if typed is None and block.not_utf8:
        broken += _broken_text(source, recipe)
    cells, failed = _attempt(
        cells, {rule: _is_whole(value) for rule, value in recipe.whole.items()}
    )
    broken += [failed, *(_failures(cells, rule, ~pl.col(rule)) for rule in recipe.whole)]
    failed = pl.concat([pl.DataFrame(schema=_FAILED), *broken])
    good = cells.join(failed, on=ROW, how="anti", maintain_order="left") if len(failed) else cells
    good, unknown_words = _map_values(good, recipe)
    rows, more = _attempt(good, _stated(recipe))
    kept, invalid = _check(rows.select(ROW, LINE, *recipe.schema), recipe)
    failed = pl.concat([failed, more, invalid]).unique(ROW, keep="first", maintain_order=True)
    rejected = [_NONE_REJECTED]
    if len(failed):
        rejected += _rejected_rows(source, failed, block, reshaped=reshaped)
    rejected += [_reject_line(bad, reshaped=reshaped) for bad in bad_lines]
    return Converted(
        kept.drop(ROW), pl.concat(rejected).sort("line", maintain_order=True), unknown_words
    )


def _rows_without_fault(cells: pl.DataFrame, recipe: Recipe) -> pl.DataFrame | None:
    """Return a block's rows, or None if there is a fault or an unknown value in any.

    Does in one pass what :func:`convert` does step by step where it must name the faults.
    """
    right = [pl.col(name).is_finite() for name in recipe.numbers]
    derived = recipe.reread | recipe.derived
    right += [~_unread(name, one.of) for name, one in derived.items()]
    right += [_is_whole(value) for value in recipe.whole.values()]
    query = (
        cells.lazy()
        .with_columns(_nulls(recipe))
        .with_columns(one.value.alias(name) for name, one in recipe.reread.items())
        .with_columns(one.value.alias(name) for name, one in recipe.derived.items())
        .with_columns(pl.all_horizontal(True, *right).alias(_RIGHT))
        .select(_RIGHT, LINE, *(value.alias(name) for name, value in _stated(recipe).items()))
        .with_columns(pl.all_horizontal(_RIGHT, *recipe.rules.values()).alias(_RIGHT))
    )
    try:
        rows = query.collect(engine="in-memory")
    except PolarsError:  # what cannot be cast or computed
        return None
    return rows.drop(_RIGHT) if rows[_RIGHT].all() else None


def _attempt(
    cells: pl.DataFrame, columns: Mapping[str, pl.Expr]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Add columns; rows for which one of them cannot be computed are failures."""
    none = pl.DataFrame(schema=_FAILED)
    try:
        return cells.with_columns(value.alias(name) for name, value in columns.items()), none
    except PolarsError:
        if not cells.height:  # no row is at fault
            raise
        if cells.height > 1:
            halves = (cells[: cells.height // 2], cells[cells.height // 2 :])
            good, failed = zip(*(_attempt(half, columns) for half in halves), strict=True)
            return pl.concat(good), pl.concat(failed)
    for name, value in columns.items():
        try:
            cells.select(value)
        except PolarsError:
            rule = f"{name.split('|')[0].strip(chr(0))}|not_computable"
            empty, _ = _attempt(cells.clear(), columns)
            return empty, _failures(cells, rule, pl.lit(value=True))
    raise AssertionError("columns that fail together fail apart")


def _nulls(recipe: Recipe) -> list[pl.Expr]:
    """Make null what stands for a missing value; of a number, however it is written."""
    nulls = []
    for view, words in recipe.nulls.items():
        missing = {float(word) for word in words} if view in recipe.numbers else set(words)
        given = pl.all_horizontal(pl.col(view) != word for word in missing)
        nulls.append(pl.when(given).then(pl.col(view)).alias(view))
    return nulls


def _unread(name: str, of: pl.Expr) -> pl.Expr:
    return pl.col(name).is_null() & of.is_not_null()


def _is_whole(value: pl.Expr) -> pl.Expr:
    return (value == value.floor()) & (value.abs() < LARGEST_WHOLE)


def _stated(recipe: Recipe) -> dict[str, pl.Expr]:
    """Return the table's columns as expressions over the source's."""
    return {
        name: recipe.stated.get(name, pl.lit(None)).cast(dtype)
        for name, dtype in recipe.schema.items()
    }


def _read_number(name: str) -> pl.Expr:
    """Read a number from text; what is none becomes infinite, as no number in a table may be."""
    text = pl.col(name)
    return pl.when(text.is_not_null()).then(
        text.cast(pl.Float64, strict=False).fill_null(float("inf"))
    )


def _broken_text(source: pl.DataFrame, recipe: Recipe) -> list[pl.DataFrame]:
    numbers = set(recipe.numbers.values())
    return [
        _failures(
            source, f"{name or 'index'}|not_utf8", pl.col(name).str.contains("\ufffd", literal=True)
        )
        for name, dtype in source.schema.items()
        if dtype == pl.String and name not in numbers
    ]


def _failures(cells: pl.DataFrame, rule: str, broken: pl.Expr) -> pl.DataFrame:
    return cells.filter(broken).select(ROW, pl.lit(rule).alias("rule"))


def _map_values(
    cells: pl.DataFrame, recipe: Recipe
) -> tuple[pl.DataFrame, dict[str, Counter[str]]]:
    """Make values that are not mapped ``unknown``, and count them."""
    unknown: dict[str, Counter[str]] = {}
    filled = {}
    for name, one in recipe.derived.items():
        if not one.rule:
            strange = cells.filter(_unread(name, one.of)).select(one.of.alias(name))[name]
            if len(strange):
                unknown[one.label] = Counter(map(_pattern, strange.to_list()))
            filled[name] = pl.when(one.of.is_not_null()).then(pl.col(name).fill_null(UNKNOWN))
    return cells.with_columns(value.alias(name) for name, value in filled.items()), unknown


def _pattern(value: str) -> str:
    """Return a value, of several words the first: what follows is often a number or a name."""
    first, _, others = value.partition(" ")
    return f"{first} ..." if others else value


def _check(rows: pl.DataFrame, recipe: Recipe) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Hold the table's rows against its rules, but for the key."""
    holds = rows.select(pl.all_horizontal(True, *recipe.rules.values())).to_series()
    if holds.all():
        return rows, pl.DataFrame(schema=_FAILED)
    first_broken = pl.coalesce(
        pl.when(~rule).then(pl.lit(name.replace("|check__", "|")))
        for name, rule in recipe.rules.items()
    )
    return rows.filter(holds.fill_null(value=True)), rows.filter(~holds).select(
        ROW, rule=first_broken
    )


def _rejected_rows(
    source: pl.DataFrame, failed: pl.DataFrame, block: AnyBlock, *, reshaped: bool
) -> list[pl.DataFrame]:
    found = failed.rename({"rule": _RULE}).join(source, on=ROW, how="left", maintain_order="left")
    text = pl.Series([block.text_of(line) for line in found[LINE]], dtype=pl.String)
    if reshaped:
        parts = found.select(pl.exclude(ROW, LINE, _RULE))
        text = parts.select(pl.concat_str(pl.all(), separator=",", ignore_nulls=True)).to_series()
    return [
        found.select(pl.col(LINE).alias("line"), pl.col(_RULE).alias("rule"), text.alias("text"))
    ]


def _reject_line(bad: BadLine, *, reshaped: bool) -> pl.DataFrame:
    """One rejected row a line; where lines are reshaped, one a cell that holds something."""
    texts = [cell for cell in bad.cells[1:] if cell] if reshaped else [bad.text]
    return pl.DataFrame(
        {"line": [bad.line] * len(texts), "rule": [bad.rule] * len(texts), "text": texts},
        schema={name: REJECTED[name] for name in ("line", "rule", "text")},
    )
