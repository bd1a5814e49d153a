"""Rows of the frames of fitted distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from scipy.special import ndtri
from scipy.stats import false_discovery_control

from traceana.stats.distributions import FAMILIES, Fit, Sample, ks_distance, vuong_test

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TABLE: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "family": pl.String,
    "n": pl.Int64,
    "params": pl.List(pl.Struct({"name": pl.String, "value": pl.Float64})),
    "log_likelihood": pl.Float64,
    "aic": pl.Float64,
    "bic": pl.Float64,
    "ks_statistic": pl.Float64,
    "ks_pvalue": pl.Float64,
    "delta": pl.Float64,
    "n_censored": pl.Int64,
    "truncated_below": pl.Float64,
    "share_above_bound": pl.Float64,
    "resamples": pl.Int64,
    "note": pl.String,
}
PARAMETERS: Final = {
    "family": pl.String,
    "parameter": pl.String,
    **dict.fromkeys(("estimate", "ci_low", "ci_high"), pl.Float64),
}
COMPARISONS: Final = {
    **dict.fromkeys(("best", "family", "test"), pl.String),
    **dict.fromkeys(
        (
            *("log_likelihood_ratio", "mean_ratio", "ci_low", "ci_high"),
            *("statistic", "pvalue", "pvalue_adjusted"),
        ),
        pl.Float64,
    ),
    "note": pl.String,
}


def fit_row(
    name: str,
    fit: Fit | None,
    sample: Sample | None,
    pvalue: tuple[float | None, int] | None,
    note: str | None,
) -> dict[str, Any]:
    """Return what the table tells of one family; `pvalue` is with the number of its samples."""
    row: dict[str, Any] = dict.fromkeys(TABLE) | {"family": name, "note": note}
    if fit is None or sample is None:
        return row
    if math.isnan(fit.log_likelihood):
        return row | {"note": fit.note}
    k = len(FAMILIES[name].parameters)
    p, count = pvalue or (None, 0)
    no_p = None if count else "no p: it takes rng and resamples"
    if pvalue is not None and no_p:
        no_p = "no p: there was no simulated sample with two distinct ends"
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
    name: str, fits: Mapping[str, Fit], sample: Sample | None, confidence: float, /
) -> list[dict[str, Any]]:
    """Return a family's parameters with intervals of Wald, null where there is no maximum."""
    names = FAMILIES[name].parameters
    fit = fits.get(name)
    if fit is None or sample is None or fit.covariance is None:
        return [{"family": name, "parameter": parameter} for parameter in names]
    half = float(ndtri((1 + confidence) / 2)) * np.sqrt(np.diag(fit.covariance))
    told = [_tell(name, sample, fit.theta + side * half) for side in (0, -1, 1)]
    # a shape that is one over the width falls where the width rises
    return [
        {"family": name, "parameter": parameter, "estimate": estimate}
        | {"ci_low": min(ends), "ci_high": max(ends)}
        for parameter, estimate, *ends in zip(names, *told, strict=True)
    ]


def comparison_rows(
    ordered: Sequence[str], fits: Mapping[str, Fit], sample: Sample | None, confidence: float, /
) -> list[dict[str, Any]]:
    """Return each family against the first, with p adjusted over them."""
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
    known = [row for row in rows if row["pvalue"] is not None]
    if known:
        adjusted = false_discovery_control([row["pvalue"] for row in known])
        for row, pvalue in zip(known, adjusted, strict=True):
            row["pvalue_adjusted"] = float(pvalue)
    return rows


def _params(name: str, fit: Fit, sample: Sample) -> list[dict[str, Any]] | None:
    if fit.covariance is None:
        return None
    values = _tell(name, sample, fit.theta)
    return [
        {"name": parameter, "value": value}
        for parameter, value in zip(FAMILIES[name].parameters, values, strict=True)
    ]


def _tell(name: str, sample: Sample, theta: np.ndarray[Any, Any]) -> list[float]:
    """Parameters as they are told, in the unit of the values."""
    family = FAMILIES[name]
    location = float(theta[0]) + sample.centre
    first = location if family.parameters[0] == "mu" else float(np.exp(location))
    return [first, *(float(np.exp(family.sign * part)) for part in theta[1:])]
