"""Cumulative incidence and survival by runtime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from narwhals.stable.v2.typing import IntoFrame
from scipy.special import stdtrit

from traceana.cohorts.cohort import notes_unit
from traceana.errors import DataError
from traceana.questions.failures.events import (
    EVENTS,
    MIN_AT_RISK,
    Columns,
    Estimates,
    check_events,
    estimate_incidence,
)
from traceana.questions.failures.rates import note_few
from traceana.questions.failures.tables_competing_risks import (
    CumulativeIncidence,
    SurvivalCurves,
    SurvivalQuantiles,
    SurvivalSteps,
)
from traceana.stats.arguments import check_confidence, is_number
from traceana.stats.arrays import Floats
from traceana.stats.quantiles import FEWEST_BEYOND
from traceana.stats.survival import log_log_interval, restricted_mean
from traceana.store.frames import Names, as_keys, beside
from traceana.tables.declare import declared, interval_columns

Keys = tuple[str, ...]

QUANTILES: Final = (0.25, 0.5, 0.75, 0.95, 0.99)  # default quantiles of runtimes
_FEWEST: Final = 20
_FEW: Final = f"fewer than {_FEWEST} rows: the interval of the restricted mean may be too narrow"
_SKEWED: Final = "skewed: the interval of the restricted mean is too narrow"
_UNSEEN: Final = f"fewer than {MIN_AT_RISK} rows at risk at the horizon: no restricted mean"
_FEWER_KNOWN: Final = 0.05  # excess of missing runtimes in one event from which curves have a note
_RESTRICTED: Final = ("restricted_mean_s", "restricted_ci_low", "restricted_ci_high")


@notes_unit
def cumulative_incidence(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    events: Names = EVENTS,
    status: str = "status",
    runtime: str = "runtime_s",
    entry: str | None = None,
    observed: str | None = None,
    cluster: str | None = None,
    confidence: float = 0.95,
) -> CumulativeIncidence:
    """Estimate the cumulative incidence of competing events by the Aalen-Johansen estimator.

    Events compete: a job that failed can no longer complete. A row whose status is one of
    `events` had that event after its runtime. Any other row with a runtime was last seen running
    then (censored), and counts as at risk until then; censoring must not depend on the remaining
    time. Rows without a runtime are excluded and counted. If those of one event lack a runtime more
    often than the others (by 5 percentage points and 3 standard errors), curves are biased, and
    `note` states it.

    Parameters
    ----------
    frame, by, cluster
        As in :func:`outcome_rates`.
    events
        Status values that are events.
    status, runtime
        Columns of the status and the runtime (seconds or a duration).
    entry
        Column of the runtime from which a row was observed (delayed entry, left truncation): 0
        where its start was seen. A row is at risk after its entry. None: all starts were seen.
    observed
        Boolean column: whether the end of a row was seen. Where False, the row is censored at its
        runtime whatever its status. None: all ends were seen.
    confidence
        Coverage of the pointwise intervals, in (0, 1).

    Returns
    -------
    CumulativeIncidence
        ``.curves`` and ``.groups``. Intervals are log-log intervals by the delta
        method, null if the incidence is 0 or 1. With `cluster`, they use the jackknife over
        clusters (:func:`traceana.stats.survival.incidence_variances`), of which more than 100 are
        combined into 100 cells. The quantile is that of t(k - 1) for the effective number of
        clusters k (Kish); there is no interval if k is below 2.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [60, 90, 600], "status": ["failed"] + ["completed"] * 2})
    >>> result = traceana.cumulative_incidence(jobs)
    >>> result.curves.select("event", "time_s", "incidence").head(2).rows()
    [('completed', 90.0, 0.33...), ('completed', 600.0, 0.66...)]
    """
    check_confidence(confidence)
    keys = as_keys(by, *(table.columns() for table in CumulativeIncidence.tables.values()))
    names = check_events(events)
    columns = Columns(status, runtime, entry, observed)
    estimated = estimate_incidence(frame, keys, names, columns=columns, cluster=cluster)
    return _incidence(estimated, confidence)


def incidence_and_survival(
    frame: pl.DataFrame, keys: Keys, names: Keys, /, *, columns: Columns, cluster: str | None
) -> tuple[CumulativeIncidence, SurvivalCurves]:
    """Return :func:`cumulative_incidence` and :func:`kaplan_meier` of rows counted once."""
    estimated = estimate_incidence(frame, keys, names, columns=columns, cluster=cluster)
    return _incidence(estimated, 0.95), _survival(estimated, 0.95, QUANTILES)


def _incidence(estimated: Estimates, confidence: float) -> CumulativeIncidence:
    times, totals, keys, names, *_ = estimated
    curves, groups = [], []
    for event in names:
        share, variance = times[f"{event} incidence"], times[f"{event} variance"]
        ends = log_log_interval(share, variance, df=times["df"], confidence=confidence)
        curve = times.select(
            *(*keys, "time_s", "n_at_risk"),
            event=pl.lit(event),
            n_events=event,
            incidence=share,
            **interval_columns(ends),
        ).filter(pl.col("n_events") > 0)
        curves.append(curve)
        last = curve.group_by(keys, maintain_order=True).last()
        last = last.select(*keys, "incidence", "ci_low", "ci_high")
        none = pl.when(pl.col(event) == 0).then(pl.lit(f"no row with a runtime is {event}"))
        note = none.otherwise(_note_unknown(event, names))
        of_event = totals.with_columns(event=pl.lit(event), n_events=event, note=note)
        groups.append(_note_few_clusters(beside(of_event, last, keys)))
    order = [*keys, "event"]
    return CumulativeIncidence(
        curves=pl.concat(curves).sort([*order, "time_s"], nulls_last=True),
        groups=pl.concat(groups).drop(*names, *_unknown(names)).sort(order, nulls_last=True),
    )


@notes_unit
def kaplan_meier(
    frame: IntoFrame,
    /,
    by: Names = (),
    *,
    events: Names = EVENTS,
    status: str | None = "status",
    runtime: str = "runtime_s",
    entry: str | None = None,
    observed: str | None = None,
    cluster: str | None = None,
    quantiles: Sequence[float] = QUANTILES,
    horizon_s: float | None = None,
    confidence: float = 0.95,
) -> SurvivalCurves:
    """Estimate the survival function, its quantiles and the restricted mean of runtimes.

    By the Kaplan-Meier estimator. All events are treated alike. For one event among several use
    :func:`cumulative_incidence`: here the others would count as censored.

    Parameters
    ----------
    frame, by, events, runtime, entry, observed, cluster, confidence
        As in :func:`cumulative_incidence`.
    status
        Column of the status; None: every row ended unless `observed` is False.
    quantiles
        Probabilities of the quantiles, each in (0, 1).
    horizon_s
        Horizon of the restricted mean: the mean of min(runtime, horizon). None: the largest of 1
        and 10 minutes, 1 and 6 hours, 1, 2 and 7 days at which each group with censored rows has at
        least 10 rows at risk (groups of fewer than 10 rows do not count).

    Returns
    -------
    SurvivalCurves
        ``.curves``, ``.groups`` and ``.quantiles``. The interval of a quantile q contains the
        runtimes whose survival interval contains 1 - q (Brookmeyer and Crowley, Biometrics 38,
        1982). The restricted mean has Student's t interval of n - 1 with n / (n - 1) times the
        variance of :func:`traceana.stats.survival.restricted_mean`, or with `cluster` the t and the
        jackknife of the curves. If rows are censored, it is null with fewer than 10 rows at risk at
        the horizon. With `cluster`, a quantile q has no interval below 1.5 effective clusters times
        min(q, 1 - q). The interval of the restricted mean is too narrow, which `note` states, if
        n < 20 or n < 25 skewness^2 of min(runtime, horizon) (Cochran, Sampling Techniques, 1977,
        section 2.15). The unrestricted mean is estimable only if no row is censored or
        left-truncated.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [60, 90, 600], "status": ["failed"] + ["completed"] * 2})
    >>> curves = traceana.kaplan_meier(jobs, quantiles=[0.5])
    >>> curves.quantiles.select("quantile", "time_s").rows()
    [(0.5, 90.0)]
    >>> round(curves.groups["restricted_mean_s"].item())  # of a week
    250
    """
    check_confidence(confidence)
    keys = as_keys(by, *(table.columns() for table in SurvivalCurves.tables.values()))
    names = ("ended",) if status is None else check_events(events)
    for q in (*quantiles, confidence):
        check_confidence(q)
    if horizon_s is not None and not (is_number(horizon_s) and 0 < horizon_s < math.inf):
        raise DataError(f"horizon_s must be a positive number of seconds; it is {horizon_s!r}")
    columns = Columns(status, runtime, entry, observed)
    estimated = estimate_incidence(
        frame, keys, names, columns=columns, cluster=cluster, horizon_s=horizon_s
    )
    return _survival(estimated, confidence, quantiles)


def _survival(
    estimated: Estimates, confidence: float, quantiles: Sequence[float]
) -> SurvivalCurves:
    times, totals, keys, names, *_ = estimated
    share, variance = times["survival"], times["survival_variance"]
    ends = log_log_interval(share, variance, df=times["df"], confidence=confidence)
    curves = times.with_columns(n_events=pl.sum_horizontal(names), **interval_columns(ends))
    curves = declared(curves.filter(pl.col("n_events") > 0), SurvivalSteps, by=keys)
    of_quantiles = _quantiles(curves, totals, keys, sorted({0.5, *quantiles}))
    table = of_quantiles.filter(quantile=0.5).rename({"time_s": "median_s"})
    table = table.drop("quantile", "note")
    table = beside(table, _restricted(estimated, confidence), keys)
    unknown = (
        pl.when(pl.col("n_events") == 0)
        .then(pl.lit(f"no row with a runtime is {', '.join(names)}"))
        .when(pl.col("median_s").is_null())
        .then(pl.lit("more than half of the rows outlast the observed time"))
        .otherwise(pl.coalesce(*(_note_unknown(event, names) for event in names), "mean_note"))
    )
    groups = beside(totals.with_columns(n_events=pl.sum_horizontal(names)), table, keys)
    groups = _note_few_clusters(groups.with_columns(note=unknown))
    return SurvivalCurves(
        curves=curves,
        groups=groups.drop(*names, *_unknown(names), "mean_note"),
        quantiles=of_quantiles.filter(pl.col("quantile").is_in([*quantiles])),
        horizon_s=float(estimated.horizon_s),
    )


def _quantiles(
    curves: pl.DataFrame, totals: pl.DataFrame, keys: Keys, quantiles: Sequence[float]
) -> pl.DataFrame:
    """Return [*keys, quantile, time_s, ci_low, ci_high, note] of every group."""
    parts = []
    for q in quantiles:
        # a step that ends at 1 - q exactly may lie a rounding above it; a survival of 0 has no
        # interval: its lower end is 0, its upper end unknown
        level = 1 - q + 1e-12
        at_zero = (pl.col("survival") < 1e-12) & pl.col("ci_low").is_not_null().any()
        below = {
            name: pl.when(at_zero).then(pl.lit(unknown)).otherwise(pl.col(name)) <= level
            for name, unknown in (("survival", 0), ("ci_low", 0), ("ci_high", 1))
        }
        # few clusters: an interval may contain 1 - q at the first times, then not for a while
        above = pl.col("time_s").filter(~below["survival"] & ~below["ci_low"]).max()
        after = pl.col("time_s") > above.fill_null(-1.0)
        rows = curves.group_by(keys).agg(
            time_s=pl.col("time_s").filter(below["survival"]).min(),
            ci_low=pl.col("time_s").filter(below["ci_low"] & after).min(),
            ci_high=pl.col("time_s").filter(below["ci_high"]).min(),
        )
        parts.append(beside(totals, rows, keys).with_columns(quantile=pl.lit(q)))
    table = pl.concat(parts).sort([*keys, "quantile"], nulls_last=True)
    probability = pl.col("quantile")
    none = pl.when(pl.col("time_s").is_null()).then(pl.lit("survival stays above 1 - quantile"))
    beyond = pl.col("time_s").is_not_null() & (pl.col("n") * (1 - probability) < 1 - 1e-9)
    far = pl.when(beyond).then(pl.format("beyond 1 - 1/n: the largest of {} rows", "n"))
    notes = [far, none]
    if "effective" in totals.columns:
        tail = pl.min_horizontal(probability, 1 - probability)
        few = pl.col("effective") * tail < FEWEST_BEYOND
        why = pl.format(
            "no interval: equivalent to {} units of equal size; {} are needed",
            pl.col("effective").round(1),
            (FEWEST_BEYOND / tail).ceil().cast(pl.Int64),
        )
        table = table.with_columns(pl.when(~few).then(pl.col("ci_low", "ci_high")))
        notes = [far, pl.when(few).then(why), none]
    return declared(table.with_columns(note=pl.coalesce(notes)), SurvivalQuantiles, by=keys)


def _restricted(estimated: Estimates, confidence: float) -> pl.DataFrame:
    """Return [*keys, restricted_mean_s, restricted_ci_low, restricted_ci_high] of every group."""
    times, keys, horizon_s, rows = estimated.times, estimated.keys, estimated.horizon_s, []
    for key, of_group in times.group_by(keys, maintain_order=True) if keys else [((), times)]:
        t, s = of_group["time_s"].to_numpy(), of_group["survival"].to_numpy()
        row = dict(zip(keys, key, strict=True)) | dict.fromkeys((*_RESTRICTED, "mean_note"))
        end = min(horizon_s, t[-1]) if len(t) and s[-1] < 1e-12 else horizon_s
        left = int((of_group["n"] - of_group["late"]).filter(of_group["time_s"] >= end).sum())
        complete = of_group["n_censored"].sum() == 0
        if len(t) and not (complete or left >= MIN_AT_RISK):
            row["mean_note"] = _UNSEEN
        elif len(t):
            mean, variance = restricted_mean(
                t, s, of_group["hazard_variance"].to_numpy(), horizon_s
            )
            n = int(of_group["n"].sum())
            df, variance = n - 1, variance * n / max(n - 1, 1)
            if estimated.cluster is not None:
                df, variance = of_group["df"][0], of_group["restricted_variance"][0]
            half = float(stdtrit(df, (1 + confidence) / 2)) * math.sqrt(variance)
            row["restricted_mean_s"] = mean
            if half > 0:  # not NaN
                ends = max(0.0, mean - half), min(horizon_s, mean + half)
                row |= zip(_RESTRICTED[1:], ends, strict=True)
                if n < 25 * _skewness(t, s, mean, horizon_s) ** 2:
                    row["mean_note"] = _SKEWED
                elif n < _FEWEST:
                    row["mean_note"] = _FEW
        rows.append(row)
    schema = pl.Schema(times.select(keys).schema) | dict.fromkeys(_RESTRICTED, pl.Float64())
    schema["mean_note"] = pl.String()
    return pl.DataFrame(rows, schema=schema)


def _skewness(times: Floats, surviving: Floats, mean: float, horizon: float) -> float:
    at = np.append(np.minimum(times, horizon), horizon)
    mass = -np.diff(np.concatenate([[1.0], surviving, [0.0]]))
    variance = float(mass @ (at - mean) ** 2)
    return float(mass @ (at - mean) ** 3) / variance**1.5 if variance > 0 else math.inf


def _unknown(events: Keys) -> list[str]:
    return [f"{event} unknown" for event in events]


def _note_unknown(event: str, events: Keys) -> pl.Expr:
    """Return a note where rows of one event lack a runtime much more often than the others."""
    ended, unknown = pl.sum_horizontal(events), pl.sum_horizontal(_unknown(events))
    missing, rows = pl.col(f"{event} unknown"), pl.col(f"{event} unknown") + pl.col(event)
    others = ended + unknown - rows
    excess = missing / rows - (unknown - missing) / others
    # the difference of two fractions, against its standard error without a difference
    pooled = unknown / (ended + unknown)
    error = (pooled * (1 - pooled) * (1 / rows + 1 / others)).sqrt()
    return pl.when((others > 0) & (rows > 0) & (excess > _FEWER_KNOWN) & (excess > 3 * error)).then(
        pl.format(
            "biased: {} of {} rows of status {} have no runtime, {} of {} of the other events",
            missing,
            rows,
            pl.lit(event),
            unknown - missing,
            others,
        )
    )


def _note_few_clusters(groups: pl.DataFrame) -> pl.DataFrame:
    if "effective" not in groups.columns:
        return groups
    why = note_few(pl.col("n_clusters"), pl.col("effective"))
    return groups.with_columns(note=pl.coalesce("note", why)).drop("effective")
