"""Odds of failure between groups, crude and within strata: confounding shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.analysis.frames import Names, as_names, reduce_frame, refuse_clash
from traceana.analysis.outcomes.clusters import ONE_CLUSTER, refuse_lost
from traceana.analysis.outcomes.codes import cluster_codes, group_codes
from traceana.analysis.outcomes.ends import CELLS
from traceana.analysis.outcomes.readings import READINGS, Reading, open_outcomes, with_failure
from traceana.stats.arguments import check_confidence
from traceana.stats.strata import clustered_odds, odds_ratio, pooled_odds

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def failure_odds(
    frame: IntoFrame,
    /,
    by: Names,
    *,
    strata: Names,
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Odds of failure of each group against one of them, crude and within strata.

    Where groups are unlike in something else that makes rows fail, the crude odds ratio shows
    that too. The pooled one (Mantel and Haenszel) compares within strata only, and is a summary
    only where the strata agree: read pvalue_homogeneity with it.

    Parameters
    ----------
    frame
        One row a job or task: `by`, `strata`, `status` and `cluster`; eager or lazy, of any
        listed engine.
    by
        Columns whose values are the groups; null in them is a group of its own.
    strata
        Columns within whose values groups are compared; null in them is a stratum of its own.
    cluster
        Column that says which rows belong together, such as user. With it, clusters are taken as
        independent; without, rows are.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        [reading, `by`, <by>_reference, n, failures, n_reference, failures_reference,
        crude_odds_ratio, crude_ci_low, crude_ci_high, odds_ratio, ci_low, ci_high, pvalue,
        pvalue_homogeneity, n_strata, note], a row each reading (:func:`failure_rates`) and group
        but the reference: the one whose own odds are known best, 1 / failures + 1 / successes
        being least. The crude interval is Woolf's, the pooled one
        that of Robins, Breslow and Greenland; pvalue is Cochran, Mantel and Haenszel's,
        pvalue_homogeneity Breslow and Day's with Tarone's correction.
        n_strata counts the strata with both groups and both outcomes; the others tell nothing.
        Null, with its reason in note, where a ratio would be 0 or infinite, or no stratum tells.

        With `cluster`, also n_clusters, of either group's rows: both intervals and pvalue are
        then of the jackknife over clusters (:func:`traceana.stats.clustered_odds`), of which more
        than 100 are first put together into 100 cells, and pvalue_homogeneity, a test for
        independent rows, is null. Null too where a single cluster decides whether there is a ratio.

    Raises
    ------
    DataError
        If a column is missing, a cluster is null, a status is not of the closed set, there are
        fewer than two groups or more than 50, there are fewer than two clusters, or `confidence`
        is not in (0, 1).
    """
    keys, within = as_names(by), as_names(strata)
    refuse_clash(
        (*keys, *within), ("n_clusters", "n", "failures", "reading", "ci_low", "ci_high", "note")
    )
    check_confidence(confidence)
    of = () if cluster is None else (cluster,)
    outcomes = open_outcomes(frame, (*keys, *within, *of))
    parts = []
    for reading in READINGS:
        counts = reduce_frame(
            with_failure(outcomes, reading),
            (*keys, *within, *of),
            n=nw.len(),
            failures=nw.col("failure").sum().cast(nw.Int64),
        )
        if cluster is not None:
            refuse_lost(counts[cluster], counts["n"])
        parts.append(_compare(counts, keys, within, reading, cluster, confidence=confidence))
    return pl.concat(parts)


def _compare(
    counts: pl.DataFrame,
    keys: tuple[str, ...],
    within: tuple[str, ...],
    reading: Reading,
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
            "note": _why(ratio, pooled.odds_ratio, pooled.n_strata),
        }
        if cluster is not None:
            n_clusters = len(np.unique(of[np.isin(group, pair)]))
            allowed = clustered_odds(
                cells[:, :, pair], n_clusters=n_clusters, confidence=confidence
            )
            row |= {**allowed._asdict(), "pvalue_homogeneity": np.nan, "n_clusters": n_clusters}
            if row["note"] is None and np.isnan(allowed.ci_low):
                alone = "no interval: without one of the clusters there is no ratio"
                row["note"] = ONE_CLUSTER if n_clusters == 1 else alone
        rows.append(row)
    beside = labels[[reference] * len(others)].rename(lambda name: f"{name}_reference")
    numbers = pl.DataFrame(rows, schema_overrides={"note": pl.String}).fill_nan(None)
    return (
        labels[others]
        .hstack(beside)
        .hstack(numbers)
        .select(pl.lit(reading).alias("reading"), pl.all())
    )


def _why(crude: float, pooled: float, n_strata: int) -> str | None:
    if not n_strata:
        return "in no stratum do both groups and both outcomes occur"
    if np.isnan(pooled):
        return "the ratio is 0 or infinite: within strata one of the two never or always failed"
    if np.isnan(crude):
        return "the crude ratio is 0 or infinite: one of the two never or always failed"
    return None
