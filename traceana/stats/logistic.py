"""Logistic regression with clustered standard errors, its calibration, and odds ratios."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import scipy  # scipy.stats and scipy.optimize are slow to import and loaded when used
from scipy.special import chdtrc, chdtri, expit, fdtrc, logit, ndtri, stdtr, stdtrit

from traceana.errors import DataError
from traceana.stats.arrays import Booleans, Floats, Integers
from traceana.stats.intervals import FEWEST_CLUSTERS

_ALL: Final = 1 - 1e-9  # fraction of the information that leaves none to the other clusters


class LogisticFit(NamedTuple):
    """Coefficients on the log-odds scale, one per column of the design."""

    coefficient: Floats
    std_error: Floats
    ci_low: Floats
    ci_high: Floats
    pvalue: Floats
    covariance: Floats
    """Of the coefficients."""


class JointTest(NamedTuple):
    """Wald test that several coefficients are 0."""

    statistic: float
    df: int
    error_df: float
    pvalue: float


class Calibration(NamedTuple):
    """Accuracy of predicted probabilities; NaN where undefined."""

    brier: float
    """Mean squared error."""
    auc: float
    """Area under the ROC curve."""
    intercept: float
    slope: float
    """Of the regression of outcomes on the predicted log odds; 0 and 1 if calibrated."""


def fit_logistic(
    design: Floats, failed: Floats, cluster: Integers | None, /, *, confidence: float
) -> LogisticFit:
    """Fit a logistic regression by maximum likelihood (statsmodels), with robust standard errors.

    Independent rows: HC1. Clusters: the jackknife CV3 (MacKinnon, Nielsen and Webb, J. Applied
    Econometrics 38, 2023); NaN for a coefficient of a single cluster.
    """
    rows, columns = design.shape
    if rows <= columns:
        raise DataError(f"{rows} row(s) are too few for the {columns} coefficients of the model")
    beta, covariance = _fit(design, failed, cluster)
    error = np.sqrt(np.diag(covariance))
    df = len(failed) - design.shape[1] if cluster is None else int(cluster.max())
    half = stdtrit(df, (1 + confidence) / 2) * error
    pvalue = 2 * stdtr(df, -np.abs(beta / error))
    return LogisticFit(beta, error, beta - half, beta + half, pvalue, covariance)


def joint_test(fit: LogisticFit, columns: Sequence[int], error_df: float, /) -> JointTest:
    """Test that coefficients are 0 by Hotelling's F of Wald's b' V^-1 b; NaN if V is singular."""
    at = list(columns)
    b, v, q = fit.coefficient[at], fit.covariance[np.ix_(at, at)], len(at)
    if not np.isfinite(v).all() or np.linalg.matrix_rank(v) < q or error_df < q:
        return JointTest(np.nan, q, error_df, np.nan)
    w = float(b @ np.linalg.solve(v, b))
    if np.isinf(error_df):
        return JointTest(w, q, error_df, float(chdtrc(q, w)))
    left = error_df - q + 1
    return JointTest(w, q, error_df, float(fdtrc(q, left, w * left / (error_df * q))))


def dependent_columns(design: Floats, /) -> list[list[int]]:
    """Return columns that are linear combinations of earlier ones, each with those."""
    # only the triangle: there may be many rows
    triangle: Floats = np.asarray(np.linalg.qr(design / np.linalg.norm(design, axis=0), mode="r"))
    groups: list[list[int]] = []
    kept: list[int] = []
    for column in range(design.shape[1]):
        if kept:
            before, column_of_r = triangle[:, kept], triangle[:, column]
            weights = np.linalg.lstsq(before, column_of_r, rcond=None)[0]
            if np.linalg.norm(column_of_r - before @ weights) < 1e-9:  # of columns of length 1
                independent = [kept[at] for at in np.flatnonzero(np.abs(weights) > 1e-6)]
                groups.append([column, *independent])
                continue
        kept.append(column)
    return groups


def predict_held_out(design: Floats, failed: Floats, fold: Integers, /) -> Floats:
    """Return each row's probability of failure by the fit to the other folds; NaN without a fit."""
    chance = np.full(len(failed), np.nan)
    for part in range(int(fold.max()) + 1):
        held = fold == part
        rest = failed[~held]
        if not held.any() or len(np.unique(rest)) < 2:
            continue
        try:
            beta, _ = _fit(design[~held], rest, None)
        except DataError:
            continue
        chance[held] = expit(design[held] @ beta)
    return chance


def calibrate(chance: Floats, failed: Floats, /) -> Calibration:
    """Compare predicted probabilities with outcomes."""
    brier = float(((chance - failed) ** 2).mean())
    failures = failed.sum()
    successes = len(failed) - failures
    if not failures or not successes:
        return Calibration(brier, np.nan, np.nan, np.nan)
    above = scipy.stats.rankdata(chance)[failed == 1].sum() - failures * (failures + 1) / 2
    auc = float(above / (failures * successes))
    log_odds = logit(chance.clip(1e-12, 1 - 1e-12))
    spread = log_odds.std()
    if spread < 1e-12:
        return Calibration(brier, auc, np.nan, np.nan)
    center = log_odds.mean()
    scaled = np.stack([np.ones(len(chance)), (log_odds - center) / spread], axis=1)
    try:
        (middle, steep), _ = _fit(scaled, failed, None)
    except DataError:
        return Calibration(brier, auc, np.nan, np.nan)
    slope = float(steep / spread)
    return Calibration(brier, auc, float(middle) - slope * float(center), slope)


def _fit(design: Floats, failed: Floats, cluster: Integers | None) -> tuple[Floats, Floats]:
    """Return the coefficients and their covariance."""
    from statsmodels.discrete.discrete_model import Logit  # noqa: PLC0415

    no_odds = DataError(
        "the logistic model has no finite odds ratios: its features separate failures from the "
        "rest without an error (separation); remove one"
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            fit = Logit(failed, design).fit(disp=False, maxiter=50, cov_type="HC0")
        except np.linalg.LinAlgError:
            raise no_odds from None
        beta = np.asarray(fit.params, dtype=float)
        error = np.sqrt(np.diag(np.asarray(fit.normalized_cov_params)))
    scale = np.where(design.std(axis=0) > 0, design.std(axis=0), 1.0)
    # with an unbounded likelihood, rounding stops the coefficients far out
    finite = (np.abs(beta) * scale < 15).all() and (error * scale < 30).all()
    if not (fit.mle_retvals["converged"] and finite):
        raise no_odds
    if cluster is not None:
        return beta, _jackknife_covariance(design, failed - expit(design @ beta), beta, cluster)
    covariance = np.asarray(fit.cov_params(), dtype=float)
    # cov_type="HC1" of statsmodels has this factor for linear models only
    return beta, covariance * len(failed) / (len(failed) - design.shape[1])


def _jackknife_covariance(
    design: Floats, residual: Floats, beta: Floats, cluster: Integers
) -> Floats:
    """Return the jackknife covariance of the coefficients over clusters."""
    chance = expit(design @ beta)
    information = (design * (chance * (1 - chance))[:, None]).T @ design
    # standardized so that the information is the identity, and a cluster's part is from 0 to 1
    root = np.linalg.inv(np.linalg.cholesky(information)).T
    columns = design @ root
    order = np.argsort(cluster, kind="stable")
    starts = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    score = np.add.reduceat((columns * residual[:, None])[order], starts)
    weighted = columns * np.sqrt(chance * (1 - chance))[:, None]
    moved, alone = np.empty_like(score), np.zeros(len(beta), dtype=bool)
    for at, rows in enumerate(np.split(order, starts[1:])):
        share, axes = np.linalg.eigh(weighted[rows].T @ weighted[rows])
        whole = share > _ALL
        moved[at] = axes @ ((axes.T @ score[at]) / np.where(whole, np.inf, 1 - share))
        if whole.any():
            reach = np.abs(root @ axes[:, whole]).max(axis=1)
            alone |= reach > 1e-6 * np.linalg.norm(root, axis=1)
    moved = moved @ root.T
    moved[:, alone] = np.nan
    return moved.T @ moved * ((len(starts) - 1) / len(starts))


_STEPS: Final = 200
_LONGEST: Final = 2.0  # of a step, in log odds of a standardized column
_FAR: Final = 50.0  # log odds at which the search for an end of an interval stops


def fit_firth(design: Floats, failed: Floats, /, *, confidence: float) -> LogisticFit:
    """Fit by Firth's penalized likelihood (Biometrika 80, 1993), with profile intervals and p.

    Heinze and Schemper, Statistics in Medicine 21, 2002.
    """
    free = np.ones(design.shape[1], dtype=bool)
    beta, best = _climb(design, failed, np.zeros(design.shape[1]), free)
    covariance = np.asarray(np.linalg.inv(_information(design, beta)), dtype=np.float64)
    error = np.sqrt(np.diag(covariance))
    drop = float(chdtri(1, 1 - confidence)) / 2
    low, high = np.full(len(beta), np.nan), np.full(len(beta), np.nan)
    pvalue = np.full(len(beta), np.nan)
    for column in range(1, len(beta)):
        others = free.copy()
        others[column] = False

        def loss(value: float, column: int = column, others: Booleans = others) -> float:
            start = beta.copy()
            start[column] = value
            return best - _climb(design, failed, start, others)[1]

        pvalue[column] = chdtrc(1, max(2 * loss(0.0), 0.0))
        for ends, sign in ((low, -1), (high, 1)):
            step = 2 * error[column]
            while step < _FAR and loss(beta[column] + sign * step) < drop:
                step *= 1.5
            if step < _FAR:
                ends[column] = scipy.optimize.brentq(
                    lambda value, loss=loss: loss(value) - drop,
                    beta[column],
                    beta[column] + sign * step,
                    xtol=1e-6,
                )
    return LogisticFit(beta, error, low, high, pvalue, covariance)


def _information(design: Floats, beta: Floats) -> Floats:
    chance = expit(design @ beta)
    return (design * (chance * (1 - chance))[:, None]).T @ design


def _penalized(design: Floats, failed: Floats, beta: Floats) -> float:
    score = design @ beta
    _, half = np.linalg.slogdet(_information(design, beta))
    return float(failed @ score - np.logaddexp(0, score).sum() + half / 2)


def _climb(design: Floats, failed: Floats, start: Floats, free: Booleans) -> tuple[Floats, float]:
    """Return the maximum over the free coefficients."""
    beta, value = start.copy(), _penalized(design, failed, start)
    for _ in range(_STEPS if free.any() else 0):
        chance = expit(design @ beta)
        weighted = design * np.sqrt(chance * (1 - chance))[:, None]
        inverse = np.linalg.pinv(weighted.T @ weighted)
        leverage = np.einsum("ij,jk,ik->i", weighted, inverse, weighted)
        score = design.T @ (failed - chance + leverage * (0.5 - chance))
        information = (weighted.T @ weighted)[np.ix_(free, free)]
        step = np.linalg.pinv(information) @ score[free]
        step *= min(1.0, _LONGEST / max(np.abs(step).max(), 1e-300))
        for _halving in range(30):
            trial = beta.copy()
            trial[free] += step
            penalized = _penalized(design, failed, trial)
            if penalized >= value - 1e-12:
                break
            step /= 2
        else:
            break
        gain, beta, value = penalized - value, trial, penalized
        if gain < 1e-11 and np.abs(step).max() < 1e-7:
            break
    return beta, value


class PooledOdds(NamedTuple):
    """An odds ratio over strata; NaN where undefined."""

    odds_ratio: float
    ci_low: float
    ci_high: float
    pvalue: float
    """Cochran-Mantel-Haenszel test."""
    pvalue_homogeneity: float
    """Breslow-Day test; NaN for a single stratum."""
    n_strata: int
    """Informative strata: with both groups and both outcomes."""


def odds_ratio(table: Floats, /, *, confidence: float) -> tuple[float, float, float]:
    """Return the odds ratio of a 2 x 2 table with Woolf's interval (1955); NaN if a cell is 0."""
    if (table == 0).any():
        return np.nan, np.nan, np.nan
    log = np.log(table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0]))
    half = ndtri((1 + confidence) / 2) * np.sqrt((1 / table).sum())
    return float(np.exp(log)), float(np.exp(log - half)), float(np.exp(log + half))


def pooled_odds(tables: Floats, /, *, confidence: float) -> PooledOdds:
    """Return the Mantel-Haenszel odds ratio of [stratum, group, (failures, successes)].

    Variance of Robins, Breslow and Greenland (1986); Breslow and Day's test as Tarone's (1985).
    """
    from statsmodels.stats.contingency_tables import StratifiedTable  # noqa: PLC0415

    informative = (tables.sum(axis=1) > 0).all(axis=1) & (tables.sum(axis=2) > 0).all(axis=1)
    kept = tables[informative]
    nothing = PooledOdds(np.nan, np.nan, np.nan, np.nan, np.nan, len(kept))
    if not len(kept):
        return nothing
    n = kept.sum(axis=(1, 2))
    agree, disagree = kept[:, 0, 0] * kept[:, 1, 1] / n, kept[:, 0, 1] * kept[:, 1, 0] / n
    table = StratifiedTable([stratum + 0.0 for stratum in kept])
    # from the statistic: statsmodels returns 0 for a p-value below 1e-16
    pvalue = float(chdtrc(1, table.test_null_odds(correction=False).statistic))
    if not agree.sum() or not disagree.sum():
        return nothing._replace(pvalue=pvalue)
    low, high = table.oddsratio_pooled_confint(alpha=1 - confidence)
    ratio = float(table.oddsratio_pooled)
    equal = np.nan
    if len(kept) > 1:
        # statsmodels divides by 0 where the ratio is 1 exactly
        nudge = 1e-6 * (abs(ratio - 1) < 1e-9)
        moved = StratifiedTable([stratum + np.diag([nudge, nudge]) for stratum in kept])
        equal = float(chdtrc(len(kept) - 1, moved.test_equal_odds(adjust=True).statistic))
    return PooledOdds(ratio, float(low), float(high), pvalue, equal, len(kept))


class ClusteredOdds(NamedTuple):
    """Intervals and a test for rows in clusters; NaN where undefined."""

    crude_ci_low: float
    crude_ci_high: float
    ci_low: float
    ci_high: float
    pvalue: float
    """Of a pooled odds ratio of 1."""


def clustered_odds(tables: Floats, /, *, confidence: float) -> ClusteredOdds:
    """Return intervals of the crude and the pooled odds ratio for rows in clusters.

    Jackknife of the logarithms (Efron, 1982), t(k - 1) with Kish's k effective clusters.
    """
    present = tables[tables.sum(axis=(1, 2, 3)) > 0]
    total, sizes = present.sum(axis=0), present.sum(axis=(1, 3))
    effective = float((sizes.sum(axis=0) ** 2 / (sizes**2).sum(axis=0)).min())
    if effective < FEWEST_CLUSTERS:
        return ClusteredOdds(*[np.nan] * 5)
    whole, left = _log_odds(total[None])[0], _log_odds(total - present)
    error = np.sqrt((len(present) - 1) / len(present) * ((left - whole) ** 2).sum(axis=0))
    half = stdtrit(effective - 1, (1 + confidence) / 2) * error
    (crude_low, low), (crude_high, high) = np.exp(whole - half), np.exp(whole + half)
    pvalue = 2 * stdtr(effective - 1, -abs(whole[1]) / error[1]) if error[1] > 0 else np.nan
    return ClusteredOdds(*map(float, (crude_low, crude_high, low, high, pvalue)))


def _log_odds(tables: Floats) -> Floats:
    """Return the log of the crude and of the pooled odds ratio of each set of strata, or NaN."""
    n = np.maximum(tables.sum(axis=(2, 3)), 1)
    crude = tables.sum(axis=1)
    agree = tables[:, :, 0, 0] * tables[:, :, 1, 1] / n
    disagree = tables[:, :, 0, 1] * tables[:, :, 1, 0] / n
    above = np.stack([crude[:, 0, 0] * crude[:, 1, 1], agree.sum(axis=1)], axis=1)
    below = np.stack([crude[:, 0, 1] * crude[:, 1, 0], disagree.sum(axis=1)], axis=1)
    positive = (above > 0) & (below > 0)
    return np.where(
        positive, np.log(np.where(positive, above, 1) / np.where(positive, below, 1)), np.nan
    )
