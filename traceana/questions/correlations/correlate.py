"""Correlations of columns over rows and over group means, as one family of tests."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from traceana.cohorts.unit_note import notes_unit
from traceana.errors import DataError
from traceana.questions.correlations.family import LEVELS, Family, estimate_family
from traceana.questions.correlations.tables import CorrelationResult, Correlations
from traceana.stats.arguments import (
    MOST_RESAMPLES,
    as_generator,
    check_confidence,
    check_count,
)
from traceana.stats.correlation import METHODS, SMALLEST_P
from traceana.stats.multiplicity import adjust_pvalues
from traceana.store.frames import (
    Names,
    admit_columns,
    as_names,
    clean_columns,
    refuse_clash,
)
from traceana.tables.declare import returns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from narwhals.stable.v2.typing import IntoFrame


@notes_unit
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
    resamples: int = 200,
    rng: int | np.random.Generator = 1,
) -> CorrelationResult:
    """Correlate columns, with confidence intervals and adjusted p-values.

    `x`, `y`, `method` and `level` take one or several values. All combinations, in all groups of
    `by`, are one family, over which p is adjusted. Methods and formulas:
    :doc:`/explanation/correlation`.

    Values are null with a `note` if there are fewer than four points, a constant column or a value
    beyond 1e150. The interval is null if one row decides it. With `cluster`, interval and p are
    null below ten effective clusters. The engine of the frame aggregates Pearson's r; the columns
    are also collected, if they have up to 5 million rows or ranks or clusters need them.

    Parameters
    ----------
    frame
        One row per observation: `x`, `y`, `by` and `cluster`; eager or lazy, of any supported
        engine. Rows without both values of a pair (null or NaN) are excluded and counted.
    x, y
        Columns of numbers; `y` may be Boolean (false 0, true 1), for which Pearson's r is the
        point-biserial correlation.
    method
        "pearson", "spearman" (r of mean ranks) or "kendall" (tau-b).
    level
        "row": every row is a point. "group_mean": one point per distinct x, at the mean y of its
        rows, unweighted; it hides how many rows a point has and how much they vary.
        "group_mean_weighted": the same points, weighted by their number of rows.
    by
        Columns to group by; null is a group of its own. By default all rows are one group.
    cluster
        Columns of the independent unit, such as user, without nulls; None: rows are independent
        (groups, at the levels of group means).
    adjust
        Adjustment of the p-values over the family: "fdr_bh", "fdr_by", "holm", "bonferroni" or
        "none".
    confidence
        Coverage of the intervals, in (0, 1).
    resamples
        Largest number of clusters that the jackknife leaves out one by one. More have the error of
        the infinitesimal jackknife; for Kendall's tau they are combined at random into so many
        groups.
    rng
        Seed or generator of these groups and of the permutations.

    Returns
    -------
    CorrelationResult
        ``.table`` is sorted by `by` (nulls last), then in the requested order, with the columns of
        `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8, 8], "runtime_s": [60, 50, 90, 200, 150]})
    >>> traceana.correlate(jobs, "gpus", "runtime_s").table["r"].round(3).item()
    0.944
    """
    check_confidence(confidence)
    random = as_generator(rng)
    family = Family(
        pairs=list(dict.fromkeys(product(as_names(x), as_names(y)))),
        methods=_known("method", as_names(method), METHODS),
        levels=_known("level", as_names(level), LEVELS),
        keys=as_names(by),
        clusters=as_names(() if cluster is None else cluster),
        confidence=confidence,
    )
    adjust_pvalues([], method=adjust)  # refused before anything is read
    check_count("resamples", resamples, least=100, most=MOST_RESAMPLES)
    if not family.pairs:
        raise DataError("x and y must each name at least one column")
    refuse_clash(family.keys, Correlations.columns())
    for a, b in family.pairs:
        if a == b:
            raise DataError(f"column {a} cannot be correlated with itself")
    columns = (*family.keys, *family.clusters, *family.measures)
    admitted = admit_columns(frame, columns)
    flags = [b for _, b in family.pairs if admitted.collect_schema()[b] == nw.Boolean]
    if flags:
        admitted = admitted.with_columns(nw.col(*dict.fromkeys(flags)).cast(nw.Float64))
    lazy = clean_columns(admitted, family.measures)
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
