"""Quantiles of values beside the quantiles of the fitted families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
import scipy  # scipy.stats is slow to import and loaded when used

from traceana.errors import DataError
from traceana.questions.runtimes.tables import DistributionFits, FittedQuantiles
from traceana.questions.runtimes.values import read_values
from traceana.stats.arguments import check_confidence, check_count
from traceana.stats.distributions import FAMILIES, make_sample
from traceana.stats.survival import incidence, log_log_interval
from traceana.store.frames import as_names
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceana.questions.runtimes.values import Flags, Values

    Floats = NDArray[np.float64]

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
    >>> found.select(pl.col("share_below", "value", "lognormal").round(2)).rows()
    [(0.5, 149.38, 138.67), (1.0, 2621.67, 1847.12)]
    """
    check_confidence(confidence)
    check_count("points", points, least=2, most=_MOST_POINTS)
    x, cut, entered, _ = read_values(values, observed, entry)
    if not (isinstance(fits, DistributionFits) and fits.table.height):
        raise DataError("fits must be what fit_distributions returns")
    known = {row["family"]: row for row in fits.table.iter_rows(named=True)}
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
    have = [name for name in known if fits.params(name)]
    wanted = have if families is None else as_names(families)
    for name in wanted:
        if name not in have:
            raise DataError(
                f"family {name!r} has no parameters in the fits; families with parameters: "
                f"{', '.join(have) or 'none'}"
            )
    share = _shares(n, points)
    if cut.any() or entered is not None:
        value, low, high = _of_survival(x, cut, entered, share, confidence)
        share, value, low, high = (part[np.isfinite(value)] for part in (share, value, low, high))
        return _table(known, fits, wanted, n, share, value, low, high)
    ordered = np.sort(x)
    rank = np.ceil(share * n).astype(np.int64)
    below, above = _ranks(share, n, confidence)
    return _table(
        known, fits, wanted, n, share, ordered[rank - 1],
        np.where(below >= 1, ordered[np.maximum(below, 1) - 1], np.nan),
        np.where(above <= n, ordered[np.minimum(above, n) - 1], np.nan),
    )  # fmt: skip


def _table(
    known: Mapping[str, Mapping[str, Any]],
    fits: DistributionFits,
    families: Sequence[str],
    n: int,
    share: Floats,
    *found: Floats,
) -> pl.DataFrame:
    columns = dict(zip(("value", "ci_low", "ci_high"), found, strict=True))
    fitted = {name: _quantile(known[name], fits.params(name), share) for name in families}
    table = pl.DataFrame({"n": np.full(len(share), n), "share_below": share, **columns, **fitted})
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
    above_bound = row["share_above_bound"]
    longer = np.log1p(-share) + (0.0 if above_bound is None else np.log(above_bound))
    quantiles: Floats = np.exp(family.quantile(longer, theta))
    return quantiles
