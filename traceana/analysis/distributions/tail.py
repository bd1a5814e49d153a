"""How heavy the tail of runtimes is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.analysis.distributions.values import read_values
from traceana.errors import DataError
from traceana.stats.distributions import hill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceana.analysis.distributions.values import Values

_COLUMNS: Final = {
    **dict.fromkeys(("n", "k"), pl.Int64),
    **dict.fromkeys(("threshold", "tail_index", "ci_low", "ci_high"), pl.Float64),
    "n_missing": pl.Int64,
    "note": pl.String,
}


def tail_index(
    values: Values,
    /,
    *,
    k: int | Sequence[int] | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Index of the tail of runtimes by Hill's estimator: the share above x falls as x^-index.

    index = k / sum of ln(x_i / threshold) over the k values above the threshold (Hill, Annals of
    Statistics 3, 1975). Below 2 the distribution has no variance, below 1 no mean.

    Parameters
    ----------
    values
        Positive numbers in any unit; null and NaN are missing and left out. None of them may be
        cut: the largest are those that a trace's end cuts.
    k
        How many of the largest values make the tail, one or several: the threshold is the next
        value. None takes the root of n, few enough that the rest of the distribution does little
        to the estimate: more make the interval narrower and the estimate worse. Where several
        agree, the tail is Pareto's.
    confidence
        Coverage of the interval.

    Returns
    -------
    DataFrame
        One row a k: [n, k, threshold, tail_index, ci_low, ci_high, n_missing, note]. k counts the
        values above the threshold, fewer than asked for where some equal it. The interval is exact
        for independent values in a Pareto tail (chi-squared with 2 k degrees of freedom); a tail
        that bends, or a k chosen after a look at the result, has no such interval. What cannot be
        told is null and `note` says why.

    Raises
    ------
    DataError
        If a value is not positive and finite, or an argument is out of range.
    """
    if not 0 < confidence < 1:
        raise DataError(f"confidence must lie between 0 and 1, such as 0.95; it is {confidence!r}")
    x, _, n_missing = read_values(values)
    n = len(x)
    wanted = [math.isqrt(n)] if k is None else [k] if isinstance(k, int) else [*k]
    if k is not None and not all(1 <= number < max(n, 1) for number in wanted):
        raise DataError(f"k must lie from 1 to {n - 1}, one less than the {n} values; it is {k!r}")
    descending = -np.sort(-x)
    rows: list[dict[str, Any]] = []
    for number in wanted:
        row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {"n": n, "n_missing": n_missing}
        tail = hill(descending, number, confidence=confidence) if n > 1 else None
        if n < 2:
            row["note"] = "fewer than two values"
        elif tail is None:
            row["note"] = "no value is above the threshold"
        else:
            row |= zip(tuple(_COLUMNS)[1:6], vars(tail).values(), strict=True)
        rows.append(row)
    return pl.DataFrame(rows, schema=_COLUMNS)
