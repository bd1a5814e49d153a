"""Times between submissions (interarrival times), and counts in time windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.analysis.frames import LARGEST, Names, as_names, collect, open_frame, refuse_clash
from traceana.errors import DataError
from traceana.results.tables import declared, returns
from traceana.results.workload import InterarrivalCurve, Interarrivals
from traceana.stats.arguments import is_number

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_MOST_POINTS: Final = 1_000_000
_CURVE: Final = ("n", "gap_s", "share_longer", "share_longer_poisson")


@returns(Interarrivals)
def interarrivals(
    jobs: IntoFrame,
    /,
    *,
    by: Names = (),
    window_s: float = 3600,
    submit: str = "submit_s",
) -> pl.DataFrame:
    """Compute the burstiness of submissions: interarrival times and counts in windows.

    - cv, the coefficient of variation of the interarrival times (ddof 1): 0 for periodic
      arrivals, 1 for a Poisson process, above 1 for bursts.
    - burstiness = (cv - 1) / (cv + 1), from -1 (periodic) over 0 (Poisson) to 1; and memory, the
      Pearson correlation of successive interarrival times (Goh and Barabasi, EPL 81, 2008).
    - dispersion, the variance (ddof 1) over the mean of the submissions in each window (index of
      dispersion): 1 for a Poisson process. Windows are [k, k + 1) * window_s on the clock of the
      trace, within the first and last submission of the group, empty ones included.

    Daily and weekly cycles alone make all of them differ from the values of a Poisson process.

    Parameters
    ----------
    jobs
        One row per job; eager or lazy, of any listed engine. Polars sorts the rows in memory
        (`by` and submissions only).
    by
        Columns to group by; ``()`` for one row. Null in `by` is its own group.
    window_s
        Length of a window in s.
    submit
        Column of the submission: seconds or datetimes.

    Returns
    -------
    DataFrame
        Sorted by `by`, nulls last. memory is null for fewer than 4 submissions or equal
        interarrival times, dispersion for fewer than 2 windows or empty ones. The columns are
        `by` and

        {columns}

    Raises
    ------
    DataError
        If `window_s` is not positive or too short for the clock, a column is missing, or a
        submission is not numeric, negative or infinite.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400]})
    >>> found = traceana.interarrivals(jobs, window_s=60)
    >>> found.select("n", "mean_s", "median_s", pl.col("cv").round(2)).rows()
    [(4, 100.0, 45.0, 1.36)]
    """
    if not (is_number(window_s) and 0 < window_s <= LARGEST):
        raise DataError(f"window_s must be a positive number of seconds; it is {window_s!r}")
    keys = as_names(by)
    refuse_clash(keys, (*Interarrivals.columns(), "submit_s", "gap_s", "gap_before_s"))
    time, gap, n, cv = (pl.col(name) for name in ("submit_s", "gap_s", "n", "cv"))
    rows = _gaps(jobs, keys, submit).with_columns(gap_before_s=gap.shift(1).over(pl.lit(0), *keys))
    if max(rows["submit_s"].drop_nulls(), default=0) / window_s > 2**53:
        raise DataError(
            f"window_s {window_s:g} is too short for this clock, which allows 2^53 windows"
        )
    window = (time / window_s).floor()
    first, end = (time.min() / window_s).ceil(), (time.max() / window_s).floor()
    whole = window.filter((window >= first) & (window < end))
    memory = pl.corr("gap_s", "gap_before_s").fill_nan(None)
    statistics = {
        "jobs": pl.len().cast(pl.Int64),
        "n_missing": time.null_count().cast(pl.Int64),
        "n": gap.count().cast(pl.Int64),
        "mean_s": gap.mean(),
        "median_s": gap.median(),
        "p99_s": gap.quantile(0.99, interpolation="linear"),
        "max_s": gap.max(),
        "share_zero": (gap == 0).mean(),
        "cv": pl.when(gap.mean() > 0).then(gap.std(ddof=1) / gap.mean()),
        "memory": pl.when(gap.min() < gap.max()).then(memory),
        "windows": (end - first).clip(0).fill_null(0).cast(pl.Int64, strict=False),
        "in_windows": whole.count().cast(pl.Int64),
        "squares": whole.unique_counts().cast(pl.Float64).pow(2).sum(),
    }
    if keys:
        gaps = rows.group_by(keys).agg(**statistics).sort(keys, nulls_last=True)
    else:
        gaps = rows.select(**statistics)
    windows, arrivals = pl.col("windows"), pl.col("in_windows")
    variance = (pl.col("squares") - arrivals**2 / windows) / (windows - 1)
    note = (
        pl.when(n < 2)
        .then(pl.lit("fewer than 3 submissions"))
        .when(cv.is_null())
        .then(pl.lit("all at one time"))
    )
    found = gaps.with_columns(
        burstiness=(cv - 1) / (cv + 1),
        dispersion=pl.when(windows > 1, arrivals > 0).then(variance / (arrivals / windows)),
        note=note,
    )
    return declared(found, Interarrivals, by=keys)


@returns(InterarrivalCurve)
def interarrival_curve(
    jobs: IntoFrame,
    /,
    *,
    by: Names = (),
    points: int = 201,
    submit: str = "submit_s",
) -> pl.DataFrame:
    """Compute the survival function of the interarrival times.

    It is listed beside that of a Poisson process of the same rate, exp(-gap / mean gap).

    Parameters
    ----------
    jobs, by, submit
        As in :func:`interarrivals`.
    points
        Times per group, evenly spaced on a logarithmic axis from the smallest above 0 to the
        largest; from 2 to a million. A time of 0 comes before them if there is one.

    Returns
    -------
    DataFrame
        Sorted by `by` and gap_s, nulls last. A group in which no time is above 0 has no row. The
        columns are `by` and

        {columns}

    Raises
    ------
    DataError
        If `points` is out of range, a column is missing, or a submission is not numeric, negative
        or infinite.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"submit_s": [0, 10, 30, 100, 400]})
    >>> traceana.interarrival_curve(jobs, points=3).select("gap_s", "share_longer").rows()
    [(10.0, 0.75), (54.77225575051662, 0.5), (300.0, 0.0)]
    """
    if not (is_number(points, whole=True) and 2 <= points <= _MOST_POINTS):
        raise DataError(
            f"points must be a whole number from 2 to {_MOST_POINTS:,}; it is {points!r}"
        )
    keys = as_names(by)
    refuse_clash(keys, (*_CURVE, "submit_s"))
    times = _gaps(jobs, keys, submit).drop_nulls("gap_s").cast({"gap_s": pl.Float64})
    gaps = times.sort(*keys, "gap_s", nulls_last=True)
    schema = {key: gaps.schema[key] for key in keys} | dict.fromkeys(_CURVE, pl.Float64)
    curves = [pl.DataFrame(schema=schema | {"n": pl.Int64})]
    # without keys there is one group of all
    parts = gaps.group_by(keys or pl.lit(0), maintain_order=True)
    for group, own in parts:
        known = own["gap_s"].to_numpy()
        above = known[known > 0]
        if not above.size:
            continue
        at = np.geomspace(above[0], above[-1], points)
        at[0], at[-1] = above[0], above[-1]  # to the last digit
        at = np.unique(at if above.size == known.size else np.append(0.0, at))
        curve = pl.DataFrame(
            {
                "gap_s": at,
                "share_longer": 1 - np.searchsorted(known, at, side="right") / known.size,
                "share_longer_poisson": np.exp(-at / known.mean()),
            }
        )
        named = dict(zip(keys, group, strict=False))
        curves.append(
            curve.select(
                *(pl.lit(named[key], dtype=schema[key]).alias(key) for key in keys),
                pl.lit(known.size, dtype=pl.Int64).alias("n"),
                *_CURVE[1:],
            )
        )
    return declared(pl.concat(curves), InterarrivalCurve, by=keys)


def _gaps(jobs: IntoFrame, keys: tuple[str, ...], submit: str) -> pl.DataFrame:
    """Return the rows in order of submission, with the time since the previous one."""
    return (
        collect(open_frame(jobs, keys=keys, measures={"submit": submit}))
        .rename({submit: "submit_s"})
        .sort("submit_s", nulls_last=True)
        .with_columns(gap_s=pl.col("submit_s").diff().over(pl.lit(0), *keys))
    )
