"""Outcome analyses of a cohort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana import analysis
from traceana.derived.cohorts import form_cohort
from traceana.errors import DataError
from traceana.results.display import key_heading
from traceana.schema import STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceana.derived.cohorts import Cohort
    from traceana.results.competing_risks import CumulativeIncidence, SurvivalCurves
    from traceana.results.outcomes import FailureModel, RuntimeComparison
    from traceana.store.session import Session

COMPARED: Final = ("completed", "failed")
"""Statuses whose runtimes are compared between groups."""
MODEL_ROWS: Final = 50_000
"""A model is fitted to at most this number of rows."""
MODEL_SEED: Final = 1
_DOUBLED: Final = ("gpus", "cpus", "memory_gib", "n_instances")
_MOST_GROUPS: Final = 20


@dataclass(frozen=True)
class Outcomes:
    """Runtimes and outcomes of a cohort by one column.

    Attributes
    ----------
    runtimes
        Runtime by status and group.
    ended
        Runtime by group of the rows that are failures by the trace's definition.
    rates, associations, odds
        Failure rate, its association with the group, and odds ratios within strata, by definition.
    success
        Success rate by group, for each definition.
    comparisons
        Comparison of runtimes, for each status.
    notes
        Analyses that are not possible, and why.
    """

    runtimes: pl.DataFrame
    ended: pl.DataFrame
    rates: pl.DataFrame
    associations: pl.DataFrame | None
    odds: pl.DataFrame | None
    success: dict[str, pl.DataFrame]
    comparisons: dict[str, RuntimeComparison]
    notes: tuple[str, ...]


def failure_definitions(session: Session, trace: str, /) -> dict[str, tuple[str, ...]]:
    """Return the status values of a failure: `failed` only, and the trace's own definition."""
    strict: dict[str, tuple[str, ...]] = {"failed": ("failed",)}
    stated = session.manifest(trace).failure_statuses
    if {*stated} == {"failed"}:
        return strict
    everything = {*stated} == {*STATUSES} - {"completed"}
    name = "every status except completed" if everything else ", ".join(stated)
    return {**strict, name: tuple(stated)}


def grouping_columns(session: Session, cohort: Cohort, /) -> list[tuple[str, str | None]]:
    """Return the columns by which a cohort is grouped, each with the column of its strata.

    Without a GPU type these are the first grouping and the GPUs requested, the latter within the
    groups that the manifest names.
    """
    table = session.manifest(cohort.trace).tables["tasks" if cohort.from_tasks else "jobs"]
    strata = next((name for name in table.groups if name in cohort.rows.columns), None)
    by: list[tuple[str, str | None]] = [(cohort.by, None)] if cohort.by else []
    if (
        cohort.by != "gpu_type"
        and 2 <= cohort.rows["gpus_requested"].drop_nulls().n_unique() <= _MOST_GROUPS
    ):
        by.append(("gpus_requested", strata))
    return by


def analyze_outcomes(session: Session, trace: str, by: str | None, strata: str | None) -> Outcomes:
    """Analyze runtimes and outcomes of a cohort by a column, within strata if they are named."""
    cohort = form_cohort(session, trace)
    definitions = failure_definitions(session, trace)
    rows, keys, cluster = cohort.rows, () if by is None else (by,), cohort.cluster
    stated = rows if by is None else rows.filter(pl.col(by).is_not_null())
    notes: list[str] = []

    def each(analyze: Callable[[tuple[str, ...]], pl.DataFrame], what: str) -> pl.DataFrame | None:
        tables = []
        for name, failure in definitions.items():
            try:
                table = analyze(failure)
            except DataError as error:
                notes.append(f"{what} ({name} as failure): {error}.")
                continue
            tables.append(table.select(pl.lit(name).alias("definition"), pl.all()))
        return pl.concat(tables) if tables else None

    comparisons = {}
    for status in COMPARED if by else ():
        try:
            comparisons[status] = analysis.compare_runtimes(
                stated.filter(status=status), keys, cluster=cluster
            )
        except DataError as error:
            notes.append(f"Runtimes of {status} {cohort.noun} are not compared: {error}.")
    rates = each(
        lambda failure: analysis.failure_rates(rows, keys, failure=failure), "Failure rate"
    )
    assert rates is not None  # noqa: S101  (the statuses are those of the schema)
    associations = odds = None
    if by is not None:
        associations = each(
            lambda failure: analysis.outcome_association(
                stated, keys, failure=failure, cluster=cluster
            ),
            "No test of association",
        )
    if by is not None and strata not in (None, by):
        odds = each(
            lambda failure: analysis.failure_odds(stated, keys, strata=strata, failure=failure),
            "No odds ratios",
        )
    *_, own = definitions.values()
    return Outcomes(
        runtimes=analysis.runtime_by(rows, ("status", *keys)),
        ended=analysis.runtime_by(rows.filter(pl.col("status").is_in(own)), keys),
        rates=rates.sort(keys, nulls_last=True, maintain_order=True) if keys else rates,
        associations=associations,
        odds=odds,
        success={
            name: analysis.outcome_rates(rows, keys, failure=failure)
            for name, failure in definitions.items()
        },
        comparisons=comparisons,
        notes=tuple(notes),
    )


def fit_failure_models(
    session: Session, trace: str, /
) -> tuple[dict[str, FailureModel], tuple[str, ...]]:
    """Fit a model of failure for each definition; return the models and why others are missing.

    Features have the names that a reader sees: groups as text, and logarithms of the numbers.
    """
    cohort = form_cohort(session, trace)
    rows = cohort.rows
    if rows.height > MODEL_ROWS:
        rows = rows.sample(MODEL_ROWS, seed=MODEL_SEED)
    columns = [name for name, _ in grouping_columns(session, cohort)]
    doubled = [
        name
        for name in _DOUBLED
        if name in rows.columns
        and rows[name].drop_nulls().n_unique() > 1
        and not (name == "gpus" and "gpus_requested" in columns)
    ]
    frame = rows.with_columns(
        *(pl.col(name).cast(pl.String).alias(key_heading(name)) for name in columns),
        *(
            pl.when(pl.col(name) > 0)
            .then(pl.col(name).log(2))
            .alias(f"{key_heading(name)} doubled")
            for name in doubled
        ),
    )
    features = [
        *(key_heading(name) for name in columns),
        *(f"{key_heading(name)} doubled" for name in doubled),
    ]
    models, notes = {}, []
    for name, failure in failure_definitions(session, trace).items():
        try:
            models[name] = analysis.failure_model(
                frame, features=features, failure=failure, cluster=cohort.cluster
            )
        except DataError as error:
            notes.append(f"No model with {name} as failure: {error}.")
    return models, tuple(notes)


def competing_events(session: Session, cohort: Cohort, /) -> tuple[str, ...]:
    """Return the statuses with which a cohort's rows end.

    A running job with a runtime was ended by its deletion if its trace counts that as a failure; a
    running task is observed until the end of the trace.
    """
    events = {"completed", "failed", "cancelled"}
    if not cohort.from_tasks:
        events |= {*session.manifest(cohort.trace).failure_statuses}
    present = cohort.rows.filter(pl.col("runtime_s").is_not_null())["status"].cast(pl.String)
    return tuple(status for status in STATUSES if status in events and status in present)


def estimate_competing_risks(
    session: Session, trace: str, by: str | None
) -> tuple[CumulativeIncidence, SurvivalCurves]:
    """Estimate the cumulative incidence of each event and the time to any event."""
    cohort = form_cohort(session, trace, end_imputation="running")
    events, keys = competing_events(session, cohort), () if by is None else (by,)
    return (
        analysis.cumulative_incidence(
            cohort.rows, by=keys, events=events, entry="entry_s", observed="observed"
        ),
        analysis.kaplan_meier(
            cohort.rows, by=keys, events=events, entry="entry_s", observed="observed"
        ),
    )
