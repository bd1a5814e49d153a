"""Empirical distribution functions of groups, and their pairwise comparison."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import scipy  # scipy.stats is slow to import and loaded when used

from traceana.cohorts.unit_note import notes_unit
from traceana.errors import DataError
from traceana.questions.runtimes.tables import DistributionPairs, EmpiricalDistribution
from traceana.stats.arguments import MOST_RESAMPLES, as_generator, check_confidence, check_count
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.ranks import placements, superiority
from traceana.stats.two_samples import clustered_ks, ks_interval
from traceana.stats.wild_bootstrap import effective_clusters, too_few_clusters
from traceana.store.frames import Names, as_names, collect, count_values, open_frame, refuse_clash
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_EXACT_UP_TO: Final = 500  # values of a group; beyond, the asymptotic distribution is as good


@notes_unit
@returns(DistributionPairs)
def compare_distributions(
    frame: IntoFrame,
    /,
    value: str,
    by: Names,
    *,
    cluster: str | None = None,
    confidence: float = 0.95,
    resamples: int = 499,
    rng: int | np.random.Generator = 1,
) -> pl.DataFrame:
    """Compare the distributions of a value between groups, pairwise.

    Values are taken as complete, without left truncation or censoring.

    Parameters
    ----------
    frame
        One row per job: `by`, `value` and `cluster`; eager or lazy, of any supported engine. Rows
        without a cluster are excluded.
    value
        Column of numbers, none negative; null and NaN are missing.
    by
        Columns to group by; null is a group of its own.
    cluster
        Column of the independent unit, such as user; None: rows are independent. With clusters, p
        and interval of the KS distance are by the wild bootstrap of whole clusters, null below ten
        effective clusters.
    confidence
        Coverage of the intervals, in (0, 1).
    resamples
        Bootstrap samples for the interval of the KS distance, and with `cluster` its p.
    rng
        Seed or generator of the bootstrap.

    Returns
    -------
    DataFrame
        One row per pair of groups, in their order, with the columns of `by`, `<by>_other` and
        {columns}

        The KS test uses the exact distribution for groups of up to 500 values; ties make its p
        too large. Superiority and its p are those of :func:`compare_runtimes`. The p-values of
        both tests of all pairs are adjusted by Benjamini and Hochberg. If a group has fewer than
        two values all but the counts is null.

    Raises
    ------
    DataError
        If there are fewer than two groups.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> tasks = pl.DataFrame({"gpu": ["T4"] * 6 + ["V100"] * 6, "runtime_s": range(1, 13)})
    >>> found = traceana.compare_distributions(tasks, "runtime_s", "gpu", resamples=99)
    >>> found.select("gpu", "gpu_other", "superiority", pl.col("ks_distance").round(2)).rows()
    [('T4', 'V100', 0.0, 1.0)]
    """
    keys = as_names(by)
    others = tuple(f"{key}_other" for key in keys)
    refuse_clash((*keys, *others), DistributionPairs.columns())
    check_confidence(confidence)
    check_count("resamples", resamples, most=MOST_RESAMPLES)
    of = () if cluster is None else (cluster,)
    rows = collect(open_frame(frame, keys=(*keys, *of), measures={"value": value})).drop_nulls(of)
    rows = rows.with_columns(
        pl.lit(None, pl.Int64).alias(".unit")
        if cluster is None
        else (pl.col(cluster).rank("dense") - 1).cast(pl.Int64).alias(".unit")
    ).sort(value, ".unit")  # the order of rows depends on the engine
    parts = (pl.col(value), pl.col(".unit").filter(pl.col(value).is_not_null()))
    groups = (
        rows.group_by(keys, maintain_order=True).agg(*parts).sort(keys, nulls_last=True)
        if keys
        else rows.clear()
    )
    if groups.height < 2:
        raise DataError(f"two groups are needed to compare; by={keys!r} has {groups.height}")
    values = [group.drop_nulls().to_numpy() for group in groups[value]]
    units = [None if cluster is None else group.to_numpy() for group in groups[".unit"]]
    missing = [group.null_count() for group in groups[value]]
    pairs = list(combinations(range(groups.height), 2))
    streams = as_generator(rng).spawn(len(pairs))
    table = pl.DataFrame(
        [
            {"n": len(values[a]), "n_other": len(values[b])}
            | {"n_missing": missing[a], "n_missing_other": missing[b]}
            | _compare((values[a], values[b]), (units[a], units[b]), confidence, resamples, stream)
            for (a, b), stream in zip(pairs, streams, strict=True)
        ],
        schema=schema_of(DistributionPairs),
    )
    pvalues = adjust_pvalues(np.concatenate([table["ks_pvalue"], table["superiority_pvalue"]]))
    of_ks, of_superiority = pvalues.reshape(2, -1)
    adjusted = table.with_columns(
        ks_pvalue_adjusted=of_ks, superiority_pvalue_adjusted=of_superiority
    ).with_columns(pl.selectors.float().fill_nan(None))
    first, second = (groups.select(keys)[[pair[side] for pair in pairs]] for side in (0, 1))
    second.columns = list(others)
    joined = pl.concat([first, second, adjusted], how="horizontal")
    return declared(joined, DistributionPairs, by=(*keys, *others))


def _compare(
    values: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]],
    units: tuple[np.ndarray[Any, Any] | None, np.ndarray[Any, Any] | None],
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    x, y = values
    if min(len(x), len(y)) < 2:
        return {"note": "a group has fewer than two values"}
    code = None
    if units[0] is not None and units[1] is not None:
        _, code = np.unique(np.concatenate([units[0], units[1]]), return_inverse=True)
    method = "exact" if max(len(x), len(y)) <= _EXACT_UP_TO else "asymp"
    test = scipy.stats.ks_2samp(x, y, method=method)
    note, ks_pvalue = None, float(test.pvalue)
    options: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "rng": rng}
    if code is None:
        low, high = ks_interval(x, y, **options)
    else:
        ks_pvalue, low, high = clustered_ks(x, y, code, **options)
        if np.isnan(ks_pvalue):
            note = too_few_clusters(effective_clusters(np.ones(len(code)), code))
    both, side = np.concatenate([x, y]), np.repeat([0, 1], [len(x), len(y)])
    larger = superiority(side, placements(both, side), code, 0, 1, confidence=confidence)
    return {
        "ks_distance": float(test.statistic),
        "ks_low": low,
        "ks_high": high,
        "ks_pvalue": ks_pvalue,
        "superiority": larger.superiority,
        "superiority_low": larger.ci_low,
        "superiority_high": larger.ci_high,
        "superiority_pvalue": larger.pvalue,
        "cliffs_delta": 2 * larger.superiority - 1,
        "note": "no overlap, or no variation" if np.isnan(larger.ci_low) else note,
    }


_MOST_POINTS: Final = 100_000


@returns(EmpiricalDistribution)
def empirical_distribution(
    frame: IntoFrame, /, value: str, *, by: Names = (), points: int = 101
) -> pl.DataFrame:
    """Compute the empirical distribution function of a column by group.

    Parameters
    ----------
    frame
        One row per observation: `by` and `value`; eager or lazy, of any supported engine. Rows
        without a value (null or NaN) are excluded.
    value
        Column of numbers, none negative.
    by
        Columns to group by; null is a group of its own. A group without values has no row. By
        default all rows are one group.
    points
        Quantiles per group, at evenly spaced fractions from 0 to 1; from 2 to 100,000.

    Returns
    -------
    DataFrame
        Sorted by `by` (nulls last) and fraction_below, with the columns of `by` and
        {columns}

        The quantiles are order statistics (the inverse of the distribution function, type 1 of
        Hyndman and Fan, 1996), so each is a value that occurs.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> tasks = pl.DataFrame({"runtime_s": [4.0, 1.0, 3.0, 2.0]})
    >>> traceana.empirical_distribution(tasks, "runtime_s", points=3)["value"].to_list()
    [1.0, 2.0, 4.0]
    """
    check_count("points", points, least=2, most=_MOST_POINTS)
    keys = as_names(by)
    refuse_clash(keys, EmpiricalDistribution.columns())
    lazy = open_frame(frame, keys=keys, measures={"value": value})
    table = lazy.filter(~nw.col(value).is_null())
    if keys or not isinstance(frame, pl.DataFrame):
        rows = count_values(table, (*keys, value))
    else:  # sorted at once: counting takes longer, and less memory only where values repeat
        rows = collect(table).sort(value).with_columns(pl.lit(1, pl.Int64).alias(".n"))
    step = np.arange(points)
    curves = []
    for of_group in rows.partition_by(keys, maintain_order=True) if keys else [rows]:
        if of_group.is_empty():
            continue
        upto = of_group[".n"].cum_sum()
        n = upto[-1]
        rank = np.maximum(-(-step * n // (points - 1)), 1)  # in whole numbers: exact
        curves.append(
            of_group[:1]
            .select(*keys, pl.lit(n, pl.Int64).alias("n"))
            .join(
                pl.DataFrame(
                    {
                        "fraction_below": step / (points - 1),
                        "value": of_group[value].gather(upto.search_sorted(rank)),
                    }
                ),
                how="cross",
            )
        )
    kinds: dict[str, Any] = {"n": pl.Int64, "fraction_below": pl.Float64, "value": pl.Float64}
    empty = pl.DataFrame(schema={**{name: rows.schema[name] for name in keys}, **kinds})
    return declared(pl.concat([empty, *curves]), EmpiricalDistribution, by=keys)
