"""Whether runtimes differ between groups, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import polars as pl

from traceana.analysis.frames import Names, as_names, collect, open_frame, refuse_clash
from traceana.analysis.outcomes.codes import cluster_codes, group_codes
from traceana.results.base import Result
from traceana.stats.arguments import check_confidence
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.ranks import kruskal_wallis, median_interval, placements, superiority

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_TEST: Final = {
    "n": pl.Int64,
    "n_groups": pl.Int64,
    "n_clusters": pl.Int64,
    "n_effective": pl.Float64,
    "epsilon_squared": pl.Float64,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
    "statistic": pl.Float64,
    "df": pl.Float64,
    "pvalue": pl.Float64,
    "note": pl.String,
}
_GROUPS: Final = {
    "n": pl.Int64,
    "n_clusters": pl.Int64,
    "mean_rank": pl.Float64,
    "median_s": pl.Float64,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
}


@dataclass(frozen=True, repr=False)
class RuntimeComparison(Result):
    """Runtimes of groups compared, as :func:`traceana.analysis.compare_runtimes` does.

    Attributes
    ----------
    test
        One row: whether any group differs.
    groups
        One row a group: its median and mean rank.
    pairs
        One row a pair of groups: which of them differ, and by how much.
    """

    test: pl.DataFrame
    groups: pl.DataFrame
    pairs: pl.DataFrame

    def summary(self) -> str:
        """Return a short text on the result."""
        row = self.test.row(0, named=True)
        head = f"{row['n']:,} runtimes in {row['n_groups']} groups"
        if row["n_clusters"] is not None:
            head += f", {row['n_clusters']:,} clusters"
        if row["epsilon_squared"] is None:
            return f"{head}: {row['note']}"
        differ = (self.pairs["pvalue_adjusted"] < 0.05).sum()
        known = "no interval" if row["ci_low"] is None else f"{row['ci_low']:.3g}"
        if row["ci_low"] is not None:
            known += f" to {row['ci_high']:.3g}"
        test = "no test" if row["pvalue"] is None else f"p {row['pvalue']:.2g}"
        return (
            f"{head}\nepsilon squared {row['epsilon_squared']:.3g} ({known}); Kruskal-Wallis {test}"
            f"\n{differ} of {self.pairs.height} pairs differ at an adjusted p below 0.05"
        )


def compare_runtimes(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    cluster: str | None = None,
    adjust: Literal["holm", "fdr_bh"] = "holm",
    confidence: float = 0.95,
) -> RuntimeComparison:
    """Compare the runtimes of groups by their ranks, all together and pair by pair.

    Ranks, because runtimes have heavy tails: one that is a hundred times longer counts as
    longer. The test is Kruskal and Wallis', its effect size epsilon squared = H / (N - 1), the
    share of the ranks' variance that lies between groups. Pairs are compared by Mann and
    Whitney's test, each with the chance that a runtime of the first is the longer (ties counted
    half) and Cliff's delta, 2 superiority - 1. With a million rows any p is small: read the
    effects first.

    Jobs of one user or group are alike. With `cluster` they may be, whatever way: what is taken
    to be independent is the cluster. Without, rows are, and p is far too small where they are not.

    Parameters
    ----------
    frame
        One row a job or task: [*by, runtime_s], and `cluster`; eager or lazy, of any listed
        engine. Rows with neither null nor NaN in runtime_s and `cluster` are taken.
    by
        Columns whose values are the groups; null in them is a group of its own.
    cluster
        Column that says which rows belong together, such as user.
    adjust
        How the pairs' p-values are adjusted over all pairs: "holm" or "fdr_bh".
    confidence
        Coverage of every interval, in (0, 1).

    Returns
    -------
    RuntimeComparison
        ``.test`` [n, n_groups, n_clusters, n_effective, epsilon_squared, ci_low, ci_high,
        statistic, df, pvalue, note]: n_effective is n over the design effect, by which H was
        divided too; n_clusters is null without clusters. ``.groups`` [*by, n, n_clusters,
        n_missing, mean_rank, median_s, ci_low, ci_high], sorted by `by`: the median's interval
        is free of any distribution (Woodruff, 1952), null where there are too few. ``.pairs``
        [<by>_a, <by>_b, n_a, n_b, superiority, ci_low, ci_high, cliffs_delta, pvalue,
        pvalue_adjusted, note]: the interval is of superiority, null with its reason in note where
        the two do not overlap or one is too small. Methods and sources:
        docs/explanation/outcomes.md.

    Raises
    ------
    DataError
        If a column is missing, a runtime is negative or infinite, fewer than two groups have a
        runtime or more than 50 do, there are fewer than two clusters, or `confidence` or `adjust`
        is out of range.
    """
    keys = as_names(by)
    refuse_clash(
        keys, ("n", "n_clusters", "n_missing", "mean_rank", "median_s", "ci_low", "ci_high")
    )
    check_confidence(confidence)
    adjust_pvalues([], method=adjust)
    columns = keys if cluster is None else (*keys, cluster)
    rows = collect(open_frame(frame, keys=columns, measures=("runtime_s",)))
    needed = ["runtime_s"] if cluster is None else ["runtime_s", cluster]
    taken = rows.drop_nulls(needed)
    codes, labels = group_codes(taken, keys)
    of = None if cluster is None else cluster_codes(taken[cluster])
    runtimes = _Runtimes(taken["runtime_s"].to_numpy(), codes, of, confidence)
    return RuntimeComparison(
        test=runtimes.test(labels.height),
        groups=_beside_missing(runtimes.groups(labels), rows, keys),
        pairs=runtimes.pairs(labels, adjust),
    )


class _Runtimes:
    """Runtimes, the group and the cluster of each, and where each stands among the others."""

    def __init__(
        self, value: Floats, group: Integers, cluster: Integers | None, confidence: float
    ) -> None:
        self.value, self.group, self.cluster = value, group, cluster
        self.confidence = confidence
        self.placed = placements(value, group)

    def test(self, n_groups: int) -> pl.DataFrame:
        """Return the one row of the test of all groups."""
        n = len(self.value)
        row: dict[str, float | str | None] = dict.fromkeys(_TEST)
        row["n"], row["n_groups"] = n, n_groups
        row["n_clusters"] = None if self.cluster is None else int(self.cluster.max()) + 1
        if self.value.min() == self.value.max():
            row["note"] = "all runtimes are equal"
        else:
            found, _ = kruskal_wallis(
                self.group, self.placed, self.cluster, confidence=self.confidence
            )
            row |= {
                "n_effective": n / found.design_effect,
                "epsilon_squared": found.effect,
                "ci_low": found.ci_low,
                "ci_high": found.ci_high,
                "statistic": found.statistic,
                "df": found.df,
                "pvalue": found.pvalue,
            }
            if np.isnan(found.pvalue) or np.isnan(found.ci_low):
                row["note"] = "null where runtimes do not vary within groups, or between clusters"
        return pl.DataFrame([row], schema=_TEST).fill_nan(None)

    def groups(self, labels: pl.DataFrame) -> pl.DataFrame:
        """Return a row a group."""
        rank = self.placed @ np.bincount(self.group) + 0.5
        columns: dict[str, list[float | None]] = {name: [] for name in _GROUPS}
        for code in range(labels.height):
            own = self.group == code
            of = None if self.cluster is None else self.cluster[own]
            low, high = median_interval(self.value[own], of, confidence=self.confidence)
            columns["n"].append(int(own.sum()))
            columns["n_clusters"].append(None if of is None else len(np.unique(of)))
            columns["mean_rank"].append(float(rank[own].mean()))
            columns["median_s"].append(float(np.median(self.value[own])))
            columns["ci_low"].append(low)
            columns["ci_high"].append(high)
        return labels.hstack(pl.DataFrame(columns, schema=_GROUPS).fill_nan(None))

    def pairs(self, labels: pl.DataFrame, adjust: Literal["holm", "fdr_bh"]) -> pl.DataFrame:
        """Return a row a pair of groups, p adjusted over all."""
        couples = list(combinations(range(labels.height), 2))
        found = [
            superiority(
                *(self.group, self.placed, self.cluster, first, second), confidence=self.confidence
            )
            for first, second in couples
        ]
        n = np.bincount(self.group)
        first, second = (np.array([couple[side] for couple in couples]) for side in (0, 1))
        chance = pl.col("superiority")
        return (
            labels[first]
            .rename(lambda name: f"{name}_a")
            .hstack(labels[second].rename(lambda name: f"{name}_b"))
            .with_columns(
                n_a=n[first],
                n_b=n[second],
                superiority=np.array([pair.superiority for pair in found]),
                ci_low=np.array([pair.ci_low for pair in found]),
                ci_high=np.array([pair.ci_high for pair in found]),
                cliffs_delta=np.array([2 * pair.superiority - 1 for pair in found]),
                pvalue=np.array([pair.pvalue for pair in found]),
                pvalue_adjusted=adjust_pvalues([pair.pvalue for pair in found], method=adjust),
            )
            .fill_nan(None)
            .with_columns(
                note=pl.when(pl.col("pvalue").is_null())
                .then(pl.lit("all runtimes are equal, or they are of one cluster"))
                .when(pl.col("ci_low").is_null() & ((chance == 0) | (chance == 1)))
                .then(pl.lit("no interval: one group lies wholly above the other"))
                .when(pl.col("ci_low").is_null())
                .then(pl.lit("no interval: a group is of one row or one cluster"))
            )
        )


def _beside_missing(
    groups: pl.DataFrame, rows: pl.DataFrame, keys: tuple[str, ...]
) -> pl.DataFrame:
    """Add the groups and rows of which no runtime is known."""
    every = rows.group_by(keys).agg(rows=pl.len().cast(pl.Int64))
    return (
        every.join(groups, on=keys, how="left", nulls_equal=True)
        .sort(keys, nulls_last=True)
        .with_columns(pl.col("n").fill_null(0))
        .select(
            *keys,
            "n",
            "n_clusters",
            n_missing=pl.col("rows") - pl.col("n"),
            mean_rank="mean_rank",
            median_s="median_s",
            ci_low="ci_low",
            ci_high="ci_high",
        )
    )
