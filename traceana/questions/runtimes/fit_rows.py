"""Rows of the result tables of fitted distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from scipy.special import stdtrit

from traceana.questions.runtimes.tables import FittedFamilies
from traceana.stats.distributions import FAMILIES, Fit, Sample, ks_distance, vuong_test
from traceana.stats.multiplicity import adjust_pvalues
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TABLE: Final = {
    **schema_of(FittedFamilies),
    "params": pl.List(pl.Struct({"name": pl.String, "value": pl.Float64})),
}


def fit_row(
    name: str,
    fit: Fit | None,
    sample: Sample | None,
    pvalue: tuple[float | None, int] | None,
    note: str | None,
    /,
    *,
    why_no_p: str,
) -> dict[str, Any]:
    """Return the row of one family; `pvalue` is with the number of its samples."""
    row: dict[str, Any] = dict.fromkeys(TABLE) | {"family": name, "note": note}
    if fit is None or sample is None:
        return row
    if math.isnan(fit.log_likelihood):
        return row | {"note": fit.note}
    k = len(FAMILIES[name].parameters)
    p, count = pvalue or (None, 0)
    no_p = None if count else why_no_p
    if pvalue is not None and no_p:
        no_p = "no p: no simulated sample had two distinct uncensored values"
    bound = sample.bound
    return row | {
        "params": _params(name, fit, sample),
        "log_likelihood": fit.log_likelihood,
        "aic": 2 * k - 2 * fit.log_likelihood,
        "bic": k * math.log(sample.n) - 2 * fit.log_likelihood,
        "ks_statistic": ks_distance(fit, sample),
        "ks_pvalue": p,
        "share_above_bound": None if bound is None else math.exp(fit.log_share_above(bound)),
        "resamples": count,
        "note": "; ".join(part for part in (fit.note, no_p) if part) or None,
    }


def parameter_rows(
    name: str,
    fits: Mapping[str, Fit],
    sample: Sample | None,
    confidence: float,
    df: float = np.inf,
    /,
) -> list[dict[str, Any]]:
    """Return the parameters of a family with Wald intervals, null if there is no maximum.

    The quantile is that of Student's t with `df` degrees of freedom.
    """
    names = FAMILIES[name].parameters
    fit = fits.get(name)
    if fit is None or sample is None or fit.covariance is None:
        return [{"family": name, "parameter": parameter} for parameter in names]
    half = float(stdtrit(df, (1 + confidence) / 2)) * np.sqrt(np.diag(fit.covariance))
    shown = [_natural(name, sample, fit.theta + side * half) for side in (0, -1, 1)]
    # a shape that is one over the width falls where the width rises
    return [
        {"family": name, "parameter": parameter, "estimate": estimate}
        | {"ci_low": min(ends), "ci_high": max(ends)}
        for parameter, estimate, *ends in zip(names, *shown, strict=True)
    ]


def comparison_rows(
    ordered: Sequence[str], fits: Mapping[str, Fit], sample: Sample | None, confidence: float, /
) -> list[dict[str, Any]]:
    """Return the comparison of each family with the first, p-values adjusted over them."""
    best = ordered[0]
    if sample is None or math.isnan(fits[best].log_likelihood):
        return []
    rows: list[dict[str, Any]] = [
        {"best": best, "family": name}
        | vars(
            vuong_test(fits[best], fits[name], sample, names=(best, name), confidence=confidence)
        )
        for name in ordered[1:]
        if not math.isnan(fits[name].log_likelihood)
    ]
    pvalues = [np.nan if row["pvalue"] is None else row["pvalue"] for row in rows]
    for row, adjusted in zip(rows, adjust_pvalues(pvalues), strict=True):
        row["pvalue_adjusted"] = None if np.isnan(adjusted) else float(adjusted)
    return rows


def _params(name: str, fit: Fit, sample: Sample) -> list[dict[str, Any]] | None:
    if fit.covariance is None:
        return None
    values = _natural(name, sample, fit.theta)
    return [
        {"name": parameter, "value": value}
        for parameter, value in zip(FAMILIES[name].parameters, values, strict=True)
    ]


def _natural(name: str, sample: Sample, theta: np.ndarray[Any, Any]) -> list[float]:
    """Return the parameters in the unit of the values."""
    family = FAMILIES[name]
    location = float(theta[0]) + sample.center
    first = location if family.parameters[0] == "mu" else float(np.exp(location))
    return [first, *(float(np.exp(family.sign * part)) for part in theta[1:])]
