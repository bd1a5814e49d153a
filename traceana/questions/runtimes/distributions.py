"""Empirical distributions, their quantiles and tails, and their pairwise comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import scipy  # scipy.stats is slow to import and loaded when used
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import notes_unit
from traceana.errors import DataError
from traceana.questions.runtimes.tables import (
    DistributionFits,
    DistributionPairs,
    EmpiricalDistribution,
    FittedQuantiles,
    TailIndex,
)
from traceana.stats.arguments import (
    MOST_RESAMPLES,
    as_generator,
    as_list,
    check_confidence,
    check_count,
    is_number,
)
from traceana.stats.arrays import Booleans, Floats, Integers
from traceana.stats.distributions.families import FAMILIES
from traceana.stats.distributions.goodness import Tail, hill
from traceana.stats.distributions.likelihood import make_sample
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.permutation import (
    clustered_ks,
    effective_clusters,
    ks_interval,
    too_few_clusters,
)
from traceana.stats.survival import incidence, log_log_interval
from traceana.store.frames import (
    LARGEST,
    Names,
    as_keys,
    as_names,
    collect,
    open_frame,
    refuse_clash,
)
from traceana.tables.declare import declared, returns, schema_of

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
    frame, by, confidence
        As in :func:`outcome_rates`. Rows without a cluster are excluded.
    value
        Column of numbers, none negative; null and NaN are missing.
    cluster
        Column of the independent unit, such as user; None: rows are independent. With clusters, p
        and interval of the KS distance are by the wild bootstrap of whole clusters, null below ten
        effective clusters.
    resamples, rng
        Bootstrap samples for the interval of the KS distance, and with `cluster` its p; their seed
        or generator.

    Returns
    -------
    DataFrame
        One row per pair of groups, in their order, with the columns of `by`, `<by>_other` and
        {columns}

        The KS test uses the exact distribution for groups of up to 500 values; ties make its p
        too large. The p-values of all pairs are adjusted by Benjamini and Hochberg. If a group has
        fewer than two values all but the counts is null.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> tasks = pl.DataFrame({"gpu": ["T4"] * 6 + ["V100"] * 6, "runtime_s": range(1, 13)})
    >>> found = traceana.compare_distributions(tasks, "runtime_s", "gpu", resamples=99)
    >>> found.select("gpu", "gpu_other", "ks_distance").rows()
    [('T4', 'V100', 1.0)]
    """
    keys = as_names(by)
    others = tuple(f"{key}_other" for key in keys)
    refuse_clash((*keys, *others), DistributionPairs.columns())
    check_confidence(confidence)
    check_count("resamples", resamples, most=MOST_RESAMPLES)
    of = () if cluster is None else (cluster,)
    rows = collect(open_frame(frame, keys=(*keys, *of), measures={"value": value})).drop_nulls(of)
    unit = pl.lit(None) if cluster is None else pl.col(cluster).rank("dense") - 1
    rows = rows.select(*keys, value, unit.cast(pl.Int64).alias(".unit"))
    rows = rows.sort(*keys, value, ".unit", nulls_last=True)  # their order depends on the engine
    groups = rows.partition_by(keys, maintain_order=True) if keys else []
    if len(groups) < 2:
        raise DataError(f"two groups are needed to compare; by={keys!r} has {len(groups)}")
    pairs = list(combinations(groups, 2))
    streams = as_generator(rng).spawn(len(pairs))
    options = {"confidence": confidence, "resamples": resamples}
    compared = [
        _compare(a[value, ".unit"], b[value, ".unit"], options | {"rng": stream})
        for (a, b), stream in zip(pairs, streams, strict=True)
    ]
    table = pl.DataFrame(compared, schema=schema_of(DistributionPairs))
    pvalues = adjust_pvalues(table["ks_pvalue"].to_numpy())
    adjusted = table.with_columns(ks_pvalue_adjusted=pvalues).fill_nan(None)
    first, second = (
        pl.concat(pair[side].head(1).select(keys) for pair in pairs) for side in (0, 1)
    )
    second.columns = list(others)
    joined = pl.concat([first, second, adjusted], how="horizontal")
    return declared(joined, DistributionPairs, by=(*keys, *others))


def _compare(first: pl.DataFrame, second: pl.DataFrame, options: dict[str, Any]) -> dict[str, Any]:
    """Compare [value, unit] of two groups; the unit is null for independent rows."""
    parts = [group.drop_nulls(group.columns[0]) for group in (first, second)]
    x, y = (part.to_series().to_numpy() for part in parts)
    row: dict[str, Any] = {"n": len(x), "n_missing": first.height - len(x)}
    row |= {"n_other": len(y), "n_missing_other": second.height - len(y)}
    if min(len(x), len(y)) < 2:
        return row | {"note": "a group has fewer than two values"}
    method = "exact" if max(len(x), len(y)) <= _EXACT_UP_TO else "asymp"
    test, unit = scipy.stats.ks_2samp(x, y, method=method), pl.concat(parts)[".unit"]
    row |= {"ks_distance": float(test.statistic), "ks_pvalue": float(test.pvalue)}
    if unit.has_nulls():
        row["ks_low"], row["ks_high"] = ks_interval(x, y, **options)
        return row
    code = (unit.rank("dense") - 1).cast(pl.Int64).to_numpy()
    row["ks_pvalue"], row["ks_low"], row["ks_high"] = clustered_ks(x, y, code, **options)
    if np.isnan(row["ks_pvalue"]):
        row["note"] = too_few_clusters(effective_clusters(np.ones(len(code)), code))
    return row


_MOST_POINTS: Final = 100_000
_MANY_UNITS: Final = 30
_FEW_OF_UNIT: Final = 3
"""Values of a unit in the tail, in fewer than so many units, above which intervals cover less."""


@returns(EmpiricalDistribution)
def empirical_distribution(
    frame: IntoFrame, /, value: str, by: Names = (), *, points: int = 101
) -> pl.DataFrame:
    """Compute the empirical distribution function of a column by group.

    Parameters
    ----------
    frame, by
        As in :func:`outcome_rates`. A group without values has no row.
    value
        Column of numbers, none negative; rows without one (null or NaN) are excluded.
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
    keys = as_keys(by, EmpiricalDistribution.columns())
    lazy = open_frame(frame, keys=keys, measures={"value": value})
    rows = collect(lazy.filter(~nw.col(value).is_null()))
    step, curves = np.arange(points), []
    for of_group in rows.partition_by(keys) if keys else [rows]:
        if n := of_group.height:
            rank = np.maximum(-(-step * n // (points - 1)), 1)  # in whole numbers: exact
            quantiles = of_group[value].sort().gather(rank - 1)
            curve = pl.DataFrame({"fraction_below": step / (points - 1), "value": quantiles})
            group = of_group[:1].select(*keys, n=pl.lit(n, pl.Int64))
            curves.append(group.join(curve, how="cross"))
    schema = {name: rows.schema[name] for name in keys} | schema_of(EmpiricalDistribution)
    empty = pl.DataFrame(schema=schema)
    table = pl.concat([empty, *curves]).sort(*keys, "fraction_below", nulls_last=True)
    return declared(table, EmpiricalDistribution, by=keys)


Values: TypeAlias = Floats | pl.Series | Sequence[float | None]
Flags: TypeAlias = Booleans | pl.Series | Sequence[bool]


@returns(TailIndex)
def tail_index(
    values: Values,
    /,
    *,
    k: int | Sequence[int] | None = None,
    entry: Values | None = None,
    observed: Flags | None = None,
    cluster: Values | Sequence[str] | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Estimate the tail index of runtimes by Hill's estimator.

    The fraction of values above x falls as x^-index: index = k / sum of ln(x_i / threshold) over
    the k values above the threshold (Hill, Annals of Statistics 3, 1975). Below 2 the
    distribution has no variance, below 1 no mean.

    Parameters
    ----------
    values, entry, observed, cluster, confidence
        As in :func:`fit_distributions`.
    k
        Number of largest values in the tail, one or several. None: the square root of n. Larger k
        make the interval narrower and the estimate more biased. In few unequal clusters intervals
        of 95 % then cover less: 91.8 to 93.2 % for a quarter of 400 values in 10 to 60 clusters.

    Returns
    -------
    DataFrame
        One row per k with the columns
        {columns}

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> runtimes = np.random.default_rng(1).pareto(1.5, size=1000) + 1
    >>> found = traceana.tail_index(runtimes, k=100)
    >>> found.select("n", "k", pl.col("tail_index").round(2)).rows()
    [(1000, 100, 1.45)]
    """
    check_confidence(confidence)
    x, cut, entered, n_missing = read_values(values, observed, entry)
    of = None if cluster is None else read_clusters(cluster, values)
    n = len(x)
    given: Any = (k,) if is_number(k) else k
    wanted: list[int] = [math.isqrt(n)] if k is None else as_list("k", given)
    fine = (is_number(number, whole=True) and 1 <= number < max(n, 1) for number in wanted)
    if k is not None and not all(fine):
        raise DataError(f"k must lie from 1 to {n - 1}, one less than the {n} values; it is {k!r}")
    rows: list[dict[str, Any]] = []
    options: dict[str, Any] = {"cluster": of, "confidence": confidence}
    for number in wanted:
        row: dict[str, Any] = {"n": n, "n_missing": n_missing}
        tail = hill(x, number, entry=entered, observed=~cut, **options) if n > 1 else None
        if tail is None:
            none = "no exact value is above the threshold"
            row["note"] = none if n > 1 else "fewer than two values"
        else:
            names = ("k", "threshold", "tail_index", "ci_low", "ci_high")
            row |= zip(names, vars(tail).values(), strict=True)
            if of is not None:
                row["note"] = _note_units(tail, of[x > tail.threshold])
        rows.append(row)
    return pl.DataFrame(rows, schema=schema_of(TailIndex)).fill_nan(None)


def _note_units(tail: Tail, units: Integers, /) -> str | None:
    if np.isnan(tail.low):
        return "tail equivalent to fewer than two units of equal size: no interval"
    effective = effective_clusters(np.ones(len(units)), units)
    if effective < _MANY_UNITS and tail.k > _FEW_OF_UNIT * effective:
        few = f"equivalent to fewer than {_MANY_UNITS} units of equal size"
        return f"{few}: the interval may be too narrow"
    return None


def read_values(
    values: Values, observed: Flags | None = None, entry: Values | None = None, /
) -> tuple[Floats, Booleans, Floats | None, int]:
    """Return values that are not missing, whether each is censored, entries, and number missing."""
    series = _series(values, "values")
    if not (series.dtype.is_numeric() or series.null_count() == len(series)):
        raise DataError(f"values are {series.dtype}; numbers are needed")
    series = series.cast(pl.Float64).fill_nan(None)
    present = series.is_not_null()
    x = series.drop_nulls().to_numpy()
    wrong = x[~((x >= 1 / LARGEST) & (x <= LARGEST))]
    if len(wrong):
        raise DataError(
            f"{len(wrong)} of {len(x)} values are not above 0 and finite, such as {wrong[0]:g} (at "
            f"least {1 / LARGEST:g}, at most {LARGEST:g}); drop them first"
        )
    cut, entered = np.zeros(len(x), dtype=bool), None
    if observed is not None:
        flags = _series(observed, "observed")
        if len(flags) != len(series) or flags.null_count() or flags.dtype != pl.Boolean:
            raise DataError(
                f"observed must be one True or False per value: {len(series)} values, "
                f"{len(flags)} flags of type {flags.dtype}, {flags.null_count()} of them null"
            )
        cut = ~flags.filter(present).to_numpy()
    if entry is not None:
        starts = _series(entry, "entry")
        if len(starts) != len(series) or not starts.dtype.is_numeric():
            raise DataError(
                f"entry must be one number per value: {len(series)} values, {len(starts)} entries "
                f"of type {starts.dtype}"
            )
        entered = starts.filter(present).cast(pl.Float64).fill_null(np.nan).to_numpy()
        if not ((entered >= 0) & (entered <= x)).all():
            raise DataError("entry must lie from 0 to its value, where there is a value")
    return x, cut, entered if entered is not None and entered.any() else None, len(series) - len(x)


def read_clusters(cluster: Values | Sequence[str], values: Values, /) -> Integers:
    """Return codes from 0 of the clusters of values that are not missing."""
    units, series = _series(cluster, "cluster"), _series(values, "values")
    if len(units) != len(series):
        raise DataError(f"cluster has {len(units)} entries for {len(series)} values")
    kept = units.filter(series.cast(pl.Float64).fill_nan(None).is_not_null())
    if kept.null_count():
        raise DataError(
            f"cluster is null for {kept.null_count()} value(s); fill it or drop these values"
        )
    if kept.n_unique() < 2:
        raise DataError("there is one cluster; at least two are needed")
    return (kept.rank("dense") - 1).cast(pl.Int64).to_numpy()


def _series(values: object, name: str) -> pl.Series:
    if hasattr(values, "columns"):
        raise DataError(f'{name} must be one column, such as jobs["runtime_s"]; found a frame')
    try:
        return pl.Series(values, strict=False)  # type: ignore[arg-type]
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise DataError(
            f"{name} must be an array, a Series or a list; found {type(values).__name__}"
        ) from None


@returns(FittedQuantiles)
def fitted_quantiles(
    values: Values,
    fits: DistributionFits,
    /,
    *,
    families: Sequence[str] | None = None,
    entry: Values | None = None,
    observed: Flags | None = None,
    points: int = 200,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute quantiles of values with intervals, beside the quantiles of fitted families.

    If a value is censored or enters late, quantiles and intervals are those of
    :func:`traceana.kaplan_meier`, up to the last that is known.

    Parameters
    ----------
    values, entry, observed
        As they were fitted.
    fits
        What :func:`fit_distributions` returns.
    families
        Families with parameters; None for all.
    points, confidence
        Approximate number of quantiles (half are evenly spaced, half approach the maximum), and
        coverage of their pointwise intervals, in (0, 1).

    Returns
    -------
    DataFrame
        Sorted, with the columns
        {columns}

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> runtimes = np.random.default_rng(1).lognormal(5, 1, size=200)
    >>> fits = traceana.fit_distributions(runtimes, families=["lognormal"])
    >>> found = traceana.fitted_quantiles(runtimes, fits, points=3)
    >>> found.select(pl.col("fraction_below", "value", "lognormal").round(2)).rows()
    [(0.5, 149.38, 138.67), (1.0, 2621.67, 1847.12)]
    """
    check_confidence(confidence)
    check_count("points", points, least=2, most=_MOST_POINTS)
    x, cut, entered, _ = read_values(values, observed, entry)
    n, wanted = len(x), _families_of(fits, families, x, cut, entered)
    fit_of = {row["family"]: row for row in fits.table.iter_rows(named=True)}
    share = _shares(n, points)
    if cut.any() or entered is not None:
        value, low, high = _of_survival(x, cut, entered, share, confidence)
        share, value, low, high = (part[np.isfinite(value)] for part in (share, value, low, high))
    else:
        tail, padded = (1 - confidence) / 2, np.concatenate([[np.nan], np.sort(x), [np.nan]])
        value = padded[np.ceil(share * n).astype(np.int64)]
        # the order statistics between which each quantile lies
        low = padded[scipy.stats.binom.ppf(tail, n, share).astype(np.int64)]
        high = padded[scipy.stats.binom.ppf(1 - tail, n, share).astype(np.int64) + 1]
    columns = {"n": np.full(len(share), n), "fraction_below": share, "value": value}
    columns |= {"ci_low": low, "ci_high": high}
    columns |= {name: _quantile(fit_of[name], fits.params(name), share) for name in wanted}
    return declared(pl.DataFrame(columns).fill_nan(None), FittedQuantiles).select(*columns)


def _families_of(
    fits: DistributionFits, families: Names | None, x: Floats, cut: Booleans, entered: Floats | None
) -> list[str]:
    """Return the families to show; refuse fits to other values, and those without parameters."""
    if not (isinstance(fits, DistributionFits) and fits.table.height):
        raise DataError("fits must be what fit_distributions returns")
    n_truncated = 0 if entered is None else (entered > 0).sum()
    n, *fitted = fits.table.select("n", "n_censored", "n_truncated").row(0)
    if len(x) < 2 or len(x) != n:
        raise DataError(f"the fits are to {n} values; pass them, not {len(x)} others")
    if fitted != [cut.sum(), n_truncated]:
        raise DataError(
            "the fits are to other entries or censored values; pass entry= and observed="
        )
    wanted = fits.fitted if families is None else list(as_names(families))
    for name in wanted:
        if name not in fits.fitted:
            raise DataError(
                f"family {name!r} has no parameters in the fits; families with parameters: "
                f"{', '.join(fits.fitted) or 'none'}"
            )
    return wanted


def _of_survival(
    x: Floats, cut: Booleans, entered: Floats | None, share: Floats, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """Return quantiles of the Kaplan-Meier estimate and their intervals; NaN if not known."""
    with np.errstate(divide="ignore"):
        low = None if entered is None else np.log(entered)
    sample = make_sample(np.log(x), cut, None, low)
    times, ends, cuts, late = sample.steps
    curves = incidence(ends[:, None], cuts, late)
    bounds = log_log_interval(curves.surviving, curves.surviving_variance, confidence=confidence)
    steps, values = ends > 0, np.exp(times + sample.center)
    parts = []
    # where no row is left the lower end is 0, and the upper one unknown
    for curve, unknown in zip((curves.surviving, *bounds), (0, 0, 1), strict=True):
        falls = -np.minimum.accumulate(np.nan_to_num(curve, nan=unknown)[steps])
        place = np.searchsorted(falls, share - 1 - 1e-12)
        parts.append(np.append(values[steps], np.nan)[place])
    return parts[0], parts[1], parts[2]


def _shares(n: int, points: int) -> Floats:
    """Return probabilities, evenly spaced and approaching 1, within the middles of the extremes."""
    evenly = np.linspace(0, 1, points // 2 + 2)[1:-1]
    ever_closer = 1 - np.geomspace(0.5 / n, 0.5, points - len(evenly))
    # in the middle of the step of a value
    middle = (np.floor(np.concatenate([evenly, ever_closer]) * n) + 0.5) / n
    shares: Floats = np.unique(middle)
    return shares


def _quantile(row: Mapping[str, Any], params: Mapping[str, float], share: Floats) -> Floats:
    family = FAMILIES[row["family"]]
    location, *shape = (params[name] for name in family.parameters)
    first = location if family.parameters[0] == "mu" else np.log(location)
    theta = np.array([first, *(family.sign * np.log(part) for part in shape)])
    above_bound = row["fraction_above_bound"]
    longer = np.log1p(-share) + (0.0 if above_bound is None else np.log(above_bound))
    quantiles: Floats = np.exp(family.quantile(longer, theta))
    return quantiles
