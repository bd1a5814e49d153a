"""Logistic regression of failure on several features, and the design matrix of its terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame

from traceana.cohorts.cohort import notes_unit, with_adjusted
from traceana.cohorts.ends import open_outcomes, with_failure
from traceana.errors import DataError
from traceana.questions.failures.rates import MOST_LEVELS, cluster_codes, stratum_codes
from traceana.questions.failures.tables import (
    Calibration,
    FailureModel,
    JointTests,
    ModelFit,
    OddsRatios,
)
from traceana.stats.arguments import as_generator, check_choice, check_confidence
from traceana.stats.arrays import Floats, Integers
from traceana.stats.intervals import wilson_interval
from traceana.stats.logistic import (
    LogisticFit,
    calibrate,
    dependent_columns,
    fit_firth,
    fit_logistic,
    joint_test,
    odds_ratio,
    pooled_odds,
    predict_held_out,
)
from traceana.store.frames import LARGEST, Names, as_names, collect
from traceana.tables.declare import schema_of

LEAST_OVERLAP: Final = 0.05
"""Least fraction of the rows of a level, or of its reference, with common support."""
COLLINEAR: Final = 5  # variance inflation factor from which features count as collinear
REVERSED: Final = "crude and adjusted odds ratio are on opposite sides of 1 (Simpson's paradox)"
"""Note of an odds ratio whose adjustment reverses it."""
FOLDS: Final = 5
BINS: Final = 10
_LEAST_EVENTS: Final = 10
_RELATED: Final = 0.5
_CURVED: Final = 0.01  # p of a square below which an association is not linear
_ROUNDING: Final = 1e-9  # relative differences of values that are equal but for rounding


@dataclass(frozen=True)
class Design:
    """Design matrix of a model, and the meaning of its columns."""

    rows: pl.DataFrame  # the rows of the fit
    failed: Floats  # 0 or 1 for each row
    matrix: Floats
    """The constant 1, one column per term that has one, and squares; numbers are standardized."""
    terms: list[dict[str, Any]]
    """Meaning of the coefficients: feature, level, reference, n, failures; `scale` is the divisor
    of the column, and a term without a column has a note instead."""


def make_design(
    rows: pl.DataFrame, features: Sequence[str], /, *, cause: str | None = None
) -> Design:
    """Return the design matrix of a model of failure."""
    texts = [name for name in features if not rows.schema[name].is_numeric()]
    for name in features:
        if rows.schema[name] == pl.Duration:
            raise DataError(f"column {name} holds {rows.schema[name]}; pass its seconds")
        if name not in texts and (rows[name].cast(pl.Float64).abs() > LARGEST).any():
            raise DataError(f"column {name} holds a value beyond {LARGEST:g} (infinite)")
    rows, decided = _drop_decided(rows.with_columns(pl.col(texts).cast(pl.String)), texts, cause)
    failed = rows["failure"].cast(pl.Float64).to_numpy()
    _refuse_decided(failed, decided, features, cause)
    columns, terms = [np.ones(rows.height)], []
    for name in features:
        added, of_feature = _levels(rows, name) if name in texts else _number(rows, name)
        columns += added
        terms += [*of_feature, *(term for term in decided if term["feature"] == name)]
    return Design(rows, failed, _drop_dependent(np.stack(columns, axis=1), terms), terms)


def _refuse_decided(
    failed: Floats, decided: list[dict[str, Any]], features: Sequence[str], cause: str | None
) -> None:
    n, failures = len(failed), failed.sum()
    if failures and (failures < n or cause is not None):
        return
    if decided:
        names = dict.fromkeys(term["feature"] for term in decided)
        raise DataError(
            f"levels of {', '.join(names)} determine every outcome (separation): no odds ratio "
            "is finite; remove this feature"
        )
    if not n:
        raise DataError(f"no success or failure has a value in each of {', '.join(features)}")
    raise DataError(
        f"{'every' if failures else 'no'} row of the {n} failed: there is nothing to model"
    )


def _drop_decided(
    rows: pl.DataFrame, texts: Sequence[str], cause: str | None
) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Drop levels of which no row or every row failed, until there is none."""
    decided: list[dict[str, Any]] = []
    before = -1
    while before < len(decided):
        before = len(decided)
        for name in texts:
            levels = _count_failures(rows, name)
            every = (pl.col("failures") == pl.col("n")) & (cause is None)
            sure = levels.filter((pl.col("failures") == 0) | every).sort("level")
            if levels.height < 2 or sure.is_empty():
                continue
            ratio = "odds" if cause is None else "hazard"
            for term in sure.iter_rows(named=True):
                note = (
                    f"{'every row' if term['failures'] else 'no row'} of the {term['n']:,} "
                    f"{cause or 'failed'}: no finite {ratio} ratio; rows excluded"
                )
                decided.append({"feature": name, **term, "note": note})
            rows = rows.filter(~pl.col(name).is_in(sure["level"].implode()))
    return rows, decided


def _count_failures(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    return rows.group_by(level=pl.col(name)).agg(n=pl.len(), failures=pl.col("failure").sum())


def _number(rows: pl.DataFrame, name: str) -> tuple[list[Floats], list[dict[str, Any]]]:
    """Return the standardized column of a number and its term."""
    values = rows[name].cast(pl.Float64).to_numpy()
    term = {"feature": name, "n": rows.height, "failures": int(rows["failure"].sum())}
    if np.ptp(values) <= _ROUNDING * np.abs(values).max():
        return [], [term | {"note": f"the same in every row: {values[0]:g}"}]
    scale = float(np.std(values))
    return [(values - values.mean()) / scale], [term | {"scale": scale}]


def _levels(rows: pl.DataFrame, name: str) -> tuple[list[Floats], list[dict[str, Any]]]:
    """Return the columns of the levels of a text but the most frequent one, and their terms."""
    levels = _count_failures(rows, name).sort(["n", "level"], descending=[True, False])
    if levels.height > MOST_LEVELS:
        raise DataError(
            f"column {name} has {levels.height} levels; at most {MOST_LEVELS} are allowed"
        )
    reference, *others = ({"feature": name, **level} for level in levels.to_dicts())
    if not others:
        return [], [reference | {"note": "the same in every row"}]
    of_all = {"reference": reference["level"], "scale": 1.0}
    columns = [(rows[name] == term["level"]).cast(pl.Float64).to_numpy() for term in others]
    return columns, [term | of_all for term in others]


def _drop_dependent(matrix: Floats, terms: Sequence[dict[str, Any]]) -> Floats:
    """Drop columns that earlier ones determine, and note it in their terms."""
    present = [term for term in terms if "scale" in term]
    dropped = dependent_columns(matrix)
    for column, *others in dropped:
        names = dict.fromkeys(present[other - 1]["feature"] for other in others if other)
        term = present[column - 1]
        del term["scale"]
        term["note"] = f"determined by {', '.join(names)}: left out, not distinguishable"
    return np.delete(matrix, [column for column, *_ in dropped], axis=1)


def _estimated(design: Design) -> list[dict[str, Any]]:
    return [term for term in design.terms if "scale" in term]


def _with_squares(design: Design, cluster: Integers | None) -> Design:
    """Add the squares of numbers that predict failure, free of the number, and mark its terms."""
    squares, terms = [], []
    for column, term in enumerate(_estimated(design), 1):
        number = design.matrix[:, column]
        if term.get("level") is None and len(np.unique(number)) > 2:
            line = np.polynomial.Polynomial.fit(number, number**2, 1)
            squares.append(number**2 - line(number))
            terms.append(term)
    linear = design.matrix.shape[1]
    matrix = np.column_stack([design.matrix, *squares])
    dropped = [column for column, *_ in dependent_columns(matrix)]
    free = [at for at in range(len(squares)) if linear + at not in dropped]
    if not free:
        return design
    matrix = np.delete(matrix, dropped, axis=1)
    try:
        pvalues = fit_logistic(matrix, design.failed, cluster, confidence=0.95).pvalue[linear:]
    except DataError:  # a square separates failures from successes
        return design
    kept = np.flatnonzero(pvalues < _CURVED)
    for place in kept:
        terms[free[place]]["curved"] = True
    return replace(design, matrix=np.column_stack([design.matrix, matrix[:, linear + kept]]))


def why_not_comparable(
    rows: pl.DataFrame, term: dict[str, Any], features: Sequence[str], /
) -> str | None:
    """Return why a level and its reference have no common support in another feature."""
    name = term["feature"]
    pair = [rows.filter(pl.col(name) == term[side]) for side in ("level", "reference")]
    if any(part.is_empty() for part in pair):
        return None
    for other in features:
        if other == name:
            continue
        a, b = (part[other] for part in pair)
        if rows.schema[other].is_numeric():
            ends = [(float(x.min()), float(x.max())) for x in (a, b)]  # type: ignore[arg-type]
            inside = [x.is_between(*end) for x, end in zip((b, a), ends, strict=True)]
            ranges = " against ".join(f"{low:.4g} to {high:.4g}" for low, high in ends)
        else:
            inside = [x.is_in(y.unique().implode()) for x, y in ((a, b), (b, a))]
            ranges = "other levels"
        if max(part.sum() / part.len() for part in inside) < LEAST_OVERLAP:
            return f"not comparable: no common support in {other} ({ranges})"
    return None


def unadjusted(
    rows: pl.DataFrame, term: dict[str, Any], features: Sequence[str], confidence: float, /
) -> dict[str, float]:
    """Return the odds ratio of a level over all rows, crude and within strata of other levels."""
    name, levels = term["feature"], [term["level"], term["reference"]]
    within = [f for f in features if f != name and not rows.schema[f].is_numeric()]
    texts = rows.with_columns(pl.col(name, *within).cast(pl.String))
    pair = texts.filter(pl.col(name).is_in(levels)).drop_nulls(within)
    counts = pair.group_by(name, *within).agg(
        pl.col("failure").sum().alias(".failed"), pl.len().alias(".n")
    )
    place = stratum_codes(counts, within)
    tables = np.zeros((int(place.max()) + 1, 2, 2))
    side = (counts[name] == levels[1]).cast(pl.Int64).to_numpy()
    ends = counts.select(".failed", pl.col(".n") - pl.col(".failed"))
    np.add.at(tables, (place, side), ends.to_numpy())
    crude = odds_ratio(tables.sum(axis=0), confidence=confidence)
    odds = dict(zip(("crude_odds_ratio", "crude_ci_low", "crude_ci_high"), crude, strict=True))
    if within:
        pooled = pooled_odds(tables, confidence=confidence)._asdict()
        odds |= {f"stratified_{end}": pooled[end] for end in ("odds_ratio", "ci_low", "ci_high")}
    return odds


def variance_inflation(matrix: Floats, /) -> Floats:
    """Return the variance inflation factor of each column but the first."""
    if matrix.shape[1] < 3:
        return np.ones(matrix.shape[1] - 1)
    inflation: Floats = np.diag(np.linalg.inv(np.corrcoef(matrix[:, 1:], rowvar=False)))
    return inflation


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
    curved: bool = False,
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
    frame, success, failure, status, confidence
        As in :func:`outcome_rates`. Rows with null or NaN in a feature or the cluster are excluded
        and counted.
    features
        Columns of the features; of a text at most 50 levels.
    cluster
        Column of the independent unit, such as user, of which there are at least two: standard
        errors are then from a jackknife over clusters. None: rows are independent (HC1).
    method
        "ml" (maximum likelihood), "firth" (penalized likelihood with profile intervals, rows
        independent), or "auto": Firth's below 10 events per parameter without `cluster`.
    curved
        Adjust for the square of each number as well where it predicts failure (p below .01); an
        association that is not linear in a number otherwise biases the other odds ratios. The odds
        ratio of the number is then that of its mean slope.
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
        is predicted by the fit to the others. There is no model if no row or every row failed, or a
        number separates failures from successes.

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
    check_choice("method", method, ("auto", "ml", "firth"))
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
    inflation = variance_inflation(design.matrix)
    if curved:
        design = _with_squares(design, of)
    bins, scores = _predictions(design, of, confidence, as_generator(rng))
    summary = {
        "n": design.rows.height,
        "failures": int(design.failed.sum()),
        "n_excluded": rows.height - design.rows.height,
        "n_clusters": None if of is None else int(of.max()) + 1,
        "events_per_parameter": per_parameter,
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
        fit=pl.DataFrame([summary], schema_of(ModelFit)).fill_nan(None),
        joint=joint,
    )


def _odds_ratios(
    every: pl.DataFrame,
    design: Design,
    features: tuple[str, ...],
    cluster: Integers | None,
    inflation: Floats,
    *,
    firth: bool,
    confidence: float,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    def fitted(columns: Sequence[int]) -> LogisticFit:
        matrix = design.matrix[:, columns]
        if firth:
            return fit_firth(matrix, design.failed, confidence=confidence)
        return fit_logistic(matrix, design.failed, cluster, confidence=confidence)

    estimated = _estimated(design)
    levels = [place for place, term in enumerate(estimated, 1) if term.get("level") is not None]
    fit = fitted(range(design.matrix.shape[1]))
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
            elif term.get("curved"):
                row["note"] = "mean slope; not linear, so all are adjusted for its square as well"
        rows.append(row)
    table = with_adjusted(pl.DataFrame(rows, schema=schema_of(OddsRatios)).fill_nan(None))
    return table, _joint_tests(fit, design, estimated, inflation, cluster)


def _is_reversed(row: dict[str, Any]) -> bool:
    names = ("crude_ci_low", "crude_ci_high", "ci_low", "ci_high")
    low, high, own_low, own_high = (np.nan if row[name] is None else row[name] for name in names)
    return bool((low > 1 and own_high < 1) or (high < 1 and own_low > 1))


def _joint_tests(
    fit: LogisticFit,
    design: Design,
    terms: list[dict[str, Any]],
    inflation: Floats,
    cluster: Integers | None,
) -> pl.DataFrame:
    features: dict[str, list[int]] = {}
    for column, term in enumerate(terms):
        features.setdefault(term["feature"], []).append(column)
    collinear = [
        name for name, columns in features.items() if inflation[columns].max() >= COLLINEAR
    ]
    estimated = design.matrix[:, 1 : len(terms) + 1]
    correlation = np.abs(np.atleast_2d(np.corrcoef(estimated, rowvar=False)))
    error_df = np.inf if cluster is None else float(cluster.max())
    rows: list[dict[str, Any]] = []
    while collinear:
        block = [collinear.pop(0)]
        for name in block:  # grows
            of_name = correlation[features[name]]
            related = [f for f in collinear if of_name[:, features[f]].max() >= _RELATED]
            block += related
            collinear = [f for f in collinear if f not in related]
        columns = [column + 1 for name in block for column in features[name]]
        tests = joint_test(fit, columns, error_df)
        note = "not distinguishable where their own intervals contain 1"
        note = "too few clusters for this test" if np.isnan(tests.pvalue) else note
        row = {"features": ", ".join(block), "df_error": None if cluster is None else error_df}
        rows.append(row | tests._asdict() | {"note": note})
    return pl.DataFrame(rows, schema=schema_of(JointTests)).fill_nan(None)


def _odds(fit: LogisticFit, column: int, scale: float) -> dict[str, float]:
    ends = (fit.coefficient, fit.ci_low, fit.ci_high)
    values = (float(np.exp(np.clip(end[column] / scale, -700, 700))) for end in ends)
    return dict(zip(("odds_ratio", "ci_low", "ci_high"), values, strict=True))


def _predictions(
    design: Design, cluster: Integers | None, confidence: float, random: np.random.Generator
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
