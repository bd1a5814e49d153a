"""Failure against several features at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceana.analysis.frames import Names, as_names, collect
from traceana.analysis.outcomes.codes import cluster_codes
from traceana.analysis.outcomes.design import Design, make_design
from traceana.analysis.outcomes.readings import Reading, open_outcomes, with_failure
from traceana.errors import DataError
from traceana.results.base import Result
from traceana.stats.arguments import as_generator, check_confidence
from traceana.stats.intervals import wilson_interval
from traceana.stats.logistic import calibrate, fit_logistic, predict_held_out

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FOLDS: Final = 5
BINS: Final = 10

_TERMS: Final = {
    "feature": pl.String,
    "level": pl.String,
    "reference": pl.String,
    "n": pl.Int64,
    "failures": pl.Int64,
    "odds_ratio": pl.Float64,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
    "log_odds": pl.Float64,
    "std_error": pl.Float64,
    "pvalue": pl.Float64,
    "note": pl.String,
}
_BINS: Final = {
    "bin": pl.Int64,
    "n": pl.Int64,
    "predicted": pl.Float64,
    "observed": pl.Float64,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
}
_SUMMARY: Final = {
    "reading": pl.String,
    "n": pl.Int64,
    "failures": pl.Int64,
    "n_left_out": pl.Int64,
    "n_clusters": pl.Int64,
    "errors": pl.String,
    "auc": pl.Float64,
    "brier": pl.Float64,
    "brier_of_rate": pl.Float64,
    "calibration_intercept": pl.Float64,
    "calibration_slope": pl.Float64,
    "note": pl.String,
}


@dataclass(frozen=True, repr=False)
class FailureModel(Result):
    """A logistic model of failure, as :func:`traceana.analysis.failure_model` fits it.

    Attributes
    ----------
    odds_ratios
        One row a numeric feature, and one a level of a categorical one.
    calibration
        One row a tenth of the rows, by predicted chance of failure.
    fit
        One row: what was fitted, and how well it predicts rows that it has not seen.
    """

    odds_ratios: pl.DataFrame
    calibration: pl.DataFrame
    fit: pl.DataFrame

    def summary(self) -> str:
        """Return a short text on the result."""
        row = self.fit.row(0, named=True)
        head = (
            f"{row['failures']:,} of {row['n']:,} rows failed ({row['reading']} reading); "
            f"{row['n_left_out']:,} left out; errors: {row['errors']}"
        )
        lines = [head]
        for term in self.odds_ratios.iter_rows(named=True):
            name = term["feature"]
            if term["level"] is not None:
                name += f" {term['level']}"
            if term["reference"] is not None:
                name += f" against {term['reference']}"
            value = term["note"]
            if term["odds_ratio"] is not None:
                value = f"{term['odds_ratio']:.3g} ({term['note']})"
            if term["ci_low"] is not None:
                value = f"{term['odds_ratio']:.3g} ({term['ci_low']:.3g} to {term['ci_high']:.3g})"
            lines.append(f"odds ratio, {name}: {value}")
        if row["auc"] is not None:
            lines.append(
                f"held out: AUC {row['auc']:.3f}, Brier score {row['brier']:.4f} against "
                f"{row['brier_of_rate']:.4f} of the mean rate"
            )
        return "\n".join(lines)


def failure_model(
    frame: IntoFrame,
    /,
    *,
    features: Names,
    reading: Reading = "strict",
    cluster: str | None = None,
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> FailureModel:
    """Fit the log odds of failure as a sum over features, such as GPU type, CPUs and memory.

    A numeric feature has the odds ratio of one more of its unit; give log2 of a column for that
    of its doubling. Text and booleans have one odds ratio a level, against the most frequent one.
    A level of which no row, or every row, failed has no finite odds ratio: it is told, and its
    rows are left out, which changes no other odds ratio. A constant feature is told and left out.

    Parameters
    ----------
    frame
        One row a job or task: `status`, `features` and `cluster`; eager or lazy, of any listed
        engine. Rows with null or NaN in one of them are left out, and counted.
    features
        Columns to explain failure by.
    reading
        What counts as a failure: "strict" or "published" (:func:`failure_rates` says what they
        are).
    cluster
        Column that says which rows belong together, such as user. With it, errors allow for rows
        of a cluster to be alike (:func:`traceana.stats.fit_logistic`: a jackknife over clusters);
        without, rows are taken as independent (HC1).
    confidence
        Coverage of the intervals, in (0, 1).
    rng
        Seed or generator of the folds.

    Returns
    -------
    FailureModel
        ``.odds_ratios`` [feature, level, reference, n, failures, odds_ratio, ci_low, ci_high,
        log_odds, std_error, pvalue, note]; level and reference are null for a numeric feature.
        ``.calibration`` [bin, n, predicted, observed, ci_low, ci_high], with Wilson's interval of
        what was observed. ``.fit`` [reading, n, failures, n_left_out, n_clusters, errors, auc,
        brier, brier_of_rate, calibration_intercept, calibration_slope, note]. Predictions are of
        rows held out: each fifth of the rows (of the clusters, where given) is predicted by the
        fit to the others.

    Raises
    ------
    DataError
        If a column is missing, a status is not of the closed set, a value is infinite, no row or
        every row failed, features make each other up (collinear) or a numeric one separates
        failures from the rest, a feature has more than 50 levels, there are fewer than two
        clusters, or an argument is out of range.
    """
    names = as_names(features)
    if not names:
        raise DataError("features names no column; name one at least, such as features='gpu_type'")
    check_confidence(confidence)
    columns = names if cluster is None else (*names, cluster)
    rows = collect(with_failure(open_outcomes(frame, columns), reading))
    design = make_design(rows.drop_nulls(columns), names)
    of = None if cluster is None else cluster_codes(design.rows[cluster])
    bins, scores = _predictions(design, of, confidence, as_generator(rng))
    summary = {
        "reading": reading,
        "n": design.rows.height,
        "failures": int(design.failed.sum()),
        "n_left_out": rows.height - design.rows.height,
        "n_clusters": None if of is None else int(of.max()) + 1,
        "errors": "HC1, rows independent" if of is None else f"jackknife, clusters of {cluster}",
        "note": None if scores else f"too few rows to predict each {FOLDS}th from the rest",
        **scores,
    }
    return FailureModel(
        odds_ratios=_odds_ratios(design, of, confidence),
        calibration=bins,
        fit=pl.DataFrame([summary], schema=_SUMMARY).fill_nan(None),
    )


def _odds_ratios(
    design: Design, cluster: NDArray[np.int64] | None, confidence: float
) -> pl.DataFrame:
    fit = fit_logistic(design.matrix, design.failed, cluster, confidence=confidence)
    rows, column = [], 0
    for term in design.terms:
        row = {name: term.get(name) for name in _TERMS}
        if "scale" in term:
            column += 1
            scale = term["scale"]
            row |= {
                "odds_ratio": np.exp(fit.coefficient[column] / scale),
                "ci_low": np.exp(fit.ci_low[column] / scale),
                "ci_high": np.exp(fit.ci_high[column] / scale),
                "log_odds": fit.coefficient[column] / scale,
                "std_error": fit.std_error[column] / scale,
                "pvalue": fit.pvalue[column],
            }
            if np.isnan(fit.std_error[column]):
                row["note"] = "one cluster alone tells it: no interval and no test"
        rows.append(row)
    return pl.DataFrame(rows, schema=_TERMS).fill_nan(None)


def _predictions(
    design: Design,
    cluster: NDArray[np.int64] | None,
    confidence: float,
    random: np.random.Generator,
) -> tuple[pl.DataFrame, dict[str, float | None]]:
    """Return the calibration by tenths, and the scores, of rows that were held out."""
    units = len(design.failed) if cluster is None else int(cluster.max()) + 1
    fold = random.permutation(units) % FOLDS
    chance = predict_held_out(
        design.matrix, design.failed, fold if cluster is None else fold[cluster]
    )
    if np.isnan(chance).any():
        return pl.DataFrame(schema=_BINS), {}
    scores = calibrate(chance, design.failed)
    order = np.argsort(chance, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    n = np.array([len(part) for part in parts])
    failures = np.array([design.failed[part].sum() for part in parts])
    low, high = wilson_interval(failures, n, confidence=confidence)
    table = {
        "bin": np.arange(1, len(parts) + 1),
        "n": n,
        "predicted": np.array([chance[part].mean() for part in parts]),
        "observed": failures / n,
        "ci_low": low,
        "ci_high": high,
    }
    rate = design.failed.mean()
    return pl.DataFrame(table, schema=_BINS), {
        "auc": scores.auc,
        "brier": scores.brier,
        "brier_of_rate": float(rate * (1 - rate)),
        "calibration_intercept": scores.intercept,
        "calibration_slope": scores.slope,
    }
