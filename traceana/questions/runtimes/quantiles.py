"""Quantiles, tail index and checks of the values of a distribution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl
import scipy  # scipy.stats is slow to import and loaded when used
from numpy.typing import NDArray

from traceana.errors import DataError
from traceana.questions.runtimes.tables import DistributionFits, FittedQuantiles, TailIndex
from traceana.stats.arguments import as_list, check_confidence, check_count, is_number
from traceana.stats.distributions import FAMILIES, hill, make_sample
from traceana.stats.survival import incidence, log_log_interval
from traceana.store.frames import LARGEST, Names, as_names
from traceana.tables.declare import declared, returns, schema_of

if TYPE_CHECKING:
    from traceana.stats.arrays import Floats


Values: TypeAlias = NDArray[np.float64] | pl.Series | Sequence[float | None]
Flags: TypeAlias = NDArray[np.bool_] | pl.Series | Sequence[bool]


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
    wanted: list[int] = [math.isqrt(n)]
    if k is not None:
        k_used: Any = k
        wanted = [k_used] if is_number(k) else as_list("k", k_used)
    fine = (is_number(number, whole=True) and 1 <= number < max(n, 1) for number in wanted)
    if k is not None and not all(fine):
        raise DataError(f"k must lie from 1 to {n - 1}, one less than the {n} values; it is {k!r}")
    rows: list[dict[str, Any]] = []
    for number in wanted:
        row: dict[str, Any] = dict.fromkeys(TailIndex.columns()) | {"n": n, "n_missing": n_missing}
        tail = None
        if n > 1:
            tail = hill(x, number, entry=entered, observed=~cut, cluster=of, confidence=confidence)
        if n < 2:
            row["note"] = "fewer than two values"
        elif tail is None:
            row["note"] = "no exact value is above the threshold"
        else:
            row |= zip(
                ("k", "threshold", "tail_index", "ci_low", "ci_high"),
                vars(tail).values(),
                strict=True,
            )
            if of is not None and np.isnan(tail.low):
                row["note"] = "tail equivalent to fewer than two units of equal size: no interval"
        rows.append(row)
    return pl.DataFrame(rows, schema=schema_of(TailIndex)).fill_nan(None)


def read_values(
    values: Values, observed: Flags | None = None, entry: Values | None = None, /
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64] | None, int]:
    """Return values that are not missing, whether each is censored, entries, and number missing.

    Raises a DataError if a value is not a number, not positive or infinite, or there is not one
    Boolean and one entry from 0 to the value per value.
    """
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


def read_clusters(cluster: Values | Sequence[str], values: Values, /) -> NDArray[np.int64]:
    """Return codes from 0 of the clusters of values that are not missing.

    Raises a DataError if there is not one cluster per value, one is null, or all are the same.
    """
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


_MOST_POINTS: Final = 100_000


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
    values
        The values that were fitted.
    fits
        What :func:`fit_distributions` returns.
    families
        Families with parameters; None for all.
    entry, observed
        As in :func:`fit_distributions`.
    points
        Approximate number of quantiles: half are evenly spaced, half approach the maximum.
    confidence
        Coverage of the pointwise intervals, in (0, 1).

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
    if not (isinstance(fits, DistributionFits) and fits.table.height):
        raise DataError("fits must be what fit_distributions returns")
    fit_of = {row["family"]: row for row in fits.table.iter_rows(named=True)}
    first = fits.table.row(0, named=True)
    n = len(x)
    if n < 2 or n != first["n"]:
        raise DataError(f"the fits are to {first['n']} values; pass them, not {n} others")
    if first["n_censored"] != cut.sum() or first["n_truncated"] != (
        0 if entered is None else (entered > 0).sum()
    ):
        raise DataError(
            "the fits are to other entries or censored values; pass entry= and observed="
        )
    wanted = _with_parameters(fits, families)
    share = _shares(n, points)
    if cut.any() or entered is not None:
        value, low, high = _of_survival(x, cut, entered, share, confidence)
        share, value, low, high = (part[np.isfinite(value)] for part in (share, value, low, high))
        return _table(fit_of, fits, wanted, n, share, value, low, high)
    ordered = np.sort(x)
    rank = np.ceil(share * n).astype(np.int64)
    below, above = _ranks(share, n, confidence)
    return _table(
        fit_of,
        fits,
        wanted,
        n,
        share,
        ordered[rank - 1],
        np.where(below >= 1, ordered[np.maximum(below, 1) - 1], np.nan),
        np.where(above <= n, ordered[np.minimum(above, n) - 1], np.nan),
    )


def _with_parameters(fits: DistributionFits, families: Names | None) -> Sequence[str]:
    have = [name for name in fits.table["family"] if fits.params(name)]
    wanted = have if families is None else as_names(families)
    for name in wanted:
        if name not in have:
            raise DataError(
                f"family {name!r} has no parameters in the fits; families with parameters: "
                f"{', '.join(have) or 'none'}"
            )
    return wanted


def _table(
    fit_of: Mapping[str, Mapping[str, Any]],
    fits: DistributionFits,
    families: Sequence[str],
    n: int,
    share: Floats,
    *row: Floats,
) -> pl.DataFrame:
    columns = dict(zip(("value", "ci_low", "ci_high"), row, strict=True))
    fitted = {name: _quantile(fit_of[name], fits.params(name), share) for name in families}
    table = pl.DataFrame(
        {"n": np.full(len(share), n), "fraction_below": share, **columns, **fitted}
    )
    typed = declared(table.with_columns(pl.selectors.float().fill_nan(None)), FittedQuantiles)
    return typed.select(table.columns)


def _of_survival(
    x: Floats, cut: NDArray[np.bool_], entered: Floats | None, share: Floats, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """Return quantiles of the Kaplan-Meier estimate and their intervals; NaN if not known."""
    with np.errstate(divide="ignore"):
        low = None if entered is None else np.log(entered)
    sample = make_sample(np.log(x), cut, None, low)
    times, ends, cuts, late = sample.steps
    found = incidence(ends[:, None], cuts, late)
    bounds = log_log_interval(found.surviving, found.surviving_variance, confidence=confidence)
    steps, values = ends > 0, np.exp(times + sample.center)
    parts = []
    # where no row is left the lower end is 0, and the upper one unknown
    for curve, unknown in zip((found.surviving, *bounds), (0, 0, 1), strict=True):
        falls = -np.minimum.accumulate(np.nan_to_num(curve, nan=unknown)[steps])
        place = np.searchsorted(falls, share - 1 - 1e-12)
        parts.append(np.append(values[steps], np.nan)[place])
    return parts[0], parts[1], parts[2]


def _shares(n: int, points: int) -> Floats:
    """Return probabilities, evenly spaced and approaching 1, within the middles of the extremes."""
    evenly = np.linspace(0, 1, points // 2 + 2)[1:-1]
    last = 0.5 / n
    ever_closer = 1 - np.geomspace(last, 0.5, points - len(evenly))
    # in the middle of the step of a value
    middle = (np.floor(np.concatenate([evenly, ever_closer]) * n) + 0.5) / n
    shares: Floats = np.unique(middle)
    return shares


def _ranks(share: Floats, n: int, confidence: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the order statistics between which each quantile lies."""
    tail = (1 - confidence) / 2
    below = scipy.stats.binom.ppf(tail, n, share).astype(np.int64)
    above = scipy.stats.binom.ppf(1 - tail, n, share).astype(np.int64) + 1
    return below, above


def _quantile(row: Mapping[str, Any], params: Mapping[str, float], share: Floats) -> Floats:
    family = FAMILIES[row["family"]]
    location, *shape = (params[name] for name in family.parameters)
    theta = np.array(
        [
            location if family.parameters[0] == "mu" else np.log(location),
            *(family.sign * np.log(part) for part in shape),
        ]
    )
    above_bound = row["fraction_above_bound"]
    longer = np.log1p(-share) + (0.0 if above_bound is None else np.log(above_bound))
    quantiles: Floats = np.exp(family.quantile(longer, theta))
    return quantiles
