"""Every correlation of one call, one row each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.correlations.estimate import MIN_POINTS, Clusters, of_group_means, of_rows
from traceana.questions.correlations.pairs import (
    Pair,
    PairSums,
    describe_pairs,
    group_means,
    row_correlations,
)
from traceana.questions.correlations.tables import Correlations
from traceana.stats.correlation import weighted_ranks
from traceana.stats.permutation import group_mean_pvalues
from traceana.store.frames import LARGEST, collect, reduce_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

MAX_ROWS: Final = 5_000_000
"""Largest number of rows that is collected for a permutation test."""
_FEW_GROUPS: Final = 20
LEVELS: Final = ("row", "group_mean", "group_mean_weighted")
"""Levels: what a point of a correlation is."""


@dataclass(frozen=True)
class Family:
    """Every pair by every method at every level, in every group."""

    pairs: list[Pair]
    methods: tuple[str, ...]
    levels: tuple[str, ...]
    keys: tuple[str, ...]
    clusters: tuple[str, ...]
    confidence: float

    @property
    def needs_rows(self) -> bool:
        """Whether the rows must be collected, as aggregates of the engine are not enough."""
        ranked = "row" in self.levels and self.methods != ("pearson",)
        return bool(self.clusters) or ranked

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns that are correlated, each once."""
        return tuple(dict.fromkeys(name for pair in self.pairs for name in pair))


def estimate_family(
    family: Family, lazy: nw.LazyFrame[Any], /, *, resamples: int, rng: np.random.Generator
) -> pl.DataFrame:
    """Return [*keys, columns of :class:`Correlations`] without adjusted p-values."""
    keys, asked = family.keys, list(product(family.levels, family.methods))
    rows_of: dict[Any, pl.DataFrame] = {}
    needs_rows = family.needs_rows or reduce_frame(lazy, (), n=nw.len()).item() <= MAX_ROWS
    if needs_rows:
        rows = collect(lazy)
        lazy, rows_of = nw.from_native(rows.lazy()), _parts(rows, keys)
    groups, sums = _reduce(family, lazy, rows_of)
    lines = []
    for group in groups.rows() if keys else [()]:
        rows_here = rows_of.pop(group, pl.DataFrame())
        codes = _number_clusters(rows_here, family.clusters, resamples, rng)
        ranked: dict[str, tuple[Floats, Floats]] = {}
        for at, pair in enumerate(family.pairs):
            found = sums[*group, at]
            note = _why_not(found.held)
            values, clusters = None, None
            pvalues: dict[tuple[str, str], float] = {}
            if needs_rows and not note:
                x, y = (rows_here[name].to_numpy().astype(float, copy=False) for name in pair)
                keep = (np.abs(x) <= LARGEST) & (np.abs(y) <= LARGEST)  # False for NaN
                if not keep.all():
                    x, y = x[keep], y[keep]
                values = (x, y)
                if codes is not None:
                    code, cells = codes
                    clusters = Clusters.of(*values, code[keep], cells[keep], asked, rng=rng)
                elif found.points.height >= MIN_POINTS:
                    means = [key for key in asked if key[0] != "row"]
                    pvalues = group_mean_pvalues(*values, means, rng=rng)
            for level, method in asked:
                line = dict(zip(keys, group, strict=True)) | {
                    **dict(zip(("x", "y", "method", "level"), (*pair, method, level), strict=True)),
                    **{name: found.held[name] for name in ("n", "n_missing")},
                    "note": note,
                }
                if level != "row":
                    line["n_groups"] = found.points.height
                if not note and level != "row":
                    line |= of_group_means(found.points, level, method, clusters, pvalues)
                elif not note:
                    points = values
                    if values and method == "spearman":
                        x, y = values
                        points = _ranks(pair[0], x, ranked), _ranks(pair[1], y, ranked)
                    line |= of_rows(
                        *(found.pearson, method, found.held["n"], points, clusters),
                        confidence=family.confidence,
                        rng=rng,
                    )
                lines.append(line)
    columns = {
        name: column.dtype
        for name, column in Correlations.columns().items()
        if not (column.metadata or {})["optional"]
    }
    return pl.DataFrame(lines, schema={**groups.schema, **columns})


def _ranks(name: str, values: Floats, known: dict[str, tuple[Floats, Floats]]) -> Floats:
    """Return the ranks of a column, which pairs with the same rows share."""
    if name not in known or not np.array_equal(known[name][0], values):
        known[name] = values, weighted_ranks(values)
    return known[name][1]


def _number_clusters(
    rows: pl.DataFrame, names: Sequence[str], resamples: int, rng: np.random.Generator
) -> tuple[Integers, Integers] | None:
    """Return the cluster and the cell of each row as integers; None without clusters."""
    for name in names:
        if rows.width and (missing := rows[name].null_count()):
            raise DataError(
                f"cluster {name} is null in {missing} row(s): fill it or remove these rows"
            )
    if not names or rows.is_empty():
        return None
    # numbered in the order of their names: the order of rows differs between engines
    unit = pl.struct(names) if len(names) > 1 else pl.col(names[0])
    code = rows.select(unit.rank("dense") - 1).to_series().to_numpy().astype(np.int64)
    n = int(code.max()) + 1
    return code, code if n <= resamples else (rng.permutation(n) % resamples)[code]


def _reduce(
    family: Family, lazy: nw.LazyFrame[Any], rows_of: dict[Any, pl.DataFrame]
) -> tuple[pl.DataFrame, dict[Any, PairSums]]:
    """Return the groups in order, and the aggregates by group and number of the pair."""
    keys, pairs = family.keys, family.pairs
    described = describe_pairs(lazy, keys, pairs)
    pearson: dict[Any, Any] = {}
    if "row" in family.levels and "pearson" in family.methods:
        # totals over a key take three times as long as a pass over each of a few groups
        parts = rows_of if 0 < len(rows_of) <= _FEW_GROUPS else {None: lazy}
        for group, part in parts.items():
            by = keys if group is None else ()
            rows, errors = nw.from_native(part).lazy(), not family.clusters
            for row in row_correlations(rows, by, pairs, errors=errors).rows():
                pearson[*(group or ()), *row[:-2]] = row[-2:]
    means: list[dict[Any, pl.DataFrame]] = [{} for _ in pairs]
    if family.levels != ("row",):
        means = [_parts(group_means(lazy, keys, pair), keys) for pair in pairs]
    sums = {}
    for key, held in _parts(described, (*keys, "pair")).items():
        *group, at = key
        sums[key] = PairSums(
            held.row(0, named=True),
            pearson.get(key, (None, None)),
            means[at].get(tuple(group), pl.DataFrame()),
        )
    return described.filter(pair=0).select(keys), sums


def _parts(frame: pl.DataFrame, keys: Sequence[str]) -> dict[Any, pl.DataFrame]:
    return frame.partition_by(keys, as_dict=True, maintain_order=True) if keys else {(): frame}


def _why_not(held: dict[str, Any]) -> str | None:
    """Return why a pair has no correlation at any level; None if it may have one."""
    if held["n_beyond"]:
        return f"{held['n_beyond']} row(s) with a value beyond {LARGEST:g} (infinite)"
    if held["n"] < MIN_POINTS:
        return f"fewer than {MIN_POINTS} rows with both values"
    for name in ("x", "y"):
        if held[f"{name}_low"] == held[f"{name}_high"]:
            return f"{name} is constant"
    return None
