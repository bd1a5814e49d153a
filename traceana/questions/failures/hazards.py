"""Outcomes while rows still run: hazards of each cause, and outcomes by a horizon."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any, Final, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import stdtr, stdtrit

from traceana.cohorts.cohort import (
    SEEN,
    Cohort,
    count_not_ended,
    form_cohort,
    is_censored,
    notes_unit,
    outcome_cohort,
    with_adjusted,
)
from traceana.cohorts.ends import open_statuses
from traceana.errors import DataError
from traceana.questions.failures.curves import cumulative_incidence
from traceana.questions.failures.events import EVENTS, MIN_AT_RISK, check_events
from traceana.questions.failures.model import make_design
from traceana.questions.failures.rates import cluster_codes, failure_rates
from traceana.questions.failures.tables import HazardRatios, OutcomesByHorizon
from traceana.stats.arguments import check_confidence, is_number
from traceana.stats.arrays import Floats, Integers
from traceana.stats.permutation import too_few_clusters
from traceana.store import Trace
from traceana.store.frames import Names, as_keys, as_names, beside, collect
from traceana.tables.declare import declared, returns, schema_of

MOST_TIMES: Final = 500
"""Distinct times beyond which they are rounded up to quantiles of the event times."""
NO_END: Final = "reached no end state"  # part of the note of a failure rate that is biased
_FEWEST_EVENTS: Final = 10
_FEWEST_OF_LEVEL: Final = 5
_BIAS: Final = 0.05


@notes_unit
@returns(HazardRatios)
def cause_specific_hazards(
    frame: IntoFrame,
    /,
    *,
    features: Names,
    causes: Names = ("failed", "completed"),
    status: str = "status",
    runtime: str = "runtime_s",
    entry: str | None = None,
    observed: str | None = None,
    cluster: Names | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Fit a proportional hazards model of each cause of the end.

    The hazard of a cause is its rate among the rows that still run (Cox, JRSS B 34, 1972; with
    competing causes: Prentice and others, Biometrics 34, 1978). A row that ended by another cause,
    or still runs, is censored at its runtime. Unlike a rate among ended rows, hazard ratios do not
    depend on how long rows were watched. A larger hazard of failure need not make more rows fail:
    the hazards of the other causes count as well (:func:`outcome_by_horizon`).

    Parameters
    ----------
    frame, status, runtime, entry, observed, confidence
        As in :func:`cumulative_incidence`. Rows with null or NaN in the status, the runtime, a
        feature or the cluster are excluded.
    features
        As in :func:`failure_model`.
    causes
        Status values that are causes; each has a model.
    cluster
        Column of the independent unit: standard errors are then those of a jackknife over clusters
        by one step of Newton's method, with t(k - 1) for the number k of effective clusters (Kish)
        of the coefficient. Of two columns, such as user and day, variances are added, and those of
        their combinations subtracted (Cameron, Gelbach and Miller, JBES 29, 2011). None: rows are
        independent.

    Returns
    -------
    DataFrame
        One row per cause and coefficient with the columns
        {columns}

        By statsmodels' ``PHReg`` with Efron's ties; more than 500 distinct runtimes are rounded up
        to quantiles of the cause's times, with Breslow's ties.

    Examples
    --------
    >>> import numpy as np, polars as pl, traceana
    >>> rng = np.random.default_rng(1)
    >>> gpus = np.repeat([1.0, 2.0], 200)
    >>> fails, cut = rng.exponential(100 / gpus), rng.exponential(200, size=400)
    >>> jobs = pl.DataFrame({"gpus": gpus, "runtime_s": np.minimum(fails, cut),
    ...                      "status": np.where(fails < cut, "failed", "running")})
    >>> found = traceana.cause_specific_hazards(jobs, features="gpus", causes="failed")
    >>> found.select("feature", pl.col("hazard_ratio").round(1)).rows()
    [('gpus', 2.2)]
    """
    names, kinds = as_names(features), check_events(causes)
    if not names:
        raise DataError("features names no column; name at least one, such as features='gpu_type'")
    check_confidence(confidence)
    units = () if cluster is None else as_names(cluster)
    extra = (*units, *(() if observed is None else (observed,)))
    measures = {"runtime": runtime} | ({} if entry is None else {"entry": entry})
    lazy = open_statuses(
        frame, (*names, *extra), status=status, named={"causes": kinds}, measures=measures
    )
    rows = collect(lazy.filter(~nw.col(runtime).is_null(), ~nw.col(status).is_null()))
    rows = rows.drop_nulls([*names, *units])
    hazards: list[dict[str, Any]] = []
    for cause in kinds:
        failed = pl.col(status).cast(pl.String) == cause
        if observed is not None:
            failed &= pl.col(observed)
        hazards += _of_cause(
            rows.with_columns(failure=failed.cast(pl.Int64)),
            names,
            cause,
            columns=(runtime, entry, units),
            confidence=confidence,
        )
    table = pl.DataFrame(hazards, schema=schema_of(HazardRatios)).fill_nan(None)
    return declared(with_adjusted(table), HazardRatios)


def _of_cause(
    rows: pl.DataFrame,
    names: tuple[str, ...],
    cause: str,
    *,
    columns: tuple[str, str | None, tuple[str, ...]],
    confidence: float,
) -> list[dict[str, Any]]:
    runtime, entry, units = columns
    row: dict[str, Any] = {"cause": cause}
    if not rows["failure"].sum():
        none = row | {"n": rows.height, "n_events": 0, "note": f"no row {cause}"}
        return [none | {"feature": name} for name in names]
    design = make_design(rows, names, cause=cause)
    time = design.rows[runtime].cast(pl.Float64).to_numpy()
    start = None if entry is None else design.rows[entry].cast(pl.Float64).to_numpy()
    of = [cluster_codes(design.rows[unit]) for unit in units]
    matrix = design.matrix[:, 1:]
    coefficient, error, dfs, note = np.zeros(0), np.zeros(0), np.zeros(0), None
    if matrix.shape[1]:  # none if every level always or never ends so
        coefficient, error, dfs, note = _fit_cox(time, start, design.failed, matrix, of)
    result, fitted = [], zip(coefficient, error, dfs.tolist(), strict=True)
    for term in design.terms:
        of_term = row | {name: term.get(name) for name in ("feature", "level", "reference", "n")}
        of_term |= {"n_events": term.get("failures"), "note": term.get("note")}
        if "scale" in term:
            *estimated, df = next(fitted)
            b, se = (value / term["scale"] for value in estimated)
            reach = stdtrit(df, (1 + confidence) / 2) if df > 0 else np.nan
            ends = np.exp(np.clip([b, b - reach * se, b + reach * se], -700, 700))
            of_term |= zip(("hazard_ratio", "ci_low", "ci_high"), ends.tolist(), strict=True)
            of_term |= {
                "pvalue": float(2 * stdtr(df, -abs(b) / se)) if df > 0 and se > 0 else np.nan,
                "log_hazard": b,
                "std_error": se,
            }
            of_term["note"] = _note_of(df, of_term["n_events"]) or note
        result.append(of_term)
    return result


def _note_of(df: float, events: int) -> str | None:
    if np.isnan(df):
        return "no interval: units do not determine its error"
    few = (too_few_clusters(df + 1) or "").partition(";")[0]
    if events < _FEWEST_OF_LEVEL:
        few = f"fewer than {_FEWEST_OF_LEVEL} events"
    return f"{few}: interval and p are approximate" if few else None


def _fit_cox(
    time: Floats, entry: Floats | None, event: Floats, matrix: Floats, clusters: list[Integers]
) -> tuple[Floats, Floats, Floats, str | None]:
    """Return the coefficients, their errors, the degrees of freedom, and a note."""
    from statsmodels.duration.hazard_regression import PHReg  # noqa: PLC0415

    ties = "efron"
    if len(np.unique(time)) > MOST_TIMES:
        # each interval of time ends at a quantile of the events' times
        ends = np.unique(np.quantile(time[event == 1], np.linspace(0, 1, MOST_TIMES)))
        place = np.searchsorted(ends, time)
        rounded = ends[np.minimum(place, len(ends) - 1)]
        time, ties = np.where(place < len(ends), rounded, time.max()), "breslow"
        if entry is not None:
            entry = np.concatenate([[0.0], ends])[np.searchsorted(ends, entry, side="right")]
    if entry is not None:  # a row is at risk after its entry; PHReg counts it at that time too
        later = np.where(entry < time, np.nextafter(entry, np.inf), np.nextafter(time, -np.inf))
        entry = np.where(entry > 0, later, 0.0)
    coefficient = error = np.full(matrix.shape[1], np.nan)
    with warnings.catch_warnings(), np.errstate(all="ignore"), suppress(np.linalg.LinAlgError):
        warnings.simplefilter("ignore")
        model = PHReg(time, matrix, status=event, entry=entry, ties=ties)
        fit = model.fit(disp=0)
        coefficient, error = np.asarray(fit.params), np.asarray(fit.bse)
    scale = np.where(matrix.std(axis=0) > 0, matrix.std(axis=0), 1.0)
    note = None
    if not (np.abs(coefficient) * scale < 15).all():
        raise DataError(
            "the model has no finite hazard ratios: a feature separates the events from the rest "
            "(separation); remove it"
        )
    if event.sum() < _FEWEST_EVENTS * matrix.shape[1]:
        note = f"fewer than {_FEWEST_EVENTS} events per coefficient: intervals are uncertain"
    if not clusters:
        return coefficient, error, np.full(len(coefficient), np.inf), note
    scores, hazard = _score_residuals((time, entry, event), matrix, coefficient)
    away = (matrix - np.average(matrix, axis=0, weights=hazard)) * np.sqrt(hazard)[:, None]
    parts = (scores, away, -model.hessian(coefficient))
    fits = [_over_clusters(*parts, of) for of in clusters]
    variance, dfs = (np.array(part) for part in zip(*fits, strict=True))
    total = variance.sum(axis=0)
    if len(clusters) > 1:
        both = np.unique(np.stack(clusters), axis=1, return_inverse=True)[1]
        total = np.maximum(total - _over_clusters(*parts, both)[0], variance.max(axis=0))
    return coefficient, np.sqrt(total), dfs.min(axis=0), note


_NUMBERS_AT_ONCE: Final = 1 << 20


def _over_clusters(
    scores: Floats, away: Floats, information: Floats, cluster: Integers
) -> tuple[Floats, Floats]:
    """Return the variances of a jackknife over clusters, and effective clusters less one."""
    n, k = np.bincount(cluster), scores.shape[1]
    rows, last, total = np.argsort(cluster, kind="stable"), n.cumsum(), away.T @ away
    weight, sums = (
        np.stack([np.bincount(cluster, column) for column in values.T], axis=1)
        for values in (away**2, scores)
    )
    moved = np.empty_like(sums)
    for some in np.split(np.arange(n.size), range(m := 1 + _NUMBERS_AT_ONCE // k**2, n.size, m)):
        of = rows[last[some[0]] - n[some[0]] : last[some[-1]]]
        at, part = cluster[of] - some[0], np.ascontiguousarray(away[of].T)
        pairs = [np.bincount(at, part[a] * part[b]) for a, b in np.ndindex(k, k)]
        left = total - np.stack(pairs, axis=1).reshape(-1, k, k)
        try:
            moved[some] = np.linalg.solve(left, sums[some, :, None])[..., 0]
        except np.linalg.LinAlgError:  # a feature that one cluster alone has
            moved[some] = (np.linalg.pinv(left) @ sums[some, :, None])[..., 0]
    moved = moved @ np.linalg.solve(information, total).T
    effective: Floats = weight.sum(axis=0) ** 2 / (weight**2).sum(axis=0)
    variance: Floats = (1 - 1 / n.size) * (moved**2).sum(axis=0)
    return variance, effective - 1


def _score_residuals(
    observed: tuple[Floats, Floats | None, Floats], matrix: Floats, coefficient: Floats
) -> tuple[Floats, Floats]:
    """Return each row's score residual and cumulative hazard, as statsmodels' slower loop does."""
    time, entry, event = observed
    times, events = np.unique(time[event == 1], return_counts=True)
    n, linear = len(times) + 1, matrix @ coefficient
    hazard = np.exp(linear - linear.max())
    until = np.searchsorted(times, time, side="right")
    since = np.zeros_like(until) if entry is None else np.searchsorted(times, entry)

    def at_risk(weights: Floats) -> Floats:
        entered, left = (np.bincount(place, weights, n) for place in (since, until))
        total: Floats = np.cumsum(entered - left)[:-1]
        return total

    total = at_risk(hazard)
    mean = np.stack([at_risk(hazard * column) / total for column in matrix.T], axis=1)
    rise = (events / total)[:, None]
    steps, of_mean = (
        np.concatenate([np.zeros((1, factor.shape[1])), np.cumsum(factor, axis=0)])
        for factor in (rise, mean * rise)
    )
    summed = steps[until] - steps[since]
    expected = matrix * summed - (of_mean[until] - of_mean[since])
    happened = event[:, None] * (matrix - mean[np.maximum(until - 1, 0)])
    return happened - hazard[:, None] * expected, hazard * summed[:, 0]


@notes_unit
@returns(OutcomesByHorizon)
def outcome_by_horizon(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    horizon_s: float | None = None,
    events: Names = EVENTS,
    status: str = "status",
    runtime: str = "runtime_s",
    entry: str | None = None,
    observed: str | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Estimate the fraction of rows with each outcome by a stated runtime.

    By the Aalen-Johansen estimator, which counts rows that still run as at risk until then. The
    rate among ended rows beside it is biased towards the outcomes of short rows.

    Parameters
    ----------
    frame, by, events, status, runtime, entry, observed, cluster, confidence
        As in :func:`cumulative_incidence`.
    horizon_s
        The runtime. None: the longest at which an event happened with 10 rows at risk, in each
        group that has one.

    Returns
    -------
    DataFrame
        One row per group and event, with the columns of `by` and
        {columns}

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [10.0, 20, 30, 40],
    ...                      "status": ["failed", "running", "completed", "completed"]})
    >>> found = traceana.outcome_by_horizon(jobs, horizon_s=30, events=("failed", "completed"))
    >>> found.select("event", "fraction", "rate_of_ended").rows()
    [('completed', 0.375, 0.66...), ('failed', 0.25, 0.33...)]
    """
    keys = as_keys(by, OutcomesByHorizon.columns())
    if horizon_s is not None and not (is_number(horizon_s) and 0 < horizon_s < np.inf):
        raise DataError(f"horizon_s must be a positive number of seconds; it is {horizon_s!r}")
    incidence = cumulative_incidence(
        frame,
        by=keys,
        events=events,
        status=status,
        runtime=runtime,
        entry=entry,
        observed=observed,
        cluster=cluster,
        confidence=confidence,
    )
    curves, groups = incidence.curves, incidence.groups
    if horizon_s is None:
        horizon_s = _longest(curves, keys)
    last = incidence.incidence_at(horizon_s).rename({"incidence": "fraction"})
    table = groups.rename({"n_censored": "n_not_ended"}).drop("incidence", "ci_low", "ci_high")
    table = beside(table, last, [*keys, "event"])
    n, n_events, not_ended = (pl.col(name) for name in ("n", "n_events", "n_not_ended"))
    running = (not_ended / n).fill_nan(0.0)
    biased = pl.format(
        "{} % of the rows have not ended: the rate among ended rows is too high for outcomes of "
        "short rows, and too low for those of long ones",
        (100 * running).round(0).cast(pl.Int64),
    )
    table = table.with_columns(
        horizon_s=pl.lit(float(horizon_s)),
        fraction=pl.when(n > 0).then(pl.col("fraction").fill_null(0.0)),
        rate_of_ended=(n_events / (n - not_ended)).fill_nan(None),
        note=pl.when(running > _BIAS).then(biased),
    )
    return declared(table, OutcomesByHorizon, by=keys)


def _longest(curves: pl.DataFrame, keys: tuple[str, ...]) -> float:
    """Return the last event with enough rows at risk in each group."""
    steps = curves.filter(pl.col("n_at_risk") >= MIN_AT_RISK)
    last: Any = steps.group_by(keys).agg(pl.col("time_s").max())["time_s"].min()
    longest: Any = curves["time_s"].max() or 1.0
    return float(longest if last is None else last)


HORIZON_S: Final = 86_400.0
"""Runtime by which the cumulative incidence is stated, if enough rows are at risk then."""
_FEWEST: Final = 10
_NOTICED: Final = 0.01  # fraction of rows without an end from which the bias is stated


class Failure(NamedTuple):
    """Rate and incidence of failure of all rows, and what has not ended and biases the rate."""

    rate: dict[str, Any]
    incidence: dict[str, Any] | None
    is_censored: bool
    """Whether the incidence is the headline: many rows have not ended, and ten or more failed."""
    bias: str


def overall_failure(trace: Trace, /) -> Failure:
    """Return the failure rate of a cohort, and the cumulative incidence by a runtime."""
    cohort = form_cohort(trace)
    [rate] = cohort.over_units(failure_rates, cohort.rows, ()).rows(named=True)
    incidence = failure_by(trace)
    censored = incidence is not None and is_censored(cohort) and rate["failures"] >= _FEWEST
    return Failure(rate, incidence, censored, _bias(cohort))


def _bias(cohort: Cohort) -> str:
    not_ended = count_not_ended(cohort) / max(cohort.rows.height, 1)
    if not_ended < _NOTICED:
        return ""
    way = "biased, in an unknown direction"
    failed, completed = (_median_interval(cohort, status) for status in ("failed", "completed"))
    if failed and completed and failed[0] > completed[1]:
        way = "likely too low, since failures come later than completions"
    elif failed and completed and completed[0] > failed[1]:
        way = "likely too high, since failures come sooner than completions"
    return f"{100 * not_ended:.2g} % of all {cohort.noun} {NO_END}: the rate is {way}"


def _median_interval(cohort: Cohort, status: str) -> tuple[float, float] | None:
    rows = cohort.rows.filter(pl.col("status").cast(pl.String) == status).drop_nulls("duration_s")
    if rows.is_empty():
        return None
    return cohort.median_interval(rows, rows["duration_s"])


def failure_by(trace: Trace, horizon_s: float | None = None, /) -> dict[str, Any] | None:
    """Return the cumulative incidence of failure by a runtime, by default one that many reach."""
    cohort = form_cohort(trace, end_imputation="running")
    events = cohort.events
    if "failed" not in events:
        return None
    if horizon_s is None:
        horizon_s = trace.once(outcome_cohort).horizon_s
    failed = cohort.rows.filter(pl.col("status").cast(pl.String) == "failed")["duration_s"]
    at_risk = (cohort.rows["duration_s"] >= HORIZON_S).sum()
    if horizon_s is None and at_risk >= _FEWEST and (failed <= HORIZON_S).any():
        horizon_s = HORIZON_S
    try:
        incidence = cohort.over_units(
            outcome_by_horizon, cohort.rows, events=events, horizon_s=horizon_s, **SEEN
        )
    except DataError:
        return None
    return incidence.filter(event="failed").row(0, named=True)
