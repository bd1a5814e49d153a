"""Whether groups of a model can be compared: common support and collinearity of its features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.stats.strata import odds_ratio, pooled_odds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEAST_OVERLAP: Final = 0.05
"""Least fraction of the rows of a level, or of its reference, with common support."""


def why_not_comparable(
    rows: pl.DataFrame, term: dict[str, Any], features: Sequence[str], /
) -> str | None:
    """Return why a level and its reference have no common support in another feature.

    They have none if less than 5 % of the rows of either lie where the other has rows: within its
    range of a numeric feature, or in its levels of a categorical one.
    """
    name = term["feature"]
    pair = [rows.filter(pl.col(name) == term[side]) for side in ("level", "reference")]
    for other in features:
        if other == name or not all(part.height for part in pair):
            continue
        own, base = (part[other] for part in pair)
        if rows.schema[other].is_numeric():
            fractions = [
                a.is_between(float(b.min()), float(b.max())).mean()  # type: ignore[arg-type]
                for a, b in ((own, base), (base, own))
            ]
            ranges = " against ".join(
                f"{float(s.min()):.4g} to {float(s.max()):.4g}"  # type: ignore[arg-type]
                for s in (own, base)
            )
        else:
            fractions = [
                a.is_in(b.unique().implode()).mean() for a, b in ((own, base), (base, own))
            ]
            ranges = "other levels"
        if max(float(part or 0) for part in fractions) < LEAST_OVERLAP:  # type: ignore[arg-type]
            return f"not comparable: no common support in {other} ({ranges})"
    return None


def unadjusted(
    rows: pl.DataFrame, term: dict[str, Any], features: Sequence[str], confidence: float, /
) -> dict[str, float]:
    """Return the odds ratio of a level, crude and within strata of the other levels.

    `rows` are all successes and failures, also those of levels that a model excludes.
    """
    name = term["feature"]
    within = [f for f in features if f != name and not rows.schema[f].is_numeric()]
    levels = [term["level"], term["reference"]]
    texts = rows.with_columns(pl.col(name, *within).cast(pl.String))
    pair = texts.filter(pl.col(name).is_in(levels)).drop_nulls(within)
    keys = [pl.col(column).alias(str(at)) for at, column in enumerate((name, *within))]
    counts = pair.group_by(keys).agg(
        failures=pl.col("failure").sum().cast(pl.Float64), n=pl.len().cast(pl.Float64)
    )
    code = (
        counts.select(pl.struct(counts.columns[1 : len(keys)]).rank("dense") - 1).to_series()
        if within
        else None
    )
    place = np.zeros(counts.height, dtype=int) if code is None else code.to_numpy().astype(int)
    tables = np.zeros((int(place.max()) + 1, 2, 2))
    side = (counts["0"] == levels[1]).cast(pl.Int64).to_numpy()
    failed = counts["failures"].to_numpy()
    np.add.at(tables, (place, side), np.stack([failed, counts["n"].to_numpy() - failed], axis=1))
    crude = odds_ratio(tables.sum(axis=0), confidence=confidence)
    found = dict(zip(("crude_odds_ratio", "crude_ci_low", "crude_ci_high"), crude, strict=True))
    if within:
        pooled = pooled_odds(tables, confidence=confidence)
        found |= {
            "stratified_odds_ratio": pooled.odds_ratio,
            "stratified_ci_low": pooled.ci_low,
            "stratified_ci_high": pooled.ci_high,
        }
    return found


def variance_inflation(matrix: Floats, /) -> tuple[Floats, float]:
    """Return the variance inflation factor of each column but the first, and the condition number.

    Both are of the correlation matrix (Belsley, Kuh and Welsch, Regression Diagnostics, 1980); the
    condition number is the root of the ratio of its largest and smallest eigenvalue.
    """
    if matrix.shape[1] < 3:
        return np.ones(matrix.shape[1] - 1), 1.0
    correlation = np.corrcoef(matrix[:, 1:], rowvar=False)
    values = np.linalg.eigvalsh(correlation)
    inflation: Floats = np.diag(np.linalg.inv(correlation))
    return inflation, float(np.sqrt(values[-1] / max(values[0], 1e-300)))
