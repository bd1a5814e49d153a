"""Distributions of the runtimes of a trace."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import polars as pl

from traceana.cohorts.cohort import MOST_NOT_ENDED, Cohort, count_cut, form_cohort
from traceana.questions.failures.curves import kaplan_meier
from traceana.questions.runtimes.distributions import tail_index
from traceana.questions.runtimes.fit import fit_distributions
from traceana.questions.runtimes.tables import BestFamilies, DistributionFits, RuntimeSensitivity
from traceana.store import Trace
from traceana.tables.declare import declared

_SEEN: Final[dict[str, Any]] = {"runtime": "duration_s", "entry": "entry_s", "observed": "observed"}
Median: TypeAlias = tuple[float | None, float | None, float | None]
REFITS: Final = 199  # resamples for the p-value of the best family
SEED: Final = 1
MOST_ROWS: Final = 200_000  # more runtimes are sampled at random


@dataclass(frozen=True)
class RuntimeDistributions:
    """Distributions of runtimes, overall and by group."""

    n: int
    n_timed: int
    n_positive: int
    n_used: int
    """Rows, those with a runtime (or still running), of these those above 0, and those that were
    analyzed."""
    bound: float | None
    """Smallest runtime, if the trace is left-truncated."""
    median: Median
    """Of all rows, that of Kaplan-Meier if some are truncated or censored: without an interval if
    the log is complete and few jobs still run, else with one over independent units, if any."""
    fits: DistributionFits | None = None
    pvalue: float | None = None
    """The families (None for fewer than two distinct runtimes), and p of the best."""
    tail: pl.DataFrame | None = None
    """Tail index for several numbers of largest runtimes."""
    sensitivity: pl.DataFrame | None = None
    """Estimates with truncation and censoring, ignoring both, and without these rows; None if no
    row is truncated or censored."""
    groups: pl.DataFrame | None = None
    """Best family of each group; None without two groups."""


def analyze_runtime_distributions(trace: Trace, /) -> RuntimeDistributions:
    """Fit distributions to the runtimes of a trace, and compare its groups."""
    cohort = form_cohort(trace)
    table = trace.manifest.tables["tasks" if cohort.from_tasks else "jobs"]
    columns = ("duration_s", "entry_s", "observed", cohort.by, *cohort.unit_columns)
    timed = cohort.rows.select({*filter(None, columns)}).drop_nulls("duration_s")
    positive = rows = timed.filter(pl.col("duration_s") > 0)
    if rows.height > MOST_ROWS:
        rows = rows.sample(MOST_ROWS, seed=SEED)
    runtimes = rows["duration_s"]
    seen: dict[str, Any] = {"entry": rows["entry_s"], "observed": rows["observed"]}
    bound = float(min(runtimes)) if table.left_truncated and len(runtimes) else None
    n_rows = (cohort.rows.height, timed.height, positive.height, rows.height)
    counts = (*n_rows, bound, _median(timed, cohort))
    if runtimes.n_unique() < 2:
        return RuntimeDistributions(*counts)
    truncated = None if bound is None else "min"
    unit = _codes(rows, cohort.cluster)
    seen["cluster"] = unit
    fits = fit_distributions(
        runtimes, truncated_below=truncated, criterion="bic", resamples=0, **seen
    )
    pvalue = None
    if fits.best is not None:
        best = fit_distributions(
            runtimes,
            families=[fits.best],
            truncated_below=truncated,
            rng=SEED,
            resamples=None if unit is None else REFITS,
            **seen,
        )
        pvalue = best.table["ks_pvalue"].item()
    n = len(runtimes)
    largest = sorted({k for k in (int(n**0.5), n // 50, n // 20, n // 10) if 1 <= k < n})
    groups = None if cohort.by is None else _best_families(rows, cohort.by, bound, cohort.cluster)

    def tails(rows: pl.DataFrame, cluster: str | None) -> pl.DataFrame:
        options = seen | {"cluster": _codes(rows, cluster)}
        return tail_index(runtimes, k=largest or None, **options)

    tail = cohort.over_units(tails, rows)
    return RuntimeDistributions(*counts, fits, pvalue, tail, _sensitivity(rows, truncated), groups)


def _codes(rows: pl.DataFrame, unit: str | None) -> pl.Series | None:
    """Return the codes of independent units; None without two of them."""
    if unit is None or rows[unit].n_unique() < 2:
        return None
    return rows[unit].rank("dense").cast(pl.Int64)


def _median(rows: pl.DataFrame, cohort: Cohort) -> Median:
    """Return the median of all rows; that of a log in which few still run has no interval."""
    if rows.is_empty():
        return None, None, None
    cut, is_census = count_cut(rows), cohort.observation is not None and not cohort.sampled
    if not cut:
        median = rows["duration_s"].quantile(0.5, "linear")
        if is_census:
            return median, None, None
        low, high = cohort.median_interval(rows, rows["duration_s"])
        return (median, None, None) if math.isnan(low) else (median, low, high)
    curve = cohort.over_units(kaplan_meier, rows, quantiles=(0.5,), status=None, **_SEEN)
    low, middle, high = curve.quantiles.select("ci_low", "time_s", "ci_high").row(0)
    if cut <= MOST_NOT_ENDED * rows.height and is_census:
        return middle, None, None
    return middle, low, high


def median_above(cohort: Cohort, bound_s: float, /) -> tuple[float | None, int]:
    """Return the median of the runtimes of a bound and more, and how many there are."""
    rows = cohort.rows.filter(pl.col("duration_s") >= bound_s)
    entry = pl.when(pl.col("entry_s") > bound_s).then("entry_s").otherwise(0.0)
    return _median(rows.with_columns(entry_s=entry), cohort)[0], rows.height


def _sensitivity(rows: pl.DataFrame, truncated: str | None) -> pl.DataFrame | None:
    whole = pl.col("observed") & (pl.col("entry_s") == 0)
    if rows.select(whole.all()).item():
        return None
    ignored = rows.with_columns(entry_s=pl.lit(0.0), observed=pl.lit(value=True))
    treatments: list[dict[str, Any]] = []
    for name, treated in (
        ("delayed entry and censoring", rows),
        ("ignored", ignored),
        ("rows dropped", rows.filter(whole)),
    ):
        seen: dict[str, Any] = {"entry": treated["entry_s"], "observed": treated["observed"]}
        horizon_s = treatments[0]["horizon_s"] if treatments else None
        survival = kaplan_meier(treated, horizon_s=horizon_s, status=None, **_SEEN)
        fits = fit_distributions(
            treated["duration_s"], truncated_below=truncated, criterion="bic", resamples=0, **seen
        )
        tail = tail_index(treated["duration_s"], **seen)
        row = survival.groups.select("n", "median_s", "restricted_mean_s").row(0, named=True)
        row |= {"treatment": name, "horizon_s": survival.horizon_s, "best": fits.best}
        row["mean_s"] = None if count_cut(treated) else treated["duration_s"].mean()
        row["tail_index"] = tail["tail_index"].item()
        treatments.append(row)
    return declared(pl.DataFrame(treatments), RuntimeSensitivity)


def _best_families(
    rows: pl.DataFrame, by: str, bound: float | None, unit: str | None
) -> pl.DataFrame | None:
    """Return the best and the second family of each group; None if there are not several."""
    grouped = rows.filter(pl.col(by).is_not_null()).sort(by)
    if grouped[by].n_unique() < 2:
        return None
    best = []
    for (group,), of_group in grouped.group_by(by, maintain_order=True):
        seen: dict[str, Any] = {"entry": of_group["entry_s"], "observed": of_group["observed"]}
        options: dict[str, Any] = {"truncated_below": bound, "criterion": "bic", "resamples": 0}
        options["cluster"] = _codes(of_group, unit)
        fits = fit_distributions(of_group["duration_s"], **seen, **options)
        first, second = fits.table.head(2).rows(named=True)
        against = fits.comparisons.filter(family=second["family"])["pvalue_adjusted"]
        row = {by: group, "n": of_group.height, "best": fits.best, "delta": second["delta"]}
        row["ks_statistic"] = first["ks_statistic"]
        row["second"] = None if second["bic"] is None else second["family"]
        row["pvalue_adjusted"] = against.item() if len(against) else None
        best.append(row | {"note": first["note"] if fits.best is None else None})
    return declared(pl.DataFrame(best, infer_schema_length=None), BestFamilies, by=(by,))
