"""Association between groups and failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from scipy.special import chdtrc

from traceana.cohorts.definitions import open_outcomes, with_failure
from traceana.cohorts.unit_note import notes_unit
from traceana.questions.failures.codes import cluster_codes, group_codes
from traceana.questions.failures.tables import Association
from traceana.stats.arguments import as_generator, check_confidence
from traceana.stats.between_groups import between_groups, cluster_covariance
from traceana.store.frames import Names, as_names, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TABLES: Final = 9999
"""Tables drawn for a Monte Carlo p-value."""


@notes_unit
@returns(Association)
def outcome_association(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    cluster: str | None = None,
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> pl.DataFrame:
    """Test whether the failure rate differs between groups.

    Pearson's chi-squared test of the contingency table of groups and outcomes, with Cramér's V =
    sqrt(chi-squared / n) as its effect size. If an expected count is below 5, p is estimated by
    Monte Carlo from 9,999 tables with the same margins: (1 + those with a statistic at least as
    large) / 10,000.

    Parameters
    ----------
    frame
        One row per job or task: `by`, `status` and `cluster`; eager or lazy, of any supported
        engine. Rows without a cluster are excluded.
    by, success, failure, status, confidence
        As in :func:`outcome_rates`.
    cluster
        Column of the independent unit, such as user; None: rows are independent.
    rng
        Seed or generator of the Monte Carlo tables.

    Returns
    -------
    DataFrame
        One row with the columns
        {columns}

        The interval contains the V whose noncentral distribution does not make the statistic
        extreme. Values are null, with a reason in `note`, if no row or every row failed.

    Raises
    ------
    DataError
        If there are fewer than two groups or more than 50, or fewer than two clusters.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame(
    ...     {"gpu": ["T4"] * 20 + ["V100"] * 20, "status": (["failed"] + ["completed"] * 9) * 2
    ...      + (["failed"] * 5 + ["completed"] * 5) * 2}
    ... )
    >>> found = traceana.outcome_association(jobs, "gpu")
    >>> found.select("n", "failures", pl.col("cramers_v").round(2)).rows()
    [(40, 12, 0.44)]
    """
    keys = as_names(by)
    refuse_clash(keys, Association.columns())
    check_confidence(confidence)
    random = as_generator(rng)
    columns = keys if cluster is None else (*keys, cluster)
    lazy, succeeded, failed = open_outcomes(
        frame, columns, status=status, success=success, failure=failure
    )
    if cluster is not None:
        lazy = lazy.filter(~nw.col(cluster).is_null())
    counts = reduce_frame(
        with_failure(lazy, status, succeeded, failed),
        columns,
        n=nw.len(),
        failures=nw.col("failure").sum().cast(nw.Int64),
    )
    row = dict.fromkeys(Association.columns()) | _associate(
        counts, keys, cluster, confidence=confidence, random=random
    )
    return declared(
        pl.DataFrame([row]).with_columns(pl.selectors.float().fill_nan(None)), Association
    )


def _associate(
    counts: pl.DataFrame,
    keys: tuple[str, ...],
    cluster: str | None,
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
        centered = np.eye(len(n)) - n / rows
        spread = centered @ np.diag(own * (1 - own) / n) @ centered.T
    else:
        null = cluster_covariance(of, group, part_n, part_failed, center=rate)
        spread = cluster_covariance(of, group, part_n, part_failed)
    found = between_groups(n, failed, failures, null=null, spread=spread, confidence=confidence)
    statistic = found.statistic * rows / (rows - 1)
    expected = min(rate, 1 - rate) * n.min()
    method, pvalue = "chi-squared, clusters independent", found.pvalue
    if of is None:
        method, pvalue = _independent(statistic, n, rate, expected, random)
    if np.isnan(found.ci_low) or np.isnan(pvalue):
        result["note"] = "null if outcomes do not vary within groups, or between clusters"
    return result | {
        "n_effective": rows / found.design_effect,
        "cramers_v": np.sqrt(found.effect),
        "ci_low": np.sqrt(found.ci_low),
        "ci_high": np.sqrt(found.ci_high),
        "cramers_v_corrected": _bias_corrected(found.effect, len(n), rows / found.design_effect),
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
        return "chi-squared", float(chdtrc(len(n) - 1, statistic))
    size = n.astype(np.int64)
    drawn = random.multivariate_hypergeometric(size, round(rate * n.sum()), size=TABLES)
    tables = ((drawn - n * rate) ** 2 / (n * rate * (1 - rate))).sum(axis=1)
    as_large = int((tables >= statistic * (1 - 1e-9)).sum())
    return f"Monte Carlo, {TABLES:,} tables", (as_large + 1) / (TABLES + 1)


def _bias_corrected(effect: float, groups: int, n: float) -> float:
    squared = max(0.0, effect - (groups - 1) / (n - 1))
    rows, columns = (size - (size - 1) ** 2 / (n - 1) for size in (groups, 2))
    return float(np.sqrt(squared / (min(rows, columns) - 1))) if min(rows, columns) > 1 else np.nan
