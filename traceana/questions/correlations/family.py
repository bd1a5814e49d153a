"""Every correlation of one call, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.correlations.points import (
    Pair,
    PairSums,
    describe_pairs,
    group_means,
    row_correlations,
)
from traceana.questions.correlations.tables import Correlations
from traceana.stats.cluster_jackknife import (
    clustered_interval,
    clustered_pvalue,
    influence_error,
    jackknife_errors,
)
from traceana.stats.correlation import (
    carrying_rows,
    correlation,
    correlation_pvalue,
    excess_kurtosis,
    fisher_interval,
    fisher_variance,
    kendall_pvalue,
    kendall_tie_factor,
    n_of_variance,
    weighted_ranks,
)
from traceana.stats.permutation import EXACT, group_mean_pvalues, row_pvalue
from traceana.stats.wild_bootstrap import (
    effective_clusters,
    leverage,
    sign_flip_pvalue,
    too_few_clusters,
)
from traceana.store.frames import LARGEST, collect, reduce_frame

if TYPE_CHECKING:
    from traceana.stats.arrays import Floats, Integers

MIN_POINTS: Final = 4
"""With fewer points no coefficient is computed."""
FEW_CLUSTERS: Final = 30
"""With fewer clusters error rates were not measured to be near their nominal values."""
MIN_DECIDING: Final = 20
"""Fewest effective clusters, weighted by their leverage on a mean of group means, for a test."""
HEAVY: Final = 10
"""Excess kurtosis above which the interval of Pearson's r covers less than it should."""
_WIDEST: Final = 3.0  # half a width on Fisher's scale, beyond which an interval excludes nothing


class Clusters(NamedTuple):
    """Clusters of the rows of a pair; errors by method, tests by (level, method)."""

    n: int
    df: float
    effective: float
    errors: dict[str, float]
    pvalues: dict[tuple[str, str], float]

    @classmethod
    def of(
        cls,
        x: Floats,
        y: Floats,
        clusters: Integers,
        cells: Integers,
        asked: Sequence[Any],
        /,
        *,
        rng: np.random.Generator,
    ) -> Clusters:
        """Compute the errors over rows and the tests of each (level, method)."""
        n, m = (int(np.count_nonzero(np.bincount(codes))) for codes in (clusters, cells))
        effective = effective_clusters(np.ones(len(x)), clusters)
        df = min(m, effective) - 1
        if too_few_clusters(effective):
            return cls(n, df, effective, {}, {})
        pvalues = {
            key: sign_flip_pvalue(*scored, clusters, rng=rng)
            for key in asked
            if (scored := leverage(x, y, *key)) and _decided_by_many(key[0], scored[0], clusters)
        }
        methods = [method for level, method in asked if level == "row"]
        many = {method for method in methods if n > m and method != "kendall"}
        errors = jackknife_errors(x, y, cells, [name for name in methods if name not in many])
        errors |= {method: influence_error(x, y, clusters, method) for method in many}
        return cls(n, df, effective, errors, pvalues)


def _decided_by_many(level: str, scores: Floats, clusters: Integers) -> bool:
    """Return False where a few groups of one row may decide a mean of group means."""
    return level == "row" or effective_clusters(scores**2, clusters) >= MIN_DECIDING


def of_rows(
    pearson: tuple[float | None, float | None],
    method: str,
    n: int,
    rows: tuple[Floats, Floats] | None,
    clusters: Clusters | None,
    /,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the estimate over rows, which are ranks for Spearman's coefficient.

    `pearson` is Pearson's r and its error on Fisher's scale.
    """
    r, error = pearson
    if method != "pearson" and rows is not None:
        on = "pearson" if method == "spearman" else method
        r, error = correlation(*rows, method=on), 0.0
        if method == "kendall":
            error = float(
                np.sqrt(fisher_variance(r, max(n, 5), method) * kendall_tie_factor(*rows))
            )
    if r is None or np.isnan(r):
        return {"note": "the values vary too little or too much for double precision"}
    values: dict[str, Any] = {"r": r, "pvalue_t": correlation_pvalue(r, n, method=method)}
    kurtosis = [excess_kurtosis(part) for part in rows] if rows and method == "pearson" else [0, 0]
    if clusters is not None:
        values |= _clustered(r, ("row", method), clusters, confidence)
    else:
        values |= _independent(r, n, method, confidence, error)
        if method == "kendall" and rows is not None:
            values["pvalue"] = kendall_pvalue(*rows)
        elif rows and (np.prod(kurtosis) > n / 10 or (method == "spearman" and n <= EXACT)):
            values["pvalue"] = row_pvalue(*rows, rng=rng)
    if rows is not None and method == "pearson":
        if values.get("pvalue", 1) < 1 - confidence and (carried := carrying_rows(*rows, r)):
            values["n_carrying"], values["r_without"] = carried
        if values.get("ci_low") is not None and max(kurtosis) > HEAVY:
            values["note"] = _joined(values, "heavy tails: the interval may be too short")
    return values


def of_group_means(
    points: pl.DataFrame,
    level: str,
    method: str,
    clusters: Clusters | None,
    pvalues: dict[tuple[str, str], float],
    /,
) -> dict[str, Any]:
    """Return the estimate over group means [x, size, mean], weighted by the sizes or not.

    `pvalues` are of the permutation test, by (level, method).
    """
    x, size, mean = (points[name].to_numpy().astype(float) for name in ("x", "size", "mean"))
    if len(x) < MIN_POINTS:
        return {"note": f"fewer than {MIN_POINTS} distinct x"}
    weighted = level == "group_mean_weighted"
    r = correlation(x, mean, method=method, weights=size if weighted else None)
    if np.isnan(r):
        return {"note": "all group means are equal"}
    n = float(size.sum() ** 2 / (size**2).sum()) if weighted else float(len(x))
    values: dict[str, Any] = {"r": r, "n_effective": n}
    if n > 2:
        published = correlation_pvalue(r, n, method=method)
        values["pvalue_t"] = (
            kendall_pvalue(x, mean) if (weighted, method) == (False, "kendall") else published
        )
    pvalues_of_means = pvalues if clusters is None else clusters.pvalues
    if clusters is not None:
        values["n_clusters"] = clusters.n
    values["pvalue"] = pvalues_of_means.get((level, method))
    if values["pvalue"] is None:
        why = (
            "too many rows or groups"
            if clusters is None
            else _why_untested(clusters, level, method)
        )
        values["note"] = f"no test ({why})"
    if small := int((size < _FEW_ROWS).sum()):
        values["note"] = _joined(
            values, f"{small} of {len(x)} means are of fewer than {_FEW_ROWS} rows"
        )
    if (level, method) == ("group_mean", "pearson") and (carried := carrying_rows(x, mean, r)):
        count, rest = carried
        values["note"] = _joined(values, f"{count} of {len(x)} means carry r (without: {rest:.2f})")
    return values


def _why_untested(clusters: Clusters, level: str, method: str) -> str:
    if few := too_few_clusters(clusters.effective):
        return few
    if (level, method) == ("group_mean", "pearson"):
        return f"fewer than {MIN_DECIDING} units of equal size decide the group means"
    return "no calibrated test of ranked group means in clusters"


def _independent(
    r: float, n: int, method: str, confidence: float, error: float | None
) -> dict[str, Any]:
    test = {"pvalue": correlation_pvalue(r, n, method=method), "n_effective": float(n)}
    if abs(r) == 1:
        line = "all rows are on a line" if method == "pearson" else "all pairs have the same order"
        return test | {"note": f"{line}: no interval"}
    if error is None:
        return test | {"note": "one row decides r: no interval"}
    return test | _checked(
        *fisher_interval(r, n, method=method, confidence=confidence, error=error)
    )


def _checked(low: float, high: float) -> dict[str, Any]:
    """Return an interval, or a note if it is undefined or includes nearly every value."""
    if np.isnan(low) or max(abs(low), abs(high)) > 1 - 1e-12:
        return {"note": "no interval: too few rows, or few rows decide r"}
    if np.arctanh(high) - np.arctanh(low) > 2 * _WIDEST:
        return {"note": "no interval: too few rows, or few rows decide r"}
    return {"ci_low": low, "ci_high": high}


def _clustered(
    r: float, key: tuple[str, str], clusters: Clusters, confidence: float
) -> dict[str, Any]:
    values: dict[str, Any] = {"n_clusters": clusters.n}
    if few := too_few_clusters(clusters.effective):
        return values | {"note": f"no interval and no test ({few})"}
    error = clusters.errors[key[1]] if abs(r) < 1 else np.nan
    if not error > 0:  # NaN too
        return values | {"note": "the jackknife has no error: no interval and no test"}
    values |= {
        "pvalue": clusters.pvalues.get(key, clustered_pvalue(r, error, clusters.df)),
        "n_effective": n_of_variance(r, error**2, key[1]),
    }
    values |= _checked(*clustered_interval(r, error, clusters.df, confidence=confidence))
    if clusters.effective < FEW_CLUSTERS and "ci_low" in values:
        few = f"as of fewer than {FEW_CLUSTERS} equal units: the interval may be too short"
        values["note"] = _joined(values, few)
    return values


def _joined(values: dict[str, Any], note: str) -> str:
    return "; ".join(part for part in (values.get("note"), note) if part)


MAX_ROWS: Final = 5_000_000
"""Largest number of rows that is collected for a permutation test."""
_FEW_GROUPS: Final = 20
_FEW_ROWS: Final = 5
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
            sums_of_pair = sums[*group, at]
            note = _why_not(sums_of_pair.held)
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
                elif sums_of_pair.points.height >= MIN_POINTS:
                    means = [key for key in asked if key[0] != "row"]
                    pvalues = group_mean_pvalues(*values, means, rng=rng)
            for level, method in asked:
                line = dict(zip(keys, group, strict=True)) | {
                    **dict(zip(("x", "y", "method", "level"), (*pair, method, level), strict=True)),
                    **{name: sums_of_pair.held[name] for name in ("n", "n_missing")},
                    "note": note,
                }
                if level != "row":
                    line["n_groups"] = sums_of_pair.points.height
                if not note and level != "row":
                    line |= of_group_means(sums_of_pair.points, level, method, clusters, pvalues)
                elif not note:
                    points = values
                    if values and method == "spearman":
                        x, y = values
                        points = _ranks(pair[0], x, ranked), _ranks(pair[1], y, ranked)
                    line |= of_rows(
                        *(sums_of_pair.pearson, method, sums_of_pair.held["n"], points, clusters),
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


def _ranks(name: str, values: Floats, ranks: dict[str, tuple[Floats, Floats]]) -> Floats:
    """Return the ranks of a column, which pairs with the same rows share."""
    if name not in ranks or not np.array_equal(ranks[name][0], values):
        ranks[name] = values, weighted_ranks(values)
    return ranks[name][1]


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
