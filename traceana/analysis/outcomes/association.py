"""Whether the way things end depends on a feature, and how strongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from scipy.special import chdtrc

from traceana.analysis.frames import Names, as_names, reduce_frame, refuse_clash
from traceana.analysis.outcomes.codes import cluster_codes, group_codes
from traceana.analysis.outcomes.readings import READINGS, Reading, open_outcomes, with_failure
from traceana.stats.arguments import as_generator, check_confidence
from traceana.stats.between_groups import between_groups, cluster_covariance

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TABLES: Final = 9999
"""Tables drawn for a Monte Carlo p-value."""

_COLUMNS: Final = {
    "reading": pl.String,
    "n": pl.Int64,
    "failures": pl.Int64,
    "n_groups": pl.Int64,
    "n_clusters": pl.Int64,
    "n_effective": pl.Float64,
    "cramers_v": pl.Float64,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
    "cramers_v_corrected": pl.Float64,
    "statistic": pl.Float64,
    "df": pl.Float64,
    "pvalue": pl.Float64,
    "min_expected": pl.Float64,
    "method": pl.String,
    "note": pl.String,
}


def outcome_association(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    cluster: str | None = None,
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> pl.DataFrame:
    """Test whether the rate of failure differs between groups, under both readings of it.

    Pearson's chi-square over the table of groups by failure, with Cramer's V =
    sqrt(chi-square / n) as its effect size: 0 where all groups fail at one rate, 1 where the
    group decides. Where an expected count is below 5 the p-value is by Monte Carlo: the share of
    9,999 tables with the same margins whose chi-square is no smaller, and one more.

    Parameters
    ----------
    frame
        One row a job or task: [*by, status], and `cluster`; eager or lazy, of any listed engine.
        Rows without a cluster are left out.
    by
        Columns whose values are the groups; null in them is a group of its own.
    cluster
        Column that says which rows belong together, such as user. With it, clusters are taken
        as independent; without, rows are.
    confidence
        Coverage of V's interval, in (0, 1).
    rng
        Seed or generator of the Monte Carlo tables.

    Returns
    -------
    DataFrame
        [reading, n, failures, n_groups, n_clusters, n_effective, cramers_v, ci_low, ci_high,
        cramers_v_corrected, statistic, df, pvalue, min_expected, method, note], one row a reading
        (:func:`failure_rates` says what they are). The interval keeps those V that do not make
        the statistic an extreme of its noncentral distribution; cramers_v_corrected takes the
        bias off (Bergsma, Journal of the Korean Statistical Society 42, 2013). With clusters,
        n_effective is n over the design effect, by which the statistic is divided. Null, with its
        reason in note, where no row or every row failed.

    Raises
    ------
    DataError
        If a column is missing, a status is not of the closed set, there are fewer than two groups
        or more than 50, there are fewer than two clusters, or `confidence` is not in (0, 1).
    """
    keys = as_names(by)
    refuse_clash(keys, ("n", "failures"))
    check_confidence(confidence)
    random = as_generator(rng)
    columns = keys if cluster is None else (*keys, cluster)
    outcomes = open_outcomes(frame, columns)
    if cluster is not None:
        outcomes = outcomes.filter(~nw.col(cluster).is_null())
    rows = []
    for reading in READINGS:
        counts = reduce_frame(
            with_failure(outcomes, reading),
            columns,
            n=nw.len(),
            failures=nw.col("failure").sum().cast(nw.Int64),
        )
        rows.append(
            _associate(counts, keys, cluster, reading, confidence=confidence, random=random)
        )
    return pl.DataFrame(rows, schema=_COLUMNS).fill_nan(None)


def _associate(
    counts: pl.DataFrame,
    keys: tuple[str, ...],
    cluster: str | None,
    reading: Reading,
    *,
    confidence: float,
    random: np.random.Generator,
) -> dict[str, Any]:
    group, labels = group_codes(counts, keys)
    part_n, part_failed = (counts[name].cast(pl.Float64).to_numpy() for name in ("n", "failures"))
    n: Floats = np.asarray(np.bincount(group, weights=part_n), dtype=float)
    failed: Floats = np.asarray(np.bincount(group, weights=part_failed), dtype=float)
    rows, failures = n.sum(), failed.sum()
    of = None if cluster is None else cluster_codes(counts[cluster])
    result: dict[str, Any] = {
        "reading": reading,
        "n": int(rows),
        "failures": int(failures),
        "n_groups": labels.height,
        "n_clusters": None if of is None else int(of.max()) + 1,
    }
    if failures in (0, rows):
        return result | {"note": "no row failed" if failures == 0 else "every row failed"}
    rate = failures / rows
    own = failed / n
    null = None
    if of is None:
        centred = np.eye(len(n)) - n / rows
        spread = centred @ np.diag(own * (1 - own) / n) @ centred.T
    else:
        null = cluster_covariance(of, group, part_n, part_failed, centre=rate)
        spread = cluster_covariance(of, group, part_n, part_failed, centre=own)
    found = between_groups(n, failed, failures, null=null, spread=spread, confidence=confidence)
    statistic = found.statistic * rows / (rows - 1)
    expected = min(rate, 1 - rate) * n.min()
    method, pvalue = "chi-square, clusters independent", found.pvalue
    if of is None:
        method, pvalue = _independent(statistic, n, rate, expected, random)
    if np.isnan(found.ci_low) or np.isnan(pvalue):
        result["note"] = "null where outcomes do not vary within groups, or between clusters"
    return result | {
        "n_effective": rows / found.design_effect,
        "cramers_v": np.sqrt(found.effect),
        "ci_low": np.sqrt(found.ci_low),
        "ci_high": np.sqrt(found.ci_high),
        "cramers_v_corrected": _without_bias(found.effect, len(n), rows / found.design_effect),
        "statistic": statistic,
        "df": found.df,
        "pvalue": pvalue,
        "min_expected": expected,
        "method": method,
    }


def _independent(
    statistic: float, n: Floats, rate: float, expected: float, random: np.random.Generator
) -> tuple[str, float]:
    if expected >= 5:
        return "chi-square", float(chdtrc(len(n) - 1, statistic))
    size = n.astype(np.int64)
    drawn = random.multivariate_hypergeometric(size, round(rate * n.sum()), size=TABLES)
    tables = ((drawn - n * rate) ** 2 / (n * rate * (1 - rate))).sum(axis=1)
    as_large = int((tables >= statistic * (1 - 1e-9)).sum())
    return f"Monte Carlo, {TABLES:,} tables", (as_large + 1) / (TABLES + 1)


def _without_bias(effect: float, groups: int, n: float) -> float:
    share = max(0.0, effect - (groups - 1) / (n - 1))
    rows, columns = (size - (size - 1) ** 2 / (n - 1) for size in (groups, 2))
    return float(np.sqrt(share / (min(rows, columns) - 1))) if min(rows, columns) > 1 else np.nan
