"""Results of time-to-event analyses: survival and cumulative incidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import polars as pl

from traceana.errors import DataError
from traceana.tables.declare import ResultTable, ci, count, fraction, number, seconds, text
from traceana.tables.result import Result

_TRUNCATED = "rows observed from a runtime above 0 (delayed entry), only with `entry`"


class IncidenceSteps(ResultTable):
    """Steps of the cumulative incidence of each event."""

    event = text("Event", "status value that is the event")
    time_s = seconds("Time", "runtime at which rows had the event")
    n_at_risk = count("At risk", "rows at risk just before")
    n_events = count("Events", "rows with the event at this time")
    incidence = fraction("Cumulative incidence", "Aalen-Johansen estimate")
    ci_low, ci_high = ci("pointwise log-log interval", display="percent")


class IncidenceGroups(ResultTable):
    """Rows of each group, and the cumulative incidence at the last time."""

    event = text("Event", "status value that is the event")
    n = count("Rows", "rows with a runtime")
    n_events = count("Events", "rows with the event")
    n_censored = count("Censored", "rows whose event is unknown: still running when last seen")
    n_truncated = count("Left-truncated", _TRUNCATED)
    n_excluded = count("Excluded", "rows without a runtime")
    incidence = fraction("Cumulative incidence", "at the last time")
    ci_low, ci_high = ci(display="percent")
    last_s = seconds("Last time", "longest runtime")
    note = text("Note", "why a value is null, or curves are biased")
    n_clusters = count("Clusters", "clusters, only with `cluster`", optional=True)


class IncidenceAtTimes(IncidenceGroups):
    """Cumulative incidence within one hour, within one day and at the last time."""

    incidence_1h = fraction("Within 1 h", "cumulative incidence at 1 h")
    ci_low_1h, ci_high_1h = ci(display="percent")
    incidence_24h = fraction("Within 1 d", "cumulative incidence at 1 d")
    ci_low_24h, ci_high_24h = ci(display="percent")


class SurvivalSteps(ResultTable):
    """Steps of the survival function."""

    time_s = seconds("Time", "runtime at which rows ended")
    n_at_risk = count("At risk", "rows at risk just before")
    n_events = count("Events", "rows that ended at this time")
    survival = fraction("Survival", "Kaplan-Meier estimate")
    ci_low, ci_high = ci("pointwise log-log interval (Greenwood's variance)", display="percent")


class SurvivalGroups(ResultTable):
    """Rows of each group, and the median time to any event."""

    n = count("Rows", "rows with a runtime")
    n_events = count("Events", "rows that ended")
    n_censored = count("Censored", "rows still running when last seen")
    n_truncated = count("Left-truncated", _TRUNCATED)
    n_excluded = count("Excluded", "rows without a runtime")
    median_s = seconds("Median", "first time with survival at most 1/2")
    ci_low, ci_high = ci(display="duration", unit="s")
    restricted_mean_s = seconds("Restricted mean", "mean of min(runtime, horizon)")
    restricted_ci_low, restricted_ci_high = ci(display="duration", unit="s")
    last_s = seconds("Last time", "longest runtime")
    note = text("Note", "why a value is null, or curves are biased")
    n_clusters = count("Clusters", "clusters, only with `cluster`", optional=True)


class SurvivalQuantiles(ResultTable):
    """Quantiles of the time to any event."""

    quantile = number("Quantile", "probability", display="plain")
    time_s = seconds(
        "Runtime", "first time with survival at most 1 - quantile; null if it stays above"
    )
    ci_low, ci_high = ci("its interval; null if unbounded", display="duration", unit="s")
    note = text("Note", "why a value is null")


@dataclass(frozen=True, repr=False, eq=False)
class CumulativeIncidence(Result):
    """Cumulative incidence of competing events, from :func:`traceana.cumulative_incidence`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [60, 90, 600], "status": ["failed"] + ["completed"] * 2})
    >>> result = traceana.cumulative_incidence(jobs)
    >>> result.only("failed").incidence_at(80)["incidence"].round(3).item()
    0.333
    """

    curves: Annotated[pl.DataFrame, IncidenceSteps]
    """One row per group, event and time at which a row had the event."""
    groups: Annotated[pl.DataFrame, IncidenceGroups]
    """One row per group and event."""
    drawn_by = "plot_cumulative_incidence"
    summarized = (
        (
            "groups",
            "event",
            "n",
            "n_events",
            "n_censored",
            "incidence",
            "ci_low",
            "ci_high",
            "note",
        ),
    )

    @property
    def by(self) -> list[str]:
        """Columns of the groups."""
        return self.groups.columns[: self.groups.columns.index("event")]

    @property
    def events(self) -> list[str]:
        """The events, in alphabetical order."""
        return self.groups["event"].unique().sort().to_list()

    def only(self, event: str, /) -> CumulativeIncidence:
        """Return the result of one event."""
        if event not in self.events:
            raise DataError(f"event must be one of {', '.join(self.events)}; it is {event!r}")
        return replace(
            self, curves=self.curves.filter(event=event), groups=self.groups.filter(event=event)
        )

    def incidence_at(self, time_s: float, /) -> pl.DataFrame:
        """Return [*by, event, incidence, ci_low, ci_high] of each curve at a runtime."""
        keys = [*self.by, "event"]
        steps = self.curves.filter(pl.col("time_s") <= time_s)
        last = steps.group_by(keys, maintain_order=True).last()
        seen = self.groups.filter(pl.col("n_events") > 0).select(keys)
        table = seen.join(last, on=keys, how="left", nulls_equal=True, maintain_order="left")
        return table.select(*keys, pl.col("incidence").fill_null(0.0), "ci_low", "ci_high")


@dataclass(frozen=True, repr=False, eq=False)
class SurvivalCurves(Result):
    """Survival functions, from :func:`traceana.kaplan_meier`.

    Examples
    --------
    >>> import polars as pl, traceana
    >>> jobs = pl.DataFrame({"runtime_s": [60, 90, 600], "status": ["failed"] + ["completed"] * 2})
    >>> traceana.kaplan_meier(jobs, quantiles=[0.5]).quantiles["time_s"].item()
    90.0
    """

    curves: Annotated[pl.DataFrame, SurvivalSteps]
    """One row per group and time at which a row ended."""
    groups: Annotated[pl.DataFrame, SurvivalGroups]
    """One row per group."""
    quantiles: Annotated[pl.DataFrame, SurvivalQuantiles]
    """One row per group and quantile."""
    horizon_s: float
    """Horizon of the restricted mean."""
    drawn_by = "plot_survival"
    summarized = (
        ("groups", "n", "n_events", "n_censored", "median_s", "ci_low", "ci_high", "note"),
    )

    @property
    def by(self) -> list[str]:
        """Columns of the groups."""
        return self.groups.columns[: self.groups.columns.index("n")]


class RowsAtRisk(ResultTable):
    """Rows at risk at given times."""

    time_s = seconds("Time", "runtime")
    n_at_risk = count("At risk", "rows with this runtime or a longer one")
