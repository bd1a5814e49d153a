"""Distributions of groups beside each other, pair by pair."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from scipy.stats import false_discovery_control, ks_2samp

from traceana.analysis.frames import Names, as_names, collect, open_frame, refuse_clash
from traceana.errors import DataError
from traceana.stats.two_samples import ks_interval, superiority

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_EXACT_UP_TO: Final = 500  # values of a group; beyond, the limiting distribution is as good
_COLUMNS: Final = {
    **dict.fromkeys(("n", "n_other", "n_missing", "n_missing_other"), pl.Int64),
    **dict.fromkeys(
        (
            *("ks_distance", "ks_low", "ks_high"),
            *("superiority", "superiority_low", "superiority_high", "cliffs_delta"),
            *("ks_pvalue", "ks_pvalue_adjusted"),
            *("superiority_pvalue", "superiority_pvalue_adjusted"),
        ),
        pl.Float64,
    ),
    "note": pl.String,
}


def compare_distributions(
    frame: IntoFrame,
    /,
    value: str,
    by: Names,
    *,
    confidence: float = 0.95,
    resamples: int = 499,
    rng: int | np.random.Generator,
) -> pl.DataFrame:
    """Distribution of a measure in each group against each other group's.

    Parameters
    ----------
    frame
        One row a job: [*by, value]; eager or lazy, of any listed engine. Collected, these columns
        only. Rows are taken as independent.
    value
        The measure, such as runtime_s or runtime_ratio; null and NaN are missing.
    by
        Columns of the group; null in them is a group of its own.
    confidence
        Coverage of the intervals.
    resamples
        Bootstrap samples behind the interval of the distance.
    rng
        Seed or generator of these.

    Returns
    -------
    DataFrame
        One row a pair of groups: [*by, one {name}_other for each, n, n_other, n_missing,
        n_missing_other, ks_distance, ks_low, ks_high, superiority, superiority_low,
        superiority_high, cliffs_delta, ks_pvalue, ks_pvalue_adjusted, superiority_pvalue,
        superiority_pvalue_adjusted, note], groups in order.

        - ks_distance is the largest gap between the groups' shares at or below a value, whatever
          the way they differ; its interval covers at least as often as asked
          (:func:`traceana.stats.two_samples.ks_interval`). ks_pvalue is of Kolmogorov and
          Smirnov's two-sample test, with equal values too large rather than too small.
        - superiority is the probability that a value of the first group is larger than one of the
          other, ties counted half; cliffs_delta is twice that less 1. Interval and p are Brunner
          and Munzel's (:func:`traceana.stats.two_samples.superiority`).
        - Adjusted p are Benjamini and Hochberg's over all p of the frame, of both tests.
        - note: "a group has fewer than two values", and all but the counts is null; or "no overlap,
          or no spread", and superiority has no interval and no p.

    Raises
    ------
    DataError
        If a column is missing, the measure is not numeric, negative or infinite, there are fewer
        than two groups, or an argument is out of range.
    """
    keys = as_names(by)
    others = tuple(f"{key}_other" for key in keys)
    refuse_clash((*keys, *others), _COLUMNS)
    if not 0 < confidence < 1:
        raise DataError(f"confidence must lie between 0 and 1, such as 0.95; it is {confidence!r}")
    if resamples < 1:
        raise DataError(f"resamples must be at least 1; it is {resamples!r}")
    rows = collect(open_frame(frame, keys=keys, measures=(value,)))
    groups = rows.group_by(keys).agg(value).sort(keys, nulls_last=True) if keys else rows.clear()
    if groups.height < 2:
        raise DataError(f"two groups are needed to compare; by {keys!r} gives {groups.height}")
    # row order is the engine's
    values = [group.drop_nulls().sort().to_numpy() for group in groups[value]]
    missing = [group.null_count() for group in groups[value]]
    pairs = list(combinations(range(groups.height), 2))
    streams = np.random.default_rng(rng).spawn(len(pairs))
    table = pl.DataFrame(
        [
            {"n": len(values[a]), "n_other": len(values[b])}
            | {"n_missing": missing[a], "n_missing_other": missing[b]}
            | _compare(values[a], values[b], confidence, resamples, stream)
            for (a, b), stream in zip(pairs, streams, strict=True)
        ],
        schema=_COLUMNS,
    ).with_columns(pl.selectors.float().fill_nan(None))
    first, second = (groups.select(keys)[[pair[side] for pair in pairs]] for side in (0, 1))
    second.columns = list(others)
    return pl.concat([first, second, _adjust(table)], how="horizontal")


def _compare(
    x: np.ndarray[Any, Any],
    y: np.ndarray[Any, Any],
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    if min(len(x), len(y)) < 2:
        return {"note": "a group has fewer than two values"}
    method = "exact" if max(len(x), len(y)) <= _EXACT_UP_TO else "asymp"
    test = ks_2samp(x, y, method=method)
    low, high = ks_interval(x, y, confidence=confidence, resamples=resamples, rng=rng)
    larger = superiority(x, y, confidence=confidence)
    return {
        "ks_distance": float(test.statistic),
        "ks_low": low,
        "ks_high": high,
        "ks_pvalue": float(test.pvalue),
        "superiority": larger.estimate,
        "superiority_low": larger.low,
        "superiority_high": larger.high,
        "superiority_pvalue": larger.pvalue,
        "cliffs_delta": 2 * larger.estimate - 1,
        "note": "no overlap, or no spread" if np.isnan(larger.pvalue) else None,
    }


def _adjust(table: pl.DataFrame) -> pl.DataFrame:
    pvalues = np.concatenate([table["ks_pvalue"], table["superiority_pvalue"]]).astype(float)
    known = ~np.isnan(pvalues)
    adjusted = np.full(len(pvalues), np.nan)
    if known.any():
        adjusted[known] = false_discovery_control(pvalues[known])
    of_ks, of_superiority = adjusted.reshape(2, -1)
    return table.with_columns(
        ks_pvalue_adjusted=pl.Series(of_ks).fill_nan(None),
        superiority_pvalue_adjusted=pl.Series(of_superiority).fill_nan(None),
    )
