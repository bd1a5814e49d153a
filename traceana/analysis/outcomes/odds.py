"""Odds of failure between groups, crude and within strata: confounding shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl

from traceana.analysis.frames import Names, as_names, reduce_frame, refuse_clash
from traceana.analysis.outcomes.codes import check_confidence, group_codes
from traceana.analysis.outcomes.readings import READINGS, Reading, open_outcomes, with_failure
from traceana.stats import odds_ratio, pooled_odds

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame


def failure_odds(
    frame: IntoFrame, /, by: Names, *, strata: Names, confidence: float = 0.95
) -> pl.DataFrame:
    """Odds of failure of each group against one of them, crude and within strata.

    Where groups are unlike in something else that makes rows fail, the crude odds ratio shows
    that too. The pooled one (Mantel and Haenszel) compares within strata only, and is a summary
    only where the strata agree: read pvalue_homogeneity with it.

    Parameters
    ----------
    frame
        One row a job or task: `by`, `strata` and `status`; eager or lazy, of any listed engine.
    by
        Columns whose values are the groups; null in them is a group of its own.
    strata
        Columns within whose values groups are compared; null in them is a stratum of its own.
    confidence
        Coverage of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        [reading, `by`, <by>_reference, n, failures, n_reference, failures_reference,
        crude_odds_ratio, crude_ci_low, crude_ci_high, odds_ratio, ci_low, ci_high, pvalue,
        pvalue_homogeneity, n_strata, note], a row each reading (:func:`failure_rates`) and group
        but the reference: the one whose own odds are known best, 1 / failures + 1 / successes
        being least. Rows are taken as independent. The crude interval is Woolf's, the pooled one
        that of Robins, Breslow and Greenland; pvalue is Cochran, Mantel and Haenszel's,
        pvalue_homogeneity Breslow and Day's with Tarone's correction.
        n_strata counts the strata with both groups and both outcomes; the others tell nothing.
        Null, with its reason in note, where a ratio would be 0 or infinite, or no stratum tells.

    Raises
    ------
    DataError
        If a column is missing, a status is not of the closed set, there are fewer than two groups
        or more than 50, or `confidence` is not in (0, 1).
    """
    keys, within = as_names(by), as_names(strata)
    refuse_clash((*keys, *within), ("n", "failures", "reading", "ci_low", "ci_high", "note"))
    check_confidence(confidence)
    outcomes = open_outcomes(frame, (*keys, *within))
    parts = []
    for reading in READINGS:
        counts = reduce_frame(
            with_failure(outcomes, reading),
            (*keys, *within),
            n=nw.len(),
            failures=nw.col("failure").sum().cast(nw.Int64),
        )
        parts.append(_compare(counts, keys, within, reading, confidence))
    return pl.concat(parts)


def _compare(
    counts: pl.DataFrame,
    keys: tuple[str, ...],
    within: tuple[str, ...],
    reading: Reading,
    confidence: float,
) -> pl.DataFrame:
    group, labels = group_codes(counts, keys)
    stratum = np.zeros(counts.height, dtype=np.int64)
    if within:
        stratum = counts.select(pl.struct(within).rank("dense") - 1).to_series().to_numpy()
    # stratum x group x (failures, successes)
    tables = np.zeros((stratum.max() + 1, labels.height, 2))
    failed = counts["failures"].to_numpy()
    np.add.at(tables, (stratum, group), np.stack([failed, counts["n"] - failed], axis=1))
    crude = tables.sum(axis=0)
    reference = int((crude.prod(axis=1) / crude.sum(axis=1)).argmax())
    others = [code for code in range(labels.height) if code != reference]
    rows: list[dict[str, Any]] = []
    for code in others:
        pair = [code, reference]
        ratio, low, high = odds_ratio(crude[pair], confidence=confidence)
        pooled = pooled_odds(tables[:, pair], confidence=confidence)
        rows.append(
            {
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
        )
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
