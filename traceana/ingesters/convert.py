"""A block of cells becomes rows of a table, and rejected rows with the rule that each broke."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl
from polars.exceptions import PolarsError

from traceana.errors import DataError
from traceana.ingesters.readers.lines import BAD_LINES, LINE
from traceana.ingesters.recipe import LARGEST_WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.readers.reader import AnyBlock
    from traceana.ingesters.recipe import Recipe

ROW: Final = "\0row"
UNKNOWN: Final = "unknown"
_RIGHT: Final = "\0right"
_RULE: Final = "\0rule"
_NONE_REJECTED: Final = pl.DataFrame(schema=BAD_LINES)
_NONE_FAILED: Final = pl.DataFrame(schema={ROW: pl.UInt32, "rule": pl.String})
_MOST_FAILED: Final = 1000
_LONGEST_WORD: Final = 100


@dataclass(frozen=True)
class Converted:
    """One block's rows.

    Attributes
    ----------
    kept
        Columns of the table, and ``LINE``.
    rejected
        Columns of :data:`~traceana.ingesters.readers.lines.BAD_LINES`.
    unknown_words
        By column of the source, how often each value came that is not mapped.
    """

    kept: pl.DataFrame
    rejected: pl.DataFrame
    unknown_words: dict[str, Counter[str]]


def convert(block: AnyBlock, recipe: Recipe, /) -> Iterator[tuple[AnyBlock, Converted]]:
    """Convert and check one block; one with a fault in parts, so that memory stays bounded.

    Every row is in `kept` or in `rejected`. Rows with the same key are left to the builder, which
    sees all blocks.
    """
    typed = None if recipe.reshape else block.typed(set(recipe.numbers.values()))
    rows = None
    if typed is not None:
        rows = _rows_without_fault(typed.rename(recipe.views), recipe)
    if rows is not None:
        yield block, Converted(rows, _NONE_REJECTED, {})
        return
    for part in block.parts():
        if part is block:
            yield block, _find_faults(block, typed, recipe)
        else:
            yield from convert(part, recipe)


def _find_faults(block: AnyBlock, typed: pl.DataFrame | None, recipe: Recipe) -> Converted:
    """Convert a block step by step, and name the rule that each rejected row breaks."""
    reshaped = recipe.reshape is not None
    rejected = [_NONE_REJECTED]
    if typed is not None:
        source = typed.with_row_index(ROW)
    else:
        text = recipe.reshape(block.cells) if recipe.reshape else block.cells
        source = text.with_row_index(ROW)
        rejected.append(_filled_cells(block) if reshaped else block.bad)
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
    failed = pl.concat([_NONE_FAILED, *broken])
    good = cells.join(failed, on=ROW, how="anti", maintain_order="left") if len(failed) else cells
    good, unknown_words = _map_values(good, recipe)
    rows, more = _attempt(good, _stated(recipe))
    kept, invalid = _check(rows.select(ROW, LINE, *recipe.schema), recipe)
    failed = pl.concat([failed, more, invalid]).unique(ROW, keep="first", maintain_order=True)
    if len(failed):
        rejected.append(_rejected_rows(source, failed, block, reshaped=reshaped))
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
    none = _with(cells.clear(), columns)  # what fails here is no row's fault
    good, failed, waiting = [none], [_NONE_FAILED], [cells]
    while waiting:
        part = waiting.pop()
        try:
            good.append(_with(part, columns))
        except PolarsError as error:
            if part.height > 1:
                waiting += [part[part.height // 2 :], part[: part.height // 2]]
            elif len(failed) > _MOST_FAILED:
                reason = str(error).splitlines()[0]
                raise DataError(
                    f"an expression fails for more than {_MOST_FAILED:,} rows ({reason}); "
                    "guard it with CASE, or use TRY_CAST"
                ) from error
            else:
                failed.append(_why_not(part, columns))
    return pl.concat(good), pl.concat(failed)


def _with(cells: pl.DataFrame, columns: Mapping[str, pl.Expr]) -> pl.DataFrame:
    return cells.with_columns(value.alias(name) for name, value in columns.items())


def _why_not(row: pl.DataFrame, columns: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """Return the failure of a row for which a column cannot be computed."""
    for name, value in columns.items():
        try:
            row.select(value)
        except PolarsError:
            rule = f"{name.split('|')[0].strip(chr(0))}|not_computable"
            return _failures(row, rule, pl.lit(value=True))
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
    """Make values that are not mapped ``unknown``, and count them.

    Of several words the first is counted: what follows is often a number or a name.
    """
    unknown: dict[str, Counter[str]] = {}
    filled = {}
    for name, one in recipe.derived.items():
        if not one.rule:
            first = one.of.str.extract("^([^ ]*)").str.head(_LONGEST_WORD)
            several = pl.when(one.of.str.contains(" ", literal=True)).then(pl.lit(" ..."))
            word = first + several.fill_null(pl.lit(""))
            strange = cells.filter(_unread(name, one.of)).select(word=word)
            if strange.height:
                counts = strange.group_by("word", maintain_order=True).len()
                unknown[one.label] = Counter(dict(counts.iter_rows()))
            filled[name] = pl.when(one.of.is_not_null()).then(pl.col(name).fill_null(UNKNOWN))
    return cells.with_columns(value.alias(name) for name, value in filled.items()), unknown


def _check(rows: pl.DataFrame, recipe: Recipe) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Hold the table's rows against its rules, but for the key."""
    holds = rows.select(pl.all_horizontal(True, *recipe.rules.values())).to_series()
    if holds.all():
        return rows, _NONE_FAILED
    first_broken = pl.coalesce(
        pl.when(~rule).then(pl.lit(name.replace("|check__", "|")))
        for name, rule in recipe.rules.items()
    )
    return rows.filter(holds.fill_null(value=True)), rows.filter(~holds).select(
        ROW, rule=first_broken
    )


def _rejected_rows(
    source: pl.DataFrame, failed: pl.DataFrame, block: AnyBlock, *, reshaped: bool
) -> pl.DataFrame:
    found = failed.rename({"rule": _RULE}).join(source, on=ROW, how="left", maintain_order="left")
    if reshaped:
        cells = found.select(pl.exclude(ROW, LINE, _RULE))
        text = cells.select(pl.concat_str(pl.all(), separator=",", ignore_nulls=True)).to_series()
    else:
        text = block.text_of(found[LINE])
    return found.select(line=LINE, rule=_RULE).with_columns(text=text)


def _filled_cells(block: AnyBlock) -> pl.DataFrame:
    """Return a rejected row for each cell with a value, where a line would become several."""
    cells = pl.col("text").str.replace("^[^,]*", "").str.extract_all("[^,]+")
    most = block.cells.width
    return block.bad.with_columns(cells.list.head(most)).explode("text").drop_nulls("text")
