"""Odds ratios of failure between groups, crude and pooled over strata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.cohorts.definitions import open_outcomes, with_failure
from traceana.cohorts.unit_note import notes_unit
from traceana.questions.failures.clusters import ONE_CLUSTER, refuse_missing
from traceana.questions.failures.codes import cluster_codes, group_codes
from traceana.questions.failures.events import CELLS
from traceana.questions.failures.tables import FailureOdds
from traceana.stats.arguments import check_confidence
from traceana.stats.strata import clustered_odds, odds_ratio, pooled_odds
from traceana.store.frames import Names, as_names, reduce_frame, refuse_clash
from traceana.tables.declare import declared, returns

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame

_FEW: Final = 5  # rows with an outcome in a group
_MANY: Final = 100  # clusters from which the measured coverage is nominal


@notes_unit
@returns(FailureOdds)
def failure_odds(
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
    """Compute odds ratios of failure between groups, crude and pooled over strata.

    If groups differ in another cause of failure, the crude odds ratio is confounded. The
    Mantel-Haenszel odds ratio compares within strata only. It is a summary only if the strata
    agree: see pvalue_homogeneity.

    Parameters
    ----------
    frame
        One row per job or task: `by`, `strata`, `status` and `cluster`; eager or lazy, of any
        supported engine.
    strata
        Columns of the strata; null is a stratum of its own.
    by, success, failure, status, cluster, confidence
        As in :func:`outcome_rates`.

    Returns
    -------
    DataFrame
        One row per group except the reference, which has the most precise odds (the smallest
        1 / failures + 1 / successes), with the columns of `by`, `<by>_reference` and
        {columns}

        With `cluster`, intervals and pvalue are from a jackknife over clusters
        (:func:`traceana.stats.strata.clustered_odds`), of which more than 100 are combined into
        100 cells. Values are null, with a reason in `note`, if a ratio is 0 or infinite, no
        stratum is informative, one cluster has most rows, or there is no ratio without it.

    Raises
    ------
    DataError
        If there are fewer than two groups or more than 50, or fewer than two clusters.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpu": ["T4", "V100"] * 20, "gpus": [1, 1, 8, 8] * 10,
    ...                      "status": (["completed"] * 3 + ["failed"] * 2) * 8})
    >>> found = traceana.failure_odds(jobs, "gpu", strata="gpus")
    >>> found.select("gpu", "gpu_reference", pl.col("odds_ratio").round(2)).rows()
    [('V100', 'T4', 1.0)]
    """
    keys, within = as_names(by), as_names(strata)
    refuse_clash((*keys, *within), FailureOdds.columns())
    check_confidence(confidence)
    columns = (*keys, *within, *(() if cluster is None else (cluster,)))
    lazy, succeeded, failed = open_outcomes(
        frame, columns, status=status, success=success, failure=failure
    )
    counts = reduce_frame(
        with_failure(lazy, status, succeeded, failed),
        columns,
        n=nw.len(),
        failures=nw.col("failure").sum().cast(nw.Int64),
    )
    if cluster is not None:
        refuse_missing(counts[cluster], counts["n"])
    found = _compare(counts, keys, within, cluster, confidence=confidence)
    return declared(found, FailureOdds, by=(*keys, *(f"{key}_reference" for key in keys)))


def _compare(
    counts: pl.DataFrame,
    keys: tuple[str, ...],
    within: tuple[str, ...],
    cluster: str | None,
    *,
    confidence: float,
) -> pl.DataFrame:
    group, labels = group_codes(counts, keys)
    stratum = np.zeros(counts.height, dtype=np.int64)
    if within:
        stratum = counts.select(pl.struct(within).rank("dense") - 1).to_series().to_numpy()
    of = np.zeros(counts.height, dtype=np.int64)
    if cluster is not None:
        of = cluster_codes(counts[cluster])
    # cell x stratum x group x (failures, successes)
    cells = np.zeros((min(int(of.max()) + 1, CELLS), stratum.max() + 1, labels.height, 2))
    failed = counts["failures"].to_numpy()
    ends = np.stack([failed, counts["n"] - failed], axis=1)
    np.add.at(cells, (of % CELLS, stratum, group), ends)
    tables = cells.sum(axis=0)
    crude = tables.sum(axis=0)
    reference = int((crude.prod(axis=1) / crude.sum(axis=1)).argmax())
    others = [code for code in range(labels.height) if code != reference]
    rows: list[dict[str, Any]] = []
    for code in others:
        pair = [code, reference]
        ratio, low, high = odds_ratio(crude[pair], confidence=confidence)
        pooled = pooled_odds(tables[:, pair], confidence=confidence)
        row: dict[str, Any] = {
            "n": int(crude[code].sum()),
            "failures": int(crude[code, 0]),
            "n_reference": int(crude[reference].sum()),
            "failures_reference": int(crude[reference, 0]),
            "crude_odds_ratio": ratio,
            "crude_ci_low": low,
            "crude_ci_high": high,
            **pooled._asdict(),
            "note": _why(ratio, pooled.odds_ratio, pooled.n_strata, int(crude[pair].min())),
        }
        if cluster is not None:
            n_clusters = len(np.unique(of[np.isin(group, pair)]))
            allowed = clustered_odds(cells[:, :, pair], confidence=confidence)
            row |= {**allowed._asdict(), "pvalue_homogeneity": np.nan, "n_clusters": n_clusters}
            if row["note"] is None and np.isnan(allowed.ci_low):
                alone = "no interval: one cluster has most rows, or without one there is no ratio"
                row["note"] = ONE_CLUSTER if n_clusters == 1 else alone
            elif row["note"] is None and n_clusters < _MANY:
                row["note"] = f"fewer than {_MANY} clusters: interval and p are conservative"
        rows.append(row)
    beside = labels[[reference] * len(others)].rename(lambda name: f"{name}_reference")
    numbers = pl.DataFrame(rows, schema_overrides={"note": pl.String}).fill_nan(None)
    return labels[others].hstack(beside).hstack(numbers)


def _why(crude: float, pooled: float, n_strata: int, fewest: int) -> str | None:
    if not n_strata:
        return "no stratum has both groups and both outcomes"
    if np.isnan(pooled):
        return "the ratio is 0 or infinite: within strata one group never or always failed"
    if np.isnan(crude):
        return "the crude ratio is 0 or infinite: one group never or always failed"
    if fewest < _FEW:
        return f"fewer than {_FEW} rows with an outcome in a group: interval and p are approximate"
    return None
