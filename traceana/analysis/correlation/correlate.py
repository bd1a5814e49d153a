"""Correlations of columns over rows and over group means, as one family of tests."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import polars as pl

from traceana.analysis.correlation.family import LEVELS, Family, estimate_family
from traceana.analysis.frames import (
    Names,
    admit_columns,
    as_names,
    clean_columns,
    refuse_clash,
)
from traceana.errors import DataError
from traceana.results.correlation import CorrelationResult, Correlations
from traceana.results.tables import returns
from traceana.stats.arguments import as_generator, check_confidence, is_number
from traceana.stats.correlation import METHODS, SMALLEST_P
from traceana.stats.multiplicity import adjust_pvalues

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame


@returns(Correlations)
def correlate(
    frame: IntoFrame,
    /,
    x: Names,
    y: Names,
    *,
    method: Names = "pearson",
    level: Names = "row",
    by: Names = (),
    cluster: Names | None = None,
    adjust: str = "fdr_bh",
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: int | np.random.Generator = 1,
) -> CorrelationResult:
    """Correlate columns, with confidence intervals and adjusted p-values.

    `x`, `y`, `method` and `level` take one or several values. All combinations, in all groups of
    `by`, are one family, over which p is adjusted.

    Parameters
    ----------
    frame
        One row per observation: the columns `x`, `y`, `by`, `cluster`; eager or lazy, of any
        listed engine. Rows without both values of a pair (null or NaN) are excluded and counted.
    x, y
        Columns of numbers.
    method
        ``pearson``; ``spearman`` (r of mean ranks); ``kendall`` (tau-b).
    level
        ``row``: every row is a point. ``group_mean``: one point per distinct x, at the mean y of
        its rows, unweighted; it hides how many rows a point has and how much they vary.
        ``group_mean_weighted``: the same points, weighted by their number of rows.
    by
        Columns to group by; null in them is a group of its own.
    cluster
        Columns of the independent unit, such as user. None: rows, or groups at the levels of group
        means, are treated as independent.
    adjust
        ``fdr_bh``, ``fdr_by``, ``holm``, ``bonferroni`` or ``none``: see
        :func:`traceana.stats.adjust_pvalues`.
    confidence
        Coverage of the intervals, in (0, 1).
    resamples, rng
        Largest number of jackknife resamples; more clusters are combined at random into so many
        groups. rng is a seed or a generator.

    Returns
    -------
    CorrelationResult
        ``.table`` is sorted by `by` (nulls last), then in the requested order, with the columns of
        `by` and

        {columns}

    Raises
    ------
    DataError
        If a column is missing, not numeric or named twice, a method, level or adjustment is
        unknown, a cluster is null, or an option is out of range.

    Notes
    -----
    Without `cluster`, intervals use Fisher's transformation
    (:func:`traceana.stats.fisher_interval`), for Pearson's r over rows with the jackknife error of
    arctanh(r) if it is larger, as it is for skewed values. p is from Student's t, for Kendall from
    :func:`scipy.stats.kendalltau`, with n_effective points: n, n_groups or, for weighted means,
    Kish's (sum of sizes)^2 / (sum of sizes^2).

    With `cluster`, interval and p use Student's t (clusters - 1) and the error of arctanh(r) of the
    delete-one-cluster jackknife (:mod:`traceana.stats.cluster_jackknife`) at every level and for
    every method. n_effective is the number of independent points whose Fisher interval would be
    as wide.

    Values are null with a `note` if there are fewer than four points, a constant column, values
    beyond 1e150 (infinite) or fewer than two clusters; intervals also if x or y is constant but
    for one row. A p-value too small for a double is 2.2e-308, with a note.

    Pearson's r over rows and group means are aggregated by the engine of the frame. Ranks over
    rows and the jackknife collect the required columns.

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
        clusters=as_names(cluster or ()),
        confidence=confidence,
    )
    adjust_pvalues([], method=adjust)  # refused before anything is read
    if not (is_number(resamples, whole=True) and resamples >= 100):
        raise DataError(f"resamples must be a whole number from 100 on; it is {resamples!r}")
    if not family.pairs:
        raise DataError("x and y must each name at least one column")
    refuse_clash(family.keys, Correlations.columns())
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
