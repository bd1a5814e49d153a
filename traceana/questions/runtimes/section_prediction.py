"""Section on the prediction of runtimes from earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from traceana.errors import DataError
from traceana.page.blocks import Content, join_parts, result_table
from traceana.page.finding import Finding
from traceana.page.section import Section
from traceana.questions.runtimes.predict import predict_runtimes
from traceana.questions.runtimes.tables import RuntimePredictions
from traceana.store import Trace
from traceana.tables.formatting import count, fraction_range, interval, share

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
    "all": "median of all earlier jobs",
    "last": "last runtime of the same user and name",
    "mean": "mean of the same user and name",
    "quantile": "median of the same user and name",
    "model": "quantile regression",
}
_SHOWN: Final = ("predictor", "n", "pinball_s", "skill", "ci_low", "ci_high")
_MOST: Final = 200_000  # latest jobs that are used
_NOTICED: Final = 0.1
"""Skill below which a prediction is no main result."""


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
    medians = result.filter(quantile=0.5)
    better = medians.filter(pl.col("ci_low") > 0).sort("skill")
    if better.height:
        best = better.row(-1, named=True)
        article = "a" if best["predictor"] == "model" else "the"
        predictor, limits = _NAMED[best["predictor"]], interval(best, fraction_range)
        change = f"{article} {predictor} predicts runtimes {share(best['skill'])} better"
    else:
        change, limits = "earlier runs of the same user and name predict runtimes no better", ""
    heading = f"{trace.label}: {change} than the median of all earlier jobs"
    finding = Finding(
        f"{heading} (pinball loss; {limits}n = {count(medians['n'][0])} later jobs).",
        heading=heading,
        is_null=better.is_empty() or better["skill"][-1] < _NOTICED,
    )
    lead = result_table(
        medians.with_columns(pl.col("predictor").replace(_NAMED)),
        RuntimePredictions,
        columns=_SHOWN,
        caption="Predicted median runtimes of jobs; skill: reduction of the loss compared with the "
        f"median of all earlier jobs. {trace.label}",
    )
    return Content((finding,), (table,), lead=(lead,), limitations=_LIMITATIONS)


SECTION = Section(
    "runtime-prediction",
    "Prediction of runtimes",
    110,
    build,
    needs=({"jobs": _COLUMNS},),
    part="Runtimes",
    question="How well do earlier runs of a job predict its runtime?",
)
