"""The reductions behind correlations: what each pair of columns holds, and its group means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals.stable.v2 as nw
import polars as pl

from traceana.analysis.frames import LARGEST, reduce_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

Pair: TypeAlias = tuple[str, str]


def present(pair: Pair, /) -> nw.Expr:
    """Whether both values of a pair are there."""
    x, y = (nw.col(name) for name in pair)
    return ~x.is_null() & ~y.is_null()


def usable(pair: Pair, /) -> nw.Expr:
    """Whether both values of a pair are there and within plus and minus ``LARGEST``."""
    x, y = (nw.col(name) for name in pair)
    return (x.abs() <= LARGEST) & (y.abs() <= LARGEST)


def describe_pairs(
    lazy: nw.LazyFrame[Any], keys: Sequence[str], pairs: Sequence[Pair], /
) -> pl.DataFrame:
    """Return [*keys, pair, n, n_missing, n_beyond, x_low, x_high, y_low, y_high], a row a pair.

    n counts the rows with both values, n_missing all others of the group, and n_beyond those
    among n with a value beyond ``LARGEST`` (infinite). The ends are over the rest of n.
    """
    columns: dict[str, nw.Expr] = {}
    for at, pair in enumerate(pairs):
        x, y = (nw.when(usable(pair)).then(nw.col(name)) for name in pair)
        columns |= {
            f"{at} n": nw.when(present(pair)).then(nw.col(pair[0])).count(),
            f"{at} n_usable": x.count(),
            f"{at} x_low": x.min(),
            f"{at} x_high": x.max(),
            f"{at} y_low": y.min(),
            f"{at} y_high": y.max(),
        }
    wide = reduce_frame(lazy, keys, **columns, rows=nw.len())
    return pl.concat(
        wide.select(
            *keys,
            pl.lit(at).alias("pair"),
            pl.col(f"{at} n").alias("n"),
            (pl.col("rows") - pl.col(f"{at} n")).alias("n_missing"),
            (pl.col(f"{at} n") - pl.col(f"{at} n_usable")).alias("n_beyond"),
            *(pl.col(f"{at} {end}").alias(end) for end in ("x_low", "x_high", "y_low", "y_high")),
        )
        for at in range(len(pairs))
    )


def row_correlations(
    lazy: nw.LazyFrame[Any], keys: Sequence[str], pairs: Sequence[Pair], /
) -> pl.DataFrame:
    """Return [*keys, pair, r], Pearson's r over rows; null where a sum of squares is no number.

    Sums are about the means of the pair within its group, so that no digits cancel.
    """
    parts = []
    for at, pair in enumerate(pairs):
        rows = lazy.filter(usable(pair)).select(*keys, *pair)
        if keys:
            means = (nw.col(name).mean().over(*keys) for name in pair)
        else:
            found = reduce_frame(rows, (), x=nw.col(pair[0]).mean(), y=nw.col(pair[1]).mean())
            means = (nw.lit(mean, nw.Float64) for mean in found.row(0))
        x, y = (nw.col(name) - mean for name, mean in zip(pair, means, strict=True))
        away = rows.select(*keys, x.alias("x away"), y.alias("y away"))
        x, y = nw.col("x away"), nw.col("y away")
        sums = reduce_frame(
            away.with_columns(xx=x * x, yy=y * y, xy=x * y),
            keys,
            **{name: nw.col(name).sum() for name in ("xx", "yy", "xy")},
        )
        xx, yy, xy = (pl.col(name) for name in ("xx", "yy", "xy"))
        r = xy / (xx.sqrt() * yy.sqrt())
        parts.append(sums.select(*keys, pl.lit(at).alias("pair"), r.clip(-1, 1).alias("r")))
    return pl.concat(parts).with_columns(pl.col("r").fill_nan(None))


def group_means(lazy: nw.LazyFrame[Any], keys: Sequence[str], pair: Pair, /) -> pl.DataFrame:
    """Return [*keys, x, size, mean]: the mean of y over the rows of each distinct x, in order."""
    x, y = (nw.col(name) for name in pair)
    rows = lazy.filter(usable(pair)).select(*keys, x.alias("x"), y.alias("a y"))
    return reduce_frame(rows, (*keys, "x"), size=nw.len(), mean=nw.col("a y").mean())
