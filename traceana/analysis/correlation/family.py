"""Every correlation that one call asks for, a line each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.analysis.correlation.estimate import LEAST, of_group_means, of_rows
from traceana.analysis.correlation.pairs import (
    Pair,
    PairSums,
    describe_pairs,
    group_means,
    row_correlations,
)
from traceana.analysis.correlation.resampling import GroupRows, PairRows
from traceana.analysis.frames import LARGEST, collect

if TYPE_CHECKING:
    from collections.abc import Sequence

    import narwhals.stable.v2 as nw
    import numpy as np

LEVELS: Final = ("row", "group_mean", "group_mean_weighted")
"""What a point of a correlation is."""

COLUMNS: Final[dict[str, Any]] = {
    **dict.fromkeys(("x", "y", "method", "level"), pl.String),
    **dict.fromkeys(("n", "n_groups"), pl.Int64),
    **dict.fromkeys(("r", "ci_low", "ci_high", "pvalue", "pvalue_adjusted"), pl.Float64),
    "n_effective": pl.Float64,
    **dict.fromkeys(("n_clusters", "n_missing"), pl.Int64),
    "note": pl.String,
}
"""Columns of a table of correlations, after those it is grouped by."""


@dataclass(frozen=True)
class Family:
    """What is asked for: every pair by every method at every level, in every group."""

    pairs: list[Pair]
    methods: tuple[str, ...]
    levels: tuple[str, ...]
    keys: tuple[str, ...]
    clusters: tuple[str, ...]
    confidence: float

    @property
    def needs_rows(self) -> bool:
        """Whether the reductions of an engine are not enough."""
        ranked = "row" in self.levels and self.methods != ("pearson",)
        return bool(self.clusters) or ranked

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns that are correlated, each once."""
        return tuple(dict.fromkeys(name for pair in self.pairs for name in pair))

    @property
    def asked_of_chance(self) -> list[tuple[str, str]]:
        """Levels and methods whose test needs to know what chance alone does."""
        without = {("row", "spearman"), ("row", "kendall")}
        return [key for key in product(self.levels, self.methods) if key not in without]


def estimate_family(
    family: Family, lazy: nw.LazyFrame[Any], /, *, resamples: int, rng: np.random.Generator
) -> pl.DataFrame:
    """Return [*keys, :data:`COLUMNS`], p not yet adjusted.

    Parameters
    ----------
    family
        What is asked for.
    lazy
        The columns of need.
    resamples, rng
        Of the bootstrap over clusters.
    """
    keys = family.keys
    sums: dict[Any, PairSums] = {}
    rows_of: dict[Any, pl.DataFrame] = {}
    if family.needs_rows:
        groups, rows_of = _collect(family, lazy)
    else:
        groups, sums = _reduce(family, lazy)
    lines = []
    for group in groups.rows() if keys else [()]:
        drawn = None
        if family.needs_rows:
            drawn = GroupRows.draw(
                *(rows_of.pop(group), family.clusters),
                measures=family.measures,
                ranked="row" in family.levels and "spearman" in family.methods,
                resamples=resamples,
                rng=rng,
            )
        for at, pair in enumerate(family.pairs):
            told = drawn.of_pair(pair) if drawn else sums[*group, at]
            note = _why_not(told.held)
            usable = told if isinstance(told, PairRows) and not note else None
            null = usable.null(family.asked_of_chance) if usable else {}
            for level, method in product(family.levels, family.methods):
                line = dict(zip(keys, group, strict=True)) | {
                    **dict(zip(("x", "y", "method", "level"), (*pair, method, level), strict=True)),
                    **{name: told.held[name] for name in ("n", "n_missing")},
                    "note": note,
                }
                if level != "row":
                    line["n_groups"] = told.points.height
                if not note and level != "row":
                    line |= of_group_means(
                        *(told.points, method, usable, null.get((level, method))),
                        weighted=level == "group_mean_weighted",
                        confidence=family.confidence,
                    )
                elif not note:
                    line |= of_rows(
                        *(told.over_rows(method), told.held["n"], method, usable),
                        null.get((level, method)),
                        confidence=family.confidence,
                    )
                lines.append(line)
    return pl.DataFrame(lines, schema=dict(groups.schema) | COLUMNS)


def _collect(
    family: Family, lazy: nw.LazyFrame[Any]
) -> tuple[pl.DataFrame, dict[Any, pl.DataFrame]]:
    """Return the groups in order, and the rows of each."""
    keys, rows = family.keys, collect(lazy)
    groups = rows.select(keys).unique().sort(keys, nulls_last=True) if keys else pl.DataFrame()
    return groups, _parts(rows, keys)


def _reduce(family: Family, lazy: nw.LazyFrame[Any]) -> tuple[pl.DataFrame, dict[Any, PairSums]]:
    """Return the groups in order, and by group and number of the pair what the engine tells."""
    keys, pairs = family.keys, family.pairs
    described = describe_pairs(lazy, keys, pairs)
    pearson: dict[Any, pl.DataFrame] = {}
    if "row" in family.levels:
        pearson = _parts(row_correlations(lazy, keys, pairs), (*keys, "pair"))
    means: list[dict[Any, pl.DataFrame]] = [{} for _ in pairs]
    if family.levels != ("row",):
        means = [_parts(group_means(lazy, keys, pair), keys) for pair in pairs]
    sums = {}
    for key, held in _parts(described, (*keys, "pair")).items():
        *group, at = key
        sums[key] = PairSums(
            held.row(0, named=True),
            pearson[key].select("r", "error").row(0) if key in pearson else (None, None),
            means[at].get(tuple(group), pl.DataFrame()),
        )
    return described.filter(pair=0).select(keys), sums


def _parts(frame: pl.DataFrame, keys: Sequence[str]) -> dict[Any, pl.DataFrame]:
    return frame.partition_by(keys, as_dict=True, maintain_order=True) if keys else {(): frame}


def _why_not(held: dict[str, Any]) -> str | None:
    """Why a pair has no correlation at any level; None where it may have one."""
    if held["n_beyond"]:
        return f"{held['n_beyond']} row(s) with a value beyond {LARGEST:g} (infinite)"
    if held["n"] < LEAST:
        return f"fewer than {LEAST} rows with both values"
    for name in ("x", "y"):
        if held[f"{name}_low"] == held[f"{name}_high"]:
            return f"{name} is constant"
    return None
