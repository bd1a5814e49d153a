"""Failure of all rows of a cohort: the rate, what has not ended, and the cumulative incidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from traceana.cohorts.cohort import count_not_ended, form_cohort, is_censored, outcome_cohort
from traceana.errors import DataError
from traceana.questions.failures.hazards import outcome_by_horizon
from traceana.questions.failures.rates import failure_rates

if TYPE_CHECKING:
    from traceana.store import Trace

HORIZON_S: Final = 86_400.0
"""Runtime by which the cumulative incidence is stated, if enough rows are at risk then."""
_FEWEST: Final = 10
_NOTICED: Final = 0.01
"""Fraction of rows without an end from which the bias is stated."""


@dataclass(frozen=True)
class Failure:
    """Failure of the rows of a trace."""

    rate: dict[str, Any]
    """Row of :func:`failure_rates` over all rows."""
    n: int
    n_not_ended: int
    """Rows, and those neither completed, failed nor cancelled."""
    incidence: dict[str, Any] | None
    """Row of :func:`outcome_by_horizon` for failure; None if there is none."""
    is_censored: bool
    """Whether the incidence is the headline: many rows have not ended, and ten or more failed."""
    too_high: bool | None
    """Whether rows that fail do so sooner than others complete, which makes the rate too high."""

    @property
    def not_ended(self) -> float:
        """Fraction of the rows that have not ended."""
        return self.n_not_ended / max(self.n, 1)

    def bias(self, noun: str, /) -> str:
        """Return what has not ended and which way that biases the rate; empty if all has."""
        if self.not_ended < _NOTICED:
            return ""
        way = "biased towards the outcome of short ones"
        if self.too_high is not None:
            way = "likely too high, since failures come sooner than completions"
            if not self.too_high:
                way = "likely too low, since failures come later than completions"
        return f"{100 * self.not_ended:.2g} % of all {noun} reached no end state: the rate is {way}"


def overall_failure(trace: Trace, /) -> Failure:
    """Return the failure rate of a cohort, and the cumulative incidence by a runtime."""
    cohort = form_cohort(trace)
    rows, status = cohort.rows, pl.col("status").cast(pl.String)
    [rate] = failure_rates(rows, (), cluster=cohort.cluster).rows(named=True)
    medians = [
        rows.select(pl.col("duration_s").filter(status == ending).median()).item()
        for ending in ("failed", "completed")
    ]
    too_high = None
    if isinstance(medians[0], float) and isinstance(medians[1], float):
        too_high = medians[0] < medians[1]
    incidence = _incidence(trace)
    censored = incidence is not None and is_censored(cohort) and rate["failures"] >= _FEWEST
    return Failure(rate, rows.height, count_not_ended(cohort), incidence, censored, too_high)


def _incidence(trace: Trace) -> dict[str, Any] | None:
    cohort = form_cohort(trace, end_imputation="running")
    events = cohort.events
    if "failed" not in events:
        return None
    horizon_s = trace.once(outcome_cohort).horizon_s
    failed = cohort.rows.filter(pl.col("status").cast(pl.String) == "failed")["duration_s"]
    at_risk = (cohort.rows["duration_s"] >= HORIZON_S).sum()
    if horizon_s is None and at_risk >= _FEWEST and (failed <= HORIZON_S).any():
        horizon_s = HORIZON_S
    try:
        incidence = outcome_by_horizon(
            cohort.rows,
            events=events,
            horizon_s=horizon_s,
            runtime="duration_s",
            entry="entry_s",
            observed="observed",
            cluster=cohort.cluster,
        )
    except DataError:
        return None
    return incidence.filter(event="failed").row(0, named=True)
