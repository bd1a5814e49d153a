"""Failure rates of groups at one composition of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from scipy.special import stdtrit

from traceana.cohorts.definitions import open_outcomes, with_failure
from traceana.cohorts.unit_note import notes_unit
from traceana.errors import DataError
from traceana.questions.failures.codes import cluster_codes, group_codes
from traceana.questions.failures.tables import StandardizedRates
from traceana.stats.arguments import check_confidence
from traceana.stats.intervals import FEWEST_CLUSTERS
from traceana.stats.wild_bootstrap import effective_clusters
from traceana.store.frames import Names, as_names, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_NONE: Final = "no stratum has rows of all groups"


@notes_unit
@returns(StandardizedRates)
def standardized_failure_rates(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    strata: Names,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Compute failure rates that groups would have with the same composition.

    Direct standardization: the sum over strata, such as size and user, of the fraction of all rows
    in the stratum times the group's failure rate in it (Rothman and others, Modern Epidemiology,
    3rd ed., 2008, chapter 4). Only strata with rows of all groups count; `fraction_covered` is
    their fraction of the rows.

    Parameters
    ----------
    frame
        One row per job or task: `by`, `strata`, `status` and `cluster`; eager or lazy, of any
        supported engine. Rows without a cluster are excluded.
    by
        Columns to group by; null is a group of its own.
    strata
        Columns of which each combination is a stratum; null is a value of its own. Bin numbers
        first.
    success, failure, status, confidence
        As in :func:`failure_rates`.
    cluster
        Column of the independent unit; None: rows are independent. If it is one of the strata, the
        comparison is within these units, and rows are independent.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last, with the columns of `by` and
        {columns}

        The variance is that of the sum of (failure - rate of the group in the stratum) x weight of
        the stratum / rows of the group in it, with the factor n / (n - 1) of each such cell, or
        over the m clusters with m / (m - 1) and t(k - 1) of the effective number k (Kish).

    Raises
    ------
    DataError
        If there are fewer than two groups or more than 50, or fewer than two clusters.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4", "T4", "V100", "V100"] * 5, "gpus": [1, 2, 1, 1] * 5,
    ...                      "status": (["failed"] + ["completed"] * 3) * 5})
    >>> found = traceana.standardized_failure_rates(jobs, "gpu", strata="gpus")
    >>> found.select("gpu", "rate", "standardized", "fraction_covered").rows()
    [('T4', 0.5, 1.0, 0.75), ('V100', 0.0, 0.0, 0.75)]
    """
    keys, within = as_names(by), as_names(strata)
    refuse_clash(keys, StandardizedRates.columns())
    if not within:
        raise DataError("strata names no column; name at least one, such as strata='gpus'")
    check_confidence(confidence)
    unit = () if cluster is None or cluster in within else (cluster,)
    columns = tuple(dict.fromkeys((*keys, *within, *unit)))
    lazy, succeeded, failed = open_outcomes(
        frame, columns, status=status, success=success, failure=failure
    )
    if unit:
        lazy = lazy.filter(~nw.col(unit[0]).is_null())
    counts = reduce_frame(
        with_failure(lazy, status, succeeded, failed), columns,
        n=nw.len(), failures=nw.col("failure").sum().cast(nw.Int64),
    )  # fmt: skip
    group, labels = group_codes(counts, keys)
    n, k = (counts[name].cast(pl.Float64).to_numpy() for name in ("n", "failures"))
    stratum = (counts.select(pl.struct(within).rank("dense") - 1).to_series()).to_numpy()
    shape = (labels.height, int(stratum.max()) + 1)
    cell = group * shape[1] + stratum.astype(np.int64)
    size, bad = (np.bincount(cell, part, shape[0] * shape[1]).reshape(shape) for part in (n, k))
    shared = (size > 0).all(axis=0)
    rows = labels.with_columns(
        n=pl.Series(size.sum(axis=1)).cast(pl.Int64),
        failures=pl.Series(bad.sum(axis=1)).cast(pl.Int64),
        rate=pl.Series(bad.sum(axis=1) / size.sum(axis=1)),
        fraction_covered=pl.lit(float(size[:, shared].sum() / size.sum())),
    )
    if not shared.any():
        none = dict.fromkeys(("standardized", "ci_low", "ci_high"), pl.lit(None, pl.Float64))
        rows = rows.with_columns(**none, note=pl.lit(_NONE))
        return declared(rows, StandardizedRates, by=keys)
    weight = np.where(shared, size.sum(axis=0), 0) / size[:, shared].sum()
    filled = np.where(size > 0, size, 1)
    rates = bad / filled
    estimate = rates @ weight
    reach, note = np.full(shape[0], stdtrit(np.inf, (1 + confidence) / 2)), None
    if unit:
        of = cluster_codes(counts[unit[0]])
        each = (k - n * rates.ravel()[cell]) * (weight / filled).ravel()[cell]
        sums = np.bincount(group * (of.max() + 1) + of, each, shape[0] * (of.max() + 1))
        m, effective = (
            np.array([function(group == code) for code in range(shape[0])])
            for function in (
                lambda own: len(np.unique(of[own])),
                lambda own: effective_clusters(n[own], of[own]),
            )
        )
        variance = (sums.reshape(shape[0], -1) ** 2).sum(axis=1) * m / np.maximum(m - 1, 1)
        reach = np.where(
            effective >= FEWEST_CLUSTERS,
            stdtrit(np.maximum(effective - 1, 1), (1 + confidence) / 2),
            np.nan,
        )
        note = pl.when(pl.Series(np.isnan(reach))).then(
            pl.lit("fewer than two effective clusters: no interval")
        )
    else:
        spread = rates * (1 - rates) / np.maximum(size - 1, 1)
        variance = spread @ weight**2
    half = reach * np.sqrt(variance)
    rows = rows.with_columns(
        standardized=pl.Series(estimate),
        ci_low=pl.Series((estimate - half).clip(0, 1)).fill_nan(None),
        ci_high=pl.Series((estimate + half).clip(0, 1)).fill_nan(None),
        note=note,
    )
    return declared(rows, StandardizedRates, by=keys)
