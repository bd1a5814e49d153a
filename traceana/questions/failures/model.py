"""Logistic regression of failure on several features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceana.cohorts.ends import open_outcomes, with_failure
from traceana.cohorts.unit_note import notes_unit
from traceana.errors import DataError
from traceana.questions.failures.clusters import cluster_codes
from traceana.questions.failures.design import Design, make_design
from traceana.questions.failures.tables import (
    Calibration,
    FailureModel,
    JointTests,
    ModelFit,
    OddsRatios,
)
from traceana.stats.arguments import as_generator, check_choice, check_confidence
from traceana.stats.intervals import wilson_interval
from traceana.stats.logistic import (
    LogisticFit,
    calibrate,
    fit_firth,
    fit_logistic,
    joint_test,
    predict_held_out,
)
from traceana.stats.multiplicity import adjust_pvalues
from traceana.stats.strata import odds_ratio, pooled_odds
from traceana.store.frames import Names, as_names, collect
from traceana.tables.declare import schema_of

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoFrame
    from numpy.typing import NDArray

    from traceana.stats.arrays import Floats

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
        own_value, base = (part[other] for part in pair)
        if rows.schema[other].is_numeric():
            fractions = [
                a.is_between(float(b.min()), float(b.max())).mean()  # type: ignore[arg-type]
                for a, b in ((own_value, base), (base, own_value))
            ]
            ranges = " against ".join(
                f"{float(s.min()):.4g} to {float(s.max()):.4g}"  # type: ignore[arg-type]
                for s in (own_value, base)
            )
        else:
            fractions = [
                a.is_in(b.unique().implode()).mean()
                for a, b in ((own_value, base), (base, own_value))
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
    odds = dict(zip(("crude_odds_ratio", "crude_ci_low", "crude_ci_high"), crude, strict=True))
    if within:
        pooled = pooled_odds(tables, confidence=confidence)
        odds |= {
            "stratified_odds_ratio": pooled.odds_ratio,
            "stratified_ci_low": pooled.ci_low,
            "stratified_ci_high": pooled.ci_high,
        }
    return odds


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


FOLDS: Final = 5
_METHODS: Final = ("auto", "ml", "firth")
_LEAST_EVENTS: Final = 10
COLLINEAR: Final = 5
"""Variance inflation factor from which features count as collinear."""
REVERSED: Final = "crude and adjusted odds ratio are on opposite sides of 1 (Simpson's paradox)"
"""Note of an odds ratio whose adjustment reverses it."""
_RELATED: Final = 0.5
BINS: Final = 10


@notes_unit
def failure_model(
    frame: IntoFrame,
    /,
    *,
    features: Names,
    success: Names = ("completed",),
    failure: Names = ("failed",),
    status: str = "status",
    cluster: str | None = None,
    method: str = "auto",
    confidence: float = 0.95,
    rng: int | np.random.Generator = 1,
) -> FailureModel:
    """Fit a logistic regression of failure on features.

    The odds ratio of a numeric feature is that of one unit more; pass log2 of a column for the
    odds ratio of a doubling. Text and Boolean features have one odds ratio per level, with the
    most frequent level as the reference. A level of which no row, or every row, failed has no
    finite odds ratio: its rows are excluded, which changes no other odds ratio. Constant features
    have no odds ratio.

    Parameters
    ----------
    frame
        One row per job or task: `status`, `features` and `cluster`; eager or lazy, of any supported
        engine. Rows with null or NaN in one of them are excluded and counted.
    features
        Columns of the features.
    success, failure, status
        As in :func:`outcome_rates`.
    cluster
        Column of the independent unit, such as user: standard errors are then from a jackknife over
        clusters. None: rows are independent (HC1).
    method
        "ml" (maximum likelihood), "firth" (penalized likelihood with profile intervals, rows
        independent), or "auto": Firth's below 10 events per parameter without `cluster`.
    confidence
        Coverage of the intervals, in (0, 1).
    rng
        Seed or generator of the folds.

    Returns
    -------
    FailureModel
        ``.odds_ratios``, ``.joint``, ``.calibration`` and ``.fit``. Beside the adjusted odds ratio
        are the crude one and that within strata of the other categorical features;
        `pvalue_adjusted` is Holm's over all adjusted odds ratios. A level without common support
        with its reference in another feature has no adjusted odds ratio and the note "not
        comparable". A feature that is a linear combination of features named before it is left out,
        with a note; name first what should stay. Features of a variance inflation factor of 5 or
        more are tested together (``.joint``). An odds ratio whose sign adjustment reverses has a
        note. Predictions are for held-out rows: each fifth of the rows (of the clusters, if given)
        is predicted by the fit to the others.

    Raises
    ------
    DataError
        If no row or every row failed, a numeric feature separates failures from successes, a
        feature has more than 50 levels, or there are fewer than two clusters.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"gpus": [1, 2, 4, 8] * 10,
    ...                      "status": (["completed"] * 3 + ["failed"]) * 9
    ...                      + ["failed", "completed"] * 2})
    >>> result = traceana.failure_model(jobs, features="gpus")
    >>> result.odds_ratios.select("feature", pl.col("odds_ratio").round(2)).rows()
    [('gpus', 2.29)]
    """
    names = as_names(features)
    if not names:
        raise DataError("features names no column; name at least one, such as features='gpu_type'")
    check_confidence(confidence)
    check_choice("method", method, _METHODS)
    if method == "firth" and cluster is not None:
        raise DataError("method cannot be firth with cluster; pass method='ml'")
    columns = names if cluster is None else (*names, cluster)
    lazy, succeeded, failed = open_outcomes(
        frame, columns, status=status, success=success, failure=failure
    )
    rows = collect(with_failure(lazy, status, succeeded, failed))
    design = make_design(rows.drop_nulls(columns), names)
    of = None if cluster is None else cluster_codes(design.rows[cluster])
    events = min(design.failed.sum(), len(design.failed) - design.failed.sum())
    per_parameter = float(events / max(design.matrix.shape[1] - 1, 1))
    few = per_parameter < _LEAST_EVENTS
    firth = method == "firth" or (method == "auto" and few and cluster is None)
    inflation, condition = variance_inflation(design.matrix)
    bins, scores = _predictions(design, of, confidence, as_generator(rng))
    summary = dict.fromkeys(ModelFit.columns()) | {
        "n": design.rows.height,
        "failures": int(design.failed.sum()),
        "n_excluded": rows.height - design.rows.height,
        "n_clusters": None if of is None else int(of.max()) + 1,
        "events_per_parameter": per_parameter,
        "condition_number": condition,
        "errors": "profile of Firth's penalized likelihood, rows independent"
        if firth
        else "HC1, rows independent"
        if of is None
        else f"jackknife over {cluster}",
        "note": None if scores else f"too few rows to predict each {FOLDS}th from the rest",
        **scores,
    }
    odds_ratios, joint = _odds_ratios(
        rows, design, names, of, inflation, firth=firth, confidence=confidence
    )
    return FailureModel(
        odds_ratios=odds_ratios,
        calibration=bins,
        fit=pl.DataFrame([summary]).with_columns(pl.selectors.float().fill_nan(None)),
        joint=joint,
        success=succeeded,
        failure=failed,
    )


def _odds_ratios(
    every: pl.DataFrame,
    design: Design,
    features: tuple[str, ...],
    cluster: NDArray[np.int64] | None,
    inflation: NDArray[np.float64],
    *,
    firth: bool,
    confidence: float,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    def fitted(columns: Sequence[int]) -> LogisticFit:
        matrix = design.matrix[:, columns]
        if firth:
            return fit_firth(matrix, design.failed, confidence=confidence)
        return fit_logistic(matrix, design.failed, cluster, confidence=confidence)

    estimated = [term for term in design.terms if "scale" in term]
    levels = [place for place, term in enumerate(estimated, 1) if term.get("level") is not None]
    fit = fitted(range(len(estimated) + 1))
    rows, column = [], 0
    for term in design.terms:
        row: dict[str, Any] = {name: term.get(name) for name in OddsRatios.columns()}
        if "scale" in term:
            column += 1
            row["vif"] = inflation[column - 1]
            if column in levels:
                row |= unadjusted(every, term, features, confidence)
                row["note"] = why_not_comparable(design.rows, term, features)
            else:
                alone = _odds(fitted([0, column]), 1, term["scale"])
                row |= {f"crude_{name}": value for name, value in alone.items()}
                if levels:
                    within = _odds(fitted([0, *levels, column]), -1, term["scale"])
                    row |= {f"stratified_{name}": value for name, value in within.items()}
            if row["note"] is not None:
                rows.append(row)
                continue
            row |= _odds(fit, column, term["scale"]) | {
                "log_odds": fit.coefficient[column] / term["scale"],
                "std_error": fit.std_error[column] / term["scale"],
                "pvalue": fit.pvalue[column],
            }
            if np.isnan(fit.std_error[column]):
                row["note"] = "only one cluster is informative: no interval and no test"
            elif _is_reversed(row):
                row["note"] = REVERSED
        rows.append(row)
    table = pl.DataFrame(rows, schema=schema_of(OddsRatios)).fill_nan(None)
    tested = table["pvalue"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    adjusted = pl.Series(adjust_pvalues(tested, method="holm")).fill_nan(None)
    joint = _joint_tests(fit, design, estimated, inflation, cluster)
    return table.with_columns(pvalue_adjusted=adjusted), joint


def _is_reversed(row: dict[str, Any]) -> bool:
    """Return whether the crude and the adjusted odds ratio exclude 1 on opposite sides."""
    names = ("crude_ci_low", "crude_ci_high", "ci_low", "ci_high")
    low, high, own_low, own_high = (np.nan if row[name] is None else row[name] for name in names)
    return bool((low > 1 and own_high < 1) or (high < 1 and own_low > 1))


def _joint_tests(
    fit: LogisticFit,
    design: Design,
    terms: list[dict[str, Any]],
    inflation: NDArray[np.float64],
    cluster: NDArray[np.int64] | None,
) -> pl.DataFrame:
    """Test each set of collinear features together."""
    features: dict[str, list[int]] = {}
    for column, term in enumerate(terms, 1):
        features.setdefault(term["feature"], []).append(column)
    left = [
        name
        for name, columns in features.items()
        if max(inflation[column - 1] for column in columns) >= COLLINEAR
    ]
    correlation = np.abs(np.corrcoef(design.matrix[:, 1:], rowvar=False)).reshape(len(terms), -1)

    def related(*pair: str) -> bool:
        places = np.ix_(*(np.array(features[name]) - 1 for name in pair))
        return bool(correlation[places].max() >= _RELATED)

    error_df = np.inf if cluster is None else float(cluster.max())
    rows: list[dict[str, Any]] = []
    while left:
        block = [left.pop(0)]
        for name in block:  # grows
            block += [other for other in left if related(name, other)]
            left = [other for other in left if other not in block]
        columns = [column for name in block for column in features[name]]
        tests = joint_test(fit, columns, error_df)
        rows.append(
            {
                "features": ", ".join(block),
                "df": tests.df,
                "statistic": tests.statistic,
                "df_error": None if np.isinf(error_df) else error_df,
                "pvalue": tests.pvalue,
                "note": "too few clusters for this test"
                if np.isnan(tests.pvalue)
                else "not distinguishable where their own intervals contain 1",
            }
        )
    return pl.DataFrame(rows, schema=schema_of(JointTests)).fill_nan(None)


def _odds(fit: LogisticFit, column: int, scale: float) -> dict[str, float]:
    ends = (fit.coefficient, fit.ci_low, fit.ci_high)
    values = (float(np.exp(end[column] / scale)) for end in ends)
    return dict(zip(("odds_ratio", "ci_low", "ci_high"), values, strict=True))


def _predictions(
    design: Design,
    cluster: NDArray[np.int64] | None,
    confidence: float,
    random: np.random.Generator,
) -> tuple[pl.DataFrame, dict[str, float | None]]:
    """Return the calibration by tenths and the scores of the predictions of held-out rows."""
    units = len(design.failed) if cluster is None else int(cluster.max()) + 1
    fold = random.permutation(units) % FOLDS
    chance = predict_held_out(
        design.matrix, design.failed, fold if cluster is None else fold[cluster]
    )
    if np.isnan(chance).any():
        return pl.DataFrame(schema=schema_of(Calibration)), {}
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
    return pl.DataFrame(table, schema=schema_of(Calibration)), {
        "auc": scores.auc,
        "brier": scores.brier,
        "brier_of_rate": float(rate * (1 - rate)),
        "calibration_intercept": scores.intercept,
        "calibration_slope": scores.slope,
    }
