"""k-anonymity by microaggregation: alike rows form groups, and a group has one row's values."""

from __future__ import annotations

import polars as pl

from traceana.schema import TABLES, get_key, privacy_of

_ROW, _ALL, _LACKS, _WHEN, _LASTED, _BAND, _GROUP = (f"#{number}" for number in range(7))

_FIRST = (_LACKS, "status", "gpus", "user")


def is_groupable(table: str, /) -> bool:
    """Return whether the key of a table is an id alone."""
    return len(get_key(table)) == 1


def with_equal_groups(stored: pl.LazyFrame, table: str, least: int, /) -> pl.LazyFrame:
    """Return the rows, with equal values but the key in each group of at least `least` rows.

    Rows of a group agree in as many columns as possible (status, GPUs, user, then those of few
    values), and are near in time and runtime. A time or duration becomes the mean of its group,
    another number a middle one. What is missing in a row, or a text that differs, becomes null;
    such a status is unknown.
    """
    [key] = get_key(table)
    types, privacy = stored.collect_schema(), privacy_of(table)
    names = [name for name in types if name != key]
    times = [name for name in names if privacy.get(name) == "time"]
    lengths = [name for name in names if privacy.get(name) == "duration"]
    numbers = [name for name in TABLES[table].columns() if types.get(name, pl.Null()).is_numeric()]
    values = [name for name in names if name not in numbers or name == "gpus"]
    shown = stored.select(
        *values,
        pl.concat_str(pl.lit(""), *(pl.col(n).is_null() for n in times + lengths)).alias(_LACKS),
        pl.coalesce(*times, 0.0).alias(_WHEN),
        pl.coalesce(*lengths, 0.0).alias(_LASTED),
    ).collect(engine="streaming")
    distinct = {name: shown[name].n_unique() for name in [_LACKS, *values]}
    order = dict.fromkeys((*_FIRST, *sorted(distinct, key=lambda name: distinct[name])))
    levels = [name for name in order if distinct.get(name, shown.height) * least <= shown.height]
    numbered = stored.with_columns(_group(shown, levels, least))

    def merged(name: str) -> pl.Expr:
        column = pl.col(name)
        if name in times + lengths:
            return pl.when(column.null_count() == 0).then(column.mean())
        if name in numbers:
            middle = column.quantile(0.5, "lower").cast(types[name])
            return pl.when(column.null_count() == 0).then(middle)
        other = pl.lit("unknown" if name == "status" else None, types[name])
        return pl.when(column.n_unique() == 1).then(column.first()).otherwise(other)

    groups = numbered.group_by(_GROUP).agg(merged(name).alias(name) for name in names)
    return numbered.select(key, _GROUP).join(groups, on=_GROUP).select(types.names())


def _group(rows: pl.DataFrame, levels: list[str], least: int) -> pl.Series:
    rows = rows.with_row_index(_ROW).with_columns(pl.lit(0).alias(_ALL))
    grouped: list[pl.DataFrame] = []
    last = 0
    for width in range(len(levels), -1, -1):
        by = [_ALL, *levels[:width]]
        size, place = pl.len().over(by), pl.int_range(pl.len()).over(by)
        many = rows.filter(size >= least)
        rows = rows.filter(size < least)
        # bands of time, within which rows of one runtime are near each other
        bands = (size / least).sqrt().ceil()
        many = many.sort(*by, _WHEN).with_columns((place * bands // size).alias(_BAND))
        many = many.sort(*by, _BAND, _LASTED)
        begins = (place % least == 0) & (place <= size - least)
        many = many.select(_ROW, (begins.cum_sum() + last).alias(_GROUP))
        last += many[_GROUP].n_unique()
        grouped.append(many)
    grouped.append(rows.select(_ROW, pl.lit(last).alias(_GROUP)))  # fewer than a group
    return pl.concat(grouped, how="vertical_relaxed").sort(_ROW)[_GROUP]
