"""Rank-based comparison of runtimes between groups."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from traceana.cohorts.unit_note import notes_unit
from traceana.questions.failures.clusters import cluster_codes, group_codes, with_adjusted
from traceana.questions.failures.tables import RuntimeComparison, RuntimeGroups, RuntimeTest
from traceana.stats.arguments import check_choice, check_confidence
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.permutation import effective_clusters, too_few_clusters
from traceana.stats.quantiles import woodruff_interval
from traceana.stats.ranks import FEW, placements, rank_anova, superiority
from traceana.store.frames import Names, as_names, collect, open_frame, refuse_clash

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

    from traceana.stats.arrays import Floats, Integers


@notes_unit
def compare_runtimes(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    runtime: str = "runtime_s",
    cluster: str | None = None,
    method: str = "brunner-munzel",
    adjust: str = "fdr_bh",
    confidence: float = 0.95,
) -> RuntimeComparison:
    """Compare the runtimes of groups by their ranks, all together and pairwise.

    Ranks are robust against the heavy tails of runtimes. All groups are compared by the rank ANOVA
    of Brunner, Dette and Munk (JASA 92, 1997), with effect size epsilon squared = H / (N - 1)
    (Kelley, PNAS 21, 1935). Pairs are compared by Brunner and Munzel's test of the probability that
    a runtime of the first group is longer (ties counted half), with Cliff's delta. Two groups have
    this test alone. Spreads may differ. Small groups are compared by permutations. In large samples
    any p-value is small: read the effect sizes first. Runtimes are taken as complete: left
    truncation and censoring by an observation window are ignored. Exclude rows that started before
    it, or compare the curves of :func:`kaplan_meier`.

    Parameters
    ----------
    frame
        One row per job or task: `by`, `runtime` and `cluster`; eager or lazy, of any supported
        engine. Rows with null or NaN in `runtime` or `cluster` are excluded.
    by
        Columns to group by; null is a group of its own.
    runtime
        Column of the runtime: seconds or a duration.
    cluster
        Column of the independent unit, such as user; None: rows are independent. If they are not, p
        is far too small. Below ten effective clusters the rank ANOVA has no p and no interval.
    method
        "brunner-munzel": rank ANOVA of all groups and Brunner and Munzel's test of pairs, which
        agrees with the interval. "mann-whitney": the tests of Kruskal and Wallis and of Mann and
        Whitney, which assume equal spreads.
    adjust
        Adjustment of the p-values over all pairs: "fdr_bh" (Benjamini and Hochberg), "fdr_by",
        "holm", "bonferroni" or "none".
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    RuntimeComparison
        ``.test``, ``.groups`` sorted by `by`, and ``.pairs`` with the columns `<by>_a` and
        `<by>_b`. Methods and references: :doc:`/explanation/outcomes`.

    Raises
    ------
    DataError
        If fewer than two groups have a runtime or more than 50 do, or there are fewer than two
        clusters.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4"] * 6 + ["V100"] * 6, "runtime_s": range(1, 13)})
    >>> result = traceana.compare_runtimes(jobs, "gpu")
    >>> result.pairs.select("gpu_a", "gpu_b", "superiority").rows()
    [('T4', 'V100', 0.0)]
    """
    keys = as_names(by)
    refuse_clash(keys, RuntimeGroups.columns())
    check_confidence(confidence)
    adjust_pvalues([], method=adjust)
    check_choice("method", method, ("brunner-munzel", "mann-whitney"))
    columns = keys if cluster is None else (*keys, cluster)
    rows = collect(open_frame(frame, keys=columns, measures={"runtime": runtime}))
    taken = rows.drop_nulls([runtime] if cluster is None else [runtime, cluster])
    codes, labels = group_codes(taken, keys)
    of = None if cluster is None else cluster_codes(taken[cluster])
    value = taken[runtime].to_numpy()
    placed = placements(value, codes)
    groups = labels.hstack(_groups(value, codes, of, placed, confidence))
    every = rows.group_by(keys).agg(rows=pl.len().cast(pl.Int64)).sort(keys, nulls_last=True)
    groups = every.join(groups, on=keys, how="left", nulls_equal=True, maintain_order="left")
    groups = groups.with_columns(pl.col("n").fill_null(0))
    old = method == "mann-whitney"
    pairs = _pairs(codes, of, placed, labels, old, adjust=adjust, confidence=confidence)
    test = _test(value, codes, of, placed, confidence=confidence, old=old)
    if pairs.height == 1 and not old:
        test = test.with_columns(pvalue=pairs["pvalue"])
    groups = groups.with_columns(n_missing=pl.col("rows") - pl.col("n")).drop("rows")
    return RuntimeComparison(test=test, groups=groups, pairs=pairs)


def _test(
    value: Floats,
    group: Integers,
    cluster: Integers | None,
    placed: Floats,
    *,
    confidence: float,
    old: bool,
) -> pl.DataFrame:
    row: dict[str, Any] = {
        "n": len(value),
        "n_groups": int(group.max()) + 1,
        "n_clusters": None if cluster is None else int(cluster.max()) + 1,
    }
    if value.min() == value.max():
        row = dict.fromkeys(RuntimeTest.columns()) | row | {"note": "all runtimes are equal"}
        return pl.DataFrame([row])
    test, _ = rank_anova(group, placed, cluster, confidence=confidence, equal_spreads=old)
    note = None
    if cluster is None and not old and np.bincount(group).min() < FEW:
        note = f"a group has fewer than {FEW} rows: p is approximate"
    if np.isnan(test.pvalue) or np.isnan(test.ci_low):
        note = "null if runtimes do not vary within groups, or between clusters"
        if cluster is not None:
            effective = effective_clusters(np.ones(len(value)), cluster)
            note = too_few_clusters(effective) or note
    row |= {
        "n_effective": len(value) / (1 if cluster is None else test.design_effect),
        "epsilon_squared": test.effect,
        "ci_low": test.ci_low,
        "ci_high": test.ci_high,
        "statistic": test.statistic,
        "df": test.df,
        "df_error": None if np.isinf(test.error_df) else test.error_df,
        "pvalue": test.pvalue,
        "note": note,
    }
    return pl.DataFrame([row]).fill_nan(None)


def _groups(
    value: Floats, group: Integers, cluster: Integers | None, placed: Floats, confidence: float
) -> pl.DataFrame:
    rank = placed @ np.bincount(group) + 0.5
    rows = []
    for code in range(int(group.max()) + 1):
        in_group = group == code
        of = None if cluster is None else cluster[in_group]
        low, high = woodruff_interval(value[in_group], of, confidence=confidence)
        rows.append(
            {
                "n": int(in_group.sum()),
                "n_clusters": None if of is None else int(np.count_nonzero(np.bincount(of))),
                "mean_rank": float(rank[in_group].mean()),
                "median_s": float(np.median(value[in_group])),
                "ci_low": low,
                "ci_high": high,
            }
        )
    return pl.DataFrame(rows).fill_nan(None)


def _pairs(
    group: Integers,
    cluster: Integers | None,
    placed: Floats,
    labels: pl.DataFrame,
    old: bool,
    *,
    adjust: str,
    confidence: float,
) -> pl.DataFrame:
    pairs = list(combinations(range(labels.height), 2))
    compared = [
        superiority(group, placed, cluster, a, b, confidence=confidence, mann_whitney=old)
        for a, b in pairs
    ]
    n = np.bincount(group)
    first, second = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    chance = pl.col("superiority")
    table = (
        labels[first]
        .rename(lambda name: f"{name}_a")
        .hstack(labels[second].rename(lambda name: f"{name}_b"))
        .hstack(pl.DataFrame(compared))
        .with_columns(n_a=n[first], n_b=n[second], cliffs_delta=2 * chance - 1)
    )
    return with_adjusted(table.fill_nan(None), method=adjust).with_columns(
        note=pl.when(pl.col("pvalue").is_null())
        .then(pl.lit("all runtimes are equal, or they belong to one cluster"))
        .when(pl.col("ci_low").is_null() & chance.is_in([0.0, 1.0]))
        .then(pl.lit("no interval: all runtimes of one group are longer"))
        .when(pl.col("ci_low").is_null())
        .then(pl.lit("no interval: a group has too few rows or one cluster"))
    )
