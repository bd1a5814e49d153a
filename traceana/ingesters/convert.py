"""Convert blocks of cells to rows of a table, and rejected rows with the violated rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import polars as pl
from polars.exceptions import PolarsError

from traceana.errors import DataError
from traceana.ingesters.compiled import ROW, CompiledMapping, source_name
from traceana.ingesters.readers.frames import LINE, FrameBlock

UNKNOWN: Final = "unknown"
_RULE: Final = "\0rule"
_VALUE: Final = "\0word\0"
_NULLED: Final = "\0null\0"
_FAULT: Final = "\0fault\0"
_MOST_FAILED: Final = 1000
_LONGEST_VALUE: Final = 100


@dataclass(frozen=True)
class Converted:
    """One block's rows."""

    kept: pl.DataFrame
    """Columns of the table, and ``LINE``."""
    rejected: pl.DataFrame
    """Columns of :data:`~traceana.ingesters.readers.frames.BAD_LINES`."""
    unknown_words: dict[str, Counter[str]]
    """By column of the source, the count of each unmapped value."""
    nulled: dict[tuple[str, str], int] = field(default_factory=dict)
    """By column of the table and rule, kept rows of which that cell was set to null."""


def convert(block: FrameBlock, compiled: CompiledMapping, /) -> Converted:
    """Convert and check a block: each row is kept, or rejected by the first rule it breaks."""
    source = compiled.reshape(block.cells) if compiled.reshape else block.cells
    bad = _filled_cells(block) if compiled.reshape else block.bad
    views = source.rename({name: source_name(name, k) for name, k in compiled.kinds.items()})
    if compiled.row_ids:
        number = (pl.col(LINE) - block.header_lines).cast(pl.String)
        views = views.with_columns(number.alias(ROW))
    rows = _attempt(views, compiled, not_utf8=block.not_utf8)
    broken = rows[_RULE].is_not_null()
    if broken.any():
        table = rows.filter(broken).select(line=LINE, rule=_RULE)
        if compiled.reshape:
            cells = source.filter(broken).select(pl.exclude(LINE))
            joined = pl.concat_str(pl.all(), separator=",", ignore_nulls=True)
            text = cells.select(joined).to_series()
        else:
            text = block.text_of(table["line"])
        bad = pl.concat([bad, table.with_columns(text=text)])
    unknown = {
        name.removeprefix(_VALUE): Counter(
            dict(rows.drop_nulls(name).group_by(name, maintain_order=True).len().iter_rows())
        )
        for name in rows.columns
        if name.startswith(_VALUE) and rows[name].null_count() < rows.height
    }
    nulled = {
        (name.removeprefix(_NULLED), rule): count
        for name in rows.columns
        if name.startswith(_NULLED)
        for rule, count in rows.filter(~broken)[name].drop_nulls().value_counts().iter_rows()
    }
    return Converted(rows.filter(~broken).select(LINE, *compiled.schema), bad, unknown, nulled)


def _attempt(source: pl.DataFrame, compiled: CompiledMapping, *, not_utf8: bool) -> pl.DataFrame:
    """Compute the table's columns and the rule that each row breaks, in halves where that fails."""
    done, failed, waiting = [], 0, [source]
    while waiting:
        part = waiting.pop()
        try:
            done.append(_compute(part, compiled, not_utf8=not_utf8))
        except PolarsError as error:
            if part is source:
                # an error without rows is no row error
                done.append(_compute(part.clear(), compiled, not_utf8=not_utf8))
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
            done.append(part.select(LINE, pl.lit(_why_not(part, compiled)).alias(_RULE)))
    return pl.concat(done, how="diagonal")


def _compute(source: pl.DataFrame, compiled: CompiledMapping, *, not_utf8: bool) -> pl.DataFrame:
    """Compute columns and rules; a fault breaks a rule where the cell is decisive, else is null."""
    rows, faults = _with_faults(source, compiled, not_utf8=not_utf8)
    rejecting: set[str] = set()
    nulled: dict[str, pl.Expr] = {}
    for target, cells in compiled.rests_on.items():
        broken = [name for name in faults if name in cells]
        if target in compiled.decisive:
            rejecting |= {*broken}
        elif broken:
            nulled[target] = _first((pl.col(_FAULT + name), faults[name]) for name in broken)
    right = pl.col(_RULE).is_null()
    stated = []
    for name, dtype in compiled.schema.items():
        given = right & pl.col(_NULLED + name).is_null() if name in nulled else right
        value = compiled.stated.get(name, pl.lit(None))
        stated.append(pl.when(given).then(value).cast(dtype).alias(name))
    marks = {_NULLED + name: rule for name, rule in nulled.items()}
    words, statuses = _unmapped_words(compiled)
    decisive = ((pl.col(_FAULT + name), faults[name]) for name in faults if name in rejecting)
    rules = ((~rule, name.replace("|check__", "|")) for name, rule in compiled.rules.items())
    return (
        rows.lazy()
        .with_columns(_first(decisive).alias(_RULE), **marks)
        .with_columns(**words, **statuses)
        .select(_RULE, LINE, *words, *marks, *stated)
        .with_columns(pl.coalesce(_RULE, _first(rules)).alias(_RULE))
        .collect(engine="in-memory")
    )


def _with_faults(
    source: pl.DataFrame, compiled: CompiledMapping, *, not_utf8: bool
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Return the derived columns with marks of cells that are not read; and each mark's rule."""
    rules = {name: column.rule for name, column in compiled.derived.items() if column.rule}
    faults = {name: _unread(name, compiled.derived[name].of) for name in rules}
    for name, kind in compiled.kinds.items() if not_utf8 else ():
        if kind == "text":
            view = source_name(name, kind)
            rules[view] = f"{name or 'index'}|not_utf8"
            faults[view] = pl.col(view).str.contains("\ufffd", literal=True)
    rows = (
        source.lazy()
        .pipe(_derive, compiled)
        .with_columns(broken.alias(_FAULT + name) for name, broken in faults.items())
        .collect(engine="in-memory")
    )
    return rows, {name: rule for name, rule in rules.items() if rows[_FAULT + name].any()}


def _derive(rows: pl.LazyFrame, compiled: CompiledMapping) -> pl.LazyFrame:
    """Replace markers of missing values, and add the derived columns."""
    rows = rows.with_columns(_nulls(compiled))
    for name, column in compiled.derived.items():
        rows = rows.with_columns(column.value.alias(name))
    return rows


def _unmapped_words(compiled: CompiledMapping) -> tuple[dict[str, pl.Expr], dict[str, pl.Expr]]:
    """Return values that are mapped to no status, several words by the first; and the statuses."""
    words: dict[str, pl.Expr] = {}
    statuses: dict[str, pl.Expr] = {}
    for name, column in compiled.derived.items():
        if not column.rule:
            first = column.of.str.extract("^([^ ]*)").str.head(_LONGEST_VALUE)
            several = pl.when(column.of.str.contains(" ", literal=True)).then(pl.lit(" ..."))
            unmapped = pl.col(_RULE).is_null() & _unread(name, column.of)
            words[_VALUE + column.label] = pl.when(unmapped).then(first + several.fill_null(""))
            statuses[name] = pl.when(column.of.is_not_null()).then(pl.col(name).fill_null(UNKNOWN))
    return words, statuses


def _first(broken: Iterable[tuple[pl.Expr, str]]) -> pl.Expr:
    """Return the first rule that a row breaks."""
    rules = (pl.when(is_broken).then(pl.lit(rule)) for is_broken, rule in broken)
    return pl.coalesce(*rules, pl.lit(None, pl.String))


def _why_not(row: pl.DataFrame, compiled: CompiledMapping) -> str:
    """Return the rule that a row breaks for which a column cannot be computed."""
    row = row.with_columns(_nulls(compiled))
    derived = {name: column.value for name, column in compiled.derived.items()}
    stated = {name: value.cast(compiled.schema[name]) for name, value in compiled.stated.items()}
    for name, value in (derived | stated).items():
        try:
            row = row.with_columns(value.alias(name))
        except PolarsError:
            return f"{name.split('|')[0].strip(chr(0))}|not_computable"
    raise AssertionError("columns that fail together fail apart")


def _nulls(compiled: CompiledMapping) -> list[pl.Expr]:
    """Replace markers of missing values by null."""
    return [
        pl.when(~pl.col(view).is_in(values)).then(view).alias(view)
        for view, values in compiled.nulls.items()
    ]


def _unread(name: str, of: pl.Expr) -> pl.Expr:
    return pl.col(name).is_null() & of.is_not_null()


def _filled_cells(block: FrameBlock) -> pl.DataFrame:
    """Return a rejected row for each cell with a value, where a line would become several."""
    cells = pl.col("text").str.replace("^[^,]*", "").str.extract_all("[^,]+")
    most = block.cells.width
    return block.bad.with_columns(cells.list.head(most)).explode("text").drop_nulls("text")
