"""Interval between checkpoints that maximizes the time that trains."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import polars as pl
from scipy.special import lambertw

from traceana.errors import DataError
from traceana.questions.reliability.tables import CheckpointIntervals
from traceana.stats.arguments import is_number
from traceana.tables.declare import declared, returns, schema_of


@returns(CheckpointIntervals)
def checkpoint_interval(
    mttf_s: float | Iterable[float], /, *, checkpoint_s: float, restart_s: float = 0.0
) -> pl.DataFrame:
    """Compute the checkpoint interval that loses least time to failures.

    With mean time to failure M, checkpoint cost d and restart time R:

    - young: sqrt(2 d M) (Young, Communications of the ACM 17, 1974)
    - daly: sqrt(2 d M) (1 + sqrt(d / (2 M)) / 3 + d / (18 M)) - d for d < 2 M, else M (Daly,
      Future Generation Computer Systems 22, 2006, equation 37)
    - exact: M (1 + W(-exp(-1 - d / M))) with Lambert's W, the maximum of the ratio below

    The effective training time ratio of an interval t is t / (M exp(R / M) (exp((t + d) / M) - 1)),
    the inverse of Daly's expected wall time (equation 20): failures come at a constant rate, also
    during checkpoints and restarts.

    Parameters
    ----------
    mttf_s
        Mean time to failure of the job in s, or several, such as those of
        :func:`job_failure_interval`.
    checkpoint_s
        Time that a checkpoint stops the training, in s.
    restart_s
        Time from a failure until training continues from the last checkpoint, in s.

    Returns
    -------
    DataFrame
        Three rows per mean time to failure:
        {columns}

    Raises
    ------
    DataError
        If a time is not a finite number, is negative, or mttf_s or checkpoint_s is 0.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> found = traceana.checkpoint_interval(24 * 3600, checkpoint_s=300, restart_s=600)
    >>> found.select("method", pl.col("interval_s", "effective_training_ratio").round(3)).rows()
    [('young', 7200.0, 0.913), ('daly', 7001.389, 0.913), ('exact', 7001.404, 0.913)]
    """
    means: list[float] = list(mttf_s) if isinstance(mttf_s, Iterable) else [mttf_s]
    for name, value in (
        *(("mttf_s", one) for one in means),
        ("checkpoint_s", checkpoint_s),
        ("restart_s", restart_s),
    ):
        if not (is_number(value) and math.isfinite(value)):
            raise DataError(f"{name} must be a number of seconds; it is {value!r}")
        if value < 0 or (value == 0 and name != "restart_s"):
            raise DataError(f"{name} must be above 0; it is {value!r}")
    rows = [
        {"mttf_s": float(mean), "method": method, "interval_s": interval}
        | _shares(interval, float(mean), float(checkpoint_s), float(restart_s))
        for mean in means
        for method, interval in _intervals(float(mean), float(checkpoint_s)).items()
    ]
    return declared(pl.DataFrame(rows, schema=schema_of(CheckpointIntervals)), CheckpointIntervals)


def _intervals(mean: float, cost: float) -> dict[str, float]:
    young = math.sqrt(2 * cost * mean)
    ratio = cost / (2 * mean)
    daly = young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost if ratio < 1 else mean
    exact = mean * (1 + float(lambertw(-math.exp(-1 - cost / mean)).real))
    return {"young": young, "daly": daly, "exact": exact}


def _shares(interval: float, mean: float, cost: float, restart: float) -> dict[str, float]:
    """Return the fractions of the wall time that train, write checkpoints, and are lost."""
    with np.errstate(over="ignore"):
        wall = mean * np.exp(restart / mean) * np.expm1((interval + cost) / mean)
    trains = float(interval / wall)
    writes = trains * cost / interval
    return {
        "effective_training_ratio": trains,
        "checkpoint_share": writes,
        "lost_share": 1 - trains - writes,
    }
