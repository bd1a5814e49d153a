"""Section on the prediction of runtimes from earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError
from traceana.page.blocks import Content, join_parts, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.runtimes.predict import predict_runtimes
from traceana.questions.runtimes.tables import RuntimePredictions
from traceana.tables.formatting import count, fraction_range, listed, share

if TYPE_CHECKING:
    from traceana.store import Trace

_OPENING: Final = (
    "Jobs of the second half are predicted from what was known when they were submitted: the runs "
    "of the same user and job name that had ended. A job without one has the prediction of all: "
    "the quantile of the runtimes that had ended at the split. The score is the pinball loss; the "
    "skill is its reduction compared with the prediction of all. The quantile regression uses the "
    "runs of the same user and name, and the requested resources and time limit."
)
_LIMITATIONS: Final = (
    "The mean loss is determined by long jobs. Jobs that still run are excluded, which makes "
    "predictions too short where many of them are long."
)
_COLUMNS: Final = ("submit_s", "end_s", "runtime_s", "user", "job_name")
_NAMED: Final = {
    "last": "the last runtime of the same user and name",
    "mean": "their mean",
    "quantile": "their median",
    "model": "a quantile regression",
}
_MOST: Final = 200_000
"""Latest jobs that are used."""


def build(traces: Sequence[Trace]) -> Content:
    """Show the scores of each trace."""
    return join_parts(_OPENING, ((trace.label, _trace(trace)) for trace in traces))


def score_predictions(trace: Trace) -> pl.DataFrame | None:
    """Score predictions on the latest jobs; None where there are too few."""
    sizes = [column for column in ("gpus", "cpus", "time_limit_s") if trace.has("jobs", (column,))]
    jobs = trace.scan("jobs").select(*_COLUMNS, *sizes)
    latest = jobs.sort("submit_s", nulls_last=False, maintain_order=True).tail(_MOST).collect()
    try:
        return predict_runtimes(latest, cluster=None if latest["user"].has_nulls() else "user")
    except DataError:
        return None


def _trace(trace: Trace) -> Content:
    result = trace.once(score_predictions)
    if result is None:
        return Content()
    table = result_table(
        result, RuntimePredictions, caption=f"Predicted runtimes of jobs. {trace.label}"
    )
    rows = result.filter(pl.col("predictor") != "all", quantile=0.5).drop_nulls("skill")
    findings = []
    if rows.height:
        parts = [
            f"{_NAMED[row['predictor']]} {share(row['skill'])}"
            + (
                ""
                if row["ci_low"] is None
                else f" (95 % CI {fraction_range(row['ci_low'], row['ci_high'])})"
            )
            for row in rows.iter_rows(named=True)
        ]
        median = rows.filter(predictor="quantile").row(0, named=True)
        low, high = median["ci_low"], median["ci_high"]
        is_null = low is None or low <= 0 <= high
        if is_null:
            change = "predicts no better than that of all jobs"
        else:
            verb = "reduces" if low > 0 else "increases"
            change = f"{verb} the error of predictions by {share(abs(median['skill']))}"
        findings.append(
            Finding(
                f"{trace.label}: reduction of the pinball loss of predicted runtimes, compared "
                f"with the median of all earlier jobs: by {listed(parts)} (n = "
                f"{count(rows['n'][0])} later jobs).",
                heading=f"{trace.label}: the median of earlier runs of the same user and name "
                f"{change}",
                is_null=is_null,
            )
        )
    return Content(tuple(findings), (table,), limitations=_LIMITATIONS)


SECTION = Section(
    "runtime-prediction",
    "Prediction of runtimes",
    110,
    build,
    needs=({"jobs": _COLUMNS},),
    part="Runtimes",
    question="How well do earlier runs of a job predict its runtime?",
)
