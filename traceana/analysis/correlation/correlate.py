"""Correlations of a trace's columns over rows and over group means, as one family of tests."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.correlation.family import COLUMNS, LEVELS, Family, estimate_family
from traceana.analysis.correlation.result import CorrelationResult
from traceana.analysis.frames import (
    Names,
    admit_columns,
    as_names,
    clean_columns,
    refuse_clash,
)
from traceana.errors import DataError
from traceana.stats.arguments import as_generator, check_confidence, is_number
from traceana.stats.correlation import METHODS, SMALLEST_P
from traceana.stats.multiplicity import adjust_pvalues

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame


def correlate(
    frame: IntoFrame,
    /,
    x: Names,
    y: Names,
    *,
    method: Names = "pearson",
    level: Names = "row",
    by: Names = (),
    cluster: Names = (),
    adjust: str = "fdr_bh",
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: int | np.random.Generator = 1,
) -> CorrelationResult:
    """Correlate columns, each with an interval, n, and p adjusted over all that is asked.

    `x`, `y`, `method` and `level` take one or several; every combination, in every group of `by`,
    is a member of the family over which p is adjusted.

    Parameters
    ----------
    frame
        One row an observation: the columns `x`, `y`, `by`, `cluster`; eager or lazy, of any
        listed engine. A row without both values (null or NaN) is left out of that pair, and
        counted.
    x, y
        Columns of numbers.
    method
        ``pearson``; ``spearman`` (r of mean ranks); ``kendall`` (tau-b).
    level
        ``row``: every row is a point. ``group_mean``: a point a distinct x, y the mean of its
        rows, all points alike; it hides how many rows a point stands for and how much they vary.
        ``group_mean_weighted``: the same points, each as often as it has rows.
    by
        Columns to group by; null in them is a group of its own.
    cluster
        Columns that name (together) what is independent of each other: job, user, group. None:
        rows, or groups at the levels of group means, are taken to be.
    adjust
        ``fdr_bh``, ``fdr_by``, ``holm``, ``bonferroni`` or ``none``: see
        :func:`traceana.stats.adjust_pvalues`.
    confidence
        Coverage of the intervals, in (0, 1).
    resamples, rng
        Of the bootstrap over clusters and of what chance does: how many, and seed or generator.

    Returns
    -------
    CorrelationResult
        ``.table`` is [*by, x, y, method, level, n, n_groups, r, ci_low, ci_high, pvalue,
        pvalue_adjusted, n_effective, n_clusters, n_missing, note], sorted by `by` (nulls last) and
        then in the order asked. n counts rows; n_groups distinct x, null at level ``row``.

        Without `cluster`, intervals are Fisher's (:func:`traceana.stats.fisher_interval`), for
        Pearson's r over rows with the jackknife's error of arctanh(r) where it is the larger, as
        it is of skewed values; p is of Student's t, for Kendall as
        :func:`scipy.stats.kendalltau`, with n_effective points: n, n_groups or, for weighted
        means, Kish's (sum of sizes)^2 / (sum of sizes^2).

        With it, both are of t with n_clusters - 1 degrees of freedom. Over rows the interval's
        error, on Fisher's scale, is of a bootstrap that draws whole clusters
        (:mod:`traceana.stats.cluster_correlation`), and so is p of ranks. p of Pearson's r, and
        all that is of group means, is of a y drawn anew with its distribution and what its
        clusters share, but independent of x (:mod:`traceana.stats.null_correlation`).
        n_effective is the number of independent points whose Fisher interval would be as wide.

        What cannot be told is null and has its reason in `note`: fewer than four points, a
        constant column, values beyond 1e150 (infinite), fewer than two clusters; for an interval,
        x or y constant but for one row. A p-value too
        small for a double stands as 2.2e-308, with a note.

    Raises
    ------
    DataError
        If a column is missing, not numeric or named twice, a method, level or adjustment is not
        known, a cluster is null, or an option is out of range.

    Notes
    -----
    Pearson's r over rows and group means are reduced by the engine that holds the frame. Ranks
    over rows and the bootstrap need every row: the columns of need are collected then, and all is
    told from them.

    Examples
    --------
    >>> import polars as pl
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8, 8], "runtime_s": [60, 50, 90, 200, 150]})
    >>> correlate(jobs, "gpus", "runtime_s").table["r"].round(3).item()
    0.944
    """
    check_confidence(confidence)
    random = as_generator(rng)
    family = Family(
        pairs=list(dict.fromkeys(product(as_names(x), as_names(y)))),
        methods=_known("method", as_names(method), METHODS),
        levels=_known("level", as_names(level), LEVELS),
        keys=as_names(by),
        clusters=as_names(cluster),
        confidence=confidence,
    )
    adjust_pvalues([], method=adjust)  # refused before anything is read
    if not (is_number(resamples, whole=True) and resamples >= 100):
        raise DataError(f"resamples must be a whole number from 100 on; it is {resamples!r}")
    if not family.pairs:
        raise DataError("x and y must each name a column at least")
    refuse_clash(family.keys, COLUMNS)
    for a, b in family.pairs:
        if a == b:
            raise DataError(f"column {a} cannot be correlated with itself")
    columns = (*family.keys, *family.clusters, *family.measures)
    lazy = clean_columns(admit_columns(frame, columns), family.measures)
    found = estimate_family(family, lazy, resamples=resamples, rng=random)
    table = found.with_columns(
        pvalue_adjusted=pl.Series(
            adjust_pvalues(found["pvalue"].to_numpy().astype(float), method=adjust)
        ).fill_nan(None),
        note=pl.when(pl.col("pvalue") <= SMALLEST_P)
        .then(
            pl.concat_str("note", pl.lit("p is below 2.2e-308"), separator="; ", ignore_nulls=True)
        )
        .otherwise("note"),
    )
    return CorrelationResult(table, family.keys, adjust, confidence, family.clusters)


def _known(what: str, names: tuple[str, ...], known: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in known:
            raise DataError(f"{what} must be among {', '.join(known)}; it is {name!r}")
    if not names:
        raise DataError(f"{what} names none of {', '.join(known)}")
    return tuple(dict.fromkeys(names))
