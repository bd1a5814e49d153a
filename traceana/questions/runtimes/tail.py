"""Tail index of runtimes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from traceana.errors import DataError
from traceana.questions.runtimes.tables import TailIndex
from traceana.questions.runtimes.values import read_clusters, read_values
from traceana.stats.arguments import as_list, check_confidence, is_number
from traceana.stats.distributions import hill
from traceana.tables.declare import returns, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.questions.runtimes.values import Flags, Values


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
        make the interval narrower and the estimate more biased.

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
        one: Any = k
        wanted = [one] if is_number(k) else as_list("k", one)
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
