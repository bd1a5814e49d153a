"""A block of cells becomes rows of a table, and rejected rows with the rule that each broke."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl
from polars.exceptions import PolarsError

from traceana.errors import DataError
from traceana.ingesters.readers.lines import BAD_LINES, LINE
from traceana.ingesters.recipe import LARGEST_WHOLE, read_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceana.ingesters.readers.reader import AnyBlock
    from traceana.ingesters.recipe import Recipe

UNKNOWN: Final = "unknown"
_RIGHT: Final = "\0right"
_RULE: Final = "\0rule"
_WORD: Final = "\0word\0"
_NONE_REJECTED: Final = pl.DataFrame(schema=BAD_LINES)
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
    """Convert a block, and name the first rule that each rejected row breaks."""
    rejected = [_NONE_REJECTED]
    if typed is None:
        source = recipe.reshape(block.cells) if recipe.reshape else block.cells
        rejected.append(_filled_cells(block) if recipe.reshape else block.bad)
    else:
        source = typed
    rows = _attempt(source, recipe, not_utf8=typed is None and block.not_utf8)
    broken = rows[_RULE].is_not_null()
    if broken.any():
        found = rows.filter(broken).select(line=LINE, rule=_RULE)
        if recipe.reshape:
            cells = source.filter(broken).select(pl.exclude(LINE))
            joined = pl.concat_str(pl.all(), separator=",", ignore_nulls=True)
            text = cells.select(joined).to_series()
        else:
            text = block.text_of(found["line"])
        rejected.append(found.with_columns(text=text))
    words = {
        name.removeprefix(_WORD): Counter(
            dict(rows.drop_nulls(name).group_by(name, maintain_order=True).len().iter_rows())
        )
        for name in rows.columns
        if name.startswith(_WORD) and rows[name].null_count() < rows.height
    }
    return Converted(
        rows.filter(~broken).select(LINE, *recipe.schema),
        pl.concat(rejected).sort("line", maintain_order=True),
        words,
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


def _attempt(source: pl.DataFrame, recipe: Recipe, *, not_utf8: bool) -> pl.DataFrame:
    """Compute the table's columns and the rule that each row breaks, in halves where that fails."""
    done, failed, waiting = [], 0, [source]
    while waiting:
        part = waiting.pop()
        try:
            done.append(_compute(part, recipe, not_utf8=not_utf8))
        except PolarsError as error:
            if part is source:
                _compute(part.clear(), recipe, not_utf8=not_utf8)  # that would be no row's fault
            if part.height > 1:
                waiting += [part[part.height // 2 :], part[: part.height // 2]]
                continue
            failed += 1
            if failed > _MOST_FAILED:
                reason = str(error).splitlines()[0]
                raise DataError(
                    f"an expression fails for more than {_MOST_FAILED:,} rows ({reason}); "
                    "guard it with CASE, or use TRY_CAST"
                ) from error
            done.append(part.select(LINE, pl.lit(_why_not(part, recipe)).alias(_RULE)))
    return pl.concat(done, how="diagonal")


def _compute(source: pl.DataFrame, recipe: Recipe, *, not_utf8: bool) -> pl.DataFrame:
    numbers = {view: read_number(pl.col(view)) for view in recipe.numbers}
    derived = recipe.reread | recipe.derived
    broken = {one.rule: _unread(name, one.of) for name, one in derived.items() if one.rule}
    if not_utf8:
        broken |= _broken_text(source, recipe)
    broken |= {rule: ~_is_whole(value) for rule, value in recipe.whole.items()}
    right = pl.col(_RULE).is_null()
    filled, words = [], []
    for name, one in recipe.derived.items():
        if not one.rule:  # a status that is not mapped; of several words the first is counted
            first = one.of.str.extract("^([^ ]*)").str.head(_LONGEST_WORD)
            several = pl.when(one.of.str.contains(" ", literal=True)).then(pl.lit(" ..."))
            word = pl.when(right & _unread(name, one.of)).then(first + several.fill_null(""))
            status = pl.when(one.of.is_not_null()).then(pl.col(name).fill_null(UNKNOWN))
            words.append(_WORD + one.label)
            filled += [word.alias(words[-1]), status.alias(name)]
    stated = (
        pl.when(right).then(recipe.stated.get(name, pl.lit(None))).cast(dtype).alias(name)
        for name, dtype in recipe.schema.items()
    )
    return (
        source.lazy()
        .rename(recipe.views)
        .with_columns(
            _first({f"{recipe.numbers[n]}|not_a_number": _wrong(n, v) for n, v in numbers.items()}),
            *(value.alias(name) for name, value in numbers.items()),
        )
        .with_columns(_nulls(recipe))
        .with_columns(one.value.alias(name) for name, one in recipe.reread.items())
        .with_columns(one.value.alias(name) for name, one in recipe.derived.items())
        .with_columns(_first(broken, pl.col(_RULE)))
        .with_columns(filled)
        .select(_RULE, LINE, *words, *stated)
        .with_columns(
            _first(
                {name.replace("|check__", "|"): ~rule for name, rule in recipe.rules.items()},
                pl.col(_RULE),
            )
        )
        .collect(engine="in-memory")
    )


def _first(broken: Mapping[str, pl.Expr], *earlier: pl.Expr) -> pl.Expr:
    """Return the first rule that a row breaks."""
    rules = (pl.when(is_broken).then(pl.lit(rule)) for rule, is_broken in broken.items())
    return pl.coalesce(*earlier, *rules, pl.lit(None, pl.String)).alias(_RULE)


def _wrong(name: str, value: pl.Expr) -> pl.Expr:
    return pl.col(name).is_not_null() & value.is_null()


def _why_not(row: pl.DataFrame, recipe: Recipe) -> str:
    """Return the rule that a row breaks for which a column cannot be computed."""
    row = row.rename(recipe.views).with_columns(
        read_number(pl.col(view)).alias(view) for view in recipe.numbers
    )
    row = row.with_columns(_nulls(recipe))
    derived = ({n: one.value for n, one in d.items()} for d in (recipe.reread, recipe.derived))
    for columns in (*derived, recipe.whole, _stated(recipe)):
        for name, value in columns.items():
            try:
                row.select(value)
            except PolarsError:
                return f"{name.split('|')[0].strip(chr(0))}|not_computable"
        row = row.with_columns(value.alias(name) for name, value in columns.items())
    raise AssertionError("columns that fail together fail apart")


def _nulls(recipe: Recipe) -> list[pl.Expr]:
    """Replace markers of missing values by null; numeric markers in any notation."""
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


def _broken_text(source: pl.DataFrame, recipe: Recipe) -> dict[str, pl.Expr]:
    numbers = set(recipe.numbers.values())
    return {
        f"{name or 'index'}|not_utf8": pl.col(recipe.views.get(name, name)).str.contains(
            "\ufffd", literal=True
        )
        for name, dtype in source.schema.items()
        if dtype == pl.String and name not in numbers
    }


def _filled_cells(block: AnyBlock) -> pl.DataFrame:
    """Return a rejected row for each cell with a value, where a line would become several."""
    cells = pl.col("text").str.replace("^[^,]*", "").str.extract_all("[^,]+")
    most = block.cells.width
    return block.bad.with_columns(cells.list.head(most)).explode("text").drop_nulls("text")
